"""What the scheduler's decisions do in a simulation: pods are bound, or wait, and victims leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Final

from msgspec.structs import replace

from kplan.course.simulation.any_node import AnyNodeTaker
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.life_cycle import LifeCycle
from kplan.course.simulation.motion import Motion, Signal
from kplan.course.simulation.queue import FLUSH_SECONDS, MAX_WAIT
from kplan.documents.change import StepEvent
from kplan.engine.cluster import NOWHERE
from kplan.engine.mappings import Recent
from kplan.framework.cycle import CycleResult, rejectors_of, schedule_pod, stored_message_of
from kplan.framework.group_cycle import (
    GroupResult,
    GroupTry,
    MemberEnd,
    error_of_several_schedulers,
    live_decisions,
    reserved_ends,
    schedule_group,
)
from kplan.framework.interface import ClaimFreed, CycleState, Event, PodDeleted
from kplan.framework.listers import Key
from kplan.framework.plugin_cache import MAX_SHAPES
from kplan.framework.results import Outcome, Status
from kplan.framework.session import Session
from kplan.preemption.default_preemption import DefaultPreemption, preemptors
from kplan.preemption.result import PreemptionResult
from kplan.rules.pod_info import PodInfo, is_unique
from kplan.rules.volumes import storage_kinds


class FailedShapes:
    """How pods of a shape fared since something happened last."""

    def __init__(self) -> None:
        self._results: Recent[CycleResult] | None = None

    def forget(self) -> None:
        """Have all pods tried again, because something happens that may matter to them."""
        self._results = None

    def decide(self, session: Session, pod: int) -> CycleResult:
        """Run a pod's scheduling cycle, or repeat that of a like pod which has failed and left everything as it was."""
        info = session.cluster.pods.infos[pod]
        if self._results is not None and is_decided_by_shape(session, pod, info):
            failed = self._results.find(info.shape)
            if failed is not None:
                return _repeated(failed, info, pod)
        start = session.sampling.start_index
        result = schedule_pod(session, pod)
        has_moved = session.sampling.start_index != start
        if _changes_nothing(result) and not has_moved and is_decided_by_shape(session, pod, info):
            self._results = Recent(MAX_SHAPES) if self._results is None else self._results
            self._results.put(info.shape, result)
        return result


def is_decided_by_shape(session: Session, pod: int, info: PodInfo) -> bool:
    """Tell whether plugins read nothing of a pod that is not part of its shape: no claim, no nomination of its own."""
    framework = session.framework_for(info)
    return not (
        framework is None
        or pod in session.refused
        or framework.foreign_plugins
        or session.extenders
        or info.is_terminating
        or is_unique(info.pod)
        or info.pod.status.nominated_node_name
        or session.nominator.row_of(pod) is not None
        or any(storage_kinds(volume) for volume in info.pod.spec.volumes)
    )


def _changes_nothing(result: CycleResult) -> bool:
    """Tell whether no node fits a pod, and nobody leaves for it."""
    tried, made_room = result.filter, result.post_filter
    if result.outcome is not Outcome.UNSCHEDULABLE or tried is None or tried.feasible.any():
        return False
    return made_room is None or (made_room.nominated_row is None and not made_room.effects)


def _repeated(failed: CycleResult, info: PodInfo, pod: int) -> CycleResult:
    """Return the failure of a pod as that of another one of its shape."""
    cycle = failed.cycle
    if cycle is not None:
        own = CycleState(info, pod, cycle.cluster)
        own.skipped_filters, own.states = cycle.skipped_filters, cycle.states
        cycle = own
    return replace(failed, pod=pod, cycle=cycle)


