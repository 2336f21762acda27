"""Options that several commands share, and options that are made from the fields of questions.

A command takes whole groups of them as parameters: a dataclass whose fields are options (`flag`), or such groups
(`kplan.cli.flags`). `with_flags` shows Typer the fields in place of the group, and passes the group to the command. In
the help they are under `panel`. What a question has as an `Option` is an option of a command that takes `Fields` of it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, get_args, get_origin, get_type_hints

from kplan.cli.arguments import check_read_once
from kplan.cli.cluster import ChangedClusterFlags
from kplan.cli.help import MORE
from kplan.cli.options import DECLARED, flag, option, options, repeated, switch
from kplan.report.options import OutputFormat

if TYPE_CHECKING:
    from kplan.autoscaling.settings import Settings
    from kplan.snapshot.model import Snapshot

_MANIFESTS_PANEL = "Manifests"
DEFAULT_TOP = 5
_LARGEST = 2**31
DEFAULT_MAX_LISTED = 1000

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


@options
class ManifestFlags:
    """Options about manifests."""

    panel: ClassVar[str] = _MANIFESTS_PANEL

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

    def or_pods_of_namespace(self, what: Sequence[str] | None) -> tuple[ManifestFlags, str]:
        """Return the flags for manifests, and the namespace for pods of the snapshot: ``--namespace`` is for either."""
        if what or self.filename or self.kustomize:
            return self, ""
        return replace(self, namespace=""), self.namespace


@options
class SchedulerFlags:
    """Options of the scheduler."""

    panel: ClassVar[str] = "Scheduler"

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


@options
class VerbosityFlags:
    """Options about messages on standard error."""

    panel: ClassVar[str] = "Messages"

    verbose: bool = switch("--verbose -v", "Print on standard error what was read and what was skipped.")
    quiet: bool = switch("--quiet -q", "Print no progress, warnings and hints on standard error.")
    no_color: bool = switch("--no-color", "Print without colour; so does NO_COLOR in the environment.")


@options
class OutputFlags:
    """Options about the output and the exit code."""

    panel: ClassVar[str] = "Output"

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
        "--max-listed N", "Number of pods that are listed; the others are counted.", default=DEFAULT_MAX_LISTED, min=1
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


@options
class _SaveFlags:
    """The option that also saves the report."""

    save: str = flag("--save FILE", "Also save the report as JSON, for kplan show.")


@options
class SavedOutputFlags(OutputFlags, _SaveFlags):
    """Options about the output of a command whose report can be saved at once."""

    def reports(self) -> list[str]:
        return [*super().reports(), *([f"json={self.save}"] if self.save else [])]


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose groups of options, dataclasses of options, are replaced by their fields."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if is_dataclass(hints[name]):
            parameters += _options_of(hints[name])
        elif (question := _question_of(hints[name])) is not None:
            parameters += [field.parameter for field in fields_of(question)]
        else:
            parameters.append(_parameter(name, hints[name], parameter.default))

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        command(**{name: _taken(name, hint, arguments) for name, hint in hints.items() if name != "return"})

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # what Typer reads
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _taken(name: str, hint: Any, arguments: dict[str, Any]) -> Any:
    """Return the value of a parameter: that of its option, or a group of such values."""
    if (question := _question_of(hint)) is not None:
        return _values_of(question, arguments)
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
        owner = next(base for base in group.__mro__ if part.name in vars(base).get("__annotations__", ()))
        for settings in getattr(part.annotation, "__metadata__", ()):
            settings.rich_help_panel = settings.rich_help_panel or getattr(owner, "panel", group.panel)
        yield part


@functools.cache
def _parts_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [_parameter(field.name, hints[field.name], field) for field in fields(group)]


def _parameter(name: str, hint: Any, default: Any) -> inspect.Parameter:
    """Return a parameter as Typer reads it; the option or argument may stand in the default, as `flag` has it."""
    if isinstance(default, Field):
        hint = Annotated[hint, default.metadata[DECLARED]] if DECLARED in default.metadata else hint
        default = inspect.Parameter.empty if default.default is MISSING else default.default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


Fields = dict[str, Any]
"""Fields of a question that options set, by name: a command takes them as ``Annotated[Fields, Drain]``."""

SPELLED: dict[str, str] = {}  #: field -> its option, where that has another name


class _Field(NamedTuple):
    name: str
    parameter: inspect.Parameter  #: as Typer reads it
    read: Callable[[str], Any] | None  #: makes the value of the text

    def value(self, typed: Any) -> Any:
        """Return the value for the field of what the command line gives; None where that is nothing."""
        if self.read is not None:
            return self.read(typed) if typed else None
        if isinstance(typed, StrEnum):
            return typed.value
        return tuple(typed) if isinstance(typed, list) else typed


def _question_of(hint: Any) -> Any:
    """Return the struct whose fields a parameter takes; None for another parameter."""
    return next((part for part in getattr(hint, "__metadata__", ()) if hasattr(part, "__struct_fields__")), None)


@functools.cache
def fields_of(struct: Any) -> list[_Field]:
    """Return the options of a question: of each field that has an `Option`, also within a field such as `options`."""
    from kplan.reading.arguments import Option, descriptions

    hints, about = get_type_hints(struct, include_extras=True), descriptions(struct)
    options_made: list[_Field] = []
    n_required = len(struct.__struct_fields__) - len(struct.__struct_defaults__)
    defaults = (*(None,) * n_required, *struct.__struct_defaults__)
    for name, default in zip(struct.__struct_fields__, defaults, strict=True):
        declared = next((part for part in getattr(hints[name], "__metadata__", ()) if isinstance(part, Option)), None)
        if declared is not None:
            text = about[name]
            if declared.lists_words:
                text += f" ({', '.join(_words_in(hints[name]))})"
            options_made.append(_field(name, hints[name], declared, default, f"{text[:1].upper()}{text[1:]}."))
        elif hasattr(hints[name], "__struct_fields__"):
            options_made += fields_of(hints[name])
    return options_made


def _field(name: str, hint: Any, declared: Any, default: Any, about: str) -> _Field:
    kind, bounds = _kind_and_bounds(hint)
    words = declared.spelled.split()
    names = [word for word in words if word.startswith("-")]
    own_name = name
    if names:
        SPELLED[name] = names[0]
        own_name = f"{names[0].strip('-').replace('-', '_')}_given"
    else:
        plain = name.replace("_", "-")
        names = [f"--{plain}/--no-{plain}" if kind is bool and default else f"--{plain}"]
        words = [*names, *words]
    if declared.read is not None:
        kind, default = str, ""
    elif get_origin(kind) is Literal:
        choices: Any = StrEnum
        kind = choices(name, [(word.upper(), word) for word in get_args(kind)])
        default = None if default is None else kind(default)
    elif get_origin(kind) is tuple:
        kind, default = list[str], None
    elif kind is str:
        default = default or ""
    settings = bounds if kind is int else {}
    declaration = option(" ".join(words), about, panel=MORE if declared.more else None, **settings)
    wanted = kind | None if default is None else kind
    return _Field(name, _parameter(own_name, Annotated[wanted, declaration], default), declared.read)


def _words_in(hint: Any) -> Iterator[str]:
    """Yield the words of all literals in a type."""
    for part in get_args(hint):
        if isinstance(part, str) and get_origin(hint) is Literal:
            yield part
        else:
            yield from _words_in(part)


def _kind_and_bounds(hint: Any) -> tuple[Any, dict[str, int]]:
    """Return a type without annotations and without None, and the bounds of a number."""
    bounds: dict[str, int] = {}
    while True:
        if get_origin(hint) is Annotated:
            for part in hint.__metadata__:
                least, most = getattr(part, "ge", None), getattr(part, "le", None)
                bounds |= {} if least is None else {"min": least}
                bounds |= {} if most is None or most > _LARGEST else {"max": most}
            hint = get_args(hint)[0]
        elif type(None) in get_args(hint):
            (hint,) = (part for part in get_args(hint) if part is not type(None))
        else:
            return hint, bounds


def _values_of(struct: Any, arguments: dict[str, Any]) -> Fields:
    """Return the values of fields that options set; what is not set has its default."""
    own = {field.name: field for field in fields_of(struct)}
    values: Fields = {}
    for name, hint in get_type_hints(struct).items():
        if name in own:
            values[name] = own[name].value(arguments[own[name].parameter.name])
        elif hasattr(hint, "__struct_fields__") and fields_of(hint):
            values[name] = hint(**_values_of(hint, arguments))
    return {name: value for name, value in values.items() if value is not None}


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
        check_read_once((self.node_groups, self.instance_types))

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
