"""Options that several commands share, each described once.

A command takes whole groups of them as parameters: a frozen dataclass whose fields are Typer options. `with_flags`
shows Typer the fields in the group's place, and hands the command the group. In the help they stand under `panel`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, ClassVar, get_type_hints

import typer

from kplan.report.options import OutputFormat

_MANIFESTS_PANEL = "Manifests"
_SCHEDULER_PANEL = "Scheduler"
DEFAULT_TOP = 5
DEFAULT_MAX_LISTED = 1000


class SamplingMode(StrEnum):
    """How many nodes are looked at."""

    ALL = "all"
    AS_CONFIGURED = "as-configured"


RunCronJobsOption = Annotated[
    bool,
    typer.Option(
        "--run-cronjobs",
        help="Cron jobs among other manifests start a run now; by default their pods come when their time comes.",
        rich_help_panel=_MANIFESTS_PANEL,
    ),
]

RunsOption = Annotated[
    int | None,
    typer.Option(
        "--runs",
        metavar="N",
        min=1,
        max=1_000_000,
        help="Ask N times, with even draws of all that is left to chance, and tell how often each outcome comes.",
        rich_help_panel=_SCHEDULER_PANEL,
    ),
]


class TieRule(StrEnum):
    """Which of equal best nodes is taken."""

    SCHEDULER = "scheduler"
    NAME = "name"
    EVEN = "even"


class ExtenderMode(StrEnum):
    """What is done about the extenders of a configuration."""

    IGNORE = "ignore"
    CALL = "call"


class ValidateMode(StrEnum):
    """What becomes of fields that the API does not have, or that stand twice."""

    STRICT = "strict"
    WARN = "warn"
    IGNORE = "ignore"


@dataclass(frozen=True)
class ManifestFlags:
    """Which manifests, and how they are read."""

    panel: ClassVar[str] = _MANIFESTS_PANEL

    filename: Annotated[
        list[str] | None,
        typer.Option("--filename", "-f", metavar="FILE", help="A manifest, as the arguments; repeatable."),
    ] = None
    kustomize: Annotated[
        list[str] | None,
        typer.Option("--kustomize", "-k", metavar="DIR", help="A kustomization, built with kustomize or kubectl."),
    ] = None
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NS",
            help="Namespace for objects that name none; those that name another are refused.",
        ),
    ] = ""
    validate: Annotated[
        ValidateMode, typer.Option("--validate", help="Unknown and repeated fields: refused, told, or passed over.")
    ] = ValidateMode.STRICT
    replicas: Annotated[
        int | None, typer.Option("--replicas", metavar="N", min=0, help="So many pods of each workload.")
    ] = None

    def or_pods_of_namespace(self, what: Sequence[str] | None) -> tuple[ManifestFlags, str]:
        """Return what ``--namespace`` is about: manifests, if there are any, else the pods of the snapshot."""
        if what or self.filename or self.kustomize:
            return self, ""
        return replace(self, namespace=""), self.namespace


@dataclass(frozen=True)
class SchedulerFlags:
    """How the scheduler decides."""

    panel: ClassVar[str] = "Scheduler"

    scheduler_config: Annotated[
        str,
        typer.Option(
            "--scheduler-config",
            metavar="PATH",
            help="KubeSchedulerConfiguration; kube-scheduler's defaults without one.",
        ),
    ] = ""
    kubernetes_version: Annotated[
        str,
        typer.Option(
            "--kubernetes-version",
            metavar="auto|MINOR",
            help="Decide as this minor does, such as 1.34; auto: as the cluster's server.",
        ),
    ] = "auto"
    feature_gates: Annotated[
        str,
        typer.Option(
            "--feature-gates",
            metavar="NAME=BOOL,...",
            help="Feature gates of kube-scheduler that are not as by default.",
        ),
    ] = ""
    sampling: Annotated[
        SamplingMode,
        typer.Option("--sampling", help="Look at every node, or stop early as percentageOfNodesToScore says."),
    ] = SamplingMode.ALL
    start_index: Annotated[
        int | None,
        typer.Option(
            "--start-index", metavar="N", min=0, help="Where the first search starts with --sampling as-configured."
        ),
    ] = None
    ties: Annotated[
        TieRule | None,
        typer.Option(
            "--ties",
            help="Of equal best nodes: the one that this release most likely takes (default), the first by name, or an "
            "even draw.",
        ),
    ] = None
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Draw with this seed; alone it means --ties even.")
    ] = None
    extenders: Annotated[
        ExtenderMode, typer.Option("--extenders", help="Call the configuration's extenders, or not.")
    ] = ExtenderMode.IGNORE


@dataclass(frozen=True)
class VerbosityFlags:
    """How much is said besides the answer."""

    panel: ClassVar[str] = "Messages"

    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say more on standard error: what was read, what was left out.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, warnings and hints on standard error.")] = (
        False
    )
    no_color: Annotated[
        bool, typer.Option("--no-color", help="No colour on a terminal; so does NO_COLOR in the environment.")
    ] = False


@dataclass(frozen=True)
class OutputFlags:
    """What is shown, how, and what counts as a failure."""

    panel: ClassVar[str] = "Output"

    output: Annotated[
        OutputFormat,
        typer.Option("--output", "-o", help="How to print the answer; jsonpath=TEMPLATE as kubectl has it."),
    ] = OutputFormat.TABLE
    report: Annotated[
        list[str] | None,
        typer.Option(
            "--report", metavar="FORMAT=PATH", help="Write a further format to a file in the same run; repeatable."
        ),
    ] = None
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Tell per node every failing plugin with numbers, and every plugin's score."),
    ] = False
    top: Annotated[
        int | None,
        typer.Option(
            "--top",
            metavar="N",
            min=1,
            help=f"So many nodes of each kind in tables (default {DEFAULT_TOP}, all with --explain).",
        ),
    ] = None
    max_listed: Annotated[
        int,
        typer.Option("--max-listed", metavar="N", min=1, help="List so many pods one by one, and count the others."),
    ] = DEFAULT_MAX_LISTED
    all_nodes: Annotated[bool, typer.Option("--all-nodes", help="All nodes in tables.")] = False
    fail_on: Annotated[
        str,
        typer.Option(
            "--fail-on",
            metavar="LIST",
            help="Exit with 1 if any of these happens: unschedulable, preemption, pdb-violation, gated, pending, "
            "warning; none.",
        ),
    ] = ""
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit with 0 whatever the answer is.")] = False


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options: parameters whose type is a dataclass of Typer options."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if is_dataclass(hint) and isinstance(hint, type)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _options_of(groups[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # what Typer reads
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


@functools.cache
def _options_of(group: type) -> tuple[inspect.Parameter, ...]:
    hints = get_type_hints(group, include_extras=True)
    for hint in hints.values():
        for option in getattr(hint, "__metadata__", ()):
            option.rich_help_panel = option.rich_help_panel or group.panel  # type: ignore[attr-defined] # every group has one
    return tuple(
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    )
