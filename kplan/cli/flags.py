"""Options that several commands share.

A command takes whole groups of them as parameters: a frozen dataclass whose fields are Typer options, or such groups
(`kplan.cli.common`). `with_flags` shows Typer the fields in place of the group, and passes the group to the command. In
the help they are under `panel`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, ClassVar, get_type_hints

from kplan.cli.help import MORE
from kplan.cli.options import option
from kplan.report.options import OutputFormat

_MANIFESTS_PANEL = "Manifests"
DEFAULT_TOP = 5
DEFAULT_MAX_LISTED = 1000

SamplingMode = StrEnum("SamplingMode", {"ALL": "all", "AS_CONFIGURED": "as-configured"})
"""How many nodes are evaluated."""

TieRule = StrEnum("TieRule", {"SCHEDULER": "scheduler", "NAME": "name", "EVEN": "even"})
"""Which of equal best nodes is chosen."""

ExtenderMode = StrEnum("ExtenderMode", {"IGNORE": "ignore", "CALL": "call"})
"""Whether the extenders of a configuration are called."""

ValidateMode = StrEnum("ValidateMode", {"STRICT": "strict", "WARN": "warn", "IGNORE": "ignore"})
"""How unknown and duplicate fields are treated."""

RolloutMode = StrEnum("RolloutMode", {"AUTO": "auto", "ALWAYS": "always", "NEVER": "never"})
"""When a workload that runs already rolls out."""

RunCronJobsOption = Annotated[
    bool,
    option(
        "--run-cronjobs",
        "Start a run of each CronJob now; by default a CronJob beside other manifests waits for its schedule.",
        panel=_MANIFESTS_PANEL,
    ),
]

RunsOption = Annotated[
    int | None,
    option(
        "--runs N",
        "Ask N times, draw at random wherever kube-scheduler does, and show how often each outcome comes.",
        panel="Many questions",
        min=1,
        max=1_000_000,
    ),
]

RolloutOption = Annotated[
    RolloutMode,
    option(
        "--rollout",
        "Replace the pods of a workload that runs already: if its template changes, always, or never.",
        panel=MORE,
    ),
]


@dataclass(frozen=True)
class ManifestFlags:
    """Options about manifests."""

    panel: ClassVar[str] = _MANIFESTS_PANEL

    filename: Annotated[
        list[str] | None, option("--filename -f FILE", "Manifest, as in the arguments; repeatable.")
    ] = None
    kustomize: Annotated[
        list[str] | None, option("--kustomize -k DIR", "Directory with a kustomization; needs kustomize or kubectl.")
    ] = None
    namespace: Annotated[str, option("--namespace -n NS", "Namespace of objects and pods that do not name one.")] = ""
    validate: Annotated[
        ValidateMode, option("--validate", "Refuse unknown and duplicate fields, warn about them, or ignore them.")
    ] = ValidateMode.STRICT
    replicas: Annotated[
        int | None, option("--replicas N", "Number of replicas, in place of the one in the manifest.", min=0)
    ] = None

    as_deployment: Annotated[
        list[str] | None,
        option(
            "--as-deployment KIND",
            "Place the pods of a kind that kplan does not know, such as Rollout, as those of a Deployment.",
        ),
    ] = None

    def or_pods_of_namespace(self, what: Sequence[str] | None) -> tuple[ManifestFlags, str]:
        """Return the flags for manifests, and the namespace for pods of the snapshot: ``--namespace`` is for either."""
        if what or self.filename or self.kustomize:
            return self, ""
        return replace(self, namespace=""), self.namespace


@dataclass(frozen=True)
class SchedulerFlags:
    """Options of the scheduler."""

    panel: ClassVar[str] = "Scheduler"

    scheduler_config: Annotated[
        str, option("--scheduler-config PATH", "KubeSchedulerConfiguration; default: that of kube-scheduler.")
    ] = ""
    kubernetes_version: Annotated[
        str,
        option(
            "--kubernetes-version auto|MINOR",
            "Minor of kube-scheduler, such as 1.34; auto: that of the cluster's server.",
        ),
    ] = "auto"
    feature_gates: Annotated[
        str, option("--feature-gates NAME=BOOL,...", "Feature gates of kube-scheduler to change.")
    ] = ""
    sampling: Annotated[
        SamplingMode, option("--sampling", "Evaluate all nodes, or stop early as percentageOfNodesToScore says.")
    ] = SamplingMode.ALL
    start_index: Annotated[
        int | None, option("--start-index N", "Node at which the search starts, with --sampling as-configured.", min=0)
    ] = None
    ties: Annotated[
        TieRule | None,
        option(
            "--ties",
            "Which of several equally good nodes wins: the one that this release most likely takes (default), the "
            "first by name, or a random one.",
        ),
    ] = None
    seed: Annotated[int | None, option("--seed N", "Seed for random draws; implies --ties even.")] = None
    extenders: Annotated[
        ExtenderMode, option("--extenders", "Call the extenders of the configuration, or ignore them.")
    ] = ExtenderMode.IGNORE


@dataclass(frozen=True)
class VerbosityFlags:
    """Options about messages on standard error."""

    panel: ClassVar[str] = "Messages"

    verbose: Annotated[bool, option("--verbose -v", "Print on standard error what was read and what was skipped.")] = (
        False
    )
    quiet: Annotated[bool, option("--quiet -q", "Print no progress, warnings and hints on standard error.")] = False
    no_color: Annotated[bool, option("--no-color", "Print without colour; so does NO_COLOR in the environment.")] = (
        False
    )


@dataclass(frozen=True)
class OutputFlags:
    """Options about the output and the exit code."""

    panel: ClassVar[str] = "Output"

    output: Annotated[
        OutputFormat,
        option("--output -o FORMAT", f"Output format: {', '.join(OutputFormat)}, or jsonpath=TEMPLATE as in kubectl."),
    ] = OutputFormat.TABLE
    report: Annotated[
        list[str] | None, option("--report FORMAT=PATH", "Also write a report in this format to a file; repeatable.")
    ] = None
    explain: Annotated[bool, option("--explain", "Show every node with each rejection and score.")] = False
    top: Annotated[
        int | None,
        option("--top N", f"Number of nodes shown in each table (default {DEFAULT_TOP}; all with --explain).", min=1),
    ] = None
    max_listed: Annotated[
        int, option("--max-listed N", "Number of pods that are listed; the others are counted.", min=1)
    ] = DEFAULT_MAX_LISTED
    all_nodes: Annotated[bool, option("--all-nodes", "Show all nodes in tables.")] = False
    fail_on: Annotated[
        str,
        option(
            "--fail-on LIST",
            "Exit with 1 if one of these happens: unschedulable, preemption, pdb-violation, gated, pending, "
            "new-nodes, unavailable (with --timeline), warning; or none.",
        ),
    ] = ""
    exit_zero: Annotated[bool, option("--exit-zero", "Exit with 0 even if something in --fail-on happens.")] = False

    def reports(self) -> list[str]:
        """Return the further reports, as FORMAT=PATH."""
        return self.report or []


@dataclass(frozen=True)
class _SaveFlags:
    """The option that also saves the report."""

    save: Annotated[str, option("--save FILE", "Also save the report as JSON, for kplan show.")] = ""


@dataclass(frozen=True)
class SavedOutputFlags(OutputFlags, _SaveFlags):
    """Options about the output of a command whose report can be saved at once."""

    def reports(self) -> list[str]:
        """Return the further reports, with the one that is saved."""
        return [*super().reports(), *([f"json={self.save}"] if self.save else [])]


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose groups of options, dataclasses of Typer options, are replaced by their fields."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if is_dataclass(hints[name]):
            parameters += _options_of(hints[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        command(**{name: _taken(name, hint, arguments) for name, hint in hints.items() if name != "return"})

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # what Typer reads
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _taken(name: str, hint: Any, arguments: dict[str, Any]) -> Any:
    """Return the value of a parameter: that of its option, or a group of such values."""
    if not is_dataclass(hint):
        return arguments[name]
    group: Any = hint
    return group(**{part.name: _taken(part.name, part.annotation, arguments) for part in _parts_of(group)})


def _options_of(group: Any) -> Iterator[inspect.Parameter]:
    """Yield the options of a group, and of the groups in it."""
    for part in _parts_of(group):
        if is_dataclass(part.annotation):
            yield from _options_of(part.annotation)
            continue
        for settings in getattr(part.annotation, "__metadata__", ()):
            settings.rich_help_panel = settings.rich_help_panel or group.panel
        yield part


@functools.cache
def _parts_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    defaults = {
        field.name: inspect.Parameter.empty if field.default is MISSING else field.default for field in fields(group)
    }
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, kind, default=default, annotation=hints[name]) for name, default in defaults.items()
    ]
