"""Pods placed one after another, each with what explains its decision; also while an autoscaler makes nodes for them.

kube-scheduler decides first. For the pods that then fit nowhere the autoscaler makes nodes, as it decides by itself,
look by look, and kube-scheduler binds pods to them, which may come out differently: the scheduler has the last word.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.pod import ENDED
from kplan.api.quantity import grouped
from kplan.autoscaling.seam import NewNode
from kplan.cluster.base import Base, PodLike
from kplan.cluster.incoming import with_objects
from kplan.cluster.runs import QuestionPods, Replay, Run, nominates, run_in_order
from kplan.cluster.unmodelled import in_whole_groups
from kplan.course.answers.placement import Explain, NodesShown, Placement, ToldInFull, placement_of
from kplan.course.answers.plan import Plan
from kplan.course.growth import Growth, join_nodes, with_message
from kplan.diagnosis.explanation import Explanation, explain
from kplan.documents.base import Context
from kplan.engine.cluster import NOWHERE
from kplan.facts import InputWarning
from kplan.framework.cycle import CycleResult
from kplan.framework.group_cycle import GroupTry
from kplan.framework.listers import Key
from kplan.framework.results import Outcome
from kplan.framework.session import Session
from kplan.remedies.diagnosis import Diagnosing
from kplan.snapshot.model import Snapshot

_EAGER_CELLS = 2_000
"""A plan with up to this many explanations (nodes times pods) explains its decisions at once for the nodes that are
shown; for others, and in a larger plan, it runs again up to a decision when somebody reads its explanation."""


def place_in_order(
    base: Base,
    pods: Iterable[PodLike] | QuestionPods,
    *,
    settle_preemption: bool = False,
    shown: NodesShown = None,
    explains_all: bool = False,
) -> Plan:
    """Place pods in their order in a fork; with an autoscaler, those that fit nowhere once more when it has made nodes.

    A pod that gets in by preemption needs no new node: kube-scheduler evicts before an autoscaler looks. Other pods of
    the cluster that are pending do not take part, as they do not without an autoscaler.

    `shown`: the nodes for which decisions will be explained; None for all, or if that is not known. `explains_all`:
    all decisions will be explained for these, so that this is done at once.
    """
    question = pods if isinstance(pods, QuestionPods) else base.resolve(pods)
    course = OrderedCourse(base, question, settle_preemption=settle_preemption)
    growth, session = course.growth, base.fork(question)
    replay = Replay(lambda: course.run(base.fork(question)), course.run(session))
    is_small = len(session.cluster) * len(question.rows) <= _EAGER_CELLS
    # A final decision is not computed again, so remedies are not tried.
    diagnosing = Diagnosing(replay, question, is_final=bool(base.extenders))
    decisions: list[Placement] = []
    fewest: list[int] = []
    for index, result in enumerate(replay):
        fewest.append(result.n_feasible if result.outcome is Outcome.SCHEDULED else 0)
        names = session.cluster.nodes.names
        explain_nodes: Explain = partial(_explained_again, replay, index, names)
        if base.extenders:  # one may answer differently when it is called again
            explain_nodes = ToldInFull(explain(result, names))
        elif explains_all or is_small:
            explain_nodes = _noted(shown, explain(result, names, shown), explain_nodes)
        diagnose = diagnosing.diagnosis_of(session, index, result)
        decisions.append(placement_of(session, result, explain_nodes, diagnose, question.origins.get(result.pod)))
        if explains_all:
            decisions[-1].diagnosis  # noqa: B018 - is made while the decision is live, and cached
        if base.on_progress is not None:
            base.on_progress(len(decisions), len(question.rows))
    placements, context, nodes, pools = tuple(decisions), partial(base.context, question), None, None
    if growth is not None:
        from kplan.course.pools import Pools

        placed = partial(_placed, base, question, settle_preemption=settle_preemption)
        pools = Pools(base, placed, growth, len(decisions))
        placements = tuple(course.last_tries(decisions))
        context = partial(_with_warnings, context, tuple(growth.all_warnings))
        nodes = growth.changes({placement.pod.key: placement.node or "" for placement in placements})
    return Plan(
        placements=placements,
        before=base.session.cluster,
        session=session,
        more={base.info_of(question, row).key: n for row, n in question.more.items()},
        adds=() if growth is None else tuple(growth.adds),
        nodes=nodes,
        tries=course.tries,
        fewest_nodes=min(fewest, default=0),
        n_decisions=len(fewest),
        pools=pools,
        question=partial(place_in_order, base, question, settle_preemption=settle_preemption),
        make_context=partial(in_whole_groups, context),
    )


def _placed(base: Base, question: QuestionPods, other: Base, *, settle_preemption: bool) -> frozenset[str]:
    """Return NAMESPACE/NAME of the pods of a question that get a node in another cluster, which has the same pods."""
    infos, n_present = {row: base.info_of(question, row) for row in question.rows}, len(base.session.cluster.pods)
    pods = [info.key if row < n_present else info.pod for row, info in infos.items() if row not in question.refused]
    plan = place_in_order(other, pods, settle_preemption=settle_preemption)
    return frozenset(placement.pod.key for placement in plan.placements if placement.node is not None)


def _explained_again(replay: Replay, index: int, names: list[str], nodes: NodesShown) -> Explanation:
    return explain(replay.at(index), names, nodes)


def _noted(shown: NodesShown, explanation: Explanation, explain_others: Explain) -> Explain:
    return lambda nodes: explanation if nodes == shown else explain_others(nodes)


def _with_warnings(make_context: Callable[[], Context], warnings: Sequence[InputWarning]) -> Context:
    context = make_context()
    return replace(context, warnings=tuple(dict.fromkeys((*context.warnings, *warnings))))


class OrderedCourse:
    """The tries of all pods; the first run asks the autoscaler, and runs after it repeat what it said."""

    def __init__(self, base: Base, question: QuestionPods, *, settle_preemption: bool) -> None:
        self._base, self._question = base, question
        self.growth = Growth.of(base)
        self._settles = settle_preemption
        self._rounds: list[tuple[Sequence[NewNode], Sequence[int]]] = []  # new nodes, and the pods tried again then
        self._tries: list[tuple[int, int]] = []  # round and pod of each decision
        self._is_known = False
        self._settled: Session | None = None  #: in which preemption is carried out, up to the rounds of `_n_settled`
        self._n_settled = 0
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
                if self.growth is not None:  # results hold their columns, which is much for many nodes
                    results[result.pod] = result
                yield result
            if is_first:
                self.tries |= tries
            if is_first and self.growth is not None and not self.growth.is_stopped:
                self._look(session, self.growth, results, preempts=any(tried.waits for tried in tries.values()))
            if number >= len(self._rounds):
                return
            adds, rows = self._rounds[number]
            join_nodes(session, adds)

    def _look(self, session: Session, growth: Growth, results: dict[int, CycleResult], *, preempts: bool) -> None:
        """Have the autoscaler look, once the scheduler has evicted what it can for these pods, or for their groups."""
        if not self._settles and (preempts or any(map(nominates, results.values()))):
            session, results = self._settle()
        rows = [row for row in results if session.cluster.node_of[row] == NOWHERE]
        if not rows:
            return
        snapshot = _snapshot_after(self._base.objects, session, self._question, results)
        if adds := growth.look(growth.as_seen(snapshot, session), session, rows, self._base.now):
            self._rounds.append((adds, rows))

    def _settle(self) -> tuple[Session, dict[int, CycleResult]]:
        """Return a session in which preemption was carried out so far, and the last results of its last round."""
        if self._settled is None:
            self._settled = self._base.fork(self._question)
        session, results = self._settled, dict[int, CycleResult]()
        rounds = [((), self._question.rows), *self._rounds]
        for adds, rows in rounds[self._n_settled :]:
            join_nodes(session, adds)
            waiting = [row for row in rows if session.cluster.node_of[row] == NOWHERE]
            results = {result.pod: result for result in run_in_order(session, waiting, settle_preemption=True)}
        self._n_settled = len(rounds)
        return session, results

    def last_tries(self, placements: Sequence[Placement]) -> list[Placement]:
        """Return the decisions of each pod's last round, at the place of its first."""
        decisions = zip(self._tries, placements, strict=True)
        by_pod = grouped((pod, (number, placement)) for (number, pod), placement in decisions)
        return [placement for tries in by_pod.values() for number, placement in tries if number == tries[-1][0]]


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
        if pod.metadata.key in own or (not pod.spec.node_name and pod.status.phase not in ENDED):
            continue
        is_gone = row is not None and cluster.node_of[row] == NOWHERE and pod.spec.node_name in cluster.nodes.row_of
        if not is_gone or pod.status.phase in ENDED:
            pods.append(pod)
    pods += [_tried(infos[row].pod, cluster.node_of[row], names, results.get(row)) for row in tried]
    return with_objects(replace(snapshot, pods=tuple(pods)), session.reserved_objects().objects)


def _tried(pod: Pod, place: int, names: Sequence[str], result: CycleResult | None) -> Pod:
    """Return a pod as the API server has it after its last try."""
    if place != NOWHERE:
        return replace(pod, spec=replace(pod.spec, node_name=names[place]), status=replace(pod.status, phase="Running"))
    if result is None or result.outcome is not Outcome.UNSCHEDULABLE:
        return pod
    nominated = None if result.post_filter is None else result.post_filter.nominated_row
    return with_message(pod, result.message, "" if nominated is None else names[nominated])
