"""One pod's scheduling cycle, from the gates to the reservation.

Upstream: pkg/scheduler/schedule_one.go.

The nominated node of a pod, which is tried before all others.

Upstream: pkg/scheduler/schedule_one.go evaluateNominatedNode.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from kplan.api.labels import GATED_CONDITION
from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.framework.diagnosis import FilterOutcome, NodeStatus, absent_status, fit_error, reserve_error
from kplan.framework.interface import CycleState, ExtenderError, PostFilterResult
from kplan.framework.plugin_cache import ShapeEntry
from kplan.framework.results import SUCCESS, Outcome, PluginError, PreFilterOutcome, ScoreOutcome, ScorePart, Status
from kplan.framework.runtime import Framework
from kplan.framework.session import Session, first_up, num_feasible_nodes_to_find
from kplan.rules.pod_info import PodInfo

EXTENDER_SCALE = 10
"""Extenders score 0 to 10, the scheduler 0 to 100."""


def filter_by_extenders(session: Session, cycle: CycleState, outcome: FilterOutcome) -> None:
    nodes = session.cluster.nodes
    for extender in session.extenders:
        rows = np.flatnonzero(outcome.feasible)
        if len(rows) == 0:
            return
        if not extender.filters or not extender.is_interested(cycle.pod.pod):
            continue
        try:
            answer = extender.filter(cycle.pod.pod, [nodes.nodes[row] for row in rows])
        except ExtenderError as error:
            if extender.is_ignorable:
                continue
            raise PluginError(str(error)) from error
        outcome.feasible = np.zeros(outcome.n_nodes, np.bool_)
        outcome.feasible[[nodes.row_of[name] for name in answer.nodes if name in nodes.row_of]] = True
        failed = {name: (text, Code.UNSCHEDULABLE) for name, text in answer.failed.items()}
        failed.update({name: (text, Code.UNSCHEDULABLE_AND_UNRESOLVABLE) for name, text in answer.unresolvable.items()})
        for name, (text, code) in failed.items():
            if name in nodes.row_of:
                outcome.overrides[nodes.row_of[name]] = NodeStatus(code, "", (Reason(text, code),))


def scores_of(
    session: Session, framework: Framework, cycle: CycleState, feasible: RowArray, entry: ShapeEntry | None
) -> ScoreOutcome:
    if not framework.score_plugins and not session.extenders:
        return ScoreOutcome(feasible, np.ones(len(feasible), np.int64))
    scores = framework.run_scores(cycle, feasible, entry)
    if not session.extenders:
        return scores
    nodes = session.cluster.nodes
    drawn = np.zeros(len(nodes), np.bool_)
    for rank, extender in enumerate(session.extenders, start=len(framework.score_plugins)):
        if not extender.prioritizes or not extender.is_interested(cycle.pod.pod):
            continue
        try:
            extender_scores: Mapping[str, int] = extender.prioritize(
                cycle.pod.pod, [nodes.nodes[row] for row in feasible]
            )
        except ExtenderError:
            continue  # as upstream: no score from this extender
        column: Int64Array = np.fromiter(
            (extender_scores.get(nodes.names[row], 0) for row in feasible), np.int64, len(feasible)
        )
        drawn[[nodes.row_of[name] for name in extender_scores if name in nodes.row_of]] = True
        weight = extender.weight * EXTENDER_SCALE
        scores.parts.append(ScorePart(rank, extender.name, weight, column, is_full=False))
        scores.total = scores.total + column * weight
    scores.drawn = drawn
    return scores


def try_nominated(
    session: Session, framework: Framework, cycle: CycleState, pre_filter: PreFilterOutcome, row: int
) -> FilterOutcome:
    """Filter the nominated node alone, whether or not PreFilter named it.

    When it is rejected, `overrides` holds its status. An error does not end the cycle here: the search goes on.
    """
    rows = np.asarray([row], np.intp)
    feasible = np.zeros(len(session.cluster), np.bool_)
    outcome = FilterOutcome(len(session.cluster), feasible, rows=rows, not_evaluated=np.ones_like(feasible))
    delta = framework.nominated_changes(cycle, rows)
    status = framework.statuses(cycle, rows, pre_filter.skipped, delta)[0] if delta is not None else None
    status = status or framework.statuses(cycle, rows, pre_filter.skipped)[0]
    if status is not None:
        if status.code is not Code.ERROR:
            outcome.overrides[row] = status
        return outcome
    feasible[row] = True
    try:
        filter_by_extenders(session, cycle, outcome)
    except PluginError:
        feasible[row] = False
    outcome.not_evaluated = ~outcome.feasible
    return outcome


def keep_rejections(outcome: FilterOutcome, rejected: Mapping[int, NodeStatus]) -> None:
    for row, status in rejected.items():
        is_not_evaluated = outcome.not_evaluated is not None and bool(outcome.not_evaluated[row])
        if is_not_evaluated or outcome.position(row) is None:
            outcome.overrides[row] = status
        if is_not_evaluated and outcome.not_evaluated is not None:
            outcome.not_evaluated[row] = False


GROUP_UNSCHEDULABLE = "pod group is unschedulable"
NO_NODES = "no nodes available to schedule pods"


_NO_ROWS: RowArray = np.zeros(0, np.intp)
_NO_ROWS.setflags(write=False)


class CycleResult(msgspec.Struct, eq=False):
    """A decision with all that led to it.

    Valid until the cluster changes, because it refers to live arrays: copy out of it what has to last.
    """

    pod: int
    outcome: Outcome
    message: str = ""
    row: int | None = None  #: the chosen node row, or None
    #: node rows with the best total score, ascending
    ties: RowArray = msgspec.field(default_factory=lambda: _NO_ROWS)
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


def schedule_pod(
    session: Session,
    pod: int,
    *,
    looks_for_victims: bool = True,
    is_member: bool = False,
    among: BoolArray | None = None,
) -> CycleResult:
    """Run one pending pod's scheduling cycle, up to Permit.

    Nothing changes but what Reserve plugins reserve once a node is chosen: the caller binds the pod.

    Parameters
    ----------
    looks_for_victims : run PostFilter when no node fits the pod
    is_member : within the cycle of the pod's group, which ends with Reserve: the pod is in the queue already, and
        whoever runs the group's cycle asks for the permit
    among : bool array of shape (n_nodes,), the only nodes to look at; None for all
    """
    info = session.cluster.pods.infos[pod]
    framework = session.framework_for(info)
    error = session.refused.get(pod) or _error_before(info, framework)
    if error or framework is None:
        return CycleResult(pod, Outcome.ERROR, error, framework=framework, session=session)
    gate = SUCCESS if is_member else framework.run_pre_enqueue(info)
    if not gate.is_success:
        return CycleResult(pod, Outcome.GATED, gate.message, framework=framework, session=session, gate=gate.plugin)
    if not len(session.cluster):
        return CycleResult(pod, Outcome.UNSCHEDULABLE, NO_NODES, framework=framework, session=session)
    cycle = CycleState(info, pod, session.cluster)
    result = CycleResult(pod, Outcome.UNSCHEDULABLE, framework=framework, cycle=cycle, session=session)
    try:
        row = _run_cycle(session, framework, cycle, result, looks_for_victims=looks_for_victims, among=among)
        if row is not None:
            status = framework.run_reserve(cycle, row)
            if status.is_success and not is_member:
                status = framework.run_permit(cycle, row)
                if not status.is_success:
                    framework.run_unreserve(cycle, row)
            if status.is_success:
                result.outcome, result.row = Outcome.SCHEDULED, row
            else:
                _turn_down(result, status)
    except PluginError as failure:
        result.outcome, result.message = Outcome.ERROR, str(failure)
    return result


def stored_message_of(session: Session, result: CycleResult) -> str:
    """Return what the API server writes into the condition of a pod with scheduling gates; empty for other pods."""
    has_gates = bool(session.cluster.pods.infos[result.pod].pod.spec.scheduling_gates)
    return GATED_CONDITION if has_gates and result.outcome is Outcome.GATED else ""


def rejectors_of(result: CycleResult) -> frozenset[str]:
    """Return the plugins that reject a pod, or keep it out of the queue."""
    return (
        frozenset({result.gate}) if result.gate else frozenset() if result.filter is None else result.filter.rejectors
    )


def turned_down_by(session: Session, pod: int) -> frozenset[str] | None:
    """Return the plugins that reject a pending pod now, without looking for victims; None when some node fits it."""
    info = session.cluster.pods.infos[pod]
    framework = session.framework_for(info)
    if framework is None or not len(session.cluster):
        return frozenset()
    gate = framework.run_pre_enqueue(info)
    if not gate.is_success:
        return frozenset({gate.plugin})
    cycle = CycleState(info, pod, session.cluster)
    try:
        entry = framework.shape(info)
        pre_filter = framework.run_pre_filter(cycle, entry)
        cycle.skipped_filters = pre_filter.skipped
        outcome = _find_nodes(session, framework, cycle, entry, pre_filter)
    except PluginError:
        return frozenset()
    return None if outcome.feasible.any() else outcome.rejectors


def _error_before(info: PodInfo, framework: Framework | None) -> str:
    """Return why kube-scheduler starts no cycle for a pod; empty when it does."""
    if framework is None:
        return f'profile not found for scheduler name "{info.pod.spec.scheduler_name}"'
    if info.is_terminating:
        return f"skip schedule deleting pod: {info.key}"
    return info.affinity_error


def _run_cycle(
    session: Session,
    framework: Framework,
    cycle: CycleState,
    result: CycleResult,
    *,
    looks_for_victims: bool,
    among: BoolArray | None = None,
) -> int | None:
    entry = framework.unshared if cycle.pod.names_nodes else framework.shape(cycle.pod)
    pre_filter = framework.run_pre_filter(cycle, entry)
    cycle.skipped_filters = pre_filter.skipped
    if entry is framework.unshared and pre_filter.nodes is None:
        entry = framework.shape(cycle.pod)
    start = session.sampling.start_index
    outcome = _find_nodes(session, framework, cycle, entry, pre_filter, among=among)
    result.filter = outcome
    if outcome.rows is not None:
        feasible = outcome.rows[outcome.feasible[outcome.rows]]
    elif np.count_nonzero(outcome.feasible) == outcome.n_nodes:
        feasible = session.cluster.nodes.all_rows
    else:
        feasible = outcome.feasible.nonzero()[0]
    result.n_feasible = len(feasible)
    if len(feasible) == 0:
        if looks_for_victims and framework.post_filter_plugins:
            result.post_filter = framework.run_post_filter(cycle, outcome)
        result.message = fit_error(outcome, result.post_filter.status.message if result.post_filter else "")
        return None
    if len(feasible) == 1:  # upstream does not even run PreScore then
        result.ties = feasible
    else:
        # PreFilter names few nodes: scoring all nodes for the shape's cache would cost more than it saves.
        result.scores = scores_of(session, framework, cycle, feasible, None if outcome.rows is not None else entry)
        total = result.scores.total
        result.ties = feasible[(total == total[total.argmax()]).nonzero()[0]]
    return _choose(session, result, outcome, start)


def _choose(session: Session, result: CycleResult, outcome: FilterOutcome, start: int) -> int:
    """Return one of the equal best nodes; `start` is where the search began, an index into the node tree's order."""
    ties = result.ties
    if len(ties) == 1:
        return int(ties[0])
    if session.random is not None:
        return int(session.random.choice(ties.tolist()))
    if not session.options.follows_heap:
        return int(ties[0])
    drawn = None if result.scores is None else result.scores.drawn
    if drawn is not None and drawn[ties].any():
        return int(ties[drawn[ties]][0])  # kube-scheduler draws evenly among these: the first by name stands for all
    nodes = session.cluster.nodes
    begin = start if outcome.rows is None else 0
    return first_up(ties, outcome.feasible, nodes.zone_order, nodes.zone_places, begin)


