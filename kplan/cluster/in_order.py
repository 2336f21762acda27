"""Pods placed one after another, each with what explains its decision.

Also while an autoscaler makes nodes for them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from kplan.answers.placement import Explain, NodesShown, Placement, placement_of
from kplan.answers.plan import Plan
from kplan.answers.pod_groups import plans_in_order
from kplan.api.core import Pod, PodCondition
from kplan.autoscaling.seam import NewNode
from kplan.cluster.base import Base, PodLike
from kplan.cluster.growth import Growth, as_waiting, growth_of, node_changes
from kplan.cluster.unmodelled import in_whole_groups
from kplan.diagnosis.diagnosis import Diagnosing
from kplan.diagnosis.explanation import Explanation, Shown, explain
from kplan.documents.base import Context
from kplan.engine.cluster import NOWHERE
from kplan.facts import InputWarning
from kplan.framework.cycle import CycleResult
from kplan.framework.group_cycle import GroupTry
from kplan.framework.listers import Key
from kplan.framework.results import Outcome
from kplan.framework.session import Session
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.model import Snapshot
from kplan.subjects.incoming import with_objects
from kplan.subjects.sequence import QuestionPods, Replay, Run, nominates, run_in_order

_EAGER_CELLS = 2_000
"""A plan with up to this many explanations (nodes times pods) explains its decisions at once; a larger one runs again
up to a decision when somebody reads its explanation."""


def decide(
    base: Base, question: QuestionPods, begin: Callable[[], tuple[Session, Run]], *, shown: NodesShown = None
) -> Plan:
    """Run a plan in a fork and return its decisions.

    Parameters
    ----------
    begin : begins the run in a fresh fork; called again when somebody reads the explanation of an earlier decision
    shown : the nodes for which all decisions will be explained, so that this is done at once; None if that is not known
    """
    session, run = begin()
    replay = Replay(lambda: begin()[1], run)
    is_small = len(session.cluster) * len(question.rows) <= _EAGER_CELLS or bool(base.extenders)
    # An extender may answer differently when it is called again, so remedies are not tried.
    diagnosing = Diagnosing(replay, question, is_final=bool(base.extenders))
    placements = []
    fewest: list[int] = []
    for index, result in enumerate(replay):
        fewest.append(result.n_feasible if result.outcome is Outcome.SCHEDULED else 0)
        names = session.cluster.nodes.names
        explanation = explain(result, names) if is_small else None
        explain_nodes = _explainer(base, index, explanation, replay, names)
        if shown is not None:
            explain_nodes = _noted(shown, explain_nodes)
        diagnose = diagnosing.diagnosis_of(session, index, result)
        placements.append(placement_of(session, result, explain_nodes, question.origins, diagnose))
        if shown is not None:
            placements[-1].diagnosis  # noqa: B018 - is made while the decision is live, and cached
        if base.on_progress is not None:
            base.on_progress(len(placements), len(question.rows))
    more = {base.info_of(question, row).key: n for row, n in question.more.items()}
    return Plan(
        tuple(placements),
        base.session.cluster,
        session,
        more,
        fewest_nodes=min(fewest, default=0),
        make_context=partial(base.context, question),
    )


def _noted(shown: NodesShown, explain_nodes: Explain) -> Explain:
    explanation = explain_nodes(shown)
    return lambda nodes: explanation if nodes == shown else explain_nodes(nodes)


def _explainer(base: Base, index: int, explanation: Explanation | None, replay: Replay, names: list[str]) -> Explain:
    def explain_nodes(nodes: NodesShown) -> Explanation:
        if explanation is not None and nodes is None:
            return explanation
        # An extender may answer differently when it is called again, so the decision is not computed again.
        if explanation is not None and isinstance(nodes, Shown) and (base.extenders or not nodes.with_score_details):
            return explanation.narrowed(nodes)
        return explain(replay.at(index), names, nodes)

    return explain_nodes


_ENDED = ("Succeeded", "Failed")


def growing_plan(base: Base, question: QuestionPods, *, settle_preemption: bool) -> Plan:
    """Place pods in their order; those that fit nowhere once more when the autoscaler has made nodes for them.

    A pod that gets in by preemption needs no new node: kube-scheduler evicts before an autoscaler looks. Other pods of
    the cluster that are pending do not take part, as they do not without an autoscaler.
    """
    growth = growth_of(base)
    if growth is None:
        raise RuntimeError("the cluster has no autoscaler")
    course = _Course(base, question, growth, settle_preemption=settle_preemption)

    def begin() -> tuple[Session, Run]:
        session = base.fork(question)
        return session, course.run(session)

    plan = decide(base, question, begin)
    placements = tuple(course.last_tries(plan.placements))
    context = partial(_with_warnings, plan.make_context, tuple(growth.all_warnings))
    node_of = {placement.pod.key: placement.node or "" for placement in placements}
    return dataclasses.replace(
        plan,
        placements=placements,
        adds=tuple(growth.adds),
        nodes=node_changes(growth, node_of),
        make_groups=partial(plans_in_order, plan.session, course.tries, placements),
        make_context=partial(in_whole_groups, context),
    )


def _with_warnings(make_context: Callable[[], Context], warnings: Sequence[InputWarning]) -> Context:
    context = make_context()
    return replace(context, warnings=tuple(dict.fromkeys((*context.warnings, *warnings))))


def run_of(base: Base, question: QuestionPods, session: Session, *, settle_preemption: bool) -> Run:
    """Return the run that places pods in their order in a session, with the nodes that an autoscaler makes for them."""
    growth = growth_of(base)
    if growth is None:
        return run_in_order(session, question.rows, settle_preemption=settle_preemption)
    return _Course(base, question, growth, settle_preemption=settle_preemption).run(session)


class _Round(msgspec.Struct, frozen=True):
    """What an autoscaler adds, and the pods that are tried again then."""

    adds: Sequence[NewNode]
    rows: Sequence[int]


class _Course:
    """The tries of all pods; the first run asks the autoscaler, and runs after it repeat what it said."""

    def __init__(self, base: Base, question: QuestionPods, growth: Growth, *, settle_preemption: bool) -> None:
        self._base, self._question, self._growth = base, question, growth
        self._settles = settle_preemption
        self._rounds: list[_Round] = []
        self._tries: list[tuple[int, int]] = []  # round and pod of each decision
        self._is_known = False
        self.tries: dict[Key, GroupTry] = {}  #: how the last cycle of each group has ended

    def run(self, session: Session) -> Run:
        """Schedule the pods, and again those that fit nowhere, as long as nodes come for them."""
        rows: Sequence[int] = self._question.rows
        is_first, self._is_known = not self._is_known, True
        for number in itertools.count():
            results: dict[int, CycleResult] = {}
            tries: dict[Key, GroupTry] = {}
            for result in run_in_order(session, rows, settle_preemption=self._settles, tries=tries):
                if is_first:
                    self._tries.append((number, result.pod))
                results[result.pod] = result
                yield result
            if is_first:
                self.tries |= tries
            if is_first and not self._growth.is_stopped:
                self._look(session, results, preempts=any(tried.waits for tried in tries.values()))
            if number >= len(self._rounds):
                return
            join_nodes(session, self._rounds[number].adds)
            rows = self._rounds[number].rows

    def _look(self, session: Session, results: dict[int, CycleResult], *, preempts: bool) -> None:
        """Have the autoscaler look, once the scheduler has evicted what it can for these pods, or for their groups."""
        if not self._settles and (preempts or any(map(nominates, results.values()))):
            session, results = self._settled()
        rows = [row for row in results if session.cluster.node_of[row] == NOWHERE]
        if not rows:
            return
        self._growth.note_groups(session, rows)
        snapshot = _snapshot_after(self._base.objects, session, self._question, results)
        there = [obj for past in self._rounds for new in past.adds for obj in (*new.daemons, *new.objects)]
        snapshot = as_waiting(with_objects(snapshot, there), session.cluster.nodes.nodes)
        adds = self._growth.look(snapshot, session, self._base.now)
        if adds:
            self._rounds.append(_Round(adds, rows))

    def _settled(self) -> tuple[Session, dict[int, CycleResult]]:
        """Return a session in which preemption was carried out so far, and the last results of its last round."""
        session = self._base.fork(self._question)
        results = {result.pod: result for result in self._settle(session, self._question.rows)}
        for past in self._rounds:
            join_nodes(session, past.adds)
            waiting = [row for row in past.rows if session.cluster.node_of[row] == NOWHERE]
            results = {result.pod: result for result in self._settle(session, waiting)}
        return session, results

    def _settle(self, session: Session, rows: Sequence[int]) -> Run:
        return run_in_order(session, rows, settle_preemption=True)

    def last_tries(self, placements: Sequence[Placement]) -> list[Placement]:
        """Return the decisions of each pod's last round, at the place of its first."""
        last: dict[int, tuple[int, list[Placement]]] = {}
        for (number, pod), placement in zip(self._tries, placements, strict=True):
            if pod in last and last[pod][0] == number:
                last[pod][1].append(placement)
            else:
                last[pod] = (number, [placement])
        return [placement for _, tries in last.values() for placement in tries]


