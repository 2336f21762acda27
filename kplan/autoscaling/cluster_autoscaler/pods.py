"""What the cluster-autoscaler makes of pods: their state, their owners, and which of them are alike.

Upstream: cluster-autoscaler utils/pod/pod.go, utils/kubernetes/listers.go, utils/drain/drain.go, utils/utils.go.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from kplan.api.core import Node, Pod
from kplan.api.meta import controller_of
from kplan.api.time import to_micros
from kplan.autoscaling.cluster_autoscaler.options import Options
from kplan.rules.pod_info import PodInfo

MAX_SHAPES = 10
"""So many different pods of a controller are remembered."""

_ENDED = ("Succeeded", "Failed")
_TPU = "cloud-tpus.google.com/"
_LONG_TERMINATING = 30_000_000
_GRACE_PERIOD = 30
_encoder = msgspec.json.Encoder(order="deterministic")


class PodsByState(msgspec.Struct, frozen=True):
    """The pods of a cluster, in list order; pods that nobody acts on are left out."""

    scheduled: list[Pod]  #: they have a node
    nominated: list[Pod]  #: they wait for room on a node
    unschedulable: list[Pod]  #: the scheduler found no node for them


def pods_by_state(pods: Iterable[Pod], options: Options) -> PodsByState:
    """Sort pods into those that run, those that are nominated, and those to help."""
    scheduled: list[Pod] = []
    nominated: list[Pod] = []
    unschedulable: list[Pod] = []
    unprocessed: list[Pod] = []
    allowed = options.allowed_scheduler_names
    for pod in pods:
        if pod.status.phase in _ENDED or (allowed and pod.spec.scheduler_name not in allowed):
            continue
        if pod.spec.node_name:
            scheduled.append(pod)
        elif pod.metadata.deletion_timestamp is not None:
            continue
        elif pod.status.nominated_node_name:
            nominated.append(pod)
        else:
            state = _scheduling_of(pod)
            if state == ("False", "Unschedulable"):
                unschedulable.append(pod)
            elif pod.spec.scheduler_name in options.bypassed_scheduler_names and state in (None, ("False", "")):
                unprocessed.append(pod)
    return PodsByState(scheduled, nominated, unschedulable + unprocessed)


def _scheduling_of(pod: Pod) -> tuple[str, str] | None:
    """Return status and reason of the condition PodScheduled, or None."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled":
            return condition.status, condition.reason
    return None


def placed_pods(nodes: Iterable[Node], by_state: PodsByState, options: Options) -> list[tuple[Pod, str]]:
    """Return the pods that take room on nodes, with the names of these."""
    names = {node.metadata.name for node in nodes}
    return [
        (pod, name)
        for pod in (*by_state.scheduled, *by_state.nominated)
        if (name := pod.spec.node_name or pod.status.nominated_node_name) in names and not is_expendable(pod, options)
    ]


def pods_by_node(placed: Iterable[tuple[Pod, str]]) -> dict[str, list[Pod]]:
    """Return the pods of each node that has some."""
    pods_on: dict[str, list[Pod]] = {}
    for pod, name in placed:
        pods_on.setdefault(name, []).append(pod)
    return pods_on


def is_expendable(pod: Pod, options: Options) -> bool:
    """Return whether a pod is so unimportant that no node is added or kept for it."""
    return pod.spec.priority is not None and pod.spec.priority < options.expendable_pods_priority_cutoff


def is_daemon(pod: Pod) -> bool:
    """Return whether a pod counts as one of a daemon set."""
    owner = controller_of(pod.metadata)
    return (owner is not None and owner.kind == "DaemonSet") or pod.metadata.annotations.daemon_set_pod == "true"


def is_mirror(pod: Pod) -> bool:
    """Return whether a pod mirrors a static pod."""
    return pod.metadata.annotations.mirror is not None


