"""What a pod is at this moment: running and ready, or why it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import UNSET, UnsetType
from msgspec import field as named
from msgspec.structs import replace

from kplan.api.core import Pod, deletion_grace
from kplan.api.labels import ARCH
from kplan.api.meta import condition_of, is_true
from kplan.api.names import nearest_texts
from kplan.api.pod import NO_FORMAT, ContainerStatus
from kplan.api.quantity import parse
from kplan.api.time import from_micros, seconds
from kplan.facts import Count, Document, MissingName
from kplan.health.nodes import NodeHealth, NodeState
from kplan.rules.volumes import claim_class, is_of_one_node
from kplan.snapshot.model import Snapshot
from kplan.snapshot.own_file import named_as_missing

PodState = Literal[
    "ready", "not-ready", "starting", "being-deleted", "succeeded", "failed", "evicted", "pending", "gated"
]
"""What a pod can be; a pod without a node is pending, or gated where scheduling gates hold it back."""

_WAITS_FOR_OTHERS = ("", "ContainerCreating", "PodInitializing")
_PATIENCE_SECONDS = 600
_OTHER_ARCHITECTURE = (NO_FORMAT, "no match for platform", "no matching manifest for")
_ENDED: Mapping[str, PodState] = {"Succeeded": "succeeded", "Failed": "failed"}


class ContainerEnd(Document, frozen=True, kw_only=True):
    """How a container ended."""

    exit_code: int
    reason: str = ""
    signal: int = 0


class ContainerHealth(Document, frozen=True, kw_only=True):
    """The container that keeps a pod from being ready, or that has restarted most often."""

    name: str
    is_init: bool = False
    #: why it waits or how it ended, in the kubelet's word such as CrashLoopBackOff; empty for one that runs
    reason: str = ""
    has_started: bool = True  #: whether its startup probe has passed, for one that runs
    image: str = ""  #: that is wanted, where pulling it fails
    restarts: Count = 0
    last_end: ContainerEnd | UnsetType = UNSET  #: how it ended last; absent where it never did
    #: why it cannot be started, in the innermost of the kubelet's words; absent where it says nothing
    failure: str | UnsetType = UNSET
    #: of the node, where the image is not made for that; absent where it is, or nothing tells
    architecture: str | UnsetType = UNSET
    #: the object that it names and that does not exist, as the kubelet says; absent for none
    lacks: MissingName | UnsetType = UNSET


class ResizedRequest(Document, frozen=True, kw_only=True):
    """A request of a container that is to change in place, and has not."""

    container: str
    resource: str
    old: str = named(name="from")
    to: str


class PendingResize(Document, frozen=True, kw_only=True):
    """A resize in place that the kubelet does not carry out."""

    reason: str  #: the kubelet's: Deferred, until there is room, or Infeasible, as the node can never do it
    requests: tuple[ResizedRequest, ...] = ()  #: as far as the kubelet says what the containers have


class HeldVolume(Document, frozen=True, kw_only=True):
    """A volume that one node at a time may have, and that another node has."""

    claim: str  #: NAMESPACE/NAME
    pod: str  #: NAMESPACE/NAME of the pod that uses it there
    node: str


class PodHealth(Document, frozen=True, kw_only=True):
    """What a pod is at present."""

    pod: str
    state: PodState
    node: str | None = None  #: that it is bound to; null for none
    since: str | None = None  #: RFC 3339: since when it is so; null if unknown
    seconds: Count | UnsetType = UNSET  #: how long that is, at the time of the snapshot; absent if unknown
    reason: str = ""  #: the pod's own: of its failure, its eviction, or its condition Ready
    short_of: str = ""  #: the resource that its node was short of, for a pod that the kubelet evicted
    container: ContainerHealth | UnsetType = UNSET
    missing_gates: tuple[str, ...] = ()  #: types of conditions that readiness gates of the pod wait for
    finalizers: tuple[str, ...] = ()
    grace_seconds: Count = 0  #: how long its containers have to end, for a pod that is being deleted
    #: of a node that is not well; absent for one that does not exist any more
    node_states: tuple[NodeState, ...] | UnsetType = ()
    is_mirror: bool = False  #: a static pod, which only its kubelet makes and ends
    resize: PendingResize | UnsetType = UNSET  #: absent where none is pending
    held_volume: HeldVolume | UnsetType = UNSET  #: what a pod that does not start waits for; absent for none

    @property
    def is_well(self) -> bool:
        """Whether it runs and is ready, has done its work, or only waits for a node."""
        return self.state in ("ready", "succeeded", "pending", "gated")

    @property
    def is_late(self) -> bool:
        """Whether it has been starting for longer than a rollout waits by default (progressDeadlineSeconds)."""
        if self.held_volume is not UNSET:
            return True
        first = self.container
        if self.state != "starting" or (first is not UNSET and first.is_init and not first.reason):
            return False  # an init container that runs may take long
        return self.seconds is not UNSET and self.seconds > _PATIENCE_SECONDS

    @property
    def never_ends(self) -> bool:
        """Whether it is being deleted, and nobody is there that ends it: no kubelet, and no garbage collector."""
        return self.state == "being-deleted" and "unreachable" in (self.node_states or ()) and not self.is_collected

    @property
    def is_collected(self) -> bool:
        """Whether the garbage collector removes it once it is being deleted, as its node is gone or out of service."""
        return self.node_states is UNSET or "out-of-service" in self.node_states


def pod_health(
    pod: Pod, nodes: Mapping[str, NodeHealth], now: float | None = None, snapshot: Snapshot | None = None
) -> PodHealth:
    """Return what a pod is at present.

    `nodes`: those of the snapshot. `now`: when it was taken, in seconds since 1970; None if unknown. `snapshot`: what
    its pods that run mount, exists, and may be held by these; None for no others.
    """
    others = () if snapshot is None else snapshot.pods
    name = pod.spec.node_name
    node = nodes.get(name)
    state, since = _state(pod, node)
    at = seconds(since)
    container = _container(pod, state, others)
    failure = "" if container is None else container.failure or ""
    if container is not None and snapshot and any(words in failure for words in _OTHER_ARCHITECTURE):
        labels = snapshot.node_by_name[name].metadata.labels if name in snapshot.node_by_name else {}
        container = replace(container, architecture=labels.get(ARCH) or UNSET)
    missing: tuple[str, ...] = ()
    if state == "not-ready" and container is None:
        true = {one.type for one in pod.status.conditions if one.status == "True"}
        missing = tuple(gate.condition_type for gate in pod.spec.readiness_gates if gate.condition_type not in true)
    return PodHealth(
        pod=pod.metadata.key,
        state=state,
        node=name or None,
        since=since,
        seconds=UNSET if now is None or at is None else max(round(now - at), 0),
        reason=pod.status.reason or _reason(pod, state),
        short_of=pod.status.message.rpartition(": ")[2] if state == "evicted" else "",
        container=UNSET if container is None else container,
        missing_gates=missing,
        finalizers=pod.metadata.finalizers if state == "being-deleted" else (),
        grace_seconds=deletion_grace(pod) if state == "being-deleted" else 0,
        node_states=() if not name else UNSET if node is None else node.states,
        is_mirror=pod.metadata.annotations.mirror is not None,
        resize=_pending_resize(pod) if state in ("ready", "not-ready", "starting") else UNSET,
        held_volume=UNSET if snapshot is None or state != "starting" else _held_volume(pod, snapshot),
    )


def _pending_resize(pod: Pod) -> PendingResize | UnsetType:
    """Return what a pod waits for that is to be resized in place; absent where it waits for nothing."""
    condition = condition_of(pod.status.conditions, "PodResizePending")
    if condition is None or condition.status == "False":
        return UNSET
    has = {one.name: one.allocated_resources for one in pod.status.container_statuses}
    requests = (
        ResizedRequest(container=one.name, resource=resource, old=str(has[one.name][resource]), to=str(amount))
        for one in pod.spec.containers
        for resource, amount in one.resources.requests.items()
        if resource in has.get(one.name, {}) and parse(has[one.name][resource]).nanos != parse(amount).nanos
    )
    return PendingResize(reason=condition.reason, requests=tuple(requests))


def _held_volume(pod: Pod, snapshot: Snapshot) -> HeldVolume | UnsetType:
    """Return the first volume of a pod that only one node may have, and that a pod on another node uses."""
    for name in pod.named_claims:
        key = f"{pod.metadata.namespace}/{name}"
        claim = snapshot.claim_by_key.get(key)
        elsewhere = (one for one in snapshot.pods_by_claim.get(key, ()) if one.spec.node_name != pod.spec.node_name)
        if claim is None or (other := next(elsewhere, None)) is None:
            continue
        drivers = {one.metadata.name: one for one in snapshot.csi_drivers}
        volumes = (one for one in snapshot.persistent_volumes if one.metadata.name == claim.spec.volume_name)
        classes = (one for one in snapshot.storage_classes if one.metadata.name == claim_class(claim))
        if is_of_one_node(claim, next(volumes, None), next(classes, None), drivers):
            return HeldVolume(claim=key, pod=other.metadata.key, node=other.spec.node_name)
    return UNSET


def fails_by_itself(pod: Pod, now: float) -> bool:
    """Tell whether a pod's own containers keep it from being ready, so that one like it fares no better."""
    ready = condition_of(pod.status.conditions, "Ready")
    if (
        pod.metadata.deletion_timestamp is not None
        or pod.status.phase in _ENDED
        or ready is None
        or ready.status == "True"
    ):
        return False
    if is_true(pod.status.conditions, "ContainersReady"):
        return False  # its node does not answer, or a readiness gate is not met
    return _first(pod, _is_in_trouble) is not None or now - (seconds(pod.status.start_time) or now) > _PATIENCE_SECONDS


