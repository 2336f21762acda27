"""DrainsReport: what becomes of the pods when one node goes, for each node alone; or one pool, or one zone."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kplan.documents.base import Count, Counted, Document, Report


class DrainOutcome(Document, frozen=True, kw_only=True):
    """What becomes of the pods of one node, or of the nodes that go together.

    Attributes
    ----------
    name : the node, or the value of the label that the nodes share
    may_go : nothing in --fail-on happens
    placed : pods that come elsewhere, those that make room among them
    pending : pods that find no place
    blocked : pods that may not be evicted
    evicted : pods that nobody recreates
    preempted : pods that make room for others
    because : the first reason, in words, where something is pending or blocked
    pod : NAMESPACE/NAME of the pod that says so
    counted : what happens that counts
    """

    name: str
    nodes: Annotated[tuple[str, ...], Meta(min_length=1)]
    may_go: bool
    placed: Count
    pending: Count
    blocked: Count
    evicted: Count
    preempted: Count
    because: str = ""
    pod: str = ""
    counted: tuple[Counted, ...] = ()


class DrainsReport(Report, frozen=True, kw_only=True):
    """The answer of kplan drain --each: every node alone, from the same start.

    Attributes
    ----------
    label : nodes that share a value of it go together; null where each goes alone
    drains : the worst first
    """

    kind: Literal["DrainsReport"] = "DrainsReport"
    label: str | None
    drains: tuple[DrainOutcome, ...]