def _turn_down(result: CycleResult, status: Status) -> None:
    """Note that Reserve or Permit rejects the pod on its node, lets it wait, or fails."""
    if status.is_rejected:
        result.message = reserve_error(status)
    elif status.is_wait:
        result.message, result.held_back = f"{GROUP_UNSCHEDULABLE}, {status.message}", True
    else:
        result.outcome, result.message = Outcome.ERROR, status.message


def _find_nodes(
    session: Session,
    framework: Framework,
    cycle: CycleState,
    entry: ShapeEntry,
    pre_filter: PreFilterOutcome,
    *,
    among: BoolArray | None = None,
) -> FilterOutcome:
    n_nodes = len(session.cluster)
    gone = session.cluster.nodes.absent
    if gone is not None:
        among = ~gone if among is None else among & ~gone
    n_counted = None if among is None else int(among.sum())
    if pre_filter.status is not None:
        no_node = np.zeros(n_nodes, np.bool_)
        named_by = pre_filter.plugins_with_nodes
        status = pre_filter.status
        return FilterOutcome(n_nodes, no_node, pre_filter_status=status, named_by=named_by, n_counted=n_counted)
    # Preemption made room on the nominated node: it is tried alone, and taken without scores where it fits.
    nominated = session.nominator.row_of(cycle.pod_id)
    rejected: dict[int, NodeStatus] = {}
    if nominated is not None and (among is None or among[nominated]):
        outcome = try_nominated(session, framework, cycle, pre_filter, nominated)
        if outcome.feasible[nominated]:
            return outcome
        rejected = {row: status for row, status in outcome.overrides.items() if row == nominated}
    outcome = _filter(session, framework, cycle, entry, pre_filter)
    if among is not None:
        outcome.feasible, outcome.not_evaluated, outcome.n_counted = outcome.feasible & among, ~among, n_counted
    # The order is upstream's: sampling counts what the filters pass, and extenders see only nodes that were looked at.
    _stop_early(session, framework, outcome, rejected)
    keep_rejections(outcome, rejected)
    _raise_errors(outcome)
    filter_by_extenders(session, cycle, outcome)
    return outcome


