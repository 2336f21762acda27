"""What the scheduler's decisions do in a simulation: pods are bound, or wait, and victims leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from msgspec.structs import replace

from kplan.api.core import Node
from kplan.course.simulation.any_node import AnyNodeTaker
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.life_cycle import LifeCycle
from kplan.course.simulation.motion import Motion
from kplan.documents.change import StepEvent
from kplan.engine.mappings import Recent
from kplan.framework.cycle import CycleResult, rejectors_of, schedule_pod, stored_message_of
from kplan.framework.interface import ClaimFreed, CycleState, NodeChanged, PodDeleted
from kplan.framework.plugin_cache import MAX_SHAPES
from kplan.framework.results import Outcome
from kplan.framework.session import Session
from kplan.preemption.default_preemption import DefaultPreemption, preemptors
from kplan.preemption.result import PreemptionResult
from kplan.rules.pod_info import PodInfo, is_unique
from kplan.rules.volumes import storage_kinds


class FailedShapes:
    """How pods of a shape fared since something happened last."""

    def __init__(self) -> None:
        self._results: Recent[CycleResult] = Recent(MAX_SHAPES)
        self._has_results = False

    def forget(self) -> None:
        """Have all pods tried again, because something happens that may matter to them."""
        if self._has_results:
            self._results, self._has_results = Recent(MAX_SHAPES), False

    def decide(self, session: Session, pod: int) -> CycleResult:
        """Run a pod's scheduling cycle, or repeat that of a like pod which has failed and left everything as it was."""
        info = session.cluster.pods.infos[pod]
        if self._has_results and _is_decided_by_shape(session, pod, info):
            failed = self._results.find(info.shape)
            if failed is not None:
                return _repeated(failed, info, pod)
        start = session.sampling.start_index
        result = schedule_pod(session, pod)
        has_moved = session.sampling.start_index != start
        if _changes_nothing(result) and not has_moved and _is_decided_by_shape(session, pod, info):
            self._results.put(info.shape, result)
            self._has_results = True
        return result


def _is_decided_by_shape(session: Session, pod: int, info: PodInfo) -> bool:
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
        #: called with every decision, which is valid only during the call
        self.on_decision: Callable[[CycleResult], None] = lambda _: None
        self.leaving: list[tuple[int, list[ObservedPod]]] = []  #: preemptor, victims that are yet to go
        self.violations: list[tuple[str, str]] = []  #: preemptor and victim, where that broke a budget
        self.failures = FailedShapes()
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
        if result.outcome is Outcome.SCHEDULED and result.row is not None:
            self.failures.forget()
            self._life.bind(row, result.row)
            return
        self._motion.messages[row] = stored_message_of(self._motion.session, result) or result.message
        self._motion.outcomes[row] = result.outcome
        if result.outcome is Outcome.ERROR:
            return  # a real scheduler tries again, with the same result
        self._motion.queue.add_rejected(row, rejectors_of(result), self._motion.now)
        self._motion.on_misfit()
        post_filter = result.post_filter
        if post_filter is None:
            return
        for take_effect in post_filter.effects:
            take_effect()
        if post_filter.effects:
            self.note_claims_freed()
        detail = post_filter.findings
        if isinstance(detail, PreemptionResult):
            if post_filter.nominated_row is not None:
                self._preempt(row, post_filter.nominated_row, detail)
            elif detail.eligible:
                self._clear_nomination(row)

    def note_failure(self, row: int, outcome: Outcome, message: str) -> None:
        """Note the decision about a pod of a group that is not placed."""
        self._motion.messages[row], self._motion.outcomes[row] = message, outcome
        self._motion.on_misfit()

    def note_node_changed(self, former: Node, node: Node) -> None:
        """Tell pods that wait for a node that one has other taints."""
        self.failures.forget()
        self._motion.notice(NodeChanged(former, node))

    def note_claims_freed(self) -> None:
        """Tell pods that wait for devices that a claim was deallocated."""
        self.failures.forget()
        self._motion.notice(ClaimFreed())

    def _preempt(self, row: int, place: int, detail: PreemptionResult) -> None:
        motion, victims = self._motion, detail.leaving_pods
        self.failures.forget()
        motion.session.nominator.nominate(row, place)
        because = ", ".join(motion.pods[victim].key for victim in victims)
        node = motion.cluster.nodes.names[place]
        motion.log.add_pod(StepEvent.NOMINATED, motion.pods[row], motion.owner(row), because, node=node)
        for cleared in detail.cleared_pods:
            self._clear_nomination(cleared)
        self.send_off(row, victims)

    def send_off(self, row: int, victims: Sequence[int]) -> None:
        """Have the victims of a pod leave; the scheduler deletes them in the background, and goes on meanwhile."""
        motion = self._motion
        leaving, name = ([motion.pods[victim] for victim in victims], motion.infos[row].key)
        self.violations += [(name, pod.key) for pod in motion.disruptions.broken_by(leaving)]
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
        if present and motion.circles.is_closed(promised):
            keys = ", ".join(pod.key for pod in present)
            motion.circle = f"{name} and {keys} preempt each other again and again"

    def _clear_nomination(self, row: int) -> None:
        if self._motion.session.nominator.row_of(row) is not None:
            self.failures.forget()
            self._motion.session.nominator.drop(row)
            info = self._motion.infos[row]
            self._motion.notice(PodDeleted(info), info.priority)

    def recount_budgets(self) -> None:
        """Tell preemption what budgets allow by now; the disruption controller is quicker than the scheduler."""
        allowed = self._motion.disruptions.newly_allowed()
        if allowed:
            for plugin in self.preemptors:
                plugin.set_allowed_disruptions(allowed)

    def note_return(self, pod: ObservedPod, because: str) -> None:
        """End a simulation when its pods are evicted for this again and again; with a clock, time ends it.

        A pod that stays Terminating, as no kubelet ends it, does not come back.
        """
        stays = pod.row in self._motion.pods and pod.node in self._motion.lost_nodes
        if not self._motion.durations.is_timed and not stays and self._motion.circles.is_closed(()):
            self._motion.circle = (
                f"{pod.key} and those in its place come back to {pod.node} and are evicted, as {because}"
            )

    def know_nodes(self) -> None:
        """Prepare preemption anew, as further nodes are there."""
        fresh = preemptors(self._motion.session)
        for plugin, former in zip(fresh, self.preemptors, strict=True):
            plugin.budgets = former.budgets
        self.preemptors = fresh
