"""What if: a planner for the changed cluster, which shares the parts that do not change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from kplan.cluster.base import Base
from kplan.effects.settle import scaled, settled
from kplan.whatif.edits import Scale, Settle, WhatIf, rewritten, with_change, with_warnings

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
    snapshot = base.snapshot
    for change in changes:
        if isinstance(change, Scale):
            after, note = scaled(base.with_snapshot(snapshot), change)
        elif isinstance(change, Settle):
            after, note = settled(base.with_snapshot(snapshot))
        else:
            after, note = rewritten(snapshot, change)
        snapshot = with_change(after, note)
    return base if snapshot is base.snapshot else base.with_snapshot(with_warnings(base.snapshot, snapshot))