def _filter(
    session: Session, framework: Framework, cycle: CycleState, entry: ShapeEntry, pre_filter: PreFilterOutcome
) -> FilterOutcome:
    n_nodes = len(session.cluster)
    if pre_filter.nodes is None:
        verdicts, passes = framework.filter_all(cycle, entry, pre_filter.skipped)
        outcome = FilterOutcome(n_nodes, passes, verdicts=verdicts)
    else:
        row_of = session.cluster.nodes.row_of
        rows = np.asarray(sorted(row_of[name] for name in pre_filter.nodes if name in row_of), np.intp)
        outcome = _filter_named(session, framework, cycle, pre_filter, rows)
    rejections = framework.nominated_rejections(cycle, pre_filter.skipped) if session.nominator else {}
    if outcome.rows is not None:
        rejections = {row: status for row, status in rejections.items() if outcome.position(row) is not None}
    if rejections:
        outcome.overrides.update(rejections)
        outcome.feasible = outcome.feasible.copy()
        outcome.feasible[list(rejections)] = False
    return outcome


def _filter_named(
    session: Session, framework: Framework, cycle: CycleState, pre_filter: PreFilterOutcome, rows: RowArray
) -> FilterOutcome:
    def filter_rows(rows: RowArray) -> list[tuple[str, Verdicts]]:
        return framework.run_filters(cycle, NodeView(session.cluster, rows), pre_filter.skipped)

    verdicts: list[tuple[str, Verdicts]] = []
    feasible = np.zeros(len(session.cluster), np.bool_)
    if len(rows):
        verdicts = filter_rows(rows)
        passes = np.ones(len(rows), np.bool_)
        for _, verdict in verdicts:
            passes &= verdict.bits == 0
        feasible[rows] = passes
    return FilterOutcome(
        len(session.cluster),
        feasible,
        rows=rows,
        verdicts=verdicts,
        absent=absent_status(pre_filter.plugins_with_nodes),
        named_by=pre_filter.plugins_with_nodes,
        filter_rows=filter_rows,
    )