def _state(pod: Pod, node: NodeHealth | None) -> tuple[PodState, str | None]:  # noqa: PLR0911 - one case a state
    """Return what a pod is, and since when."""
    status, metadata = pod.status, pod.metadata
    ready = condition_of(pod.status.conditions, "Ready")
    changed = None if ready is None else ready.last_transition_time
    if metadata.deletion_timestamp is not None:
        deleted_at = (seconds(metadata.deletion_timestamp) or 0.0) - deletion_grace(pod)
        return "being-deleted", from_micros(round(deleted_at * 1_000_000)) if deleted_at > 0 else None
    if status.phase in _ENDED:
        return "evicted" if status.reason == "Evicted" else _ENDED[status.phase], changed
    if not pod.spec.node_name:
        return "gated" if pod.spec.scheduling_gates else "pending", metadata.creation_timestamp
    if node is not None and node.is_silent and (ready is None or ready.status != "True"):
        return "not-ready", changed
    if ready is not None and ready.status == "True":
        return "ready", changed
    if _first(pod, _is_in_trouble) is not None:
        return "not-ready", changed
    waits = [one for one in status.container_statuses if one.state.waiting is not None]
    if waits or status.phase == "Pending":
        return "starting", status.start_time or metadata.creation_timestamp
    return "ready" if ready is None else "not-ready", changed


