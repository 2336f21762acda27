"""The options that all questions share, as one group: the cluster, the scheduler, the output, and messages."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from kplan.cli.arguments import STANDARD_INPUT
from kplan.cli.flags import OutputFlags, SavedOutputFlags, SchedulerFlags, VerbosityFlags
from kplan.cli.options import flag, options
from kplan.cli.what_if import ChangedClusterFlags
from kplan.errors import UsageError

if TYPE_CHECKING:
    from kplan.autoscaling.settings import Settings
    from kplan.snapshot.model import Snapshot
AutoscalerChoice = StrEnum(
    "AutoscalerChoice",
    {"AUTO": "auto", "KARPENTER": "karpenter", "CLUSTER_AUTOSCALER": "cluster-autoscaler", "NONE": "none"},
)
"""Which autoscaler is followed."""


@options
class AutoscalerFlags:
    """Options that choose the autoscaler."""

    panel: ClassVar[str] = "Autoscaler"

    autoscaler: AutoscalerChoice = flag(
        "--autoscaler",
        "Autoscaler to follow; auto: the one whose file is given, else the one that the cluster has.",
        default=AutoscalerChoice.AUTO,
    )
    node_groups: str = flag(
        "--node-groups FILE",
        "Node groups of the cluster-autoscaler, as kplan snapshot groups prints them (default: as found).",
    )
    instance_types: str = flag(
        "--instance-types FILE",
        "Instance types of Karpenter, as its kwok provider lists them (default: as nodes show them).",
    )

    karpenter_version: str = flag(
        "--karpenter-version MINOR",
        "Decide as this release of Karpenter does (default: the one that the cluster runs, else the newest).",
    )

    @property
    def names_autoscaler(self) -> bool:
        """Whether an option says which autoscaler to follow."""
        named = self.node_groups or self.instance_types or self.karpenter_version
        return self.autoscaler is not AutoscalerChoice.AUTO or bool(named)

    def check(self) -> None:
        """Raise UsageError where both files are standard input."""
        if self.node_groups == self.instance_types == STANDARD_INPUT:
            raise UsageError("standard input can be read only once", hint="give one of them as a file")

    def settings_for(self, snapshot: Snapshot) -> Settings | None:
        """Return the settings of the autoscaler to follow in a cluster; None for none."""
        from kplan.autoscaling.settings import autoscaler_of

        return autoscaler_of(
            snapshot,
            self.autoscaler.value,
            node_groups=self.node_groups or None,
            instance_types=self.instance_types or None,
            karpenter_version=self.karpenter_version or None,
        )


@options
class GrowingClusterFlags(ChangedClusterFlags, AutoscalerFlags):
    """Options for the source of the cluster, for changes of it on paper, and for the autoscaler of its nodes."""


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
