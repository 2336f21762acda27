"""The question for an autoscaler alone: which nodes it adds, removes and keeps."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from kplan.answers.cluster_map import cluster_map
from kplan.answers.new_nodes import added_node, before_growth
from kplan.answers.verdict import NEW_NODES, NONE, UNSCHEDULABLE, opening
from kplan.api.core import Pod
from kplan.autoscaling.seam import Advice, PreparedCluster, Removal, Stay
from kplan.autoscaling.settings import Settings, set_up
from kplan.cluster.base import Base, PodLike
from kplan.documents.base import Condition, Counted, InputWarning
from kplan.documents.cluster_map import ClusterMap
from kplan.documents.nodes import AutoscalerRef, KeptNode, NodePrices, RemovedNodes
from kplan.documents.nodes_report import NodesReport
from kplan.engine.cluster import NOWHERE
from kplan.errors import UsageError
from kplan.snapshot.objects import decode_pod
from kplan.subjects.incoming import IncomingPod

MAX_LOOPS = 1_000

B = TypeVar("B", bound=Base)


def nodes_report(
    base: Base,
    *,
    full: bool = False,
    loops: Sequence[float] | None = (0,),
    fail_on: Sequence[Condition] = (NONE,),
    with_map: bool = False,
) -> NodesReport:
    """Return the NodesReport.

    Raises UsageError when the planner follows no autoscaler, or `loops` are not times in ascending order.

    Parameters
    ----------
    full : include the whole decision in the autoscaler's own terms
    loops : seconds at which an autoscaler that works in loops looks, in ascending order; None for as long as it waits
        before it removes a node
    fail_on : what makes the verdict a failure
    with_map : hold every node, too, with those that are added
    """
    if base.autoscaler is None:
        raise no_autoscaler()
    autoscaler = set_up(base.autoscaler, base.objects)
    loops = autoscaler.usual_loops if loops is None else loops
    is_ascending = all(0 <= first <= then < math.inf for first, then in itertools.pairwise((0.0, *loops)))
    if not 0 < len(loops) <= MAX_LOOPS or not is_ascending:
        raise UsageError("loops are not times in ascending order", hint="give seconds from 0, such as 0 and 10")
    advice = autoscaler.look(prepared(base), full=full, loops=loops)
    context = base.context()
    warnings = tuple(dict.fromkeys((*context.warnings, *advice.warnings)))
    return NodesReport(
        **opening(replace(context, warnings=warnings), fail_on, counted_of(advice, fail_on)),
        autoscaler=AutoscalerRef(name=autoscaler.name, version=autoscaler.version, source=autoscaler.source),
        adds=tuple(map(added_node, advice.adds)),
        existing=dict(advice.existing),
        unhelped={pod: dict(why) for pod, why in advice.unhelped.items()},
        events=dict(advice.events),
        removes=removed_nodes(advice.removes),
        stays=staying_nodes(advice.stays),
        price=NodePrices(before=advice.price_before, after=advice.price_after),
        cluster=_map(base, advice) if with_map else UNSET,
        detail=dict(advice.detail) if full else UNSET,
    )


def no_autoscaler() -> UsageError:
    """Return the error for a cluster in which none is followed."""
    return UsageError(
        "the cluster shows no autoscaler to ask",
        hint="start kplan with --node-groups FILE, or give the planner one, such as kplan.ClusterAutoscaler()",
    )


def staying_nodes(stays: Iterable[Stay]) -> dict[str, KeptNode]:
    """Return why nodes stay, by their names."""
    return {stay.node: KeptNode(reason=stay.reason, message=stay.message, pod=stay.pod) for stay in stays}


def following(planner: B, settings: Settings | None) -> B:
    """Return the same planner, which follows an autoscaler."""
    other = planner.with_additions(())
    other.autoscaler = settings
    return other


def as_scheduled(planner: B, pods: Iterable[PodLike] = ()) -> B:
    """Return the planner of the cluster once kube-scheduler is done with its pending pods, and with further ones.

    An autoscaler looks only at pods that kube-scheduler found no node for, and passes over those of the future: it is
    asked when all pods have been made. Pods that the API server refuses are left out, with a warning.
    """
    from kplan.effects.settle import settled

    pods = list(pods)
    new = [
        planner.as_stored(pod.pod if isinstance(pod, IncomingPod) else decode_pod(pod))
        for pod in pods
        if not (isinstance(pod, str) or (isinstance(pod, IncomingPod) and pod.refused))
    ]
    other = planner.with_additions(new) if new else planner
    rest = settled(other.for_cluster(other.objects), retries=True)
    gated = tuple(_without_condition(pod) if pod.spec.scheduling_gates else pod for pod in rest.snapshot.pods)
    return planner.for_cluster(
        dataclasses.replace(rest.snapshot, pods=gated),
        warnings=(*planner.warnings, *_refusals(pods)),
        not_before=rest.moment,
    )


def _refusals(pods: Iterable[PodLike]) -> Iterator[InputWarning]:
    for pod in pods:
        if isinstance(pod, IncomingPod) and pod.refused:
            yield InputWarning(
                "Refused", f"Pod/{pod.pod.metadata.key}", f"left out, since it is refused: {pod.refused}"
            )


def _without_condition(pod: Pod) -> Pod:
    conditions = tuple(condition for condition in pod.status.conditions if condition.type != "PodScheduled")
    return replace(pod, status=replace(pod.status, conditions=conditions))


def _map(base: Base, advice: Advice) -> ClusterMap:
    """Return the cluster with the new nodes, and with pending pods where the autoscaler has room for them."""
    new = [*advice.adds, *(node for removal in advice.removes for node in removal.replacements)]
    session = base.fork()
    session.grow([node.node for node in new])
    rows = session.cluster.nodes.row_of
    room = [(node.node.metadata.name, node.pods) for node in new] + [*advice.existing.items()]
    for name, pods in room:
        for pod in map(session.find, pods):
            if pod is not None and name in rows and session.cluster.node_of[pod] == NOWHERE:
                session.bind(pod, rows[name])
    return cluster_map(before_growth(base.session.cluster, session.cluster), session.cluster)


def counted_of(advice: Advice, fail_on: Sequence[Condition]) -> Iterator[Counted]:
    """Yield the new nodes, and the pods that nothing helps, as far as `fail_on` holds them."""
    if NEW_NODES in fail_on:
        new = [*advice.adds, *(node for removal in advice.removes for node in removal.replacements)]
        yield from (Counted(node.node.metadata.name, "NewNode") for node in new)
    if UNSCHEDULABLE in fail_on:
        yield from (Counted(pod, "Unschedulable") for pod in advice.unhelped)


def prepared(base: Base) -> PreparedCluster:
    """Return the cluster of a planner as its autoscaler sees it."""
    return PreparedCluster(base.objects, base.session, base.now)


def removed_nodes(removals: Iterable[Removal]) -> tuple[RemovedNodes, ...]:
    """Return the documents about the nodes that go."""
    return tuple(
        RemovedNodes(
            nodes=removal.nodes,
            reason=removal.reason,
            replacements=tuple(map(added_node, removal.replacements)),
            moves=dict(removal.moves),
            saves=removal.saves,
            after=removal.after,
        )
        for removal in removals
    )
