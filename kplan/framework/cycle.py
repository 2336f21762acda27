"""One pod's scheduling cycle, from the gates to the reservation; its nominated node is tried before all others.

Upstream: pkg/scheduler/schedule_one.go.
"""

from __future__ import annotations

from functools import cached_property

import msgspec
import numpy as np

from kplan.api.labels import GATED_CONDITION
from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.framework.diagnosis import FilterOutcome, NodeStatus, absent_status, fit_error, reserve_error
from kplan.framework.interface import CycleState, Extender, ExtenderError, PostFilterResult
from kplan.framework.plugin_cache import ShapeEntry
from kplan.framework.results import SUCCESS, Outcome, PluginError, PreFilterOutcome, ScoreOutcome, ScorePart, Status
from kplan.framework.runtime import Framework
from kplan.framework.session import Session, first_up, num_feasible_nodes_to_find
from kplan.rules.pod_info import PodInfo

EXTENDER_SCALE = 10  #: extenders score 0 to 10, the scheduler 0 to 100

GROUP_UNSCHEDULABLE = "pod group is unschedulable"
NO_NODES = "no nodes available to schedule pods"

_NO_ROWS: RowArray = np.zeros(0, np.intp)


class CycleResult(msgspec.Struct, eq=False):
    """A decision with all that led to it.

    Valid until the cluster changes, because it refers to live arrays: copy out of it what has to last.
    """

    pod: int
    outcome: Outcome
    message: str = ""
    row: int | None = None  #: the chosen node row, or None
    #: node rows with the best total score, ascending
    ties: RowArray = _NO_ROWS
    filter: FilterOutcome | None = None  #: the filters' verdicts, or None when the cycle did not get that far
    scores: ScoreOutcome | None = None  #: None when nothing was scored
    post_filter: PostFilterResult | None = None  #: the result of PostFilter, or None when it did not run
    framework: Framework | None = None
    cycle: CycleState | None = None
    session: Session | None = None
    held_back: bool = False  #: a node fits the pod, but its pod group waits
    awaits_victims: bool = False  #: the pod group of a pod that is held back evicts others as a whole
    among: tuple[str, str] | None = None  #: the node label and value outside of which its pod group does not look
    gate: str = ""  #: the PreEnqueue plugin that keeps the pod out of the queue
    n_feasible: int = 0  #: on how many nodes the pod fits

    def turn_down(self, status: Status) -> None:
        """Note that Reserve or Permit rejects the pod on its node, lets it wait, or fails."""
        if status.is_rejected:
            self.outcome, self.message = Outcome.UNSCHEDULABLE, reserve_error(status)
        elif status.is_wait:
            self.message, self.held_back = f"{GROUP_UNSCHEDULABLE}, {status.message}", True
        else:
            self.outcome, self.message = Outcome.ERROR, status.message


def schedule_pod(
    session: Session,
    pod: int,
    *,
    looks_for_victims: bool = True,
    is_member: bool = False,
    among: BoolArray | None = None,
) -> CycleResult:
    """Run one pending pod's scheduling cycle, up to Permit.

    Nothing changes but what Reserve plugins reserve once a node is chosen: the caller binds the pod. PostFilter runs
    only if the caller `looks_for_victims`. Within the cycle of the pod's group, which ends with Reserve, the pod
    `is_member`: it is in the queue already, and whoever runs the group's cycle asks for the permit. Only nodes `among`
    some are looked at, bool of shape (n_nodes,); None for all.
    """
    info = session.cluster.pods.infos[pod]
    framework = session.framework_for(info)
    error = session.refused.get(pod) or _error_before(info, framework)
    if error or framework is None:
        return CycleResult(pod, Outcome.ERROR, error, framework=framework, session=session)
    gate = SUCCESS if is_member else framework.run_pre_enqueue(info)
    if not gate.is_success:
        return CycleResult(pod, Outcome.GATED, gate.message, framework=framework, session=session, gate=gate.plugin)
    if info.is_terminating:
        message = f"skip schedule deleting pod: {info.key}"
        return CycleResult(pod, Outcome.ERROR, message, framework=framework, session=session)
    if not len(session.cluster):
        return CycleResult(pod, Outcome.UNSCHEDULABLE, NO_NODES, framework=framework, session=session)
    cycle = CycleState(info, pod, session.cluster)
    result = CycleResult(pod, Outcome.UNSCHEDULABLE, framework=framework, cycle=cycle, session=session)
    try:
        row = _Cycle(session, framework, cycle, among).run(result, looks_for_victims=looks_for_victims)
        if row is not None:
            status = framework.run_reserve(cycle, row)
            if status.is_success and not is_member:
                status = framework.run_permit(cycle, row)
                if not status.is_success:
                    framework.run_unreserve(cycle, row)
            if status.is_success:
                result.outcome, result.row = Outcome.SCHEDULED, row
            else:
                result.turn_down(status)
    except PluginError as failure:
        result.outcome, result.message = Outcome.ERROR, str(failure)
    return result