def join_nodes(session: Session, adds: Sequence[NewNode]) -> None:
    """Add nodes with the daemon pods that they start with."""
    session.listers = session.listers.fork()
    session.grow([new.node for new in adds])
    for new in adds:
        place = session.cluster.nodes.row_of[new.node.metadata.name]
        for pod in new.daemons:
            info = PodInfo(pod)
            if info.key not in session.pod_ids:
                session.bind(session.add_pod(info), place)


def _snapshot_after(
    snapshot: Snapshot, session: Session, question: QuestionPods, results: dict[int, CycleResult]
) -> Snapshot:
    """Return the cluster after the pods of a question were tried, without other pending pods."""
    cluster, names = session.cluster, session.cluster.nodes.names
    infos = cluster.pods.infos
    tried = [row for row in question.rows if row not in session.refused]
    own = {infos[row].key for row in tried}
    pods: list[Pod] = []
    for pod in snapshot.pods:
        row = session.find(pod.metadata.key)
        if pod.metadata.key in own or (not pod.spec.node_name and pod.status.phase not in _ENDED):
            continue
        is_gone = row is not None and cluster.node_of[row] == NOWHERE and pod.spec.node_name in cluster.nodes.row_of
        if not is_gone or pod.status.phase in _ENDED:
            pods.append(pod)
    pods += [_tried(infos[row].pod, cluster.node_of[row], names, results.get(row)) for row in tried]
    after = dataclasses.replace(snapshot, pods=tuple(pods))
    return with_objects(after, session.reserved_objects())


