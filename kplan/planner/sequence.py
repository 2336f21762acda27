"""Schedules pods of a session one after another, and tells each decision while it is live.

A run is a generator: it yields a `CycleResult` before its consequences take place, and goes on with them when asked
for the next. It is deterministic, so a decision that is no longer live can be brought back by running again up to it:
that is how an explanation costs nothing until somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kplan.documents.placement import Outcome
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.session import Session

Run = Iterator[CycleResult]


def run_in_order(session: Session, pods: Sequence[int], *, settle_preemption: bool) -> Run:
    """Schedule pods in the order given.

    A placed pod takes its room before the next is looked at. One that fits nowhere leaves no trace, but for what
    plugins clear out of its way at once, such as a claim on devices that failed. If preemption is settled its victims
    leave at once, it is nominated to their node, and tried again right after.
    """
    session.nominate_from_status(pods)
    for pod in pods:
        result = schedule_pod(session, pod)
        yield result
        if settle(session, result) if settle_preemption else place(session, result):
            continue
        if settle_preemption and session.nominator.row_of(pod) is not None and nominates(result):
            result = schedule_pod(session, pod)
            yield result
            settle(session, result)


def place(session: Session, result: CycleResult) -> bool:
    """Put a scheduled pod on its node, or let plugins clear its way for later; tell whether it was scheduled."""
    if result.outcome is Outcome.SCHEDULED and result.row is not None:
        session.bind(result.pod, result.row)
        return True
    for take_effect in result.post_filter.effects if result.post_filter is not None else ():
        take_effect()
    return False


def nominates(result: CycleResult) -> bool:
    """Tell whether preemption found a node for the pod."""
    return result.post_filter is not None and result.post_filter.nominated_row is not None


def settle(session: Session, result: CycleResult) -> bool:
    """Let a decision take place, preemption included; tell whether the pod was scheduled."""
    if place(session, result):
        return True
    found = result.post_filter
    if found is not None and found.nominated_row is not None:
        for victim in found.victims:
            session.evict(victim)
        for pod in found.cleared_nominations:
            session.nominator.drop(pod)
        session.nominator.nominate(result.pod, found.nominated_row)
    return False


class Replay:
    """Brings back decisions of a run, live, by running again.

    Parameters
    ----------
    start : makes a fresh session and the run in it
    """

    def __init__(self, start: Callable[[], Run]) -> None:
        self._start = start
        self._run: Run | None = None
        self._position = -1
        self._result: CycleResult | None = None

    def at(self, index: int) -> CycleResult:
        """Return decision `index` of the run, valid until another is asked for."""
        if self._run is None or index < self._position:
            self._run, self._position = self._start(), -1
        while self._position < index:
            self._result = next(self._run)
            self._position += 1
        assert self._result is not None  # noqa: S101 - index is not negative
        return self._result
