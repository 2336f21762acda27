"""The pods of a question, and runs that schedule them.

A run is a generator: it yields a `CycleResult` before the pod is bound or its victims evicted, and does so when the
next result is requested. Until then the result is *live*: the session is still in the state of the decision. A run is
deterministic, so `Replay` gets an earlier decision back by running again up to it. So explanations cost nothing until
somebody reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kplan.documents.placement import Origin
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.group_cycle import (
    GroupResult,
    GroupTry,
    error_of_several_schedulers,
    live_decisions,
    reserved_ends,
    schedule_group,
)
from kplan.framework.listers import Key
from kplan.framework.pod_groups import WORKLOAD_GATE, group_of
from kplan.framework.results import Status
from kplan.framework.session import Session
from kplan.rules.pod_info import PodInfo


class QuestionPods(msgspec.Struct, frozen=True):
    """Pods as rows of every session that is forked for the question."""

    rows: tuple[int, ...] = ()  #: the pods, in the order of the question
    added: tuple[PodInfo, ...] = ()  #: the new pods; `enter` adds them to a fresh fork, in this order
    origins: Mapping[int, Origin] = {}  #: row -> the manifest of a pod
    refused: Mapping[int, str] = {}  #: row -> why the API server refuses the pod
    #: row -> number of further replicas like the pod, which are only counted: they have the same outcome
    more: Mapping[int, int] = {}
    #: rows that were pending before and are in the queue besides what is asked about
    pending_before: frozenset[int] = frozenset()

    def enter(self, session: Session) -> None:
        """Add the new pods to a fresh fork."""
        session.refused.update(self.refused)
        for info in self.added:
            row = session.cluster.add_pod(info)
            if row not in self.refused and info.key not in session.pod_ids:
                session.pod_ids[info.key] = row

    def distinct(self, first: Iterable[int] = ()) -> QuestionPods:
        """Return the rows in `first` and then the pods of the question, without duplicates.

        Where the question has pods, those in `first` are besides.
        """
        rows = tuple(dict.fromkeys((*first, *self.rows)))
        return replace(
            self, rows=rows, pending_before=frozenset(rows).difference(self.rows) if self.rows else frozenset()
        )


class _GroupRun(msgspec.Struct, frozen=True):
    """A pod group of which some pods are placed by `run_in_order`: all its pods without a node are tried together."""

    session: Session
    key: Key
    members: Sequence[int]  #: that the question is about; the others are placed without a word
    settles: bool  #: evicts the victims at once, and tries the group again right after

    def run(self, tries: dict[Key, GroupTry]) -> Iterator[CycleResult]:
        """Yield the decisions about the members in question; `tries` gets how the group's cycle has ended."""
        session, infos, groups = self.session, self.session.cluster.pods.infos, self.session.pod_groups
        # Pods that have left their nodes, or were refused, are still in the table of pods.
        groups.remove([pod for pod in groups.members(self.key) if session.pod_ids.get(infos[pod].key) != pod])
        groups.remove(session.refused)
        tries[self.key] = GroupTry(Status.unschedulable(), frozenset(), waits=False)
        pods: list[int] = []
        for pod in dict.fromkeys([*self.members, *groups.unscheduled(self.key)]):
            framework = session.framework_for(infos[pod])
            is_apart = framework is None or pod in session.refused or infos[pod].is_terminating
            if framework is not None and not is_apart and framework.run_pre_enqueue(infos[pod]).is_success:
                pods.append(pod)
            elif pod in self.members:
                yield schedule_pod(session, pod)
        pods.sort(key=lambda pod: -infos[pod].priority)
        group = yield from self._try(pods, tries)
        if group is not None and self.settles and group.victims:
            for victim in dict.fromkeys(group.victims):
                session.evict(victim)
            groups.remove(group.victims)
            waiting = [pod for pod in pods if pod in groups.unscheduled(self.key)]
            yield from self._try(waiting, tries, tries[self.key])

    def _try(
        self, pods: Sequence[int], tries: dict[Key, GroupTry], before: GroupTry | None = None
    ) -> Generator[CycleResult, None, GroupResult | None]:
        """Try the group, and bind the members that fit; `before` is the try for which pods have left."""
        session, infos = self.session, self.session.cluster.pods.infos
        if not pods:
            return None
        text = error_of_several_schedulers([infos[pod].pod.spec.scheduler_name for pod in pods])
        group = GroupResult(self.key, [], Status.error(text)) if text else schedule_group(session, self.key, list(pods))
        last = GroupTry.of(group)
        tries[self.key] = last if before is None else last.after(before)
        for result in live_decisions(session, group, pods):
            if result.pod in self.members:
                yield result
        for pod, end in reserved_ends(group, [member.pod for member in group.members]):
            if end.row is not None:
                session.bind(pod, end.row)
            elif end.nominated is not None and self.settles:
                session.nominator.nominate(pod, end.nominated)
        return group


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
                yield from _GroupRun(session, key, members, settle_preemption).run(done)
            continue
        result = schedule_pod(session, pod)
        yield result
        if bind_or_evict(session, result) if settle_preemption else bound(session, result):
            continue
        if settle_preemption and session.nominator.row_of(pod) is not None and nominates(result):
            result = schedule_pod(session, pod)
            yield result
            bind_or_evict(session, result)


def bound(session: Session, result: CycleResult) -> bool:
    """Bind a scheduled pod, or run the effects of its PostFilter plugins; return whether it is scheduled."""
    if result.row is not None:
        session.bind(result.pod, result.row)
        return True
    for take_effect in result.post_filter.effects if result.post_filter is not None else ():
        take_effect()
    return False


def nominates(result: CycleResult) -> bool:
    return result.post_filter is not None and result.post_filter.nominated_row is not None


def bind_or_evict(session: Session, result: CycleResult) -> bool:
    """Carry out a decision, with its preemption; return whether the pod is scheduled."""
    if bound(session, result):
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
    """A run whose decisions come back, live, by starting it again in a fresh session; `run` is started already."""

    def __init__(self, start: Callable[[], Run], run: Run | None = None) -> None:
        self._start = start
        self._run = run
        self._position = -1
        self._result: CycleResult | None = None

    def __iter__(self) -> Run:
        """Yield the decisions of the run; meanwhile `at` returns the one that was yielded last."""
        run = self._run or self._start()
        for position, result in enumerate(run):
            self._run, self._position, self._result = run, position, result
            yield result
        self._run = None

    def at(self, index: int) -> CycleResult:
        """Return decision `index` of the run, live until the next call."""
        if self._run is None or index < self._position:
            self._run, self._position = self._start(), -1
        while self._position < index:
            self._result = next(self._run)
            self._position += 1
        assert self._result is not None  # noqa: S101 - index is not negative
        return self._result