class Scheduler:
    """Decides about pending pods, and carries its decisions out."""

    def __init__(self, motion: Motion, life: LifeCycle) -> None:
        self._motion, self._life = motion, life
        self.on_decision = Signal[CycleResult]()  #: a decision is made, which is valid only during the call
        self.leaving: list[tuple[int, list[ObservedPod]]] = []  #: preemptor, victims that are yet to go
        self.violations: list[tuple[str, str]] = []  #: preemptor and victim, where that broke a budget
        self.failures = FailedShapes()
        self._leftover: set[int] = set()  #: pods that are tried again only because time went by, while all is at rest
        motion.on_event.connect(self._hear)
        #: chooses the nodes of pods instead of the scheduler, where it does not matter which they are
        self.any_node: AnyNodeTaker | None = None

    @cached_property
    def preemptors(self) -> list[DefaultPreemption]:
        """The plugins that look for victims."""
        return preemptors(self._motion.session)

    def decide(self, row: int) -> CycleResult:
        if self.any_node is not None:
            place = self.any_node.take(self._motion.infos[row], self._motion.workload_of(self._motion.pods[row]))
            return CycleResult(row, Outcome.SCHEDULED, row=place, session=self._motion.session)
        self.recount_budgets()
        result = self.failures.decide(self._motion.session, row)
        self.on_decision(result)
        return result

    def carry_out(self, result: CycleResult) -> None:
        row = result.pod
        if result.row is not None:
            self._life.bind(row, result.row)
            return
        messages = self._motion.messages
        # Why a leftover pod fits nowhere is not noted anew: it came to rest minutes before.
        if row not in self._leftover or result.outcome is not Outcome.UNSCHEDULABLE or not messages.get(row):
            messages[row] = stored_message_of(self._motion.session, result) or result.message
        self._leftover.discard(row)
        self._motion.outcomes[row] = result.outcome
        is_error = result.outcome is Outcome.ERROR
        rejectors = frozenset() if is_error else rejectors_of(result)
        self._motion.queue.add_rejected(row, rejectors, self._motion.now, len(self._motion.log.steps))
        if is_error:  # upstream tries it again when it has backed off: in vain until something happens
            return
        self._motion.on_misfit()
        post_filter = result.post_filter
        if post_filter is None:
            return
        for take_effect in post_filter.effects:
            take_effect()
        if post_filter.effects:
            self._motion.notice(ClaimFreed())
        detail = post_filter.findings
        if isinstance(detail, PreemptionResult):
            if post_filter.nominated_row is not None:
                self._preempt(row, post_filter.nominated_row, detail)
            elif detail.eligible:
                self._clear_nomination(row)

    def _hear(self, _: Event) -> None:
        """Have pods tried anew, and their words noted again: the cluster moves."""
        self.failures.forget()
        self._leftover.clear()

    def retry_in_time(self) -> None:
        """Have pods tried again that wait for long from now on. Upstream: flushUnschedulablePodsLeftover."""
        began = self._motion.now
        self._motion.timers.post(began + FLUSH_SECONDS, partial(self._flush, began), "flush", is_idle=True)

    def _flush(self, began: float) -> None:
        motion = self._motion
        leftover = motion.queue.retry(motion.now, motion.now - MAX_WAIT, began, len(motion.log.steps))
        if motion.timers.are_idle:
            self._leftover.update(leftover)
        quiet = motion.now - max(motion.log.last_change, began)
        if not motion.timers.are_idle or (motion.queue.has_rejected and quiet <= MAX_WAIT + 2 * FLUSH_SECONDS):
            motion.timers.post(motion.now + FLUSH_SECONDS, partial(self._flush, began), "flush", is_idle=True)

    def note_failure(self, row: int, outcome: Outcome, message: str) -> None:
        """Note the decision about a pod of a group that is not placed."""
        self._motion.messages[row], self._motion.outcomes[row] = message, outcome
        self._motion.on_misfit()

    def _preempt(self, row: int, place: int, detail: PreemptionResult) -> None:
        motion, victims, nominator = self._motion, detail.leaving_pods, self._motion.session.nominator
        self.failures.forget()
        # Where all have been told to go, and do not, nothing happens when it preempts them once more.
        if nominator.row_of(row) is None or not all(motion.pods[victim].is_terminating for victim in victims):
            because, node = ", ".join(motion.pods[victim].key for victim in victims), motion.cluster.nodes.names[place]
            motion.log.add_pod(StepEvent.NOMINATED, motion.pods[row], because, node=node)
        nominator.nominate(row, place)
        for cleared in detail.cleared_pods:
            self._clear_nomination(cleared)
        self.send_off(row, victims)

    def send_off(self, row: int, victims: Sequence[int]) -> None:
        """Have the victims of a pod leave; the scheduler deletes them in the background, and goes on meanwhile."""
        motion, leaving = self._motion, [self._motion.pods[victim] for victim in victims]
        self.violations += [(motion.infos[row].key, pod.key) for pod in motion.disruptions.broken_by(leaving)]
        self.leaving.append((row, leaving))

    @property
    def sent_off(self) -> frozenset[int]:
        """Rows of the pods that are about to leave because others preempt them."""
        return frozenset(pod.row for _, leaving in self.leaving for pod in leaving)

    def let_victims_go(self, preemptor: int, victims: list[ObservedPod]) -> None:
        """Have the victims of a pod go; end the simulation when they preempt each other again and again."""
        motion, infos, nominator = self._motion, self._motion.infos, self._motion.session.nominator
        name, there = infos[preemptor].key, [motion.pods[pod.row] for pod in victims if pod.row in motion.pods]
        present = [pod for pod in there if not pod.is_terminating]
        for pod in present:
            self._life.remove(pod, StepEvent.EVICTED, f"preempted by {name}", by=name)
        promised = ((infos[pod].shape, row) for row in nominator.rows() for pod in nominator.pods_for(row))
        if present and motion.circles.is_closed(motion.now, motion.timers, promised):
            keys = ", ".join(pod.key for pod in present)
            motion.circle = f"{name} and {keys} preempt each other again and again"

    def _clear_nomination(self, row: int) -> None:
        if self._motion.session.nominator.row_of(row) is not None:
            self._motion.session.nominator.drop(row)
            info = self._motion.infos[row]
            self._motion.notice(PodDeleted(info), info.priority)

    def recount_budgets(self) -> None:
        """Tell preemption what budgets allow by now; the disruption controller is quicker than the scheduler."""
        allowed = self._motion.disruptions.newly_allowed()
        if allowed:
            for plugin in self.preemptors:
                plugin.set_allowed_disruptions(allowed)

    def know_nodes(self) -> None:
        """Prepare preemption anew, as further nodes are there."""
        fresh = preemptors(self._motion.session)
        for plugin, former in zip(fresh, self.preemptors, strict=True):
            plugin.budgets = former.budgets
        self.preemptors = fresh


