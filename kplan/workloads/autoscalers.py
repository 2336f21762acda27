"""What a HorizontalPodAutoscaler does with the number of replicas in a manifest, and a vertical one with requests.

What the first does next depends on metrics, which no snapshot holds. So a warning names the autoscaler of a workload
and its bounds, and says what it does at once whatever the metrics are.
Upstream: pkg/controller/podautoscaler/horizontal.go (reconcileAutoscaler).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kplan.api.kinds import POD_MAKERS, kind_of, split_api_version
from kplan.api.names import WorkloadRef, object_name
from kplan.api.quantity import grouped
from kplan.api.workloads import ContainerResourcePolicy, HorizontalPodAutoscaler, VerticalPodAutoscaler
from kplan.facts import InputWarning
from kplan.rules.resources import CPU, MEMORY
from kplan.snapshot.model import Snapshot

CODE = "AutoscaledReplicas"

CONTROLLED = (CPU, MEMORY)  #: the resources of which requests are recommended
_OFF, _ANY = "Off", "*"

Requests = Mapping[str, Mapping[str, str]]  #: container -> resource -> amount


class Recommended(NamedTuple):
    """What a VerticalPodAutoscaler recommends for a workload."""

    by: str  #: NAMESPACE/NAME of the autoscaler
    workload: str  #: KIND/NAMESPACE/NAME
    requests: Requests  #: of the containers, and the resources, that its policies let it scale


def recommended_requests(scalers: Iterable[VerticalPodAutoscaler]) -> Iterator[Recommended]:
    for scaler in scalers:
        target = scaler.spec.target_ref
        policies = {policy.container_name: policy for policy in scaler.spec.resource_policy.container_policies}
        requests: dict[str, Mapping[str, str]] = {}
        for container in scaler.status.recommendation.container_recommendations:
            name = container.container_name
            policy = policies.get(name) or policies.get(_ANY) or ContainerResourcePolicy()
            controlled = CONTROLLED if policy.controlled_resources is None else policy.controlled_resources
            amounts = {resource: str(amount) for resource, amount in container.target.items() if resource in controlled}
            if amounts and policy.mode != _OFF:
                requests[name] = amounts
        if requests:
            workload = object_name(target.kind, scaler.metadata.namespace, target.name)
            yield Recommended(scaler.metadata.key, workload, requests)


class Bounds(msgspec.Struct, frozen=True):
    """The bounds within which a HorizontalPodAutoscaler keeps the number of replicas, whatever its metrics.

    Upstream: pkg/controller/podautoscaler/horizontal.go reconcileAutoscaler. It looks every 15 seconds, so here when
    nothing else moves any more.
    """

    name: str
    lowest: int
    highest: int

    def bound(self, replicas: int) -> int:
        """Return the number of replicas that the autoscaler sets at once; 0 replicas turn it off."""
        if replicas == 0 and self.lowest > 0:
            return 0
        return self.highest if replicas > self.highest else max(replicas, self.lowest)

    def to_keep(self, old: int, to: int) -> dict[str, int]:
        """Return the bounds that change with a number of replicas, so that the autoscaler does not set it back."""
        if to < old:
            return {"max_replicas": to} | ({"min_replicas": to} if to < self.lowest else {})
        return {"min_replicas": to} | ({"max_replicas": to} if to > self.highest else {})


class Autoscalers:
    """Autoscalers by the workload that they scale; of several with the same name the last one counts."""

    def __init__(self, scalers: Iterable[HorizontalPodAutoscaler]) -> None:
        latest = {(scaler.metadata.namespace, scaler.metadata.name): scaler for scaler in scalers}
        targets = [(scaler.spec.scale_target_ref, scaler) for scaler in latest.values()]
        self._by_target = grouped(
            ((split_api_version(target.api_version)[0], target.kind, scaler.metadata.namespace, target.name), scaler)
            for target, scaler in targets
        )

    def of(self, api_version: str, kind: str, namespace: str, name: str) -> tuple[HorizontalPodAutoscaler, ...]:
        """Return the autoscalers of a workload, by name; if there are several, Kubernetes lets none of them act."""
        scalers = self._by_target.get((split_api_version(api_version)[0], kind, namespace, name), ())
        return tuple(sorted(scalers, key=lambda scaler: scaler.metadata.name))


def bounds_of(scalers: Sequence[HorizontalPodAutoscaler]) -> Bounds | None:
    """Return the bounds of a workload's only autoscaler; None where it has none, or several, of which none acts."""
    if len(scalers) != 1:
        return None
    spec = scalers[0].spec
    return Bounds(scalers[0].metadata.name, 1 if spec.min_replicas is None else spec.min_replicas, spec.max_replicas)


