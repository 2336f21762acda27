"""The StatefulSet controller: numbered pods, one after the other or all at once.

Upstream: pkg/controller/statefulset/stateful_set_control.go updateStatefulSet, processReplica, processCondemned,
updateStatefulSetAfterInvariantEstablished; stateful_set_utils.go newVersionedStatefulSetPod.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kplan.simulation.controllers.observed import Action, Create, Delete, ObservedPod

ON_DELETE = "OnDelete"
ROLLING_UPDATE = "RollingUpdate"
ORDERED_READY = "OrderedReady"
PARALLEL = "Parallel"

MAX_AT_A_TIME = 500
"""So many pods at most are made in one go, so that a set of any size can be carried out."""

_ENDED = ("Failed", "Succeeded")


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
    #: how many may be down during an update; None without the feature gate, which means one at a time
    max_unavailable: int | None = None

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
    if wanted.is_ordered and (found or any(not by_ordinal[ordinal].is_ready for ordinal in ordinals)):
        return found
    if any(isinstance(action, Delete) for action in found):
        return found
    shrinking = _shrink(wanted, [by_ordinal[each] for each in sorted(by_ordinal) if each in ordinals], condemned)
    if found or shrinking:
        return [*found, *shrinking]
    if condemned and wanted.is_ordered:
        return []
    return _update(wanted, [by_ordinal[each] for each in ordinals])


def _live(wanted: WantedStatefulSet, ordinals: range, by_ordinal: dict[int, ObservedPod]) -> list[Action]:
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


def _shrink(
    wanted: WantedStatefulSet, live: Collection[ObservedPod], condemned: Collection[ObservedPod]
) -> list[Action]:
    """Delete what is beyond the wanted number, the highest first; in order, only when all before are ready."""
    because = f"{wanted.replicas} replicas wanted"
    if not wanted.is_ordered:
        return [Delete(pod, because) for pod in condemned]
    unavailable = [pod for pod in (*live, *reversed(list(condemned))) if not pod.is_ready]
    for pod in condemned:
        if not pod.is_ready and pod is not unavailable[0]:
            return []
        return [Delete(pod, because)]
    return []


def _update(wanted: WantedStatefulSet, live: list[ObservedPod]) -> list[Action]:
    """Delete a pod that has not the new revision, the highest first, when those above it are ready."""
    if wanted.strategy == ON_DELETE:
        return []
    if wanted.max_unavailable is not None:
        return _update_several(wanted, live, wanted.max_unavailable)
    for pod in reversed(live[wanted.partition :]):
        if pod.revision != wanted.update:
            return [Delete(pod, f"revision {wanted.update}")]
        if not pod.is_ready:
            return []
    return []


def _update_several(wanted: WantedStatefulSet, live: list[ObservedPod], max_unavailable: int) -> list[Action]:
    n = max_unavailable - sum(not pod.is_ready for pod in live)
    stale = [pod for pod in reversed(live[wanted.partition :]) if pod.revision != wanted.update]
    return [Delete(pod, f"maxUnavailable {max_unavailable}") for pod in stale[: max(n, 0)]]
