"""DrainsReport: what becomes of the pods of each node if it alone is drained; RunbookReport: a safe order of drains."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from kplan.api.names import WorkloadRef
from kplan.api.quantity import clause, count
from kplan.changes.remedy import Remedy
from kplan.changes.values import Change, Place
from kplan.documents.base import Counted, Report
from kplan.documents.nodes import ClusterMap
from kplan.facts import Count, Document, Seconds


class DrainOutcome(Document, frozen=True, kw_only=True):
    """What becomes of the pods of one node, or of nodes that are drained together."""

    name: str  #: the node, or the value of the label that the nodes share
    nodes: Annotated[tuple[str, ...], Meta(min_length=1)]
    may_go: bool  #: nothing happens that --fail-on lists
    placed: Count  #: pods that are placed on other nodes because of it, preempted ones included
    pending: Count  #: pods that find no place because of it
    waiting: Count = 0  #: pods that find no place in any case: they were pending before, or make way for such pods
    come_back: Count = 0  #: new pods that go to the drained nodes, as they tolerate that these are cordoned
    blocked: Count  #: pods that cannot be evicted
    evicted: Count  #: pods that leave because of it, and that no controller recreates
    #: pods that are evicted for others because of it; those that make way for pods that were pending before are left
    #: out
    preempted: Count
    #: drainable; pending: the nodes can be emptied, and pods find no place; blocked: they cannot be emptied
    state: Literal["drainable", "pending", "blocked"] = "drainable"
    budgets: tuple[str, ...] = ()  #: NAMESPACE/NAME of the disruption budgets that block
    because: str = ""  #: the first reason, in words, where something is pending, blocked, not replaced or stuck
    pod: str = ""  #: NAMESPACE/NAME of the pod with that reason; empty for a workload that is stuck without one
    workload: str = ""  #: KIND/NAMESPACE/NAME of its owner, or of what is stuck; empty for none
    counted: tuple[Counted, ...] = ()  #: the events that --fail-on lists
    #: after how many seconds the nodes are empty; null for never, absent without a clock and for lost nodes
    emptied: Seconds | UnsetType | None = UNSET
    #: after how many seconds every workload but jobs and daemon sets has as many ready pods as before, or as it wants;
    #: null for never, absent without a clock
    restored: Seconds | UnsetType | None = UNSET

    @property
    def trouble(self) -> str:
        """What stands in the way or comes of it, with its name, number and reason, without a full stop."""
        who = self.workload.partition("/")[2] or self.pod
        parts = []
        if self.come_back:
            parts.append(f"{count(self.come_back, 'new pod goes', 'new pods go')} back, so that it is not empty")
        if self.blocked:
            others = f", and {count(self.blocked - 1, 'other pod')} too" if self.blocked > 1 else ""
            parts.append(f"{who} blocks it{others}: {self.because}")
        if self.pending:
            fit = "fits" if self.pending == 1 else "fit"
            such = f" (such as {who})" if self.pending > 1 and not self.blocked else ""
            pods = f"1 pod of {who}" if self.workload else who
            pods = count(self.pending, "pod") if self.pending > 1 or self.blocked else pods
            why = "" if self.blocked or not self.because else f": {clause(self.because)}"
            parts.append(f"{pods} {fit} nowhere{such}{why}")
        not_replaced = sum(event.rule == "NotReplaced" for event in self.counted)
        if not_replaced:
            such = f" ({self.pod}: {self.because})" if self.because and not (self.blocked or self.pending) else ""
            parts.append(f"pods of {count(not_replaced, 'workload')} are not replaced{such}")
        if not parts and self.because:
            fails = Counted(self.workload, "JobFailed") in self.counted
            parts.append(f"{WorkloadRef.parse(self.workload).title} {'fails' if fails else 'is stuck'}: {self.because}")
        return "; ".join(parts)


class DrainsReport(Report, frozen=True, kw_only=True):
    """The answer of kplan drain --each: every node alone, from the same start."""

    kind: Literal["DrainsReport"] = "DrainsReport"
    label: str | None  #: nodes with the same value are drained together; null where each is drained alone
    drains: tuple[DrainOutcome, ...]  #: the worst first
    lost: Literal[True] | UnsetType = UNSET  #: true where the nodes are lost; absent where they are drained
    cluster: ClusterMap | UnsetType = UNSET  #: every node as it is; where --explain or a picture asks for it


class Preempted(Document, frozen=True, kw_only=True):
    """A pod that makes room for another, and where its controller's next pod goes."""

    pod: str
    by: str  #: NAMESPACE/NAME of the pod that needs the room
    goes_to: str = ""  #: empty where the next pod waits


