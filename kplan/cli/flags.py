"""Options that several commands share, in groups."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeVar

from kplan.api.quantity import enumerated, natural
from kplan.cli.arguments import check_read_once
from kplan.cli.cluster import ChangedClusterFlags
from kplan.cli.options import MORE, Flags, flag, option, repeated, switch
from kplan.errors import UsageError
from kplan.reading.arguments import seconds_of
from kplan.report.options import DEFAULT_TOP, OutputFormat

if TYPE_CHECKING:
    from kplan.autoscaling.settings import Settings
    from kplan.cluster.base import Base
    from kplan.course.asking import Notify
    from kplan.course.clock import Clock
    from kplan.snapshot.model import Snapshot

T = TypeVar("T")
_MANIFESTS_PANEL = "Manifests"
_MANY_PANEL = "Many questions"
_WHICH = "[WORKLOAD=]DURATION"

SamplingMode = StrEnum("SamplingMode", {"ALL": "all", "AS_CONFIGURED": "as-configured"})
"""How many nodes are evaluated."""

TieRule = StrEnum("TieRule", {"SCHEDULER": "scheduler", "NAME": "name", "EVEN": "even"})
"""Which of equal best nodes is chosen."""

ExtenderMode = StrEnum("ExtenderMode", {"IGNORE": "ignore", "CALL": "call"})
"""Whether the extenders of a configuration are called."""

ValidateMode = StrEnum("ValidateMode", {"STRICT": "strict", "WARN": "warn", "IGNORE": "ignore"})
"""How unknown fields are treated."""

RunCronJobsOption = Annotated[
    bool,
    option(
        "--run-cronjobs",
        "Start a run of each CronJob now; by default a CronJob beside other manifests waits for its schedule.",
        panel=_MANIFESTS_PANEL,
    ),
]

NamespaceOption = Annotated[str, option("--namespace -n NS", "Namespace, where the argument does not name one.")]

RunsOption = Annotated[
    int | None,
    option(
        "--runs N",
        "Ask N times, draw at random wherever kube-scheduler does, and show how often each outcome comes.",
        panel=_MANY_PANEL,
        min=1,
        max=1_000_000,
    ),
]


class ManifestFlags(Flags, panel=_MANIFESTS_PANEL):
    """Options about manifests."""

    filename: list[str] | None = repeated("--filename -f FILE", "Manifest, as in the arguments; repeatable.")
    kustomize: list[str] | None = repeated(
        "--kustomize -k DIR", "Directory with a kustomization; needs kustomize or kubectl."
    )
    namespace: str = flag("--namespace -n NS", "Namespace of objects and pods that do not name one.")
    validate: ValidateMode = flag(
        "--validate", "Refuse unknown fields, warn about them, or ignore them.", default=ValidateMode.STRICT
    )
    replicas: int | None = flag(
        "--replicas N",
        "Number of replicas, in place of the one in the manifest.",
        default=None,
        min=0,
        max=2**31 - 1,  # as the API server stores it
    )

    as_deployment: list[str] | None = repeated(
        "--as-deployment KIND",
        "Place the pods of a kind that kplan does not know, such as Rollout, as those of a Deployment.",
    )
    skip_others: bool = switch(
        "--skip-others", "Pass over named files that hold no manifests, as those of a directory.", panel=MORE
    )

    def name_any(self, what: Sequence[str] | None) -> bool:
        """Tell whether the command names manifests, or pods; `what`: its arguments."""
        return bool(what or self.filename or self.kustomize)

    def or_pods_of_namespace(self, what: Sequence[str] | None) -> "tuple[ManifestFlags, str]":
        """Return the flags for manifests, and the namespace for pods of the snapshot: ``--namespace`` is for either."""
        return (self, "") if self.name_any(what) else (replace(self, namespace=""), self.namespace)


class SchedulerFlags(Flags, panel="Scheduler"):
    """Options of the scheduler."""

    scheduler_config: str = flag(
        "--scheduler-config PATH", "KubeSchedulerConfiguration; default: that of kube-scheduler."
    )
    kubernetes_version: str = flag(
        "--kubernetes-version auto|MINOR",
        "Minor of kube-scheduler, such as 1.34; auto: that of the cluster's server.",
        default="auto",
    )
    feature_gates: str = flag("--feature-gates NAME=BOOL,...", "Feature gates of kube-scheduler to change.")
    sampling: SamplingMode = flag(
        "--sampling", "Evaluate all nodes, or stop early as percentageOfNodesToScore says.", default=SamplingMode.ALL
    )
    start_index: int | None = flag(
        "--start-index N", "Node at which the search starts, with --sampling as-configured.", default=None, min=0
    )
    ties: TieRule | None = flag(
        "--ties",
        "Which of several equally good nodes wins: the one that this release most likely takes (default), the "
        "first by name, or a random one.",
        default=None,
    )
    seed: int | None = flag("--seed N", "Seed for random draws; implies --ties even.", default=None)
    extenders: ExtenderMode = flag(
        "--extenders", "Call the extenders of the configuration, or ignore them.", default=ExtenderMode.IGNORE
    )


class VerbosityFlags(Flags, panel="Messages"):
    """Options about messages on standard error."""

    verbose: bool = switch("--verbose -v", "Print on standard error what was read and what was skipped.")
    quiet: bool = switch("--quiet -q", "Print only errors, with their hints, on standard error.")
    no_color: bool = switch("--no-color", "Print without colour; so does NO_COLOR in the environment.")


class OutputFlags(Flags, panel="Output"):
    """Options about the output and the exit code."""

    output: OutputFormat = flag(
        "--output -o FORMAT",
        f"Output format: {', '.join(OutputFormat)}, or jsonpath=TEMPLATE as in kubectl.",
        default=OutputFormat.TABLE,
    )
    report: list[str] | None = repeated(
        "--report FORMAT=PATH", "Also write a report in this format to a file; repeatable."
    )
    explain: bool = switch("--explain", "Show every node with each rejection and score.")
    top: int | None = flag(
        "--top N",
        f"Number of nodes shown in each table (default {DEFAULT_TOP}; all with --explain).",
        default=None,
        min=1,
    )
    max_listed: int = flag(
        "--max-listed N", "Number of pods that are listed; the others are counted.", default=1000, min=1
    )
    all_nodes: bool = switch("--all-nodes", "Show all nodes in tables.")
    fail_on: str = flag(
        "--fail-on LIST",
        "Exit with 1 if one of these happens: unschedulable, stuck, preemption, pdb-violation, gated, pending, "
        "new-nodes, unavailable (with --timeline), warning; or none.",
    )
    exit_zero: bool = switch("--exit-zero", "Exit with 0 even if something in --fail-on happens.")

    def reports(self) -> list[str]:
        return self.report or []


class _SaveFlags(Flags, panel="Output"):
    """The option that also saves the report."""

    save: str = flag("--save FILE", "Also save the report as JSON, for kplan show.")


class SavedOutputFlags(OutputFlags, _SaveFlags):
    """Options about the output of a command whose report can be saved at once."""

    def reports(self) -> list[str]:
        return [*super().reports(), *([f"json={self.save}"] if self.save else [])]


_ADDRESS = r"([a-z]+://)?([^\s/:\[\]]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}/?"


def _checked_address(address: str) -> str:
    """Return the address of a Dask scheduler; raises UsageError for what is none, even if the option has no effect."""
    if address and re.fullmatch(_ADDRESS, address) is None:
        raise UsageError(f"--dask {address}: is no address", hint="write host and port, such as tcp://10.0.0.1:8786")
    return address


class SweepFlags(Flags, panel=_MANY_PANEL):
    """Options for the workers that answer many questions."""

    workers: int | None = flag(
        "--workers N", "Number of processes (default: one per core where that is faster).", default=None, min=1, max=512
    )
    dask: str = flag(
        "--dask ADDRESS", "Scheduler of a Dask cluster, whose workers are used instead.", callback=_checked_address
    )

    def check(self) -> None:
        """Refuse options that contradict each other, and a Dask cluster that does not answer."""
        if self.workers is not None and self.dask:
            raise UsageError("--workers and --dask are two ways to answer", hint="choose one of them")
        if self.dask:
            from kplan.sweeps import check_address

            with _quiet():
                check_address(self.dask)

    def ask_all(
        self, base: "Base", questions: "Sequence[Callable[[Base], T]]", /, *, progress: "Notify | None" = None
    ) -> list[T]:
        """Return the answers to questions, in order; `progress` is called with the numbers of answers and questions."""
        from kplan.sweeps import ask_all

        with _quiet() if self.dask else nullcontext():
            return ask_all(base, questions, workers=self.workers, dask=self.dask, progress=progress)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what Dask logs about its connections from standard error; what matters of it is in kplan's own error."""
    import logging

    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


