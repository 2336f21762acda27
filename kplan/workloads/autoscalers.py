"""Who else decides how many replicas a workload has: its HorizontalPodAutoscaler.

What an autoscaler does next depends on metrics that no snapshot has. It is said that it will do it, within which
bounds, and what it does at once whatever its metrics say. Upstream: pkg/controller/podautoscaler/horizontal.go
(reconcileAutoscaler).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kplan.api.autoscaling import HorizontalPodAutoscaler
from kplan.api.kinds import kind_of, split_api_version
from kplan.documents.base import InputWarning
from kplan.snapshot.model import Snapshot, object_name

CODE = "AutoscaledReplicas"


class Autoscalers:
    """Autoscalers by what they scale; of several of the same name the last one counts."""

    def __init__(self, found: Iterable[HorizontalPodAutoscaler]) -> None:
        self._by_target: dict[tuple[str, str, str, str], list[HorizontalPodAutoscaler]] = {}
        latest = {(each.metadata.namespace, each.metadata.name): each for each in found}
        for each in latest.values():
            target = each.spec.scale_target_ref
            group = split_api_version(target.api_version)[0]
            key = (group, target.kind, each.metadata.namespace, target.name)
            self._by_target.setdefault(key, []).append(each)

    def of(self, api_version: str, kind: str, namespace: str, name: str) -> tuple[HorizontalPodAutoscaler, ...]:
        """Return those that scale a workload, by name; where there are several, Kubernetes lets none of them act."""
        found = self._by_target.get((split_api_version(api_version)[0], kind, namespace, name), ())
        return tuple(sorted(found, key=lambda each: each.metadata.name))


def live_replicas(snapshot: Snapshot, kind: str, namespace: str, name: str) -> int | None:
    """Return how many pods a workload of the cluster wants; None where there is no such workload."""
    known = kind_of("v1" if kind == "ReplicationController" else "apps/v1", kind)
    held: tuple[Any, ...] = () if known is None else snapshot.objects(known.attribute)
    live = next((each for each in held if (each.metadata.namespace, each.metadata.name) == (namespace, name)), None)
    if live is None:
        return None
    replicas: int | None = getattr(live.spec, "replicas", None)
    return 1 if replicas is None else replicas


def autoscaler_warnings(
    scalers: tuple[HorizontalPodAutoscaler, ...],
    target: tuple[str, str, str],
    asked: int | None,
    live: int | None,
    last_applied: int | None = None,
) -> tuple[InputWarning, ...]:
    """Say what an autoscaler makes of the number of replicas that a manifest asks for, or does not.

    Parameters
    ----------
    scalers : those of the workload
    target : its kind, namespace and name
    asked : the number in the manifest; None where it names none
    live : how many the cluster's workload wants; None for a new one
    last_applied : the number that the manifest had when kubectl applied it last
    """
    if not scalers:
        return ()
    if len(scalers) > 1:
        names = ", ".join(scaler.metadata.name for scaler in scalers)
        message = f"autoscalers {names} all scale it, and so Kubernetes lets none of them act: leave it to one"
    else:
        message = _message(scalers[0], asked, live, last_applied)
    return (InputWarning(CODE, object_name(*target), message),) if message else ()


def _message(scaler: HorizontalPodAutoscaler, asked: int | None, live: int | None, last_applied: int | None) -> str:
    lowest = 1 if scaler.spec.min_replicas is None else scaler.spec.min_replicas
    highest = scaler.spec.max_replicas
    who = f"autoscaler {scaler.metadata.name} ({lowest}-{highest})"
    if asked is None:
        if live is None and lowest > 1:
            return f"names no number of replicas, so it starts with 1, which {who} raises to {lowest} at once"
        if live is not None and last_applied is not None:
            return (
                f"names no number of replicas any more, and {who} keeps the {live} that it has; kubectl apply without"
                f" --server-side falls back to 1 for a moment, because {last_applied} was applied last"
            )
        return ""
    advice = "leave spec.replicas out of the manifest"
    number = "1 replica" if asked == 1 else f"{asked} replicas"
    if asked == 0 and lowest > 0:
        return f"asks for 0 replicas, which turns {who} off until somebody scales it up again"
    if not lowest <= asked <= highest:
        bound = min(max(asked, lowest), highest)
        return f"asks for {number}, and {who} will set them to {bound} at once: {advice}"
    now = "" if live in (None, asked) else f", {live} at present"
    return f"asks for {number}, and {who} will set them back to what its metrics call for{now}: {advice}"
