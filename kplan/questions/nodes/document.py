"""The question for an autoscaler alone: which nodes it adds, removes and keeps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from kplan.autoscaling.seam import Advice, Autoscaler, PreparedCluster
from kplan.autoscaling.settings import Settings
from kplan.cluster.base import Base, PodLike
from kplan.cluster.incoming import IncomingPod
from kplan.course.answers.plan import before_growth
from kplan.course.answers.utilisation import cluster_map
from kplan.course.answers.verdict import conditions, head_of
from kplan.course.carry_out import carry_out
from kplan.course.growth import ref_to, unconditioned_pods
from kplan.course.provisioning import node_changes
from kplan.course.task import Task, WorkedOff
from kplan.documents.base import Counted
from kplan.documents.nodes import ClusterMap
from kplan.documents.remedies import NodesReport
from kplan.engine.cluster import NOWHERE
from kplan.errors import UsageError
from kplan.facts import InputWarning
from kplan.snapshot.load import decode_pod

if TYPE_CHECKING:
    from kplan.course.asking import Showing
    from kplan.course.clock import Clock
    from kplan.course.subject import Subject

MAX_LOOPS = 1_000

B = TypeVar("B", bound=Base)


def decided_now(base: Base, loops: Sequence[float] | None, showing: Showing, *, full: bool) -> NodesReport:
    """Return what the autoscaler does in such loops; `full` includes its whole decision in its own terms.

    Raises UsageError for no autoscaler, and for loops that are not times in ascending order.
    """
    autoscaler = _followed(base)
    loops = autoscaler.usual_loops if loops is None else loops
    is_ascending = all(0 <= first <= then < math.inf for first, then in itertools.pairwise((0.0, *loops)))
    if not 0 < len(loops) <= MAX_LOOPS or not is_ascending:
        raise UsageError("loops are not times in ascending order", hint="give seconds from 0, such as 0 and 10")
    advice = autoscaler.look(PreparedCluster(base.objects, base.session, base.now), loops=loops)
    return replace(
        _report(base, autoscaler, advice, showing),
        cluster=_map(base, advice) if showing.with_map else UNSET,
        detail=dict(advice.detail()) if full else UNSET,
    )


def decided_in_time(subject: Subject, clock: Clock, showing: Showing) -> NodesReport:
    """Return what the autoscaler does while the clock looks ahead and pods move; raises UsageError where none is."""
    _followed(subject.base)
    base, task = subject.task(Task(clock=clock, queue=WorkedOff(), removes_nodes=True))
    plan = carry_out(base, task)
    clock.tell_unused(plan.simulation.durations, showing)
    growth, changes = plan.growth, node_changes(plan.simulation)
    assert growth is not None  # noqa: S101 - an autoscaler is followed
    assert changes is not UNSET  # noqa: S101 - likewise
    replacements = {new.facts.name for removal in growth.removes for new in removal.replacements}
    gone = {name for removal in growth.removes for name in removal.facts.nodes}
    advice = Advice(
        adds=tuple(new for new in growth.adds if new.facts.name not in replacements),
        existing=changes.existing,
        unhelped=lambda: changes.unhelped,
        events=changes.events,
        removes=tuple(growth.removes),
        stays={name: stay for name, stay in growth.advice.stays.items() if name not in gone},
        price=changes.price,
        warnings=(*plan.all_warnings, *growth.all_warnings),
    )
    after = plan.simulation.cluster
    return replace(
        _report(base, growth.autoscaler, advice, showing, unavailable=plan.unavailable),
        steps=tuple(plan.steps),
        timeline=plan.timeline,
        cluster=cluster_map(before_growth(base.session.cluster, after), after) if showing.with_map else UNSET,
    )


def _report(
    base: Base, autoscaler: Autoscaler, advice: Advice, showing: Showing, unavailable: Iterable[str] = ()
) -> NodesReport:
    """Return the NodesReport; of `unavailable` workloads too few pods are ready for a while."""
    context = base.context()
    warnings = tuple(dict.fromkeys((*context.warnings, *advice.warnings)))
    fail_on, unhelped = conditions(showing.fail_on, "nodes"), advice.unhelped()
    happened = [Counted(new.facts.name, "NewNode") for new in advice.all_new]
    happened += [Counted(pod, "Unschedulable") for pod in unhelped]
    happened += [Counted(name, "Unavailable") for name in unavailable]
    return NodesReport(
        **head_of(replace(context, warnings=warnings), fail_on, happened),
        autoscaler=ref_to(autoscaler),
        adds=tuple(new.facts for new in advice.adds),
        existing=dict(advice.existing),
        unhelped={pod: dict(why) for pod, why in unhelped.items()},
        events=dict(advice.events),
        removes=tuple(removal.facts for removal in advice.removes),
        stays=dict(advice.stays),
        price=advice.price,
    )


def _followed(base: Base) -> Autoscaler:
    if base.followed is None:
        hint = "start kplan with --node-groups FILE, or give the planner one, such as kplan.ClusterAutoscaler()"
        raise UsageError("the cluster shows no autoscaler to ask", hint=hint)
    return base.followed


def following(base: B, settings: Settings | None) -> B:
    other = base.with_additions(())
    other.autoscaler = settings
    return other


def as_scheduled(base: B, pods: Iterable[PodLike] = ()) -> B:
    """Return the cluster once kube-scheduler is done with its pending pods, and with further ones.

    An autoscaler looks only at pods that kube-scheduler found no node for, and passes over those of the future: it is
    asked when all pods have been made. Pods that the API server refuses are left out, with a warning.
    """
    from kplan.course.what_if import settled

    refusals, new = [], []
    for pod in pods:
        if isinstance(pod, IncomingPod) and pod.refused:
            message = f"left out, since it is refused: {pod.refused}"
            refusals.append(InputWarning("Refused", f"Pod/{pod.pod.metadata.key}", message))
        elif not isinstance(pod, str):
            new.append(base.as_stored(pod.pod if isinstance(pod, IncomingPod) else decode_pod(pod)))
    other = base.with_additions(new) if new else base
    rest = settled(other.for_cluster(other.objects), retries=True)
    snapshot = replace(rest.snapshot, pods=unconditioned_pods(rest.snapshot))
    return base.for_cluster(snapshot, warnings=(*base.warnings, *refusals), not_before=rest.moment)


def _map(base: Base, advice: Advice) -> ClusterMap:
    """Return the cluster with the new nodes, and with pending pods where the autoscaler has room for them."""
    new = advice.all_new
    session = base.fork()
    session.grow([node.node for node in new])
    rows, room = session.cluster.nodes.row_of, [(one.facts.name, one.facts.pods) for one in new]
    for name, pods in (*room, *advice.existing.items()):
        for pod in map(session.find, pods):
            if pod is not None and name in rows and session.cluster.node_of[pod] == NOWHERE:
                session.bind(pod, rows[name])
    return cluster_map(before_growth(base.session.cluster, session.cluster), session.cluster)