AutoscalerChoice = StrEnum(
    "AutoscalerChoice",
    {"AUTO": "auto", "KARPENTER": "karpenter", "CLUSTER_AUTOSCALER": "cluster-autoscaler", "NONE": "none"},
)
"""Which autoscaler is followed."""


class AutoscalerFlags(Flags, panel="Autoscaler"):
    """Options that choose the autoscaler."""

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
        named = self.node_groups or self.instance_types or self.karpenter_version
        return self.autoscaler is not AutoscalerChoice.AUTO or bool(named)

    def check(self) -> None:
        """Raise UsageError where both files are standard input."""
        check_read_once((self.node_groups, self.instance_types))

    def settings_for(self, snapshot: "Snapshot") -> "Settings | None":
        """Return the settings of the autoscaler to follow in a cluster; None for none."""
        from kplan.autoscaling.settings import autoscaler_of

        return autoscaler_of(
            snapshot,
            self.autoscaler.value,
            node_groups=self.node_groups or None,
            instance_types=self.instance_types or None,
            karpenter_version=self.karpenter_version or None,
        )


class TimelineFlags(Flags, panel="Time"):
    """Options about time."""

    timeline: bool = switch("--timeline", "Tell when everything happens, and how many pods are ready meanwhile.")
    start: list[str] | None = repeated(
        f"--start {_WHICH}",
        "How long pods take from their binding to being ready; all, or those of KIND/[NS/]NAME. Repeatable.",
        panel=MORE,
    )
    stop: list[str] | None = repeated(
        f"--stop {_WHICH}",
        "How long pods take to be gone when they are told to go; at most their grace period. Repeatable.",
        panel=MORE,
    )
    run: list[str] | None = repeated(
        f"--run {_WHICH}", "How long a Job's pods run until they have succeeded. Repeatable.", panel=MORE
    )
    node_start: list[str] | None = repeated(
        "--node-start [POOL=]DURATION",
        "How long a new node, or one of a pool or group, takes to take pods (default: 90s). Repeatable.",
        panel=MORE,
    )
    until: str = flag("--until DURATION", "How far to look ahead (default: --for, or 24h).", panel=MORE)
    runs_for: str = flag("--for DURATION", "Run CronJobs by their schedule for so long; implies --timeline.")
    min_ready: str = flag(
        "--min-ready N|PERCENT",
        "How many pods of each workload must stay ready, for --fail-on unavailable (default: 1).",
        panel=MORE,
    )

    def check(self) -> None:
        """Raise UsageError for options that mean nothing without --timeline."""
        if idle := self.idle():
            names = enumerated([f"--{name.replace('_', '-')}" for name in idle])
            verb = "need" if len(idle) > 1 else "needs"
            raise UsageError(f"{names} {verb} --timeline", hint=f"add --timeline, or leave {names} out")

    def idle(self) -> list[str]:
        """Return the parameters that are set and mean nothing, because there is no clock."""
        names = ("start", "stop", "run", "node_start", "until", "min_ready")
        return [] if self.has_clock else [name for name in names if getattr(self, name)]

    @property
    def has_clock(self) -> bool:
        return self.timeline or bool(self.runs_for)

    def clock(self) -> "Clock | None":
        """Return the clock; None for none. Raises UsageError for what is no duration, workload or number of pods."""
        from kplan.course.clock import Clock

        if not self.has_clock:
            return None
        return Clock(
            start=_seconds_by_workload("--start", self.start or ()),
            stop=_seconds_by_workload("--stop", self.stop or ()),
            run=_seconds_by_workload("--run", self.run or ()),
            node_start={
                name if separator else "*": seconds_of(text, "--node-start")
                for name, separator, text in (value.rpartition("=") for value in self.node_start or ())
            },
            until=seconds_of(self.until, "--until") if self.until else None,
            runs_for=seconds_of(self.runs_for, "--for") if self.runs_for else 0.0,
            min_ready=self._least_ready(),
        )

    def _least_ready(self) -> int | str:
        text = self.min_ready.strip() or "1"
        number = natural(text.removesuffix("%"), 9_999_999)
        if number is None:
            hint = "give a number of pods, or a share such as 80%"
            raise UsageError(f"--min-ready {self.min_ready}: neither a number nor a percentage", hint=hint)
        return text if text.endswith("%") else number


