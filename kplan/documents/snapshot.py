"""SnapshotOverview and SnapshotCheck: what is in a snapshot, and what in it does not fit together."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from kplan.documents.base import ClusterChange, Count, Digest, Document, Head, InputWarning, MissingKind


class InspectedSnapshot(Document, frozen=True, kw_only=True):
    """The snapshot that was looked into.

    Attributes
    ----------
    taken_at : RFC 3339; null when unknown
    changes : what was changed on paper, in that order; absent where nothing was
    """

    source: str
    taken_at: str | None
    server_version: str | None
    nodes: Count
    pods: Count
    digest: Digest
    missing: tuple[MissingKind, ...]
    changes: tuple[ClusterChange, ...] | UnsetType = UNSET


class NodeOverview(Document, frozen=True, kw_only=True):
    """How many nodes there are of what sort.

    Attributes
    ----------
    zones : zone -> nodes; the empty name for nodes without one
    kubelet_versions : version -> nodes
    """

    total: Count
    ready: Count
    unschedulable: Count
    tainted: Count
    control_plane: Count
    zones: dict[str, Count]
    kubelet_versions: dict[str, Count]


class PodOverview(Document, frozen=True, kw_only=True):
    """How many pods there are in which state; each counts once, in the first that holds.

    Attributes
    ----------
    schedulers : scheduler name -> pods
    """

    total: Count
    terminated: Count
    terminating: Count
    running: Count
    gated: Count
    nominated: Count
    pending: Count
    schedulers: dict[str, Count]


class ResourceTotal(Document, frozen=True, kw_only=True):
    """One resource over the whole cluster.

    Attributes
    ----------
    allocatable : what all nodes offer: cores, bytes or pieces
    requested : what the pods on them ask for
    """

    name: str
    allocatable: int | float
    requested: int | float


class SnapshotOverview(Head, frozen=True, kw_only=True):
    """What kplan snapshot show says.

    Attributes
    ----------
    counts : resource -> objects; kinds without any are left out
    skipped : kinds that scheduling does not read -> objects
    """

    kind: Literal["SnapshotOverview"] = "SnapshotOverview"
    snapshot: InspectedSnapshot
    counts: dict[str, Count]
    skipped: dict[str, Count]
    nodes: NodeOverview
    pods: PodOverview
    resources: tuple[ResourceTotal, ...]
    warnings: tuple[InputWarning, ...]


class SnapshotCheck(Head, frozen=True, kw_only=True):
    """What kplan snapshot check found.

    Attributes
    ----------
    valid : whether there are no findings; notes do not count
    notes : worth knowing, and nothing need be wrong
    """

    kind: Literal["SnapshotCheck"] = "SnapshotCheck"
    snapshot: InspectedSnapshot
    valid: bool
    findings: tuple[InputWarning, ...]
    notes: tuple[InputWarning, ...]
