"""SnapshotOverview and SnapshotCheck: the contents of a snapshot, and its contradictions."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from kplan.documents.base import Digest, Head
from kplan.documents.timeline import LearnedDurations
from kplan.facts import ClusterChange, Count, Document, InputWarning, MissingKind
from kplan.snapshot.inspect import NodeOverview, PodOverview


class InspectedSnapshot(Document, frozen=True, kw_only=True):
    """The snapshot that a report is about.

    Attributes
    ----------
    taken_at : RFC 3339; null when unknown
    changes : the changes on paper, in order; absent where there are none
    """

    source: str
    taken_at: str | None
    server_version: str | None
    nodes: Count
    pods: Count
    digest: Digest
    missing: tuple[MissingKind, ...]
    changes: tuple[ClusterChange, ...] | UnsetType = UNSET


class ResourceTotal(Document, frozen=True, kw_only=True):
    """A resource, summed over the whole cluster.

    Attributes
    ----------
    allocatable : of all nodes, in cores, bytes or pieces
    requested : by the pods on them
    """

    name: str
    allocatable: int | float
    requested: int | float


class SnapshotOverview(Head, frozen=True, kw_only=True):
    """The answer of kplan snapshot show.

    Attributes
    ----------
    counts : resource -> objects; kinds without any are left out
    skipped : kinds that scheduling does not read -> objects
    durations : KIND/NAMESPACE/NAME of a workload -> how long its pods took so far; where --durations asks for it
    """

    kind: Literal["SnapshotOverview"] = "SnapshotOverview"
    snapshot: InspectedSnapshot
    counts: dict[str, Count]
    skipped: dict[str, Count]
    nodes: NodeOverview
    pods: PodOverview
    resources: tuple[ResourceTotal, ...]
    warnings: tuple[InputWarning, ...]
    durations: dict[str, LearnedDurations] | UnsetType = UNSET


class SnapshotCheck(Head, frozen=True, kw_only=True):
    """The answer of kplan snapshot check.

    Attributes
    ----------
    valid : there are no findings; notes do not count
    notes : worth knowing, without being wrong
    """

    kind: Literal["SnapshotCheck"] = "SnapshotCheck"
    snapshot: InspectedSnapshot
    valid: bool
    findings: tuple[InputWarning, ...]
    notes: tuple[InputWarning, ...]
