"""The StatefulSet controller: pods with ordinals, one after the other or all at once.

Upstream: pkg/controller/statefulset/stateful_set_control.go updateStatefulSet, processReplica, processCondemned,
updateStatefulSetAfterInvariantEstablished; stateful_set_utils.go newVersionedStatefulSetPod. The update strategy
Recreate of 1.37 follows KEP-3541 and its documentation, and was not compared with the controller's code.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from kplan.api.meta import IntOrString
from kplan.api.pod import ENDED
from kplan.api.workloads import RECREATE, ROLLING_UPDATE, RollingUpdateStatefulSet, StatefulSet
from kplan.course.simulation.controllers.observed import Action, Create, Delete, IsOn, ObservedPod, count, scaled

PARALLEL = "Parallel"

MAX_UNAVAILABLE_GATE = "MaxUnavailableStatefulSet"
RECREATE_GATE = "StatefulSetRecreateStrategy"

MAX_AT_A_TIME = 500  #: how many pods at most are created in one sync; it bounds the work for sets of any size


Pods = Mapping[int, ObservedPod]


class WantedStatefulSet(msgspec.Struct, frozen=True):
    """What a stateful set wants."""

    replicas: int
    start: int = 0  #: ordinal of the first pod
    is_ordered: bool = True  #: OrderedReady; otherwise Parallel
    strategy: str = ROLLING_UPDATE  #: RollingUpdate, OnDelete or Recreate
    partition: int = 0  #: pods below this ordinal keep the current revision
    #: current, update: the revision before a rolling update, and the one after it
    current: str = ""
    update: str = ""
    #: how many pods may be unavailable during an update; None for one at a time, without MaxUnavailableStatefulSet
    max_unavailable: IntOrString | None = None

    @staticmethod
    def of(obj: StatefulSet, current: str, update: str, is_on: IsOn) -> WantedStatefulSet:
        """Return what a stateful set wants, with defaults; `current` and `update` are the names of its revisions."""
        spec = obj.spec
        kind = spec.update_strategy.type or ROLLING_UPDATE
        rolling = spec.update_strategy.rolling_update or RollingUpdateStatefulSet()
        unavailable = 1 if rolling.max_unavailable is None else rolling.max_unavailable
        return WantedStatefulSet(
            replicas=count(spec.replicas),
            start=0 if spec.ordinals is None else spec.ordinals.start,
            is_ordered=spec.pod_management_policy != PARALLEL,
            # A controller manager that does not know the strategy, or has its gate off, takes it for RollingUpdate.
            strategy=ROLLING_UPDATE if kind == RECREATE and not is_on(RECREATE_GATE) else kind,
            partition=rolling.partition or 0,
            current=current,
            update=update,
            max_unavailable=unavailable if is_on(MAX_UNAVAILABLE_GATE) else None,
        )

    def revision_of(self, ordinal: int) -> str:
        keeps_current = self.strategy == ROLLING_UPDATE and ordinal < self.start + self.partition
        return self.current if keeps_current else self.update


def actions(wanted: WantedStatefulSet, pods: Collection[ObservedPod]) -> list[Action]:
    """Return which pods to create or delete next; a further call goes on from there.

    `pods`: all pods of the set; one that is terminating keeps its name, so that its successor waits for it to be gone.
    """
    stale = [pod for pod in pods if pod.revision != wanted.update] if wanted.strategy == RECREATE else []
    if stale:
        # They go all at once, whatever their state and the policy, surplus pods with them, and until all are gone
        # nothing else happens. The new pods are created as the pod management policy says.
        present = sorted((pod for pod in stale if not pod.is_terminating), key=lambda pod: -(pod.index or 0))
        return [Delete(pod, f"Recreate, revision {wanted.update}") for pod in present]
    ordinals = range(wanted.start, wanted.start + wanted.replicas)
    by_ordinal = {pod.index: pod for pod in pods if pod.index is not None}
    beyond = (pod for ordinal, pod in by_ordinal.items() if ordinal not in ordinals)
    condemned = sorted(beyond, key=lambda pod: -(pod.index or 0))
    misfits = [
        ordinal - wanted.start
        for ordinal, pod in by_ordinal.items()
        if ordinal in ordinals and pod.is_misfit and not pod.is_terminating and pod.phase not in ENDED
    ]
    if misfits:
        # The controller fails to update it, sync after sync, and comes no further: than to it, or to the end of its
        # batch (slowStartBatch).
        end = min(misfits) if wanted.is_ordered else 2 ** (min(misfits) + 1).bit_length() - 1
        return _live(wanted, ordinals[:end], by_ordinal)
    actions = _live(wanted, ordinals, by_ordinal)
    because = f"{wanted.replicas} wanted"
    if not wanted.is_ordered:
        surplus = [Delete(pod, because) for pod in condemned if not pod.is_terminating]
        return [*actions, *surplus, *_update(wanted, ordinals, by_ordinal)]
    if actions or not all(_is_available(by_ordinal.get(ordinal)) for ordinal in ordinals):
        return actions
    if not condemned:
        return _update(wanted, ordinals, by_ordinal)
    first, *lower = condemned  # a lower surplus pod may have to become available first
    may_go = not first.is_terminating and (first.is_available or all(map(_is_available, lower)))
    return [Delete(first, because)] if may_go else []


def _live(wanted: WantedStatefulSet, ordinals: range, by_ordinal: Pods) -> list[Action]:
    """Create missing pods, and delete ended ones so that they are recreated; OrderedReady stops at the first gap."""
    actions: list[Action] = []
    for ordinal in ordinals:
        pod = by_ordinal.get(ordinal)
        if pod is None:
            actions.append(Create(f"pod {ordinal} is missing", wanted.revision_of(ordinal), ordinal))
        elif pod.phase in ENDED and not pod.is_terminating:
            actions.append(Delete(pod, f"it has ended ({pod.phase})"))
        elif _is_available(pod) or not wanted.is_ordered:
            continue
        if wanted.is_ordered or len(actions) == MAX_AT_A_TIME:
            break
    return actions


def _is_available(pod: ObservedPod | None) -> bool:
    return pod is not None and pod.is_available and pod.phase not in ENDED


def _update(wanted: WantedStatefulSet, ordinals: range, by_ordinal: Pods) -> list[Action]:
    """Delete pods of an old revision, the highest ordinals first: one when those above are available, or several."""
    if wanted.strategy != ROLLING_UPDATE:
        return []
    if wanted.max_unavailable is not None:
        limit = max(scaled(wanted.max_unavailable, wanted.replicas, round_up=False), 1)
        present = [by_ordinal[ordinal] for ordinal in sorted(by_ordinal, reverse=True) if ordinal in ordinals]
        n = limit - (wanted.replicas - sum(map(_is_available, present)))
        targets = ordinals[wanted.partition :]
        there = (pod for pod in present if pod.index in targets and pod.phase not in ENDED and not pod.is_terminating)
        stale = [pod for pod in there if pod.revision != wanted.update]
        return [Delete(pod, f"maxUnavailable {limit}") for pod in stale[: max(n, 0)]]
    for ordinal in reversed(ordinals[wanted.partition :]):
        pod = by_ordinal.get(ordinal)
        if pod is None or pod.phase in ENDED:
            return []
        if pod.revision != wanted.update and not pod.is_terminating:
            return [Delete(pod, f"revision {wanted.update}")]
        if not pod.is_available:
            return []
    return []
