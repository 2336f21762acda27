"""The StatefulSet controller: numbered pods, one after the other or all at once.

Upstream: pkg/controller/statefulset/stateful_set_control.go updateStatefulSet, processReplica, processCondemned,
updateStatefulSetAfterInvariantEstablished; stateful_set_utils.go newVersionedStatefulSetPod.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kplan.api.meta import IntOrString
from kplan.simulation.controllers.observed import Action, Create, Delete, ObservedPod, scaled

ON_DELETE = "OnDelete"
ROLLING_UPDATE = "RollingUpdate"
ORDERED_READY = "OrderedReady"
PARALLEL = "Parallel"

MAX_AT_A_TIME = 500
"""So many pods at most are made in one go, so that a set of any size can be carried out."""

_ENDED = ("Failed", "Succeeded")

Pods = Mapping[int, ObservedPod]


@dataclass(frozen=True, slots=True)
class WantedStatefulSet:
    """What a stateful set asks for."""

    replicas: int
    start: int = 0  #: number of the first pod
    is_ordered: bool = True  #: OrderedReady; otherwise Parallel
    strategy: str = ROLLING_UPDATE  #: RollingUpdate or OnDelete
    partition: int = 0  #: pods below this number keep the current revision
    #: current, update: the revision that pods had, and the one that they shall have
    current: str = ""
    update: str = ""
    #: how many may be down during an update; None for one at a time, all there is without MaxUnavailableStatefulSet
    max_unavailable: IntOrString | None = None

    def revision_of(self, ordinal: int) -> str:
        """Return the revision at which a missing pod is made."""
        is_kept = self.strategy == ROLLING_UPDATE and ordinal < self.start + self.partition
        return self.current if is_kept else self.update


def actions(wanted: WantedStatefulSet, pods: Collection[ObservedPod]) -> list[Action]:
    """Say which pods to make or to delete next; asked again, it goes on from there."""
    ordinals = range(wanted.start, wanted.start + wanted.replicas)
    by_ordinal = {pod.index: pod for pod in pods if pod.index is not None}
    condemned = sorted(
        (pod for ordinal, pod in by_ordinal.items() if ordinal not in ordinals), key=lambda pod: -(pod.index or 0)
    )
    found = _live(wanted, ordinals, by_ordinal)
    if not wanted.is_ordered:
        return [*found, *(Delete(pod, _surplus(wanted)) for pod in condemned), *_update(wanted, ordinals, by_ordinal)]
    if found or not all(_is_ready(by_ordinal.get(ordinal)) for ordinal in ordinals):
        return found
    return _shrink(wanted, condemned) if condemned else _update(wanted, ordinals, by_ordinal)


def _live(wanted: WantedStatefulSet, ordinals: range, by_ordinal: Pods) -> list[Action]:
    """Make what is missing, and delete what has ended so that it is recreated; in order, up to the first gap."""
    found: list[Action] = []
    for ordinal in ordinals:
        pod = by_ordinal.get(ordinal)
        if pod is None:
            found.append(Create(f"pod {ordinal} is missing", wanted.revision_of(ordinal), ordinal))
        elif pod.phase in _ENDED:
            found.append(Delete(pod, f"it has ended ({pod.phase})"))
        elif pod.is_ready or not wanted.is_ordered:
            continue
        if wanted.is_ordered or len(found) == MAX_AT_A_TIME:
            break
    return found


def _surplus(wanted: WantedStatefulSet) -> str:
    return f"{wanted.replicas} wanted"


def _is_ready(pod: ObservedPod | None) -> bool:
    return pod is not None and pod.is_ready and pod.phase not in _ENDED


def _shrink(wanted: WantedStatefulSet, condemned: Sequence[ObservedPod]) -> list[Action]:
    """Delete the highest pod beyond the wanted number, unless a lower one of them has to become ready before."""
    first, *rest = condemned
    if not first.is_ready and not all(map(_is_ready, rest)):
        return []
    return [Delete(first, _surplus(wanted))]


def _update(wanted: WantedStatefulSet, ordinals: range, by_ordinal: Pods) -> list[Action]:
    """Delete a pod that has not the new revision, the highest first, when those above it are ready."""
    if wanted.strategy == ON_DELETE:
        return []
    if wanted.max_unavailable is not None:
        return _update_several(wanted, ordinals, by_ordinal, wanted.max_unavailable)
    for ordinal in reversed(ordinals[wanted.partition :]):
        pod = by_ordinal.get(ordinal)
        if pod is None or pod.phase in _ENDED:
            return []
        if pod.revision != wanted.update:
            return [Delete(pod, f"revision {wanted.update}")]
        if not pod.is_ready:
            return []
    return []


def _update_several(
    wanted: WantedStatefulSet, ordinals: range, by_ordinal: Pods, max_unavailable: IntOrString
) -> list[Action]:
    """Delete pods that have not the new revision, the highest first, as many as may be unavailable besides."""
    limit = max(scaled(max_unavailable, wanted.replicas, round_up=False), 1)
    there = [by_ordinal[ordinal] for ordinal in sorted(by_ordinal, reverse=True) if ordinal in ordinals]
    n = limit - (wanted.replicas - sum(map(_is_ready, there)))
    targets = ordinals[wanted.partition :]
    stale = [pod for pod in there if pod.index in targets and pod.phase not in _ENDED and pod.revision != wanted.update]
    return [Delete(pod, f"maxUnavailable {limit}") for pod in stale[: max(n, 0)]]
