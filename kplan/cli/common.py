"""The options that all questions share, as one group: the cluster, the scheduler, the output, and messages."""

from __future__ import annotations

from kplan.cli.autoscaling import GrowingClusterFlags
from kplan.cli.flags import OutputFlags, SavedOutputFlags, SchedulerFlags, VerbosityFlags
from kplan.cli.options import options
from kplan.cli.what_if import ChangedClusterFlags


@options
class CommonFlags:
    """What a question is asked about, by which scheduler, and how its answer is written."""

    cluster: ChangedClusterFlags
    scheduler: SchedulerFlags
    output: OutputFlags
    verbosity: VerbosityFlags


@options
class SavingFlags(CommonFlags):
    """The same with ``--save``."""

    output: SavedOutputFlags


@options
class GrowingFlags(CommonFlags):
    """The same about a cluster whose autoscaler may be followed."""

    cluster: GrowingClusterFlags


@options
class GrowingSavingFlags(GrowingFlags):
    """The same with ``--save``."""

    output: SavedOutputFlags
