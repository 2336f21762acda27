"""The question for an autoscaler alone: which nodes it adds, removes and keeps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from msgspec import UNSET

from kplan.autoscaling.seam import Advice, NewNode, PreparedCluster
from kplan.autoscaling.settings import set_up
from kplan.documents.base import Condition, Verdict
from kplan.documents.nodes import AddedNode, AutoscalerRef, KeptNode, NodePrices, NodesReport, RemovedNodes
from kplan.errors import UsageError
from kplan.planner.base import Base
from kplan.planner.verdict import NONE, counted_warnings

MAX_LOOPS = 1_000


def nodes_report(
    base: Base, *, full: bool = False, loops: Sequence[float] | None = (0,), fail_on: Sequence[Condition] = (NONE,)
) -> NodesReport:
    """Return the NodesReport.

    Parameters
    ----------
    full : include the whole decision in the autoscaler's own terms
    loops : seconds at which an autoscaler that works in loops looks, in ascending order; None for as long as it waits
        before it removes a node
    fail_on : what makes the verdict a failure

    Raises
    ------
    UsageError
        When the planner follows no autoscaler, or `loops` are not times in ascending order.
    """
    if base.autoscaler is None:
        raise UsageError("no autoscaler to ask", hint="give the planner one, such as kplan.Karpenter()")
    autoscaler = set_up(base.autoscaler, base.world)
    loops = autoscaler.usual_loops if loops is None else loops
    is_ascending = all(0 <= first <= then < math.inf for first, then in itertools.pairwise((0.0, *loops)))
    if not 0 < len(loops) <= MAX_LOOPS or not is_ascending:
        raise UsageError("loops are not times in ascending order", hint="give seconds from 0, such as 0 and 10")
    advice = autoscaler.look(prepared(base), full=full, loops=loops)
    context = base.context()
    warnings = tuple(dict.fromkeys((*context.warnings, *advice.warnings)))
    return NodesReport(
        snapshot=context.snapshot,
        scheduler=context.scheduler,
        verdict=Verdict.of(fail_on, counted_warnings(warnings, fail_on)),
        warnings=warnings,
        autoscaler=AutoscalerRef(name=autoscaler.name, version=autoscaler.version, source=autoscaler.source),
        adds=tuple(map(_added, advice.adds)),
        existing=dict(advice.existing),
        unhelped={pod: dict(why) for pod, why in advice.unhelped.items()},
        events=dict(advice.events),
        removes=_removed(advice),
        stays={stay.node: KeptNode(reason=stay.reason, message=stay.message, pod=stay.pod) for stay in advice.stays},
        price=NodePrices(before=advice.price_before, after=advice.price_after),
        detail=dict(advice.detail) if full else UNSET,
    )


def prepared(base: Base) -> PreparedCluster:
    """Return the cluster of a planner as its autoscaler sees it."""
    return PreparedCluster(base.world, base.session, base.now)


def _added(new: NewNode) -> AddedNode:
    return AddedNode(
        name=new.node.metadata.name,
        pool=new.pool or UNSET,
        group=new.group or UNSET,
        instance_type=new.instance_type,
        zone=new.zone,
        capacity_type=new.capacity_type,
        price=new.price,
        pods=new.pods,
        options=new.options,
    )


def _removed(advice: Advice) -> tuple[RemovedNodes, ...]:
    return tuple(
        RemovedNodes(
            nodes=removal.nodes,
            reason=removal.reason,
            replacements=tuple(map(_added, removal.replacements)),
            moves=dict(removal.moves),
            saves=removal.saves,
            after=removal.after,
        )
        for removal in advice.removes
    )