def _stop_early(
    session: Session, framework: Framework, outcome: FilterOutcome, rejected: Mapping[int, NodeStatus]
) -> None:
    """Mark the nodes that kube-scheduler would not evaluate, when the session samples nodes as it does.

    When nothing scores, kube-scheduler stops at the first feasible node, so this does too, sampling or not. The next
    search starts after as many nodes as are feasible or have a status; a rejected nominated node counts among them.
    """
    scores_nothing = not framework.score_plugins and not any(
        extender.filters or extender.prioritizes for extender in session.extenders
    )
    if not session.options.sample and not scores_nothing:
        if outcome.rows is not None:
            n_more = sum(outcome.position(row) is None for row in rejected)
            session.sampling.advance(len(outcome.rows) + n_more, outcome.n_nodes)
        return
    order = session.cluster.nodes.zone_order
    if outcome.rows is not None:
        is_named = np.zeros(outcome.n_nodes, np.bool_)
        is_named[outcome.rows] = True
        order = order[is_named[order]] if len(outcome.rows) < outcome.n_nodes else order
    percentage = framework.profile.percentage_of_nodes_to_score
    if percentage is None:
        percentage = session.config.percentage_of_nodes_to_score or 0
    limit = 1 if scores_nothing else num_feasible_nodes_to_find(percentage, len(order))
    evaluated = session.sampling.look(order, outcome.feasible, limit)
    n_more = sum(bool(not evaluated[row] or outcome.feasible[row]) for row in rejected)
    session.sampling.advance(int(np.count_nonzero(evaluated)) + n_more, outcome.n_nodes)
    if outcome.absent is not None:
        evaluated[np.setdiff1d(np.arange(outcome.n_nodes), order)] = True
    outcome.feasible = outcome.feasible & evaluated
    outcome.not_evaluated = ~evaluated


def _raise_errors(outcome: FilterOutcome) -> None:
    """Raise PluginError when a filter failed on some node.

    Upstream reports whichever node failed first; here it is the first by name.
    """
    for row in outcome.rows_with_errors():
        status = outcome.status(row)
        assert status is not None  # noqa: S101 - the node has a code, so it has a status
        raise PluginError(status.error)
