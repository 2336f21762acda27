"""Runs that schedule pods of a session one after another.

A run is a generator: it yields a `CycleResult` before the pod is bound or its victims evicted, and does so when the
next result is requested. Until then the result is *live*: the session is still in the state of the decision. A run is
deterministic, so `Replay` gets an earlier decision back by running again up to it. So explanations cost nothing until
somebody reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kplan.documents.placement import Outcome
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.group_cycle import GroupTry
from kplan.framework.listers import Key
from kplan.framework.pod_groups import WORKLOAD_GATE, group_of
from kplan.framework.session import Session
from kplan.subjects.group_run import GroupRun

Run = Iterator[CycleResult]


def run_in_order(
    session: Session, pods: Sequence[int], *, settle_preemption: bool, tries: dict[Key, GroupTry] | None = None
) -> Run:
    """Schedule pods in the given order.

    A placed pod uses its resources before the next pod is tried. A pod that fits nowhere changes nothing, except what
    its PostFilter plugins clear at once, such as a claim on devices that failed. With `settle_preemption` its victims
    leave at once, the pod is nominated to their node, and tried again right after.
    """
    session.nominate_from_status(pods)
    done = {} if tries is None else tries
    for pod in pods:
        key = group_of(session.cluster.pods.infos[pod]) if session.config.release.is_on(WORKLOAD_GATE) else None
        if key is not None:
            if key not in done:
                members = [other for other in pods if group_of(session.cluster.pods.infos[other]) == key]
                yield from GroupRun(session, key, members, settle_preemption=settle_preemption).run(done)
            continue
        result = schedule_pod(session, pod)
        yield result
        if settle(session, result) if settle_preemption else place(session, result):
            continue
        if settle_preemption and session.nominator.row_of(pod) is not None and nominates(result):
            result = schedule_pod(session, pod)
            yield result
            settle(session, result)


def place(session: Session, result: CycleResult) -> bool:
    """Bind a scheduled pod, or run the effects of its PostFilter plugins; return whether it is scheduled."""
    if result.outcome is Outcome.SCHEDULED and result.row is not None:
        session.bind(result.pod, result.row)
        return True
    for take_effect in result.post_filter.effects if result.post_filter is not None else ():
        take_effect()
    return False


def nominates(result: CycleResult) -> bool:
    """Return whether preemption nominates a node for the pod."""
    return result.post_filter is not None and result.post_filter.nominated_row is not None


def settle(session: Session, result: CycleResult) -> bool:
    """Carry out a decision, with its preemption; return whether the pod is scheduled."""
    if place(session, result):
        return True
    post_filter = result.post_filter
    if post_filter is not None and post_filter.nominated_row is not None:
        for victim in post_filter.victims:
            session.evict(victim)
        for pod in post_filter.cleared_nominations:
            session.nominator.drop(pod)
        session.nominator.nominate(result.pod, post_filter.nominated_row)
    return False


class Replay:
    """Gets earlier decisions of a run back, live, by running again.

    Parameters
    ----------
    start : starts the run in a fresh session
    """

    def __init__(self, start: Callable[[], Run]) -> None:
        self._start = start
        self._run: Run | None = None
        self._position = -1
        self._result: CycleResult | None = None

    def at(self, index: int) -> CycleResult:
        """Return decision `index` of the run, live until the next call."""
        if self._run is None or index < self._position:
            self._run, self._position = self._start(), -1
        while self._position < index:
            self._result = next(self._run)
            self._position += 1
        assert self._result is not None  # noqa: S101 - index is not negative
        return self._result