def _tried(pod: Pod, place: int, names: Sequence[str], result: CycleResult | None) -> Pod:
    """Return a pod as the API server has it after its last try."""
    if place != NOWHERE:
        return replace(pod, spec=replace(pod.spec, node_name=names[place]), status=replace(pod.status, phase="Running"))
    if result is None or result.outcome is not Outcome.UNSCHEDULABLE:
        return pod
    nominated = None if result.post_filter is None else result.post_filter.nominated_row
    promise = "" if nominated is None else names[nominated]
    condition = PodCondition("PodScheduled", "False", "Unschedulable", result.message)
    others = tuple(other for other in pod.status.conditions if other.type != "PodScheduled")
    return replace(pod, status=replace(pod.status, nominated_node_name=promise, conditions=(*others, condition)))


def place_in_order(
    base: Base, pods: Iterable[PodLike], *, settle_preemption: bool = False, shown: NodesShown = None
) -> Plan:
    """Place pods in the given order on a private copy of the cluster; see `kplan.Planner.plan`.

    Parameters
    ----------
    shown : as for `decide`
    """
    question = base.resolve(pods)
    if base.autoscaler is not None:
        return growing_plan(base, question, settle_preemption=settle_preemption)
    return decide_in_order(base, question, settle_preemption=settle_preemption, shown=shown)


def decide_in_order(
    base: Base, question: QuestionPods, *, settle_preemption: bool = False, shown: NodesShown = None
) -> Plan:
    """Return the decisions about the pods of a question, in their order and without an autoscaler."""
    runs: list[dict[Key, GroupTry]] = []

    def begin() -> tuple[Session, Run]:
        session = base.fork(question)
        runs.append({})
        return session, run_in_order(session, question.rows, settle_preemption=settle_preemption, tries=runs[-1])

    plan = decide(base, question, begin, shown=shown)
    return dataclasses.replace(
        plan,
        make_groups=partial(plans_in_order, plan.session, runs[0], plan.placements),
        make_context=partial(in_whole_groups, plan.make_context),
    )
