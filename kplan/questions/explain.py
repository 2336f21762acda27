"""The question why pods are where they are: the node of each, and where it would be placed now."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.changes.remedy import WidenPool
from kplan.cluster.base import Base
from kplan.cluster.runs import run_in_order
from kplan.cluster.unmodelled import in_whole_groups
from kplan.cluster.workload_pods import no_pod, pods_named, workloads_called, workloads_named
from kplan.course.answers.placement import NodesShown, Placement, last_placement
from kplan.course.answers.plan import Plan, placement_report, with_most_placements, with_new_nodes
from kplan.course.answers.verdict import conditions, with_warnings
from kplan.course.asking import PLAIN, Showing, answers
from kplan.course.at_present import piled_up, short_workloads, workloads_at_present
from kplan.course.in_order import place_in_order
from kplan.course.pools import with_pools
from kplan.course.subject import Subject
from kplan.diagnosis.explanation import Shown
from kplan.documents.nodes import AddedNode, NodeChanges, NodePrices
from kplan.documents.placement import Current, GroupPlan, PlacementReport
from kplan.errors import UsageError
from kplan.health.nodes import moment, nodes_health
from kplan.health.pods import pod_health
from kplan.health.workloads import WorkloadHealth
from kplan.questions.base import Question
from kplan.reading.arguments import MOST_EXPLAINED, MOST_VERDICTS
from kplan.rules.pod_info import PodInfo

_MOST_WIDENED = 4  #: so many changes of an autoscaler's pools are tried for a pod


class Explain(Question, frozen=True):
    """Asks why each of these pods is where it is, or pending.

    Attributes
    ----------
    names : NAMESPACE/POD, or a workload as KIND/NAMESPACE/NAME or KIND/NAME
    namespace : for those that name none
    """

    names: tuple[str, ...]
    namespace: str = ""

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> PlacementReport:
        base, objects = subject.base, subject.base.objects
        if not self.names:
            raise UsageError("nothing to explain", hint="name a pod as NAMESPACE/NAME or a workload")
        present = workloads_at_present(base, workloads_named(self.names, self.namespace, objects))
        keys = pods_named(self.names, self.namespace, objects, may_have_none=True)
        most = max(min(MOST_EXPLAINED, MOST_VERDICTS // max(len(objects.nodes), 1)), 1)
        if len(keys) > most:
            hint = "choose fewer with -n or -l, or ask kplan plan about all pending pods"
            of_nodes = f" on {len(objects.nodes):,} nodes" if most < MOST_EXPLAINED else ""
            message = f"{len(keys):,} pods are more than the {most:,} that can be explained{of_nodes}"
            raise UsageError(message, hint=hint)
        explaining = [partial(explain_pod, key=key) for key in keys]
        explained = answers(base, explaining, None, progress=showing.progress)
        report = whereabouts_report(base, explained, showing, workloads=present)
        return with_warnings(report, [*short_workloads(present), *piled_up(objects, keys)])


class Whereabouts(msgspec.Struct, frozen=True):
    """The node of a pod, and its placement now."""

    node: str | None  #: the node on which it runs; None for a pending pod
    placement: Placement  #: the decision about it, as if it were pending
    plan: Plan | None = None  #: of a pending pod: the same with its group, and with what an autoscaler adds for it
    pools: tuple[WidenPool, ...] = ()  #: what lets the autoscaler add a node for it, if it adds none by itself

    def current(self) -> Current | None:
        """Return how the node on which the pod runs compares with the best one; None for a pending pod."""
        if self.node is None:
            return None
        score = self.placement.scores.get(self.node)
        best = self.placement.scores.get(self.placement.node or "")
        return Current(
            node=self.node,
            still_fits=self.node in self.placement.feasible_nodes,
            still_best=self.node in self.placement.ties,
            score=None if score is None else score.total,
            best_score=None if best is None else best.total,
        )

    def shown(self, nodes: NodesShown) -> NodesShown:
        if isinstance(nodes, Shown) and self.node is not None:
            return Shown(nodes.top, nodes.with_score_details, (self.node,))
        return nodes


def whereabouts_report(
    base: Base, pods: Sequence[Whereabouts], showing: Showing = PLAIN, *, workloads: Sequence[WorkloadHealth] = ()
) -> PlacementReport:
    """Return a PlacementReport about pods; ``current`` of a placement is the node on which the pod runs."""
    plans = [pod.plan for pod in pods if pod.plan is not None]
    groups: dict[str, GroupPlan] = {}  # a group with several of the pods is asked about once
    for plan in plans:
        if not any(plan.placements[0].pod.key in group.members for group in groups.values()):
            groups |= {group.key: group for group in plan.groups}
    first = pods[0].plan if pods else None
    report = placement_report(
        in_whole_groups(base.context) if first is None else first.context,
        [pod.placement for pod in pods],
        fail_on=conditions(showing.fail_on, "explain"),
        nodes_of={index: pod.shown(showing.explained) for index, pod in enumerate(pods[: showing.max_listed])},
        groups=tuple(groups.values()),
    )
    objects, placements = base.objects, []
    nodes_now, now = nodes_health(objects), moment(objects)
    for shown, pod in zip(report.placements, pods, strict=False):
        (placement,) = with_new_nodes([shown], None if pod.plan is None else pod.plan.nodes)
        health = pod_health(objects.pod_by_key[placement.pod.key], nodes_now, now, objects)
        placement = replace(placement, current=pod.current(), health=health)
        placements.append(with_pools(base, placement, pod.pools))
    changes = [plan.nodes for plan in plans if plan.nodes is not None]
    nodes = reduce(_both, changes) if changes else UNSET
    report = replace(report, placements=tuple(placements), nodes=nodes, workloads=tuple(workloads) or UNSET)
    return with_most_placements(report, showing.max_listed)


def _both(one: NodeChanges, other: NodeChanges) -> NodeChanges:
    """Return what an autoscaler does for pods of which each is looked at alone; several have no price together."""
    nodes: dict[AddedNode, tuple[str, ...]] = {}
    for node in (*one.added, *other.added):  # for each alone the first new node has the same name
        key = replace(node, pods=())
        nodes[key] = (*nodes.get(key, ()), *node.pods)
    return replace(
        one,
        added=tuple(replace(node, pods=pods) for node, pods in nodes.items()),
        unhelped=one.unhelped | other.unhelped,
        could_help=(one.could_help or {}) | (other.could_help or {}) or UNSET,
        events=one.events | other.events,
        existing=one.existing | other.existing,
        elsewhere=one.elsewhere | other.elsewhere,
        price=NodePrices(before=one.price.before, after=None),
    )


def explain_pod(base: Base, key: str) -> Whereabouts:
    """Explain where a pod is, a running one as if it were pending; raises NotFoundError where there is no such pod."""
    pod = base.objects.pod_by_key.get(key)
    if pod is None:
        raise no_pod(key, base.objects.pod_by_key, workloads_called(base.objects, key))
    if pod.spec.node_name:
        return Whereabouts(pod.spec.node_name, _place_again(base, key, pod))
    plan = place_in_order(base, [key])
    placement = plan.placements[0]
    if plan.pools is None or placement.node is not None or plan.adds:
        return Whereabouts(None, placement, plan)
    pools = tuple(WidenPool(change=change, then=None) for change, _ in plan.pools.widening([key]))
    return Whereabouts(None, placement, plan, pools)


def _place_again(base: Base, key: str, pod: Pod) -> Placement:
    session = base.fork()
    row = base.session.find(key)
    if row is not None and pod.spec.node_name in session.cluster.nodes.row_of:
        session.evict(row)
    pending = replace(
        pod,
        metadata=replace(pod.metadata, deletion_timestamp=None),
        spec=replace(pod.spec, node_name="", scheduling_gates=()),
        status=replace(pod.status, nominated_node_name="", phase="Pending"),
    )
    again = session.add_pod(PodInfo(pending))
    return last_placement(session, next(iter(run_in_order(session, [again], settle_preemption=False))))