def _error_before(info: PodInfo, framework: Framework | None) -> str:
    """Return why kube-scheduler starts no cycle for a pod; empty when it does."""
    if framework is None:
        return f'profile not found for scheduler name "{info.pod.spec.scheduler_name}"'
    return info.affinity_error


def stored_message_of(session: Session, result: CycleResult) -> str:
    """Return what the API server writes into the condition of a pod with scheduling gates; empty for other pods."""
    has_gates = bool(session.cluster.pods.infos[result.pod].pod.spec.scheduling_gates)
    return GATED_CONDITION if has_gates and result.outcome is Outcome.GATED else ""


def rejectors_of(result: CycleResult) -> frozenset[str]:
    """Return the plugins that reject a pod, or keep it out of the queue."""
    if result.gate:
        return frozenset({result.gate})
    return frozenset() if result.filter is None else result.filter.rejectors


def turned_down_by(session: Session, pod: int) -> frozenset[str] | None:
    """Return the plugins that reject a pending pod now, without looking for victims; None when some node fits it."""
    info = session.cluster.pods.infos[pod]
    framework = session.framework_for(info)
    if framework is None or not len(session.cluster):
        return frozenset()
    gate = framework.run_pre_enqueue(info)
    if not gate.is_success:
        return frozenset({gate.plugin})
    try:
        outcome = _Cycle(session, framework, CycleState(info, pod, session.cluster)).find_nodes(framework.shape(info))
    except PluginError:
        return frozenset()
    return None if outcome.feasible.any() else outcome.rejectors


