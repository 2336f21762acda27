"""ClustersReport: one question asked about several clusters."""

from __future__ import annotations

from typing import Any, Literal

from kplan.documents.base import Report
from kplan.facts import Count, Document


class ClusterAnswer(Document, frozen=True, kw_only=True):
    """The answer of one cluster.

    Attributes
    ----------
    source : the snapshot of the cluster
    nodes : how many it has
    has_room : nothing happens there that --fail-on lists
    because : what happens, a line for each event
    answer : in one sentence
    report : the whole document, as the question about this cluster alone has it
    """

    source: str
    nodes: Count
    has_room: bool
    because: tuple[str, ...] = ()
    answer: str
    report: dict[str, Any]


class ClustersReport(Report, frozen=True, kw_only=True):
    """The answer of kplan place about several clusters: which of them has room.

    Attributes
    ----------
    snapshot, scheduler : those of the first cluster
    warnings : those of all clusters, each once
    clusters : in the order in which they were named
    """

    kind: Literal["ClustersReport"] = "ClustersReport"
    clusters: tuple[ClusterAnswer, ...]