def is_long_terminating(pod: Pod, now: int) -> bool:
    """Return whether a pod should have ended some time ago."""
    deleted = pod.metadata.deletion_timestamp
    if deleted is None:
        return False
    grace = pod.spec.termination_grace_period_seconds
    seconds = _GRACE_PERIOD if grace is None else grace
    return to_micros(deleted) + seconds * 1_000_000 + _LONG_TERMINATING < now


def created(pod: Pod) -> int:
    """Return when a pod was created, in microseconds; long ago if that is unknown."""
    text = pod.metadata.creation_timestamp
    return 0 if text is None else to_micros(text)


def identity(pod: Pod) -> str:
    """Return a key of this very pod."""
    return pod.metadata.uid or pod.metadata.key


def unbound(pod: Pod) -> Pod:
    """Return the pod without its node."""
    return replace(pod, spec=replace(pod.spec, node_name="")) if pod.spec.node_name else pod


def without_tpus(pod: Pod) -> Pod:
    """Return the pod without requests for TPUs, which the autoscaler does not look at."""
    if not any(name.startswith(_TPU) for container in pod.spec.containers for name in container.resources.requests):
        return pod
    containers = tuple(
        replace(
            container,
            resources=replace(
                container.resources,
                requests={
                    name: amount for name, amount in container.resources.requests.items() if not name.startswith(_TPU)
                },
            ),
        )
        for container in pod.spec.containers
    )
    return replace(pod, spec=replace(pod.spec, containers=containers))


def likeness(pod: Pod) -> tuple[str, bytes] | None:
    """Return a key that pods of one controller share if they have equal labels and specs; None without controller."""
    owner = controller_of(pod.metadata)
    if owner is None:
        return None
    return owner.uid, _encoder.encode((pod.metadata.labels, pod.spec))


class Infos:
    """What scheduling derives from pods, once for every pod object."""

    def __init__(self) -> None:
        self._infos: dict[int, PodInfo] = {}
        self._old: dict[int, PodInfo] = {}

    def of(self, pod: Pod) -> PodInfo:
        """Return the info of a pod, which keeps the pod alive."""
        info = self._infos.get(id(pod))
        if info is None:
            info = self._infos[id(pod)] = self._old.get(id(pod)) or PodInfo(pod)
        return info

    def drop_old(self) -> None:
        """Forget the pods that nobody has asked for since the last call."""
        self._old, self._infos = self._infos, {}

    def share(self, pods: Iterable[Pod], info: PodInfo) -> None:
        """Take the requests of one pod for all that are like it."""
        for pod in pods:
            self.of(pod).shared_resources = info.resources


def equivalence_groups(pods: Iterable[Pod]) -> list[list[Pod]]:
    """Return groups of pods that fit the same nodes, in the order of their first pods.

    Upstream: core/scaleup/equivalence/groups.go.
    """
    groups: list[list[Pod]] = []
    known: dict[str, dict[bytes, list[Pod]]] = {}
    for pod in pods:
        key = None if is_daemon(pod) else likeness(pod)
        if key is None:
            groups.append([pod])
            continue
        shapes = known.setdefault(key[0], {})
        group = shapes.get(key[1])
        if group is not None:
            group.append(pod)
            continue
        groups.append([pod])
        if len(shapes) < MAX_SHAPES:
            shapes[key[1]] = groups[-1]
    return groups


class SimilarPods:
    """Remembers pods that fit nowhere, so that pods like them are not tried; scheduling/similar_pods.go."""

    def __init__(self) -> None:
        self._shapes: dict[str, set[bytes]] = {}

    def fits_nowhere(self, pod: Pod) -> bool:
        """Return whether a pod like this one fitted nowhere."""
        key = likeness(pod)
        return key is not None and key[1] in self._shapes.get(key[0], ())

    def note(self, pod: Pod) -> None:
        """Note that a pod fits nowhere."""
        key = None if is_daemon(pod) else likeness(pod)
        if key is None:
            return
        shapes = self._shapes.setdefault(key[0], set())
        if len(shapes) < MAX_SHAPES:
            shapes.add(key[1])
