"""PreemptionReport: which pods would be evicted for others, why those, and where they go."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType, field

from kplan.documents.base import Document, Report
from kplan.documents.cluster_map import ClusterMap
from kplan.documents.luck import Luck
from kplan.documents.nodes import NodeChanges
from kplan.documents.placement import PodPlacement, Summary
from kplan.documents.pod_groups import GroupPlan


class Aftermath(Document, frozen=True, kw_only=True):
    """What becomes of one victim.

    Attributes
    ----------
    victim : NAMESPACE/NAME of the pod that is evicted
    by : the pod for which it is evicted
    from_node : the node that it leaves
    recreated_as : the pod that replaces it; null for none, and where replacements keep being evicted
    circling : its replacements keep being evicted, and were followed no further
    placement : the last decision about that pod
    """

    victim: str
    by: str
    from_node: str = field(name="from")
    recreated_as: str | None
    circling: bool
    placement: PodPlacement | None


class PreemptionReport(Report, frozen=True, kw_only=True):
    """The answer of kplan preempt: which pods would be evicted for others, why those, and where they go.

    Attributes
    ----------
    placements : in the order in which they were decided; with --settle-preemption a pod that gets in has two in a row
    aftermath : where the victims go, when all the pods are scheduled in queue order; null unless followed
    cluster : every node before and after these pods; where --explain or a picture asks for it, if followed
    nodes : what an autoscaler adds for pods that neither fit nor preempt; absent where none is followed
    groups : what becomes of the pod groups of these pods, where the scheduler has groups
    luck : what depends on draws among equals, where the victims are followed; absent where nothing does, or there are
        too many pods to draw
    """

    kind: Literal["PreemptionReport"] = "PreemptionReport"
    summary: Summary
    placements: tuple[PodPlacement, ...]
    aftermath: tuple[Aftermath, ...] | None
    cluster: ClusterMap | UnsetType = UNSET
    nodes: NodeChanges | UnsetType = UNSET
    groups: tuple[GroupPlan, ...] | UnsetType = UNSET
    luck: Luck | UnsetType = UNSET
