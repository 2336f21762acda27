"""What extenders say of nodes in a scheduling cycle, on top of the plugins."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kplan.engine.arrays import Int64Array, RowArray
from kplan.engine.verdicts import Code, Reason
from kplan.framework.diagnosis import FilterOutcome, NodeStatus
from kplan.framework.extenders import ExtenderError
from kplan.framework.interface import CycleState
from kplan.framework.outcomes import PluginError, ScoreOutcome, ScorePart
from kplan.framework.runtime import Framework
from kplan.framework.session import Session
from kplan.framework.shape_cache import ShapeEntry

EXTENDER_SCALE = 10
"""Extenders score 0 to 10, the scheduler 0 to 100."""


def filter_by_extenders(session: Session, cycle: CycleState, outcome: FilterOutcome) -> None:
    """Take the nodes that extenders reject out of an outcome."""
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
    """Return the scores of feasible nodes, with those of extenders."""
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
