"""A planner's cluster changed on paper, change by change; what did not change is shared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from kplan.planner.base import Base
from kplan.planner.on_paper import Scale, Settle, WhatIf, rewritten, with_change, with_warnings
from kplan.planner.settling import scaled, settled

B = TypeVar("B", bound=Base)


def changed(base: B, changes: Iterable[WhatIf]) -> B:
    """Return a planner of the changed cluster; the first stays as it is.

    Parameters
    ----------
    changes : applied in this order, each to what the earlier ones left

    Raises
    ------
    NotFoundError
        When something that is named is not there.
    UsageError
        For a change that makes no sense.
    """
    snapshot = base.snapshot
    for change in changes:
        if isinstance(change, Scale):
            after, note = scaled(base.with_snapshot(snapshot), change)
        elif isinstance(change, Settle):
            after, note = settled(base.with_snapshot(snapshot), change)
        else:
            after, note = rewritten(snapshot, change)
        snapshot = with_change(after, note)
    return base if snapshot is base.snapshot else base.with_snapshot(with_warnings(base.snapshot, snapshot))