class TooFew(Document, frozen=True, kw_only=True):
    """A workload of which too few pods are ready at the worst moment."""

    workload: str  #: KIND/NAMESPACE/NAME
    ready: Count
    wanted: Count


class StuckNode(Document, frozen=True, kw_only=True):
    """A node that does not drain safely after all others."""

    name: str
    #: by which it counts: Blocked, NeverGone, Unschedulable, NotReplaced, DrainTimedOut, PdbViolation or Stuck; Blocked
    #: in reports of kplan 0.2, which do not name it
    rule: str = "Blocked"
    #: NAMESPACE/NAME of the first pod that cannot be evicted, that finds no place, or that is preempted though its
    #: budget forbids it
    pod: str
    because: str  #: why the pod stays, by which budget, or in the words of kube-scheduler or kubectl
    #: the workload that is not available enough; absent where that is not what stops the drain
    too_few: TooFew | UnsetType = UNSET
    preempted: tuple[Preempted, ...] = ()  #: pods of other nodes that would make room


class RunbookStep(Document, frozen=True, kw_only=True):
    """A step of a runbook, simulated from the state before it."""

    #: cordon all nodes; prepare a drain by a change; add nodes; drain a node; uncordon a node; undo a change
    action: Literal["cordon", "prepare", "add-nodes", "drain", "uncordon", "undo"]
    node: str = ""  #: empty for a step that is about no single node
    commands: tuple[str, ...]  #: to be pasted, in this order; a line that starts with # says what no command does
    remedy: Remedy | UnsetType = UNSET  #: the change of a preparation, and of its undoing; absent for other steps
    change: Change | UnsetType = UNSET  #: what is done; its commands are those of the step
    moved: tuple[Place, ...] = ()  #: pods that leave the node, and where the next ones go
    silent: tuple[str, ...] = ()  #: of these nodes those that are not ready or do not answer: nothing starts there
    #: pods that have no place until the node takes pods again, as NAMESPACE/NAME of those that they follow
    waits: tuple[str, ...] = ()
    #: pods of other nodes that make room, and where the next ones go; empty where those wait
    preempted: tuple[Preempted, ...] = ()
    gone: tuple[str, ...] = ()  #: pods that no controller recreates, as NAMESPACE/NAME
    away: tuple[str, ...] = ()  #: workloads of a single pod that is not ready meanwhile, as KIND/NAMESPACE/NAME
    #: what would stop the next drain without this preparation; absent for other steps
    needed: StuckNode | UnsetType = UNSET
    seconds: float | UnsetType = UNSET  #: how long the drain takes until all is at rest; absent without a clock


class RunbookReport(Report, frozen=True, kw_only=True):
    """The answer of kplan drain --runbook: steps to tick off, each of which was simulated."""

    kind: Literal["RunbookReport"] = "RunbookReport"
    nodes: tuple[str, ...]  #: those to be drained
    rolling: bool  #: each node is uncordoned when it is empty; else all stay cordoned
    steps: tuple[RunbookStep, ...]  #: in order
    stuck: tuple[StuckNode, ...]  #: nodes that are left out, because they do not drain safely
    seconds: float | UnsetType = UNSET  #: how long all drains take one after another; absent without a clock
    tried: Count  #: how many drains were simulated
