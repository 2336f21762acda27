"""What if: a planner for the changed cluster, which shares the parts that do not change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from kplan.admission.quota import with_usage
from kplan.cluster.base import Base
from kplan.effects.recreating import with_requests, without
from kplan.effects.settle import scaled, settled
from kplan.reading.several import listed
from kplan.whatif.edits import (
    Scale,
    Settle,
    WhatIf,
    With,
    Without,
    cordoned,
    parse_add_nodes,
    parse_scale,
    rewritten,
    with_change,
    with_warnings,
)
from kplan.whatif.references import parse_reference
from kplan.whatif.resizing import VPA, Resize, of_autoscalers, of_krr

B = TypeVar("B", bound=Base)


def changed(base: B, changes: Iterable[WhatIf]) -> B:
    """Return a planner of the changed cluster; the first stays as it is.

    Parameters
    ----------
    changes : applied one after the other

    Raises
    ------
    NotFoundError
        When a named object does not exist.
    UsageError
        For a change that is impossible, such as scaling a kind without replicas.
    """
    snapshot, moment = base.snapshot, 0
    for change in changes:
        at = 0
        if isinstance(change, Scale):
            after, note = scaled(base.with_snapshot(snapshot), change)
        elif isinstance(change, Settle):
            after, note, at = settled(base.with_snapshot(snapshot))
        elif isinstance(change, Without):
            after, note, at = without(base.with_snapshot(snapshot), change)
        elif isinstance(change, Resize):
            after, note, at = with_requests(base.with_snapshot(snapshot), change)
        else:
            after, note = rewritten(snapshot, change)
        snapshot, moment = with_change(with_usage(after, snapshot), note), max(moment, at)
    if snapshot is base.snapshot:
        return base
    return base.with_snapshot(with_warnings(base.snapshot, snapshot), not_before=moment or None)


def changed_as(
    base: B,
    *,
    with_: Iterable[str | Path | Mapping[str, Any]] = (),
    without: Iterable[str] = (),
    add_nodes: Iterable[str] = (),
    cordon: Iterable[str] = (),
    uncordon: Iterable[str] = (),
    scale: Iterable[str] = (),
    recommendations: Iterable[str] = (),
    settle: bool = False,
) -> B:
    """Return a planner of the changed cluster, with changes as text; see `kplan.Planner.changed`."""
    changes: list[WhatIf] = [
        *map(With.of, listed(with_)),
        *(Without(parse_reference(reference)) for reference in listed(without)),
        *map(parse_add_nodes, listed(add_nodes)),
        *map(cordoned, listed(cordon)),
        *(cordoned(name, is_cordoned=False) for name in listed(uncordon)),
        *map(parse_scale, listed(scale)),
        *(of_autoscalers(source) if source == VPA else of_krr(source) for source in listed(recommendations)),
    ]
    return changed(base, [*changes, Settle()] if settle else changes)
