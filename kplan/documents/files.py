"""What is in files: SnapshotOverview, SnapshotCheck, SchedulerConfigReport and SchedulerConfigCheck."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from kplan.config.loading import Difference
from kplan.documents.base import Digest, Head
from kplan.documents.change import LearnedDurations
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


class GateState(Document, frozen=True, kw_only=True):
    """A feature gate.

    Attributes
    ----------
    stage : Alpha, Beta or GA
    locked : it cannot be changed
    """

    on: bool
    default: bool
    stage: str
    locked: bool


class SchedulerConfigReport(Head, frozen=True, kw_only=True):
    """The answer of kplan config show.

    Attributes
    ----------
    kubernetes_version : the release whose defaults hold
    feature_gates : those that scheduling depends on, as they are set
    configuration : a KubeSchedulerConfiguration, every default filled in
    """

    kind: Literal["SchedulerConfigReport"] = "SchedulerConfigReport"
    source: str
    kubernetes_version: str
    feature_gates: dict[str, GateState]
    configuration: dict[str, Any]
    differences: tuple[Difference, ...]
    warnings: tuple[InputWarning, ...]


class ConfigProblem(Document, frozen=True, kw_only=True):
    """A problem for which kube-scheduler refuses the configuration.

    Attributes
    ----------
    path : JSON path; empty where none is known
    line : line of the file; null where none is known
    hint : what to do about it; empty for none
    """

    path: str
    line: int | None
    message: str
    hint: str


class SchedulerConfigCheck(Head, frozen=True, kw_only=True):
    """The answer of kplan config check."""

    kind: Literal["SchedulerConfigCheck"] = "SchedulerConfigCheck"
    source: str
    valid: bool
    problems: tuple[ConfigProblem, ...]
    warnings: tuple[InputWarning, ...]
