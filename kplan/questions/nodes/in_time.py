"""The NodesReport with a clock: the autoscaler looks again and again, while nodes come and go and pods move."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from kplan.answers.cluster_map import cluster_map
from kplan.answers.new_nodes import added_node, before_growth
from kplan.answers.verdict import NONE, UNAVAILABLE, opening
from kplan.autoscaling.seam import Advice
from kplan.cluster.growth import node_changes
from kplan.documents.base import Counted
from kplan.documents.nodes_report import NodesReport
from kplan.effects.report import change_warnings
from kplan.effects.timeline import Apply, TimelinePlan, carry_out_in_time
from kplan.questions.nodes.document import counted_of, no_autoscaler, removed_nodes, staying_nodes

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.cluster.showing import Showing
    from kplan.effects.clock import Clock
    from kplan.effects.subject import Subject


def nodes_in_time(subject: Subject, clock: Clock, showing: Showing) -> NodesReport:
    """Return the NodesReport: all that the autoscaler does as long as the clock looks ahead.

    Raises UsageError where no autoscaler is followed.
    """
    if subject.base.autoscaler is None:
        raise no_autoscaler()
    update = subject.update(even_new=True)
    base, workloads = (subject.base, []) if update is None else update
    plan = carry_out_in_time(
        base,
        [Apply(0.0, workloads)],
        clock.durations(base),
        until=clock.look,
        retries_pending=True,
        runs_for=clock.runs_for,
        removes_nodes=True,
        is_watched=True,
    )
    clock.tell_unused(plan, showing)
    plan = dataclasses.replace(plan, min_ready=clock.min_ready)
    document = _document(base, plan, showing)
    return replace(document, snapshot=subject.base.context().snapshot)


def _document(base: Base, plan: TimelinePlan, showing: Showing) -> NodesReport:
    growth = plan.growth
    if growth is None:
        raise no_autoscaler()
    fail_on = (NONE,) if showing.fail_on is None else showing.fail_on
    replacements = {new.node.metadata.name for removal in growth.removes for new in removal.replacements}
    adds = tuple(new for new in growth.adds if new.node.metadata.name not in replacements)
    node_of = {f"{pod.namespace}/{pod.name}": pod.node or "" for pod in plan.after}
    nodes = node_changes(growth, node_of)
    gone = {name for removal in growth.removes for name in removal.nodes}
    advice = Advice(adds=adds, removes=tuple(growth.removes), unhelped=nodes.unhelped)
    counted = [*counted_of(advice, fail_on)]
    if UNAVAILABLE in fail_on:
        counted += [Counted(name, "Unavailable") for name in plan.unavailable]
    context = base.context()
    warnings = tuple(dict.fromkeys((*context.warnings, *change_warnings(plan), *growth.all_warnings)))
    before = base.session.cluster
    after = plan.simulation.session.cluster
    return NodesReport(
        **opening(replace(context, warnings=warnings), fail_on, counted),
        autoscaler=nodes.autoscaler,
        adds=tuple(map(added_node, adds)),
        existing=nodes.existing,
        unhelped=nodes.unhelped,
        events=nodes.events,
        removes=removed_nodes(growth.removes),
        stays=staying_nodes(stay for stay in growth.advice.stays if stay.node not in gone),
        price=nodes.price,
        steps=tuple(plan.steps),
        timeline=plan.timeline,
        cluster=cluster_map(before_growth(before, after), after) if showing.with_map else UNSET,
    )
