"""Tells why the pods of a plan have no node, when somebody asks, and once for all pods that end alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property

import msgspec

from kplan.documents.placement import Origin
from kplan.framework.cycle import CycleResult
from kplan.framework.session import Session
from kplan.planner.diagnosis.alike import ALONE, Replicas, replicas_of
from kplan.planner.diagnosis.diagnosis import Diagnosis, diagnose
from kplan.planner.question_pods import QuestionPods
from kplan.planner.sequence import Replay

MOST_WITH_REMEDIES = 50
"""Of the different pods of a plan that have no node, for so many of the first it is tried what would help."""

_encoder = msgspec.json.Encoder()


class Diagnosing:
    """What is known and asked of the decisions of one plan.

    Parameters
    ----------
    replay : brings decisions back
    asked : the pods that are decided about
    is_final : decisions cannot be brought back; they are told at once, and nothing is tried
    """

    def __init__(self, replay: Replay, asked: QuestionPods, *, is_final: bool) -> None:
        self._replay = replay
        self._asked = asked
        self._is_final = is_final
        self._ranks: dict[Hashable, int] = {}
        self._known: dict[Hashable, Diagnosis] = {}

    def teller(self, session: Session, index: int, result: CycleResult) -> Callable[[], Diagnosis]:
        """Return what tells about a decision, which is live now."""
        if result.row is not None:
            return Diagnosis
        if self._is_final:
            known = diagnose(session, result, may_try=False)
            return lambda: known
        key = _end(session, result)
        may_try = self._ranks.setdefault(key, len(self._ranks)) < MOST_WITH_REMEDIES
        return lambda: self._tell(key, index, may_try=may_try)

    def _tell(self, key: Hashable, index: int, *, may_try: bool) -> Diagnosis:
        if key not in self._known:
            result = self._replay.at(index)
            assert result.session is not None  # noqa: S101 - whoever decides says in which session
            replicas = self._replicas_of(result.session, result.pod) if may_try else ALONE
            self._known[key] = diagnose(result.session, result, may_try=may_try, replicas=replicas)
        return self._known[key]

    def _replicas_of(self, session: Session, row: int) -> Replicas:
        origins = self._asked.origins
        return replicas_of(session, row, origins, self._by_origin.get(origins.get(row), ()), self._asked.more)

    @cached_property
    def _by_origin(self) -> dict[Origin | None, list[int]]:
        found: dict[Origin | None, list[int]] = {}
        for row, origin in self._asked.origins.items():
            found.setdefault(origin, []).append(row)
        return found


def _end(session: Session, result: CycleResult) -> Hashable:
    """Return what two decisions share when the same is to be said of them: the pod, the cluster and the answer."""
    info = session.cluster.pods.infos[result.pod]
    volumes = _encoder.encode(info.pod.spec.volumes) if info.pod.spec.volumes else b""
    nominated = session.nominator.row_of(result.pod)
    return info.shape, volumes, nominated, len(session.cluster.log), result.outcome, result.message
