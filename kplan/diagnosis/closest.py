"""The rejected nodes that are closest to feasible, by reason.

A node is closer if it has fewer reasons; with equally many, if less is missing, where that is measurable.
"""

from __future__ import annotations

import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.verdicts import Reason, Verdicts
from kplan.framework.diagnosis import FilterOutcome

Group = tuple[str, str]
"""The plugin that rejects first, and its reason."""


def closest_rows(outcome: FilterOutcome, limit: int | None) -> dict[Group, list[int]]:
    """Return for each group of rejected nodes at most `limit` rows, the closest first.

    Notes
    -----
    Ties are in the order of rows, so by name. Rows that nominated pods, an extender or PreFilter reject cannot be
    measured; they follow in the order of names.
    """
    if outcome.pre_filter_status is not None:
        rows = list(range(outcome.n_nodes if limit is None else min(limit, outcome.n_nodes)))
        return {(outcome.pre_filter_status.plugin, text): rows for text in outcome.pre_filter_status.reasons}
    closest: dict[Group, list[int]] = {}
    all_rows = np.arange(outcome.n_nodes) if outcome.rows is None else outcome.rows
    measured = outcome.verdicts_count
    n_reasons = _reasons_against(outcome)
    for index, (plugin, verdict) in enumerate(outcome.verdicts):
        is_first = (outcome.first == index) & measured
        if not is_first.any():
            continue
        for k, reason in enumerate(verdict.reasons):
            positions = np.flatnonzero(is_first & _holds(verdict, k))
            if len(positions):
                ordered = _by_closeness(positions, n_reasons, reason)
                closest[plugin, reason.text] = all_rows[ordered[:limit]].tolist()
    _add_unmeasured(outcome, closest, limit)
    return closest


def _holds(verdict: Verdicts, k: int) -> BoolArray:
    holds: BoolArray = (verdict.bits >> k & 1).astype(np.bool_)
    return holds


def _reasons_against(outcome: FilterOutcome) -> Int64Array:
    total = np.zeros(len(outcome.first), np.int64)
    for _, verdict in outcome.verdicts:
        if verdict.bits.any():
            for k in range(len(verdict.reasons)):
                total += _holds(verdict, k)
    return total


def _by_closeness(positions: RowArray, n_reasons: Int64Array, reason: Reason) -> RowArray:
    missing = np.zeros(len(positions), np.int64) if reason.shortfall is None else reason.shortfall(positions)
    return positions[np.lexsort((positions, missing, n_reasons[positions]))]


def _add_unmeasured(outcome: FilterOutcome, closest: dict[Group, list[int]], limit: int | None) -> None:
    others: dict[Group, list[int]] = {}
    for row in sorted(outcome.overrides):
        status = outcome.status(row)
        if status is not None:
            for text in status.texts:
                others.setdefault((status.plugin, text), []).append(row)
    if outcome.absent is not None:
        absent = outcome.absent_rows()[:limit].tolist()
        for text in outcome.absent.texts if absent else ():
            others.setdefault((outcome.absent.plugin, text), []).extend(absent)
    for group, rows in others.items():
        closest[group] = [*closest.get(group, ()), *rows][:limit]
