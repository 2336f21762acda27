"""RunbookReport: the order in which nodes drain safely, and what has to be changed before."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from kplan.documents.base import Count, Document, Report
from kplan.documents.remedies import Place
from kplan.documents.remedy import Remedy


class RunbookStep(Document, frozen=True, kw_only=True):
    """A step of a runbook, simulated from the state before it.

    Attributes
    ----------
    action : cordon all nodes; prepare a drain by a change; add nodes; drain a node; uncordon a node; undo a change
    node : empty for a step that is about no single node
    commands : to be pasted, in this order; a line that starts with # says what no command does
    remedy : the change of a preparation, and of its undoing; absent for other steps
    moved : pods that are evicted, and where the next ones go
    gone : pods that no controller recreates, as NAMESPACE/NAME
    seconds : how long the drain takes until all is at rest; absent without a clock
    """

    action: Literal["cordon", "prepare", "add-nodes", "drain", "uncordon", "undo"]
    node: str = ""
    commands: tuple[str, ...]
    remedy: Remedy | UnsetType = UNSET
    moved: tuple[Place, ...] = ()
    gone: tuple[str, ...] = ()
    seconds: float | UnsetType = UNSET


class StuckNode(Document, frozen=True, kw_only=True):
    """A node that does not drain safely after all others.

    Attributes
    ----------
    pod : NAMESPACE/NAME of the first pod that cannot be evicted, or that finds no place
    because : the words of kube-scheduler, of the eviction API or of kubectl
    """

    name: str
    pod: str
    because: str


class RunbookReport(Report, frozen=True, kw_only=True):
    """The answer of kplan drain --runbook: steps to tick off, each of which was simulated.

    Attributes
    ----------
    nodes : those to be drained
    rolling : each node is uncordoned when it is empty; else all stay cordoned
    steps : in order
    stuck : nodes that are left out, because they do not drain safely
    seconds : how long all drains take one after another; absent without a clock
    tried : how many drains were simulated
    """

    kind: Literal["RunbookReport"] = "RunbookReport"
    nodes: tuple[str, ...]
    rolling: bool
    steps: tuple[RunbookStep, ...]
    stuck: tuple[StuckNode, ...]
    seconds: float | UnsetType = UNSET
    tried: Count