def _reason(pod: Pod, state: PodState) -> str:
    """Return why a pod has failed, is deleted or is not ready, as its conditions say."""
    ready, disruption = (condition_of(pod.status.conditions, kind) for kind in ("Ready", "DisruptionTarget"))
    if state in ("failed", "being-deleted"):
        return disruption.reason if disruption is not None and disruption.status == "True" else ""
    return ready.reason if ready is not None and state == "not-ready" else ""


def _container(pod: Pod, state: PodState, others: Sequence[Pod]) -> ContainerHealth | None:
    """Return the container that keeps a pod from being ready or made it fail, else that has restarted most often."""
    container = None if state in ("succeeded", "pending", "gated", "ready") else _at_fault(pod, state)
    if container is None and state != "not-ready":
        statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
        most = max(statuses, key=lambda one: one.restart_count, default=None)
        container = None if most is None or not most.restart_count else _described(most)
    if container is not None and container.lacks is not UNSET:
        container = replace(container, lacks=_with_nearest(container.lacks, pod, others))
    if container is not None and "Image" in container.reason:
        images = {one.name: one.image for one in (*pod.spec.containers, *pod.spec.init_containers)}
        container = replace(container, image=images.get(container.name, ""))
    return container


def _at_fault(pod: Pod, state: PodState) -> ContainerHealth | None:
    trouble = _first(pod, _is_in_trouble)
    if trouble is not None or state != "not-ready":
        return trouble or _first(pod, _has_yet_to_start)
    return next((_described(one) for one in pod.status.container_statuses if one.ready is False), None)


def _with_nearest(lacks: MissingName, pod: Pod, others: Iterable[Pod]) -> MissingName:
    """Return a missing Secret or ConfigMap with the nearest one that running pods of the namespace mount."""
    volumes = [
        volume
        for other in others
        if other.metadata.namespace == pod.metadata.namespace and other.status.phase == "Running"
        for volume in other.spec.volumes
    ]
    known = {volume.config_map.name for volume in volumes if volume.config_map is not None}
    if lacks.kind == "Secret":
        known = {volume.secret.secret_name for volume in volumes if volume.secret is not None}
    return replace(lacks, nearest=next(iter(nearest_texts(lacks.name, sorted(filter(None, known)), 1)), ""))


def _first(pod: Pod, is_so: Callable[[ContainerStatus], bool]) -> ContainerHealth | None:
    """Return the first container of which something is so, init containers first."""
    for is_init, statuses in ((True, pod.status.init_container_statuses), (False, pod.status.container_statuses)):
        for one in statuses:
            if is_so(one):
                return _described(one, is_init=is_init)
    return None


def _is_in_trouble(status: ContainerStatus) -> bool:
    """Tell whether a container waits for more than the others, or has failed."""
    waiting, ended = status.state.waiting, status.state.terminated
    is_stuck = waiting is not None and waiting.reason not in _WAITS_FOR_OTHERS
    return is_stuck or (ended is not None and bool(ended.exit_code or ended.signal))


def _has_yet_to_start(status: ContainerStatus) -> bool:
    return status.state.terminated is None and (status.state.waiting is not None or status.ready is False)


def _described(status: ContainerStatus, *, is_init: bool = False) -> ContainerHealth:
    waiting, ended = status.state.waiting, status.state.terminated
    last = ended or status.last_state.terminated
    missing = None if waiting is None else named_as_missing(waiting.message)
    failures = (one.failure for one in (waiting, ended, status.last_state.terminated) if one is not None)
    return ContainerHealth(
        name=status.name,
        is_init=is_init,
        reason=waiting.reason if waiting is not None else (ended.reason or "Error") if ended is not None else "",
        has_started=status.started is not False,
        restarts=max(status.restart_count, 0),
        last_end=UNSET
        if last is None
        else ContainerEnd(exit_code=last.exit_code, reason=last.reason, signal=last.signal),
        failure=UNSET if missing is not None else next(filter(None, failures), UNSET),
        lacks=UNSET if missing is None else MissingName(*missing),  # type: ignore[arg-type] # both are kinds of it
    )
