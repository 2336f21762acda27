"""Why a pod has no node: one sentence, and changes that let it run, each of them tried."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property

import msgspec

from kplan.api.quantity import grouped
from kplan.changes.remedy import Remedy
from kplan.cluster.runs import QuestionPods, Replay
from kplan.documents.placement import Origin
from kplan.framework.cycle import CycleResult
from kplan.framework.pod_groups import WORKLOAD_GATE, group_of
from kplan.framework.session import Session
from kplan.remedies.replicas import ALONE, Replicas, replicas_of

MOST_WITH_REMEDIES = 50
"""Remedies are tried for this many of the different pods of a plan that have no node, the first ones."""

_encoder = msgspec.json.Encoder()


_HELD_BACK = "A node fits it, but its pod group {} waits until enough of its pods fit at the same time."

_AWAITS_VICTIMS = "A node fits it, but its pod group {} waits until the pods that it evicts have left."


class Diagnosis(msgspec.Struct, frozen=True):
    """Why a pod has no node; empty for a pod that has one."""

    text: str = ""  #: one sentence
    remedies: tuple[Remedy, ...] = ()  #: the smallest change first
    at_fault: str = ""  #: JSON path of the pod's field that is at fault; empty where it is not a single field


def diagnose(session: Session, result: CycleResult, *, may_try: bool = True, replicas: Replicas = ALONE) -> Diagnosis:
    """Return the diagnosis of a decision that is live.

    `may_try`: try remedies; False where a second decision may differ from the first, as with an extender. `replicas`:
    the pod's workload, so that remedies are tried for all its pending replicas.
    """
    if result.row is not None:
        return Diagnosis()
    key = group_of(session.cluster.pods.infos[result.pod])
    if result.held_back and key is not None:
        text = _AWAITS_VICTIMS if result.awaits_victims else _HELD_BACK
        return Diagnosis(text.format("/".join(key)))
    # Most questions need no diagnosis, so the modules for it are loaded only here.
    from kplan.diagnosis.gather import gather
    from kplan.diagnosis.sentence import sentence
    from kplan.remedies.fields import field_of
    from kplan.remedies.ways import offers_for_pod, remedies_of

    causes = gather(session, result)
    # What helps one pod of a group is no help for the group, whose remedies are tried as a whole.
    is_member = key is not None and session.config.release.is_on(WORKLOAD_GATE)
    may_try = may_try and not is_member
    helpful = remedies_of(offers_for_pod(session, result, causes, replicas)) if may_try else ()
    pod = session.cluster.pods.infos[result.pod].pod
    return Diagnosis(sentence(causes), helpful, field_of(causes, helpful, pod, session.listers))


class Diagnosing:
    """Diagnoses the decisions of one plan when their diagnosis is read, and once for pods that end alike.

    `replay`: repeats the plan up to a decision, which makes it live again. `pods`: the pods of the plan. `is_final`:
    decisions cannot be repeated, so each is diagnosed at once, without remedies.
    """

    def __init__(self, replay: Replay, pods: QuestionPods, *, is_final: bool) -> None:
        self._replay = replay
        self._pods = pods
        self._is_final = is_final
        self._ranks: dict[Hashable, int] = {}
        self._diagnoses: dict[Hashable, Diagnosis] = {}

    def diagnosis_of(self, session: Session, index: int, result: CycleResult) -> Callable[[], Diagnosis]:
        """Return a function that diagnoses a decision; the decision is live now and need not be then."""
        if result.row is not None:
            return Diagnosis
        if self._is_final:
            diagnosis = diagnose(session, result, may_try=False)
            return lambda: diagnosis
        key = _equal_end(session, result)
        may_try = self._ranks.setdefault(key, len(self._ranks)) < MOST_WITH_REMEDIES
        return lambda: self._diagnose(key, index, may_try=may_try)

    def _diagnose(self, key: Hashable, index: int, *, may_try: bool) -> Diagnosis:
        if key not in self._diagnoses:
            result = self._replay.at(index)
            assert result.session is not None  # noqa: S101 - every decision of a plan names its session
            origins, more, row = self._pods.origins, self._pods.more, result.pod
            same = self._by_origin.get(origins.get(row), ()) if may_try else ()
            replicas = replicas_of(result.session, row, origins, same, more) if may_try else ALONE
            self._diagnoses[key] = diagnose(result.session, result, may_try=may_try, replicas=replicas)
        return self._diagnoses[key]

    @cached_property
    def _by_origin(self) -> dict[Origin | None, list[int]]:
        return grouped((origin, row) for row, origin in self._pods.origins.items())


def _equal_end(session: Session, result: CycleResult) -> Hashable:
    """Return a key that is the same for decisions with the same diagnosis: equal pod, cluster and outcome."""
    info = session.cluster.pods.infos[result.pod]
    volumes = _encoder.encode(info.pod.spec.volumes) if info.pod.spec.volumes else b""
    nominated = session.nominator.row_of(result.pod)
    return info.shape, volumes, nominated, len(session.cluster.log), result.outcome, result.message
