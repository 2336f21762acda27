"""The turns of pod groups in a simulation: each is tried as one, and again as long as something changes.

Upstream tries a group that does not fit without end. Here it rests until something has changed since it was last tried,
because then it would end as before.

Upstream: pkg/scheduler/schedule_one_podgroup.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from kplan.course.simulation.scheduling import Scheduling
from kplan.documents.change import StepEvent
from kplan.engine.cluster import NOWHERE
from kplan.framework.cycle import CycleResult, schedule_pod, stored_message_of
from kplan.framework.group_cycle import (
    GroupResult,
    GroupTry,
    Member,
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
        self._resting: dict[Key, dict[int, None]] = {}  # pods that wait for another turn of their group
        self._tried_at: dict[Key, tuple[object, ...]] = {}
        self._entered: dict[int, int] = {}
        self._n_cycles = 0

    def fork(self, simulation: Scheduling) -> GroupTurns:
        """Return the turns of a copy of the simulation, in which nothing has moved yet."""
        forked = GroupTurns(simulation)
        forked._resting = {key: pods.copy() for key, pods in self._resting.items()}
        forked._entered = self._entered.copy()
        return forked

    def key_of(self, pod: int) -> Key | None:
        """Return the group with which a pod is scheduled; None for a pod on its own."""
        return group_of(self._simulation.session.cluster.pods.infos[pod]) if self.is_on else None

    def rest(self, pod: int, key: Key) -> None:
        self._entered.setdefault(pod, len(self._entered))
        self._resting.setdefault(key, {})[pod] = None

    def next_group(self) -> Key | None:
        """Return a group whose turn it is, because something has changed since it was tried."""
        if not self._resting:
            return None
        state, there = self._state(), self._simulation.pods
        resting = (key for key, pods in self._resting.items() if self._tried_at.get(key) != state)
        return next((key for key in resting if any(pod in there for pod in self._resting[key])), None)

    def _state(self) -> tuple[object, ...]:
        """Return what changes whenever something happens that may matter to a group."""
        session = self._simulation.session
        nominator, nodes = session.nominator, session.cluster.nodes
        nominated = tuple((row, *nominator.pods_for(row)) for row in nominator.rows())
        return len(self._simulation.steps), nominated, len(nodes.names), nodes.unschedulable.tobytes()

    def run(self, key: Key, first: int | None = None) -> Iterator[CycleResult]:
        """Try a group; yield the decision about each member before it is carried out, which makes it live.

        Parameters
        ----------
        first : the pod whose turn it was
        """
        simulation, session = self._simulation, self._simulation.session
        infos, groups = session.cluster.pods.infos, session.pod_groups
        before = self._state()
        self._n_cycles += 1
        if self._n_cycles > _MOST_CYCLES:
            simulation.circle = f"pod group {'/'.join(key)} was still moving after {_MOST_CYCLES} attempts"
            return
        groups.remove([pod for pod in groups.members(key) if pod not in simulation.pods])
        waiting = {pod: None for pod in self._resting.pop(key, {}) if pod in simulation.pods}
        if first is not None:
            waiting = {first: None, **waiting}
        waiting |= dict.fromkeys(pod for pod in groups.unscheduled(key) if simulation.take_out(pod))
        for pod in waiting:
            self._entered.setdefault(pod, len(self._entered))
        pods: list[int] = []
        for pod in sorted(waiting, key=lambda pod: (-infos[pod].priority, self._entered[pod])):
            framework = session.framework_for(infos[pod])
            if framework is None or not framework.run_pre_enqueue(infos[pod]).is_success:
                yield from self._fail_alone(pod, key)
            else:
                pods.append(pod)
        self._tried_at[key] = before
        text = error_of_several_schedulers([infos[pod].pod.spec.scheduler_name for pod in pods]) if pods else ""
        tried = [pod for pod in pods if not infos[pod].is_terminating]
        if not tried:
            return
        simulation.recount_budgets()
        group = GroupResult(key, [], Status.error(text)) if text else schedule_group(session, key, tried)
        yield from self._decisions(group, tried)
        self._conclude(group, tried)

    def _fail_alone(self, pod: int, key: Key) -> Iterator[CycleResult]:
        """Keep a pod out of the queue; nothing is told of one that was kept out before."""
        simulation = self._simulation
        result = schedule_pod(simulation.session, pod)
        self.rest(pod, key)
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
            self._submit(key, end_of(group, pod).outcome, group, pod, members.get(pod))
        if group.n_effects:
            simulation.note_claims_freed()
        self._evict(group)

    def _submit(self, key: Key, outcome: Outcome, group: GroupResult, pod: int, member: Member | None) -> None:
        simulation, end = self._simulation, end_of(group, pod)
        if outcome is Outcome.SCHEDULED and member is not None and member.row is not None:
            status = reserve_again(member)
            if status.is_success:
                simulation.bind(pod, member.row)
                return
            end = replace(end, outcome=Outcome.ERROR, message=status.message)
        self.rest(pod, key)
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