def bounds_in(snapshot: Snapshot, workload: WorkloadRef) -> Bounds | None:
    """Return the bounds within which an autoscaler of a snapshot keeps a workload, as `bounds_of` has them."""
    own = [one for one in snapshot.horizontal_pod_autoscalers if one.spec.scale_target_ref.name == workload.name]
    return bounds_of(Autoscalers(own).of(POD_MAKERS[workload.kind].api_version, *workload.parts))


def live_replicas(snapshot: Snapshot, kind: str, namespace: str, name: str) -> int | None:
    """Return `spec.replicas` of a workload of the cluster; None if the cluster has no such workload."""
    known = kind_of("v1" if kind == "ReplicationController" else "apps/v1", kind)
    held: tuple[Any, ...] = () if known is None else snapshot.objects(known.attribute)
    live = next((obj for obj in held if (obj.metadata.namespace, obj.metadata.name) == (namespace, name)), None)
    if live is None:
        return None
    replicas: int | None = getattr(live.spec, "replicas", None)
    return 1 if replicas is None else replicas


def autoscaler_warnings(
    scalers: tuple[HorizontalPodAutoscaler, ...],
    target: tuple[str, str, str],
    replicas: int | None,
    live: int | None,
    last_applied: int | None = None,
) -> tuple[InputWarning, ...]:
    """Return a warning about what an autoscaler does with the number of replicas in a manifest, if anything.

    - `scalers`: the autoscalers of the workload
    - `target`: kind, namespace and name of the workload
    - `replicas`: the number in the manifest; None if it has none
    - `live`: `spec.replicas` of the workload in the cluster; None for a new workload
    - `last_applied`: the number in the manifest that kubectl applied last
    """
    if not scalers:
        return ()
    if bounds := bounds_of(scalers):
        message = _message(bounds, replicas, live, last_applied)
    else:
        names = ", ".join(scaler.metadata.name for scaler in scalers)
        message = f"autoscalers {names} all scale it, and so Kubernetes lets none of them act: leave it to one"
    return (InputWarning(CODE, object_name(*target), message),) if message else ()


def _message(bounds: Bounds, replicas: int | None, live: int | None, last_applied: int | None) -> str:
    who = f"autoscaler {bounds.name} ({bounds.lowest}-{bounds.highest})"
    if replicas is None:
        if live is None and bounds.lowest > 1:
            return f"names no number of replicas, so it starts with 1, which {who} raises to {bounds.lowest} at once"
        if live is not None and last_applied is not None:
            return (
                f"names no number of replicas any more, and {who} keeps the {live} that it has; kubectl apply without"
                f" --server-side falls back to 1 for a moment, because {last_applied} was applied last"
            )
        return ""
    advice = "leave spec.replicas out of the manifest"
    number = "1 replica" if replicas == 1 else f"{replicas} replicas"
    if replicas == 0 and bounds.lowest > 0:
        return f"requests 0 replicas, which turns {who} off until somebody scales it up again"
    if (bound := bounds.bound(replicas)) != replicas:
        return f"requests {number}, and {who} will set them to {bound} at once: {advice}"
    now = "" if live in (None, replicas) else f", {live} at present"
    return f"requests {number}, and {who} will set them back to what its metrics call for{now}: {advice}"
