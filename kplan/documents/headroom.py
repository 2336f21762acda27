"""HeadroomReport: how many more replicas of each workload fit, each counted alone."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from kplan.documents.base import Count, Document, Report
from kplan.documents.placement import PodPlacement


class WorkloadHeadroom(Document, frozen=True, kw_only=True):
    """How many more replicas of one workload fit.

    Attributes
    ----------
    workload : KIND/NAMESPACE/NAME
    running : pods that it has on nodes
    fits : how many more; at least so many where the count ends at its limit
    nodes : nodes that take any of them
    requests : of one replica
    stop : the decision about the first replica that did not fit; null when the count ended before
    wanted : how many more of this workload should fit; absent where the report says it for all
    pool : the node pool whose nodes count, for one more pod like the workload; absent where all nodes do
    """

    workload: str
    running: Count
    fits: Count
    nodes: Count
    priority: int
    requests: dict[str, str]
    stop: PodPlacement | None
    wanted: Count | UnsetType = UNSET
    pool: str | UnsetType = UNSET


class HeadroomReport(Report, frozen=True, kw_only=True):
    """The answer of kplan capacity --headroom: each workload alone, from the same start.

    Attributes
    ----------
    wanted : --replicas
    limit : each count stops here; without --max only where replicas have to be placed one by one
    workloads : the tightest first, then by name
    """

    kind: Literal["HeadroomReport"] = "HeadroomReport"
    wanted: int | None
    limit: Count
    workloads: tuple[WorkloadHeadroom, ...]
