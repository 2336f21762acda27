"""NodesReport: what an autoscaler adds, removes and keeps."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from kplan.documents.base import Report
from kplan.documents.change import Step, Timeline
from kplan.documents.nodes import AddedNode, AutoscalerRef, ClusterMap, KeptNode, NodePrices, RemovedNodes


class NodesReport(Report, frozen=True, kw_only=True):
    """The answer of kplan nodes: what an autoscaler does with the nodes of a cluster.

    Attributes
    ----------
    autoscaler : which one is followed
    adds : the nodes that it adds
    existing : node -> the pending pods that it has room for, NAMESPACE/NAME
    unhelped : NAMESPACE/NAME of a pod -> pool or group -> why it cannot help, in the autoscaler's words
    events : NAMESPACE/NAME of such a pod -> what the autoscaler writes about it
    removes : the nodes that it removes
    stays : node -> why it stays
    price : of the nodes before and after
    steps : everything that happens, in order, with a clock
    timeline : when nodes come, are unneeded, are emptied and go; absent without a clock
    cluster : every node with those that are added, and the pods that they are added for; where a picture asks for it
    detail : the whole decision in the autoscaler's own terms; absent unless it was wanted
    """

    kind: Literal["NodesReport"] = "NodesReport"
    autoscaler: AutoscalerRef
    adds: tuple[AddedNode, ...]
    existing: dict[str, tuple[str, ...]]
    unhelped: dict[str, dict[str, tuple[str, ...]]]
    events: dict[str, str]
    removes: tuple[RemovedNodes, ...]
    stays: dict[str, KeptNode]
    price: NodePrices
    steps: tuple[Step, ...] | UnsetType = UNSET
    timeline: Timeline | UnsetType = UNSET
    cluster: ClusterMap | UnsetType = UNSET
    detail: dict[str, Any] | UnsetType = UNSET
