"""What of the replacements of pods a change brings about, and what of it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal

from msgspec import structs

from kplan.api.quantity import grouped
from kplan.cluster.base import Base
from kplan.course.answers.drains import TIMED_OUT
from kplan.course.answers.pod_groups import pending_in_groups
from kplan.course.answers.verdict import Happened, counted_of, once_a_group
from kplan.course.beginning import begin
from kplan.course.carried_out import CarriedOut
from kplan.course.pairing import Replacement, replacements_in
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.documents import change as d
from kplan.documents.base import Condition, Counted
from kplan.documents.plan import Action, CausedBy, PlanSummary
from kplan.framework.results import Outcome
from kplan.workloads.hooks import HELD_UP

PendingOutcome = Literal["", "Unschedulable", "Gated", "Error"]

_WORDS: Mapping[Outcome, PendingOutcome] = {Outcome.GATED: "Gated", Outcome.ERROR: "Error"}


class Replacements:
    """What happens to the pods of a change."""

    def __init__(self, change: CarriedOut) -> None:
        base = self._base = change.origin
        self._simulation = change.simulation
        self._change = change
        self._waited = frozenset(base.session.cluster.pods.infos[row].key for row in base.pending.rows)
        rows = (change.simulation.session.pod_ids.get(key) for key in self._waited)
        pending = (change.simulation.pods.get(row) for row in rows if row is not None)
        staying = (pod for pod in pending if pod is not None and not pod.is_terminating)
        self._was_pending = {pod.key: pod for pod in staying if not pod.is_new}
        #: by workload, in the order in which these were moved, then pods that stay pending although they were tried
        self.all = list(replacements_in(change, self._waited, self._was_pending))
        moved = {replacement.added.key for replacement in self.all if replacement.added is not None}
        still = (key for key, pod in self._was_pending.items() if not pod.node)
        self._still_pending = frozenset(change.queue).intersection(still)
        for key in sorted(self._still_pending - moved):
            pod = self._was_pending[key]
            self.all.append(Replacement(self._simulation.workload_of(pod), added=pod))
        if change.queue and not change.applied:
            turns = {name: turn for turn, name in enumerate(change.queue)}
            self.all.sort(key=lambda one: turns.get(one.pod, len(turns)))
        replaced = ((one.removed, one.added) for one in self.all)
        #: pods that were pending before, and their replacements
        self._waiters = self._was_pending.keys() | {
            added.key for removed, added in replaced if removed and added and removed.pod in self._waited
        }
        self._waiters |= self._exchanged

    @cached_property
    def _due(self) -> frozenset[str]:
        """Pods that go in any case from nodes that were not well before; without a change, they are the answer."""
        return frozenset() if self._change.task.is_queue else self._simulation.node_lifecycle.due

    @cached_property
    def _exchanged(self) -> frozenset[str]:
        """New pods that wait in place of others of their workload that waited before and got nodes: it lacks none."""
        if not self._was_pending:
            return frozenset()
        waited = (one for one in self.all if one.pod in self._was_pending)
        placed = Counter(one.workload for one in waited if one.action is Action.PLACED)
        for one in self.all:
            if one.added_key in self._was_pending and one.action is Action.MOVED:
                placed[one.workload] += 1
        waiting: list[str] = []
        for one in self.all if placed else ():
            added = one.added
            if added is not None and added.is_new and one.action is Action.PENDING and one.pod not in self._waited:
                if placed[one.workload] > 0:
                    waiting.append(added.key)
                placed[one.workload] -= 1
        return frozenset(waiting)

    @cached_property
    def _elsewhere(self) -> frozenset[str]:
        """Pods that wait in any case: those that were pending before, and the replacements of pods that make way."""
        return self._with_victims(self._waiters)

    @cached_property
    def _others(self) -> frozenset[str]:
        """The same, but for what the question is about."""
        subject_pods = self._change.subject_pods
        if not self._change.task.is_queue:  # pods of nodes that were not well before would have gone in any case
            gone = {one.added_key for one in self.all if one.removed is not None and one.removed.pod in self._due}
            return self._with_victims((self._waiters - subject_pods) | gone)
        own = {one.added_key for one in self.all if one.removed is not None and one.removed.pod in subject_pods}
        return self._with_victims(self._waiters - subject_pods - own - self._exchanged)

    def _with_victims(self, waiters: Collection[str]) -> frozenset[str]:
        pods, n_known = set(waiters), -1
        while n_known != len(pods):
            n_known = len(pods)
            pods.update(one.added.key for one in self.all if one.added is not None and self._makes_way(one, pods))
        return frozenset(pods)

    @cached_property
    def _own_victims(self) -> dict[str, str]:
        """Pods that make way for one of `_elsewhere` because of the change, and for which one."""
        removed = [one.removed for one in self.all if not self._makes_way(one, self._others)]
        return {step.pod: step.by for step in removed if step is not None and step.by in self._others}

    def _makes_way(self, replacement: Replacement, waiting: Collection[str]) -> bool:
        """Tell whether a pod makes way for one of those that wait in any case, and would without the change, too."""
        removed = replacement.removed
        if removed is None or removed.by is None or removed.by not in waiting:
            return False
        return removed.by in self._waiters or self._base.derived(_without_change).get(removed.pod) is replacement.action

    def caused_by(self, replacement: Replacement) -> CausedBy:
        """Return whether the change, or pods that were pending before it, bring a replacement about."""
        is_swapped = replacement.action is Action.MOVED  # one that waited has the place of one that leaves
        is_waiting = (
            (replacement.added is not None and not is_swapped and replacement.added.key in self._elsewhere)
            or (replacement.removed is not None and replacement.removed.pod in self._waited)
            or self._makes_way(replacement, self._elsewhere)
            or (replacement.removed is not None and replacement.removed.pod in self._due)
        )
        return "waiting" if is_waiting else "change"

    def outcome_of(self, pod: ObservedPod) -> PendingOutcome:
        """Return the last outcome of a pod without a node."""
        outcome = self._simulation.outcomes.get(pod.row)
        if outcome is None:
            info = self._simulation.infos[pod.row]
            framework = self._simulation.session.framework_for(info)
            if framework is None:
                return "Error"
            outcome = Outcome.UNSCHEDULABLE if framework.run_pre_enqueue(info).is_success else Outcome.GATED
        return _WORDS.get(outcome, "Unschedulable")

    def message_of(self, pod: ObservedPod) -> str:
        return self._simulation.messages.get(pod.row, "")

    def summary(self, untried: int = 0) -> PlanSummary:
        """Count the pods by what happens to them; `untried` replicas fit nowhere and were not tried one by one."""
        actions = Counter(replacement.action for replacement in self.all)
        waiting = [one.added for one in self.all if one.added is not None and one.action is Action.PENDING]
        pending = Counter(map(self.outcome_of, waiting))
        placed = actions[Action.PLACED] + actions[Action.MOVED]
        return PlanSummary(
            pods=placed + actions[Action.PENDING] + untried,
            scheduled=placed,
            unschedulable=pending["Unschedulable"] + untried,
            gated=pending["Gated"],
            errors=pending["Error"],
            victims=len(self._change.preempted),
            pdb_violations=len(self._simulation.scheduler.violations),
            placed=actions[Action.PLACED],
            moved=actions[Action.MOVED],
            evicted=actions[Action.EVICTED],
            pending=actions[Action.PENDING] + untried,
            rounds=max(self._simulation.rounds, 1) if self._change.applied else self._simulation.rounds,
        )

    def counted(self, fail_on: Sequence[Condition]) -> list[Counted]:
        """Return the events that count; those of pods that were pending before count only with ``pending``."""
        return counted_of(self.happened(), fail_on)

    def happened(self) -> Iterator[Happened]:
        """Yield all events that `--fail-on` can list; a new pod has the name of the one that it replaces."""
        events = list(self._events())
        known_as = {one.added_key: one.pod for one in self.all} if events else {}
        for event in events:
            name = known_as.get(event.counted.object, event.counted.object)
            yield structs.replace(event, counted=structs.replace(event.counted, object=name))

    def _events(self) -> Iterator[Happened]:
        yield from once_a_group(self._pending(), pending_in_groups(self._simulation))
        yield from self.short()
        nominated = d.StepEvent.NOMINATED
        nodes = {step.pod: step.node for step in self._change.steps if step.event is nominated}
        for name, node in nodes.items():
            is_old = self.is_old(name) and name not in self._own_victims.values()
            yield Happened(Counted(name, "Preemption", node=node), is_old)
        for name, victim in self._simulation.scheduler.violations:
            is_old = self.is_old(name) and victim not in self._own_victims
            yield Happened(Counted(name, "PdbViolation", victim=victim), is_old)
        for obstacle in self._change.obstacles:
            yield Happened(Counted(obstacle.pod, obstacle.rule, node=obstacle.node))
        for name in self._change.timed_out:
            yield Happened(Counted(f"Node/{name}", TIMED_OUT))
        for name in self._change.unavailable:
            yield Happened(Counted(name, "Unavailable"))

    def short(self) -> Iterator[Happened]:
        """Yield the workloads that end with less than they want because of the change."""
        pending = ((one, one.added) for one in self.all if one.action is Action.PENDING)
        new = ((one, pod) for one, pod in pending if pod is not None and not self.is_old(one.added_key))
        own = grouped((one.workload, pod) for one, pod in new)
        lacking = frozenset(self._change.not_replaced)
        for workload in self._change.workloads:
            is_stuck = workload.state is d.WorkloadState.STUCK
            waiting = [pod for pod in own.get(workload.key, ()) if not self._is_gated_on_purpose(pod)]
            if workload.refused or (is_stuck and not workload.pod and workload.because):
                yield Happened(Counted(workload.key, "JobFailed" if workload.is_failed_job else "Refused"))
            elif workload.key in own:
                held_up = (Counted(pod.key, self.outcome_of(pod)) for pod in waiting if is_stuck)
                yield from (Happened(counted, holds_up=True) for counted in held_up)
            elif workload.key in lacking:
                yield Happened(Counted(workload.key, "NotReplaced"))
            elif is_stuck and workload.change is not d.Change.NONE and not self._change.task.carries_on:
                yield Happened(Counted(workload.key, "Stuck"))
        for warning in self._change.left_out:
            if warning.code == HELD_UP:
                yield Happened(Counted(warning.object, HELD_UP))

    def _is_gated_on_purpose(self, pod: ObservedPod) -> bool:
        """Tell whether scheduling gates keep a pod out of the queue, and not that something it needs is missing."""
        gates = self._simulation.infos[pod.row].pod.spec.scheduling_gates
        return bool(gates) and self.outcome_of(pod) == "Gated"

    def _pending(self) -> Iterator[Happened]:
        for replacement in self.all:
            if replacement.action is Action.PENDING and replacement.added is not None:
                counted = Counted(replacement.added.key, self.outcome_of(replacement.added))
                yield Happened(counted, self.is_old(replacement.added.key))
        there = self._simulation.pods
        for pod in [there[row] for row in self._simulation.unplaced if row in there]:
            if not pod.node and not pod.is_new and pod.key not in self._still_pending:
                yield Happened(Counted(pod.key, "Pending"))

    def is_old(self, pod: str) -> bool:
        """Return whether what becomes of a pod is not what is asked about: it was pending before, or makes way."""
        return pod in self._others


def _without_change(base: Base) -> Mapping[str, Action]:
    """Return what becomes of pods where the pending pods alone are scheduled, by name."""
    simulation = begin(base)
    simulation.node_lifecycle.go_on()
    simulation.retry_pending()
    simulation.run()
    return {one.pod: one.action for one in Replacements(CarriedOut(simulation, base)).all}
