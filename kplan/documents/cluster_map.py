"""ClusterMap: how full every node is before and after, and which pods come and go, for pictures."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from kplan.facts import Document, Positive


class NodeLoad(Document, frozen=True, kw_only=True):
    """One node; the tuples are in the order of the map's resources.

    Attributes
    ----------
    group : value of the map's group label; empty for none
    zone : value of topology.kubernetes.io/zone; empty for none
    cordoned : takes no new pods, before or after
    new : an autoscaler adds it
    allocatable, before, after : milliCPU for cpu, bytes or counts for all else
    arriving, leaving : NAMESPACE/NAME of pods that this answer brings here or takes away
    """

    name: str
    group: str = ""
    zone: str = ""
    cordoned: bool = False
    new: bool = False
    allocatable: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    arriving: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()


class GroupOnMap(Document, frozen=True, kw_only=True):
    """Where the pods of a PodGroup run.

    Attributes
    ----------
    group : NAMESPACE/NAME
    before, after : node -> number of its pods there
    """

    group: str
    before: dict[str, Positive] = {}
    after: dict[str, Positive] = {}


class ClusterMap(Document, frozen=True, kw_only=True):
    """All nodes, by name.

    Attributes
    ----------
    group_label : the label by which nodes are coloured; null when they have none in common
    pod_groups : the groups of which pods run, before or after, by name; absent where there are none
    """

    resources: tuple[str, ...]
    group_label: str | None
    nodes: tuple[NodeLoad, ...]
    pod_groups: tuple[GroupOnMap, ...] | UnsetType = UNSET
