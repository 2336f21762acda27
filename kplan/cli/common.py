"""The options that all questions share, as one group: the cluster, the scheduler, the output, and messages."""

from __future__ import annotations

from dataclasses import dataclass

from kplan.cli.autoscaling import GrowingClusterFlags
from kplan.cli.flags import OutputFlags, SavedOutputFlags, SchedulerFlags, VerbosityFlags
from kplan.cli.what_if import ChangedClusterFlags


@dataclass(frozen=True)
class CommonFlags:
    """What a question is asked about, by which scheduler, and how its answer is written."""

    cluster: ChangedClusterFlags
    scheduler: SchedulerFlags
    output: OutputFlags
    verbosity: VerbosityFlags


@dataclass(frozen=True)
class SavingFlags(CommonFlags):
    """The same with ``--save``."""

    output: SavedOutputFlags


@dataclass(frozen=True)
class GrowingFlags(CommonFlags):
    """The same about a cluster whose autoscaler may be followed."""

    cluster: GrowingClusterFlags


@dataclass(frozen=True)
class GrowingSavingFlags(GrowingFlags):
    """The same with ``--save``."""

    output: SavedOutputFlags