class _Cycle:
    """The filters and scores of one pod, on the nodes `among` some; None for all."""

    def __init__(
        self, session: Session, framework: Framework, cycle: CycleState, among: BoolArray | None = None
    ) -> None:
        self._session = session
        self._framework = framework
        self._cycle = cycle
        self._nodes = session.cluster.nodes
        gone = self._nodes.absent
        self._among = among if gone is None else ~gone if among is None else among & ~gone
        self._entry = framework.unshared

    def run(self, result: CycleResult, *, looks_for_victims: bool) -> int | None:
        """Return the chosen node, None where none is feasible, and note in the result what led to it."""
        start = self._session.sampling.start_index
        outcome = result.filter = self.find_nodes()
        if outcome.rows is not None:
            feasible = outcome.rows[outcome.feasible[outcome.rows]]
        elif np.count_nonzero(outcome.feasible) == outcome.n_nodes:
            feasible = self._nodes.all_rows
        else:
            feasible = outcome.feasible.nonzero()[0]
        result.n_feasible = len(feasible)
        if len(feasible) == 0:
            if looks_for_victims and self._framework.post_filter_plugins:
                result.post_filter = self._framework.run_post_filter(self._cycle, outcome)
            result.message = fit_error(outcome, result.post_filter.status.message if result.post_filter else "")
            return None
        if len(feasible) == 1:  # upstream does not even run PreScore then
            result.ties = feasible
        else:
            # PreFilter names few nodes: scoring all nodes for the shape's cache would cost more than it saves.
            result.scores = self._scores_of(
                feasible, self._framework.unshared if outcome.rows is not None else self._entry
            )
            total = result.scores.total
            best = (total == total[total.argmax()]).nonzero()[0]
            result.ties = best if feasible is self._nodes.all_rows else feasible.take(best)
        return self._choose(result, outcome, start)

    def _choose(self, result: CycleResult, outcome: FilterOutcome, start: int) -> int:
        """Return one of the equal best nodes; `start` is where the search began, an index into the tree's order."""
        ties, session = result.ties, self._session
        if len(ties) == 1:
            return int(ties[0])
        if session.random is not None:
            return int(session.random.choice(ties.tolist()))
        if not session.options.follows_heap:
            return int(ties[0])
        drawn = None if result.scores is None else result.scores.drawn
        if drawn is not None and drawn[ties].any():
            # kube-scheduler draws evenly among these: the first by name stands for all.
            return int(ties[drawn[ties]][0])
        begin = start if outcome.rows is None else 0
        feasible = None if result.n_feasible == outcome.n_nodes else outcome.feasible
        return first_up(ties, feasible, self._nodes.zone_order, self._nodes.zone_places, begin)

    def find_nodes(self, entry: ShapeEntry | None = None) -> FilterOutcome:
        """Run PreFilter and the filters, with the cache entry of the pod's shape."""
        framework, cycle, n_nodes = self._framework, self._cycle, len(self._nodes)
        if entry is None:
            entry = framework.unshared if cycle.pod.names_nodes else framework.shape(cycle.pod)
        pre_filter = framework.run_pre_filter(cycle, entry)
        cycle.skipped_filters = pre_filter.skipped
        if entry is framework.unshared and pre_filter.nodes is None:
            entry = framework.shape(cycle.pod)
        self._entry = entry
        n_counted = None if self._among is None else int(self._among.sum())
        if pre_filter.status is not None:
            return FilterOutcome(
                n_nodes,
                np.zeros(n_nodes, np.bool_),
                pre_filter_status=pre_filter.status,
                named_by=pre_filter.plugins_with_nodes,
                n_counted=n_counted,
            )
        # Preemption made room on the nominated node: it is tried alone, and taken without scores where it fits.
        nominated = self._session.nominator.row_of(cycle.pod_id)
        rejected: NodeStatus | None = None
        if nominated is not None and (self._among is None or self._among[nominated]):
            outcome = self._try_nominated(nominated)
            if outcome.feasible[nominated]:
                return outcome
            rejected = outcome.overrides.get(nominated)
        outcome = self._filter(entry, pre_filter)
        if self._among is not None:
            outcome.feasible, outcome.not_evaluated = outcome.feasible & self._among, ~self._among
            outcome.n_counted = n_counted
        # The order is upstream's: sampling counts what filters pass, and extenders see only nodes that were looked at.
        self._stop_early(outcome, None if rejected is None else nominated)
        if nominated is not None and rejected is not None:
            outcome.keep_rejection(nominated, rejected)
        for row in outcome.rows_with_errors():  # upstream reports whichever failed first; here it is the first by name
            status = outcome.status(row)
            assert status is not None  # noqa: S101 - the node has a code, so it has a status
            raise PluginError(status.error)
        self._ask_extenders(outcome)
        return outcome

    def _try_nominated(self, row: int) -> FilterOutcome:
        """Filter the nominated node alone, whether or not PreFilter named it. Upstream: evaluateNominatedNode.

        When it is rejected, `overrides` holds its status. An error does not end the cycle here: the search goes on.
        """
        framework, cycle, rows = self._framework, self._cycle, np.asarray([row], np.intp)
        feasible = np.zeros(len(self._nodes), np.bool_)
        outcome = FilterOutcome(len(self._nodes), feasible, rows=rows, not_evaluated=np.ones_like(feasible))
        delta = framework.nominated_changes(cycle, rows)
        status = framework.statuses(cycle, rows, cycle.skipped_filters, delta)[0] if delta is not None else None
        status = status or framework.statuses(cycle, rows, cycle.skipped_filters)[0]
        if status is not None:
            if status.code is not Code.ERROR:
                outcome.overrides[row] = status
            return outcome
        feasible[row] = True
        try:
            self._ask_extenders(outcome)
        except PluginError:
            feasible[row] = False
        outcome.not_evaluated = ~outcome.feasible
        return outcome

    def _filter(self, entry: ShapeEntry, pre_filter: PreFilterOutcome) -> FilterOutcome:
        framework, skipped = self._framework, pre_filter.skipped
        if pre_filter.nodes is None:
            verdicts, passes = framework.filter_all(self._cycle, entry, skipped)
            outcome = FilterOutcome(len(self._nodes), passes, verdicts=verdicts)
        else:
            outcome = self._filter_named(pre_filter.nodes, pre_filter.plugins_with_nodes)
        rejections = framework.nominated_rejections(self._cycle, skipped) if self._session.nominator else {}
        if outcome.rows is not None:
            rejections = {row: status for row, status in rejections.items() if outcome.position(row) is not None}
        if rejections:
            outcome.overrides.update(rejections)
            outcome.feasible = outcome.feasible.copy()
            outcome.feasible[list(rejections)] = False
        return outcome

    def _filter_named(self, names: frozenset[str], named_by: frozenset[str]) -> FilterOutcome:
        def filter_rows(rows: RowArray) -> list[tuple[str, Verdicts]]:
            return self._framework.run_filters(
                self._cycle, NodeView(self._session.cluster, rows), self._cycle.skipped_filters
            )

        row_of = self._nodes.row_of
        rows = np.asarray(sorted(row_of[name] for name in names if name in row_of), np.intp)
        verdicts = filter_rows(rows) if len(rows) else []
        feasible = np.zeros(len(self._nodes), np.bool_)
        feasible[rows] = True
        for _, verdict in verdicts:
            feasible[rows] &= verdict.bits == 0
        return FilterOutcome(
            len(self._nodes),
            feasible,
            rows=rows,
            verdicts=verdicts,
            absent=absent_status(named_by),
            named_by=named_by,
            filter_rows=filter_rows,
        )

    def _stop_early(self, outcome: FilterOutcome, rejected: int | None) -> None:
        """Mark the nodes that kube-scheduler would not evaluate, when the session samples nodes as it does.

        When nothing scores, kube-scheduler stops at the first feasible node, so this does too, sampling or not. The
        next search starts after as many nodes as are feasible or have a status; a rejected nominated node counts.
        """
        session, sampling = self._session, self._session.sampling
        scores_nothing = not self._framework.score_plugins and not any(
            extender.filters or extender.prioritizes for extender in session.extenders
        )
        if not session.options.sample and not scores_nothing:
            if outcome.rows is not None:
                n_more = rejected is not None and outcome.position(rejected) is None
                sampling.advance(len(outcome.rows) + n_more, outcome.n_nodes)
            return
        order = self._nodes.zone_order
        if outcome.rows is not None and len(outcome.rows) < outcome.n_nodes:
            order = order[np.isin(order, outcome.rows)]
        percentage = self._framework.profile.percentage_of_nodes_to_score
        if percentage is None:
            percentage = session.config.percentage_of_nodes_to_score or 0
        limit = 1 if scores_nothing else num_feasible_nodes_to_find(percentage, len(order))
        evaluated = sampling.look(order, outcome.feasible, limit)
        n_more = rejected is not None and bool(not evaluated[rejected] or outcome.feasible[rejected])
        sampling.advance(int(np.count_nonzero(evaluated)) + n_more, outcome.n_nodes)
        if outcome.absent is not None:
            evaluated[np.setdiff1d(np.arange(outcome.n_nodes), order)] = True
        outcome.feasible = outcome.feasible & evaluated
        outcome.not_evaluated = ~evaluated

    @cached_property
    def _extenders(self) -> list[tuple[int, Extender]]:
        """The extenders that care about the pod, each with its rank among the scores."""
        extenders = enumerate(self._session.extenders, start=len(self._framework.score_plugins))
        return [(rank, extender) for rank, extender in extenders if extender.is_interested(self._cycle.pod.pod)]

    def _ask_extenders(self, outcome: FilterOutcome) -> None:
        nodes, pod = self._nodes, self._cycle.pod.pod
        for _, extender in self._extenders if self._session.extenders else ():
            rows = np.flatnonzero(outcome.feasible)
            if len(rows) == 0:
                return
            if not extender.filters:
                continue
            try:
                answer = extender.filter(pod, [nodes.nodes[row] for row in rows])
            except ExtenderError as error:
                if extender.is_ignorable:
                    continue
                raise PluginError(str(error)) from error
            outcome.feasible = np.zeros(outcome.n_nodes, np.bool_)
            outcome.feasible[[nodes.row_of[name] for name in answer.nodes if name in nodes.row_of]] = True
            for code, failed in (
                (Code.UNSCHEDULABLE, answer.failed),
                (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, answer.unresolvable),
            ):
                for name, text in failed.items():
                    if name in nodes.row_of:
                        outcome.overrides[nodes.row_of[name]] = NodeStatus(code, "", (Reason(text, code),))

    def _scores_of(self, feasible: RowArray, entry: ShapeEntry) -> ScoreOutcome:
        session, nodes = self._session, self._nodes
        if not self._framework.score_plugins and not session.extenders:
            return ScoreOutcome(feasible, np.ones(len(feasible), np.int64))
        scores = self._framework.run_scores(self._cycle, feasible, entry)
        if not session.extenders:
            return scores
        scores.drawn = np.zeros(len(nodes), np.bool_)
        for rank, extender in self._extenders:
            if not extender.prioritizes:
                continue
            try:
                by_name = extender.prioritize(self._cycle.pod.pod, [nodes.nodes[row] for row in feasible])
            except ExtenderError:
                continue  # as upstream: no score from this extender
            column: Int64Array = np.asarray([by_name.get(nodes.names[row], 0) for row in feasible], np.int64)
            scores.drawn[[nodes.row_of[name] for name in by_name if name in nodes.row_of]] = True
            weight = extender.weight * EXTENDER_SCALE
            scores.parts.append(ScorePart(rank, extender.name, weight, column, is_full=False))
            scores.total = scores.total + column * weight
        return scores
