"""What is in files: manifests (PodsReport), snapshots (SnapshotOverview, SnapshotCheck) and configurations.

The pods of a PodsReport are as the API server would store them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from kplan.admission.stored import FilledField
from kplan.config.loading import Difference
from kplan.documents.base import Head, SnapshotRef, now
from kplan.documents.change import LearnedDurations
from kplan.facts import Count, Document, InputWarning
from kplan.snapshot.inspect import NodeOverview, PodOverview


class InspectedSnapshot(SnapshotRef, frozen=True, kw_only=True):
    """The snapshot that a report is about."""

    server_version: str | None


class ResourceTotal(Document, frozen=True, kw_only=True):
    """A resource, summed over the whole cluster."""

    name: str
    allocatable: int | float  #: of all nodes, in cores, bytes or pieces
    requested: int | float  #: by the pods on them


class SnapshotOverview(Head, frozen=True, kw_only=True):
    """The answer of kplan snapshot show."""

    kind: Literal["SnapshotOverview"] = "SnapshotOverview"
    snapshot: InspectedSnapshot
    counts: dict[str, Count]  #: resource -> objects; kinds without any are left out
    skipped: dict[str, Count]  #: kinds that scheduling does not read -> objects
    nodes: NodeOverview
    pods: PodOverview
    resources: tuple[ResourceTotal, ...]
    warnings: tuple[InputWarning, ...]
    #: KIND/NAMESPACE/NAME of a workload -> how long its pods took so far; where --durations asks for it
    durations: dict[str, LearnedDurations] | UnsetType = UNSET


class SnapshotCheck(Head, frozen=True, kw_only=True):
    """The answer of kplan snapshot check."""

    kind: Literal["SnapshotCheck"] = "SnapshotCheck"
    snapshot: InspectedSnapshot
    valid: bool  #: there are no findings; notes do not count
    findings: tuple[InputWarning, ...]
    notes: tuple[InputWarning, ...]  #: worth knowing, without being wrong


class GateState(Document, frozen=True, kw_only=True):
    """A feature gate."""

    on: bool
    default: bool
    stage: str  #: Alpha, Beta or GA
    locked: bool  #: it cannot be changed


class SchedulerConfigReport(Head, frozen=True, kw_only=True):
    """The answer of kplan config show."""

    kind: Literal["SchedulerConfigReport"] = "SchedulerConfigReport"
    source: str
    kubernetes_version: str  #: the release whose defaults hold
    feature_gates: dict[str, GateState]  #: those that scheduling depends on, as they are set
    configuration: dict[str, Any]  #: a KubeSchedulerConfiguration, every default filled in
    differences: tuple[Difference, ...]
    warnings: tuple[InputWarning, ...]


class ConfigProblem(Document, frozen=True, kw_only=True):
    """A problem for which kube-scheduler refuses the configuration."""

    path: str  #: JSON path; empty where none is known
    line: int | None  #: line of the file; null where none is known
    message: str
    hint: str  #: what to do about it; empty for none


class SchedulerConfigCheck(Head, frozen=True, kw_only=True):
    """The answer of kplan config check."""

    kind: Literal["SchedulerConfigCheck"] = "SchedulerConfigCheck"
    source: str
    valid: bool
    problems: tuple[ConfigProblem, ...]
    warnings: tuple[InputWarning, ...]


class PodSource(Document, frozen=True, kw_only=True):
    """The object of a manifest that creates pods."""

    file: str
    document: int  #: counted from 1
    line: int | None  #: of its name; null for an object that comes from no file
    kind: str
    namespace: str
    name: str


class PodsMade(Document, frozen=True, kw_only=True):
    """Pods of one object that are alike but for their names."""

    source: PodSource = msgspec.field(name="from")  #: the object that creates them
    count: Count  #: how many; 0 where it creates none now
    refusal: str  #: the API server's words where it refuses them; empty where it accepts them
    object: dict[str, Any]  #: the first of them, as it would be stored
    changes: tuple[FilledField, ...]  #: the fields that were filled in


class PodsSummary(Document, frozen=True, kw_only=True):
    """Totals."""

    pods: Count
    refused: Count


class PodsReport(Head, frozen=True, kw_only=True):
    """The answer of kplan pods."""

    kind: Literal["PodsReport"] = "PodsReport"
    generated_at: str = msgspec.field(default_factory=now)
    cluster: str  #: the source of the cluster whose rules hold
    summary: PodsSummary
    pods: tuple[PodsMade, ...]
    skipped: dict[str, Count]  #: objects that create no pods, by kind
    warnings: tuple[InputWarning, ...]
