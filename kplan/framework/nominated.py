"""The nominated node of a pod, which is tried before all others.

Upstream: pkg/scheduler/schedule_one.go evaluateNominatedNode.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kplan.engine.verdicts import Code
from kplan.framework.diagnosis import FilterOutcome, NodeStatus
from kplan.framework.extended import filter_by_extenders
from kplan.framework.interface import CycleState
from kplan.framework.outcomes import PluginError, PreFilterOutcome
from kplan.framework.runtime import Framework
from kplan.framework.session import Session


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
    """Add the status of a rejected nominated node to the outcome of a search that did not evaluate that node."""
    for row, status in rejected.items():
        is_not_evaluated = outcome.not_evaluated is not None and bool(outcome.not_evaluated[row])
        if is_not_evaluated or outcome.position(row) is None:
            outcome.overrides[row] = status
        if is_not_evaluated and outcome.not_evaluated is not None:
            outcome.not_evaluated[row] = False