def _seconds_by_workload(option: str, values: Sequence[str]) -> dict[str, float]:
    """Return the durations by KIND/NAMESPACE/NAME, ``*`` for all."""
    from kplan.cluster.workload_pods import parse_reference

    seconds: dict[str, float] = {}
    for value in values:
        which, separator, text = value.rpartition("=")
        length = math.inf if text.strip() == "inf" else seconds_of(text, option)
        if not separator or which.strip() == "*":
            seconds["*"] = length
            continue
        reference = parse_reference(which)
        if not reference.is_exact or not reference.namespace:
            raise UsageError(f"{option} {value}: {which} is no single workload", hint="write KIND/[NS/]NAME, or *")
        seconds[f"{reference.kind.name}/{reference.namespace}/{reference.name}"] = length
    return seconds


class GrowingClusterFlags(ChangedClusterFlags, AutoscalerFlags):
    """Options for the source of the cluster, for changes of it on paper, and for the autoscaler of its nodes."""


class CommonFlags(Flags):
    """What a question is asked about, by which scheduler, and how its answer is written."""

    cluster: ChangedClusterFlags
    scheduler: SchedulerFlags
    output: OutputFlags
    verbosity: VerbosityFlags


class SavingFlags(CommonFlags):
    """The same with ``--save``."""

    output: SavedOutputFlags


class GrowingFlags(CommonFlags):
    """The same about a cluster whose autoscaler may be followed."""

    cluster: GrowingClusterFlags


class GrowingSavingFlags(GrowingFlags):
    """The same with ``--save``."""

    output: SavedOutputFlags