MOST_UNCHANGED: Final = 15
"""After how many cycles without a change no group is tried again that was tried since.

Upstream has no end: an idle scheduler tries a group thousands of times a second, so that chance decides which member
begins when something changes at last. Recorded runs end after so many cycles.
"""


class GroupTurns:
    """The turns of pod groups: each is tried as one, and again as long as that may end otherwise.

    Upstream tries a group that does not fit without end, and begins with another member each time. Here it rests once
    its members were tried in every order in which they come, until something changes: until then all ends as before.

    Upstream: pkg/scheduler/schedule_one_podgroup.go.
    """

    def __init__(self, motion: Motion, life: LifeCycle, scheduler: Scheduler) -> None:
        self._motion, self._life, self._scheduler = motion, life, scheduler
        self.tries: dict[Key, GroupTry] = {}  #: how the last cycle of a group has ended, with all victims so far
        #: as in recorded runs of the queue alone: victims are gone before the next cycle, and groups are tried in all
        #: orders in which they come, also those that differ only in pods that are alike
        self.is_queue_alone = False
        self.n_unchanged = 0  #: cycles since something has changed
        self._n_steps = -1  # of those that matter: how many there were then
        self._states: set[tuple[object, ...]] = set()  # what was there since: nominations may go back and forth
        self._nominated: tuple[int, tuple[object, ...]] = 0, ()  # as of so many changes of nominations
        self._orders: dict[Key, list[list[bytes]]] = {}  # the shapes of the members of a group as they came since
        self._resting: set[Key] = set()  # groups of which nothing is left to try
        self._n_nominated = 0  # how many steps tell of nominations of members

    def may_come(self) -> Callable[[int], bool] | None:
        """Return whether a pod may have a turn now; None where all may."""
        n_steps = len(self._motion.log.steps) - self._n_nominated
        if n_steps != self._n_steps:
            self._n_steps = n_steps
            self._states.clear()
        if (state := self._present()) not in self._states:
            self._states.add(state)
            self.begin_anew()
        key_of, resting = self._motion.queue.key_of, self._resting
        is_over = not self.is_queue_alone or (self.n_unchanged >= MOST_UNCHANGED and not self._motion.queue.has_active)
        return (lambda pod: key_of(pod) not in resting) if resting and is_over else None

    def begin_anew(self) -> None:
        """Try all groups again, as something has changed."""
        self.n_unchanged = 0
        self._orders.clear()
        self._resting.clear()

    def _present(self) -> tuple[object, ...]:
        """Return what changes, besides steps, whenever something happens that may matter to a group."""
        nominator, nodes, infos = self._motion.session.nominator, self._motion.cluster.nodes, self._motion.infos
        if nominator.n_changes != self._nominated[0]:
            # That another member of a group has the nomination, which is like the one before, is no change.
            shapes = ((row, *(infos[pod].shape for pod in nominator.pods_for(row))) for row in nominator.rows())
            self._nominated = nominator.n_changes, tuple(shapes)
        return self._nominated[1], len(nodes.names), nodes.unschedulable.tobytes()

    def run(self, key: Key, first: int) -> Iterator[CycleResult]:
        """Try a group, begun by its `first` member; yield each decision before it is carried out, while it is live."""
        session, queue, infos = self._motion.session, self._motion.queue, self._motion.infos
        if first in queue.gated:  # it is only told why it is kept out
            result = schedule_pod(session, first)
            self._scheduler.on_decision(result)
            yield result
            self._scheduler.note_failure(first, result.outcome, stored_message_of(session, result) or result.message)
            return
        self.n_unchanged += 1
        others = [pod for pod in session.pod_groups.unscheduled(key) if pod != first and queue.pull(pod)]
        pods = sorted([first, *others], key=lambda pod: (-infos[pod].priority, queue.queued[pod].entered))
        if self._has_tried(key, [infos[pod].shape for pod in pods]):
            for pod in pods:
                queue.back_off(pod)
            return
        text = error_of_several_schedulers([infos[pod].pod.spec.scheduler_name for pod in pods])
        tried = [pod for pod in pods if not infos[pod].is_terminating]
        if not tried:
            return
        self._scheduler.recount_budgets()
        failed = GroupResult(key, [], Status.error(text), has_condition=False)
        group = failed if text else schedule_group(session, key, tried)
        # Each is live with all members before it on their nodes, as the cycle saw it.
        for result in live_decisions(session, group, tried):
            self._scheduler.on_decision(result)
            yield result
        self._conclude(group, tried)

    def _has_tried(self, key: Key, order: list[bytes]) -> bool:
        """Note that it is a group's turn, with members of these shapes; tell whether all would end as before."""
        orders = self._orders.setdefault(key, [])
        has_tried = not self.is_queue_alone and (order in orders or len(orders) == MOST_UNCHANGED)
        orders.append(order)
        if self.is_queue_alone or has_tried or len(set(order)) == 1:  # pods that are alike come in one order
            self._resting.add(key)
        return has_tried

    def _conclude(self, group: GroupResult, pods: Sequence[int]) -> None:
        """Bind the members that fit, or put all back, and send the victims off."""
        for pod, end in reserved_ends(group, pods):
            self._submit(end, pod)
        if group.n_effects:
            self._motion.notice(ClaimFreed())
        nodes, sent_off = self._motion.cluster.node_of, self._scheduler.sent_off
        left = dict.fromkeys(pod for pod in group.victims if nodes[pod] != NOWHERE and pod not in sent_off)
        violating = tuple(pod for pod in group.violating if pod in left)
        n_violating = group.n_violating if left else 0
        tried = replace(GroupTry.of(group), victims=tuple(left), violating=violating, n_violating=n_violating)
        before = self.tries.get(group.key)
        self.tries[group.key] = tried if before is None else tried.after(before)
        if left:
            self._evict(group, left)

    def _submit(self, end: MemberEnd, pod: int) -> None:
        if end.row is not None:
            self._life.bind(pod, end.row)
            return
        self._motion.queue.put_back(pod, end.rejectors, self._motion.now)
        self._scheduler.note_failure(pod, end.outcome, end.message)
        nominator = self._motion.session.nominator
        if end.nominated is not None:
            if nominator.row_of(pod) != end.nominated:
                node = self._motion.cluster.nodes.names[end.nominated]
                self._motion.log.add_pod(StepEvent.NOMINATED, self._motion.pods[pod], node=node)
                self._n_nominated += 1
            nominator.nominate(pod, end.nominated)
        elif end.drops_nomination and nominator.row_of(pod) is not None:
            nominator.drop(pod)

    def _evict(self, group: GroupResult, left: Mapping[int, None]) -> None:
        """Have victims leave for the member that preempts them, or for the first where the whole group does."""
        for member in group.members:
            post_filter = member.result.post_filter
            if member.preempts and post_filter is not None:
                own = [victim for victim in post_filter.victims if victim in left]
                if own:
                    self._scheduler.send_off(member.pod, own)
                left = {victim: None for victim in left if victim not in own}
        if left:
            self._scheduler.send_off(group.members[0].pod, list(left))
