"""Every change: a struct with its document, its sentence, the commands to paste, its undo, and its weight."""

from __future__ import annotations

from kplan.changes.base import MAX_GRACE, ChangeBase, DrainOptions, OfNodes, Upgrade
from kplan.changes.nodes import (
    TAINTS_HINT,
    AddNodes,
    AwaitNodes,
    ChangeOfNodes,
    Conditions,
    Cordon,
    Drain,
    Fail,
    Move,
    NotReady,
    Place,
    Recover,
    RemoveNodes,
    Taint,
    Uncordon,
    taint_of,
)
from kplan.changes.objects import (
    Admitted,
    Apply,
    ChangeOfLimits,
    ChangeOfObjects,
    Delete,
    GroupSize,
    LoosenBudget,
    Patch,
    Pool,
    RaiseQuota,
    Resize,
    RunCronJob,
    Scale,
    Settle,
)

__all__ = [
    "MAX_GRACE",
    "TAINTS_HINT",
    "AddNodes",
    "Admitted",
    "Apply",
    "AwaitNodes",
    "Change",
    "ChangeBase",
    "Conditions",
    "Cordon",
    "Delete",
    "Drain",
    "DrainOptions",
    "Fail",
    "GroupSize",
    "LoosenBudget",
    "Move",
    "NotReady",
    "OfNodes",
    "Patch",
    "Place",
    "Pool",
    "RaiseQuota",
    "Recover",
    "RemoveNodes",
    "Resize",
    "RunCronJob",
    "Scale",
    "Settle",
    "Taint",
    "Uncordon",
    "Upgrade",
    "taint_of",
]

Change = ChangeOfObjects | ChangeOfNodes | ChangeOfLimits
"""Every change; the tag ``change`` tells them apart in JSON."""
