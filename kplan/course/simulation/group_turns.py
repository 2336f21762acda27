"""The turns of pod groups in a simulation: each is tried as one, and again as long as that may end otherwise.

Upstream tries a group that does not fit without end, and begins with another member each time. Here it rests once its
members were tried in every order in which they come, until something changes: until then all ends as before.

Upstream: pkg/scheduler/schedule_one_podgroup.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from kplan.course.simulation.scheduling import Scheduling
from kplan.course.simulation.turns import MOMENT, MOST_UNCHANGED, Turns
from kplan.documents.change import StepEvent
from kplan.engine.cluster import NOWHERE
from kplan.framework.cycle import CycleResult, schedule_pod, stored_message_of
from kplan.framework.group_cycle import (
    GroupResult,
    GroupTry,
    Member,
    MemberEnd,
    end_of,
    error_of_several_schedulers,
    live_decisions,
    reserve_again,
    schedule_group,
)
from kplan.framework.listers import WORKLOAD_GATE, Key, group_of
from kplan.framework.results import Outcome, Status

_MOST_CYCLES: Final = 10_000
"""How many cycles all groups may take; only groups that evict for ever take so many."""


class _Attempts(msgspec.Struct):
    """The attempts at a group since something has changed."""

    state: tuple[object, ...] = ()  #: what was there
    orders: list[list[bytes]] = []  #: the shapes of the members in the order in which they came
    rests: bool = False  #: nothing is left to try


class GroupTurns:
    """The groups of a simulation.

    Attributes
    ----------
    tries : group -> how its last cycle has ended
    victims : group -> rows of the pods that it has evicted, in order
    violating, n_violating : group -> those evicted against a budget by the group as a whole; how many units they were
    """

    def __init__(self, simulation: Scheduling) -> None:
        self._simulation = simulation
        self.is_on = simulation.session.config.release.is_on(WORKLOAD_GATE)
        self.tries: dict[Key, GroupTry] = {}
        self.victims: dict[Key, dict[int, None]] = {}
        self.violating: dict[Key, list[int]] = {}
        self.n_violating: Counter[Key] = Counter()
        self._turns = Turns(simulation.session.cluster.pods.infos)
        self._outside: dict[int, None] = {}  # members that have yet to enter the queue
        self._attempts: dict[Key, _Attempts] = {}
        self._n_cycles = 0

    def fork(self, simulation: Scheduling) -> GroupTurns:
        """Return the turns of a copy of the simulation, in which nothing has moved yet."""
        forked = GroupTurns(simulation)
        forked._turns, forked._outside = self._turns.fork(forked._turns.infos), self._outside.copy()
        return forked

    def key_of(self, pod: int) -> Key | None:
        """Return the group with which a pod is scheduled; None for a pod on its own."""
        return group_of(self._simulation.session.cluster.pods.infos[pod]) if self.is_on else None

    def add(self, pod: int) -> None:
        """Add a member of the snapshot that waits."""
        self._outside[pod] = None

    def next_turn(self) -> tuple[Key, int] | None:
        """Return a group whose turn it is, and the member that begins."""
        if not self._outside and not self._turns.queued:
            return None
        state, there, infos = self._state(), self._simulation.pods, self._turns.infos
        resting = {key for key, attempts in self._attempts.items() if attempts.rests and attempts.state == state}

        def may_come(pod: int) -> bool:
            return pod in there and group_of(infos[pod]) not in resting

        pod = self._turns.pop(may_come)
        if pod is None:
            pod = min(filter(may_come, self._outside), key=lambda pod: -infos[pod].priority, default=None)
        key = None if pod is None else group_of(infos[pod])
        return None if pod is None or key is None else (key, pod)

    def _state(self) -> tuple[object, ...]:
        """Return what changes whenever something happens that may matter to a group."""
        session = self._simulation.session
        nominator, nodes = session.nominator, session.cluster.nodes
        nominated = tuple((row, *nominator.pods_for(row)) for row in nominator.rows())
        return len(self._simulation.steps), nominated, len(nodes.names), nodes.unschedulable.tobytes()

    def run(self, key: Key, first: int) -> Iterator[CycleResult]:
        """Try a group; yield the decision about each member before it is carried out, which makes it live.

        Parameters
        ----------
        first : the member whose turn it was
        """
        simulation, session, groups = self._simulation, self._simulation.session, self._simulation.session.pod_groups
        infos = self._turns.infos
        self._n_cycles += 1
        if self._n_cycles > _MOST_CYCLES:
            simulation.circle = f"pod group {'/'.join(key)} was still moving after {_MOST_CYCLES} attempts"
            return
        groups.remove([pod for pod in groups.members(key) if pod not in simulation.pods])
        attempts, state = self._attempts.setdefault(key, _Attempts()), self._state()
        if attempts.state != state:
            attempts.state, attempts.orders, attempts.rests = state, [], False
        pods = yield from self._pull(key, first)
        order = [infos[pod].shape for pod in pods]
        attempts.rests = not pods or order in attempts.orders or len(attempts.orders) == MOST_UNCHANGED
        if attempts.rests:
            for pod in pods:
                self._turns.back_off(pod)
            return
        attempts.orders.append(order)
        attempts.rests = len(set(order)) == 1  # pods that are alike come in one order
        text = error_of_several_schedulers([infos[pod].pod.spec.scheduler_name for pod in pods])
        tried = [pod for pod in pods if not infos[pod].is_terminating]
        if not tried:
            return
        simulation.recount_budgets()
        group = GroupResult(key, [], Status.error(text)) if text else schedule_group(session, key, tried)
        yield from self._decisions(group, tried)
        self._conclude(group, tried)

    def _pull(self, key: Key, first: int) -> Generator[CycleResult, None, list[int]]:
        """Take the members that wait out of all queues; return those that may enter the queue, in their order."""
        simulation, session, turns = self._simulation, self._simulation.session, self._turns
        others = [pod for pod in session.pod_groups.unscheduled(key) if pod != first and self._take_out(pod)]
        pods = [first, *others]
        self._outside.pop(first, None)
        for pod in sorted(pods, key=lambda pod: simulation.pods[pod].created):
            if pod not in turns.queued:
                turns.now = max(turns.now + MOMENT, simulation.now)
                turns.arrive(pod)
        turns.now = max(turns.now + MOMENT, simulation.now)
        for pod in list(pods):
            framework = session.framework_for(turns.infos[pod])
            if framework is None or not framework.run_pre_enqueue(turns.infos[pod]).is_success:
                pods.remove(pod)
                yield from self._fail_alone(pod)
        self._note_entry(key, pods)
        return sorted(pods, key=lambda pod: (-turns.infos[pod].priority, turns.queued[pod].entered))

    def _take_out(self, pod: int) -> bool:
        is_there = self._turns.take_out(pod) or self._outside.pop(pod, self) is None
        return self._simulation.take_out(pod) or is_there

    def _note_entry(self, key: Key, pods: Iterable[int]) -> None:
        """Note when members entered the queue: those before the gang's last needed one together with it."""
        queued = self._turns.queued
        fresh = sorted((queued[pod].time, pod) for pod in pods if queued[pod].entered is None)
        n_known = sum(
            pod not in queued or queued[pod].entered is not None
            for pod in self._simulation.session.pod_groups.members(key)
        )
        n_needed = (self._simulation.session.pod_groups.min_count(key) or 0) - n_known
        quorum = fresh[min(n_needed, len(fresh)) - 1][0] if fresh and n_needed > 0 else 0.0
        for time, pod in fresh:
            queued[pod].entered = max(time, quorum)

    def _fail_alone(self, pod: int) -> Iterator[CycleResult]:
        """Keep a pod out of the queue; nothing is told of one that was kept out before."""
        simulation = self._simulation
        result = schedule_pod(simulation.session, pod)
        self._outside[pod] = None
        message = stored_message_of(simulation.session, result) or result.message
        if simulation.outcomes.get(pod) is result.outcome and simulation.messages.get(pod) == message:
            return
        if simulation.on_decision is not None:
            simulation.on_decision(result)
        yield result
        simulation.note_failure(pod, result.outcome, message)

    def _decisions(self, group: GroupResult, pods: Sequence[int]) -> Iterator[CycleResult]:
        """Yield the decisions about the members with all before them on their nodes, as the cycle saw it."""
        simulation = self._simulation
        for result in live_decisions(simulation.session, group, pods):
            if simulation.on_decision is not None:
                simulation.on_decision(result)
            yield result

    def _conclude(self, group: GroupResult, pods: Sequence[int]) -> None:
        """Bind the members that fit, or put all back, and send the victims off."""
        simulation, key = self._simulation, group.key
        members = {member.pod: member for member in group.members}
        self.tries[key] = GroupTry.of(group)
        for pod in pods:
            self._submit(end_of(group, pod), pod, members.get(pod))
        if group.n_effects:
            simulation.note_claims_freed()
        self._evict(group)

    def _submit(self, end: MemberEnd, pod: int, member: Member | None) -> None:
        simulation = self._simulation
        if end.outcome is Outcome.SCHEDULED and member is not None and member.row is not None:
            status = reserve_again(member)
            if status.is_success:
                simulation.bind(pod, member.row)
                self._turns.queued.pop(pod, None)
                return
            end = replace(end, outcome=Outcome.ERROR, message=status.message)
        self._turns.count_failure(pod, end.rejectors)
        self._turns.back_off(pod)
        simulation.note_failure(pod, end.outcome, end.message)
        nominator = simulation.session.nominator
        if end.nominated is not None:
            if nominator.row_of(pod) != end.nominated:
                node = simulation.session.cluster.nodes.names[end.nominated]
                name = simulation.session.cluster.pods.infos[pod].key
                simulation.log(StepEvent.NOMINATED, pod=name, node=node, owner=simulation.owner(pod))
            nominator.nominate(pod, end.nominated)
        elif end.drops_nomination and nominator.row_of(pod) is not None:
            nominator.drop(pod)

    def _evict(self, group: GroupResult) -> None:
        """Have the victims leave for the member that preempts them, or for the first where the whole group does."""
        simulation = self._simulation
        nodes, sent_off = simulation.session.cluster.node_of, simulation.sent_off
        left = dict.fromkeys(pod for pod in group.victims if nodes[pod] != NOWHERE and pod not in sent_off)
        if not left:
            return
        self.victims.setdefault(group.key, {}).update(left)
        self.violating.setdefault(group.key, []).extend(pod for pod in group.violating if pod in left)
        self.n_violating[group.key] += group.n_violating
        for member in group.members:
            post_filter = member.result.post_filter
            if member.preempts and post_filter is not None:
                own = [victim for victim in post_filter.victims if victim in left]
                if own:
                    simulation.send_off(member.pod, own)
                left = {victim: None for victim in left if victim not in own}
        if left:
            simulation.send_off(group.members[0].pod, list(left))
