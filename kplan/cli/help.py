"""Commands: help with groups of options and examples, the order of options, and options without effect beside others.

Changes of a cluster follow each other, whichever options ask for them. Help is laid out by Typer's own plain formatter,
as Rich alone takes three times as long to load as all of the help.
"""

from __future__ import annotations

import inspect
import os
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from kplan.cli.conversion import convert_quickly
from kplan.cli.faults import say
from kplan.cli.options import MORE, OPTIONS, SNAPSHOT
from kplan.errors import UsageError

_ORDER: ContextVar[tuple[str, ...]] = ContextVar("order of options", default=())

_ARGUMENTS = "Arguments"
_GOES_ON = " \\"
_WHOLE = "--help-all"
_HELP = "-h, --help"

_COMMON = ("snapshot", "output", "explain", "fail_on", "namespace", "all_namespaces", "replicas", "context")
"""Shared parameters that `--help` shows, too, as far as there is room for them, the first of these first."""

_SNAPSHOT = "snapshot"

_SCREEN = 24  #: lines of the short help at most
_MOST_EXAMPLES = 3
_WIDEST = 30  #: the help of an option with a longer name begins below it
_GAP = 4  #: blanks before and behind the names of options

_HELPS = [(_HELP, "Show the common options and exit."), (_WHOLE, "Show this message and exit.")]
_LAST = ("Pods", "Manifests", "Cluster", "What if", "Scheduler", "Autoscaler", "Many questions", "Output", "Messages")
"""Groups of shared options, in their order in the whole help."""

_Record = tuple[str, str]
_Groups = dict[str, list[_Record]]


class KplanCommand(TyperCommand):
    """A command with a short and a whole help; in both, examples come first.

    `--help` fits a screen of 24 lines: the command's own options and the commonest of the shared ones, in a line each.
    `--help-all` has all of them in groups (``rich_help_panel``). Each line of the epilog is an example: a command, two
    blanks, ``#`` and its purpose. The command keeps the order of its options; Typer collects the values of each.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line, remember the order of its options, and warn of options without effect."""
        end = args.index("--") if "--" in args else len(args)
        if _WHOLE in args[:end] and not ctx.resilient_parsing:
            ctx.meta[_WHOLE] = True
            typer.echo(self.get_help(ctx), color=ctx.color)
            ctx.exit()
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        present = tuple(parameter.name or "" for parameter in order)
        is_one = not any(parameter.name == _SNAPSHOT and parameter.multiple for parameter in order)
        if is_one and present.count(_SNAPSHOT) > 1 and not ctx.resilient_parsing:
            number = present.count(_SNAPSHOT)
            message = f"--snapshot is there {number} times, but {ctx.command_path} is about one cluster"
            raise UsageError(message, hint="name one; kplan place tells which of several clusters has room")
        _ORDER.set(present)
        rest = super().parse_args(ctx, args)
        pass_over(ctx, present)
        return rest

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)
        convert_quickly(parameters)
        return parameters

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        text = inspect.cleandoc(self.help or "")
        is_whole = _WHOLE in ctx.meta
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text if is_whole else text.partition("\n\n")[0])
        arguments, own, common, shared = self._records(ctx)
        n_options = sum(map(len, (*own.values(), *shared.values())))
        if is_whole or len(own.get(OPTIONS, ())) + len(common) == n_options:
            helps = _HELPS if is_whole else [(_HELP, "Show this message and exit.")]
            own[OPTIONS] = [*own.pop(OPTIONS, ()), *(common if not is_whole else ()), *helps]
            more = own.pop(MORE, [])
            groups = {_ARGUMENTS: arguments, **own, MORE: more, **(shared if is_whole else {})}
            self._examples(formatter, None)
        else:
            groups = self._screen(formatter, arguments, own.get(OPTIONS, []), common)
        for panel, records in groups.items():
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records)
        if not is_whole and sum(map(len, groups.values())) - len(arguments) < n_options:
            formatter.write_paragraph()
            formatter.write_text(f"{ctx.command_path} {_WHOLE} shows all {n_options} options, and says more.")

    def _records(self, ctx: Any) -> tuple[list[_Record], dict[str, list[_Record]], list[_Record], _Groups]:
        """Return arguments, the command's own options by group, the commonest shared ones, and those by group."""
        arguments: list[_Record] = []
        own: _Groups = {}
        shared: _Groups = {panel: [] for panel in _LAST}
        common: dict[str, _Record] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None or record[0] == _HELP:
                continue
            if parameter.param_type_name == "argument":
                arguments.append((parameter.metavar or parameter.name, record[1]))
                continue
            panel = getattr(parameter, "rich_help_panel", None) or OPTIONS
            (shared if panel in shared else own).setdefault(panel, []).append(record)
            if panel not in (OPTIONS, MORE):
                common[parameter.name] = record
        return arguments, own, [common[name] for name in _COMMON if name in common], shared

    def _screen(self, formatter: Any, arguments: list[_Record], own: list[_Record], common: list[_Record]) -> _Groups:
        """Write the examples that fit the screen, and return the arguments and options that do, in a line each."""
        n_sections = 2 + bool(arguments)
        used = formatter.getvalue().count("\n") + 2 * n_sections + len(arguments) + 2
        first, _ = next(iter(examples_of(self.epilog or "")), ("", ""))
        lines = len(_wrapped(first, formatter.width - _GAP, "", "", _GOES_ON)) if first else 0
        room, options = _SCREEN - used - lines, []
        for record in (*own, *common):
            room -= 1 + (len(record[0]) > _WIDEST)
            if room >= 0:
                options.append(record)
        self._examples(formatter, max(min(room + 1, _MOST_EXAMPLES), 1))
        return {
            panel: _in_a_line(formatter, records) for panel, records in ((_ARGUMENTS, arguments), (OPTIONS, options))
        }

    def _examples(self, formatter: Any, most: int | None) -> None:
        """Write commands with their purposes; where there may be so many at most, each in a line if it fits."""
        if not self.epilog:
            return
        with formatter.section("Examples"):
            for command, purpose in examples_of(self.epilog)[:most]:
                indent = " " * formatter.current_indent
                line = f"{indent}{command}  # {purpose}"
                if most is not None and len(line) > formatter.width:
                    line = f"{indent}{command}"
                if most is not None and len(line) <= formatter.width:
                    formatter.write(f"{line}\n")
                    continue
                written = _wrapped(f"# {purpose}", formatter.width, indent, "# ") if most is None else []
                written += _wrapped(command, formatter.width - len(_GOES_ON), indent, "    ", _GOES_ON)
                formatter.write("".join(f"{line}\n" for line in written))


def _in_a_line(formatter: Any, records: list[_Record]) -> list[_Record]:
    room = formatter.width - _GAP - min(max((len(name) for name, _ in records), default=0), _WIDEST)
    return [(name, textwrap.shorten(text, room, placeholder=" …")) for name, text in records]


def _wrapped(text: str, width: int, indent: str, rest: str, end: str = "") -> list[str]:
    """Return lines between whose words the text is broken; `end` ends all but the last."""
    *lines, last = textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent + rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [*(line + end for line in lines), last]


class KplanSubgroup(TyperGroup):
    """A group of commands below ``kplan``; its help is always whole."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take ``--help-all`` for ``--help``."""
        return super().parse_args(ctx, ["--help", *args[1:]] if args[:1] == [_WHOLE] else args)


def subgroup(name: str, words: str) -> typer.Typer:
    return typer.Typer(
        name=name, help=words, cls=KplanSubgroup, add_completion=False, no_args_is_help=True, rich_markup_mode=None
    )


def subcommand(group: typer.Typer, short_help: str, examples: str) -> Callable[[Callable[..., None]], Any]:
    """Add a function to a group of commands, under its name."""
    return group.command(cls=KplanCommand, short_help=short_help, epilog=examples)


def examples_of(epilog: str) -> list[tuple[str, str]]:
    parts = (line.partition("  # ") for line in epilog.strip().splitlines())
    return [(command.strip(), purpose.strip()) for command, _, purpose in parts]


def in_order(options: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Yield the values of options in the order of the command line, each with the name of its option."""
    left = {name: iter(values) for name, values in options.items()}
    for name in _ORDER.get():
        if name in left:
            yield from ((name, value) for value in (next(left[name], None),) if value is not None)
    for name, values in left.items():
        yield from ((name, value) for value in values)


Options = Mapping[str, Any]  #: parameter -> its value, for all parameters of a command

_WHICH_CLUSTER = ("kubeconfig", "context", "cluster")
_SWEEPS = {"runs": "--runs", "separately": "--each", "by": "--by", "headroom": "--headroom"}
"""Parameter -> option that asks many questions."""


def _source(options: Options) -> str:
    """Return the files of the cluster: of an option, the environment or an argument; empty for a live cluster."""
    named = options.get("snapshot") or (os.environ.get(SNAPSHOT) if "snapshot" in options else options.get("file"))
    return ", ".join(named) if isinstance(named, list) else str(named or "")


_OF_LIVE = (
    *_WHICH_CLUSTER,
    *("user", "as_user", "as_group", "request_timeout", "insecure_skip_tls_verify", "namespaces"),
)
_OF_AUTOSCALER = ("autoscaler", "node_groups", "instance_types", "karpenter_version")


def without_effect(options: Options) -> Iterator[tuple[Sequence[str], str]]:
    """Yield parameters that have no effect beside the values of others, and why."""
    if source := _source(options):
        yield _OF_LIVE, f"the cluster is read from {source}"
    many = [option for name, option in _SWEEPS.items() if name in options]
    if many and not any(options.get(name) for name in _SWEEPS):
        yield ("workers", "dask"), f"there is only one question, {' or '.join(many)} would make many of it"
    if options.get("ties") in ("name", "scheduler") and options.get("runs") is None:
        yield ("seed",), f"--ties {options['ties']} draws nothing"
    if options.get("sampling") == "all":
        yield ("start_index",), "every node is evaluated without --sampling as-configured"
    if options.get("what") and "all_namespaces" in options and "queue" not in options:
        yield ("all_namespaces", "selector"), "the arguments name the pods"
    if options.get("all_nodes"):
        yield ("top",), "--all-nodes shows all"
    if options.get("queue"):
        yield ("max_rounds", "recreate", "rollout"), "--queue tries no pod"
    counts = [name for name in ("headroom", "preempt") if "headroom" in options and options.get(name)]
    if counts and options.get("autoscaler") != "none":
        yield _OF_AUTOSCALER, f"--{counts[0]} counts on the present nodes"


def pass_over(context: Any, present: Collection[str]) -> None:
    """Warn of options without effect, unless ``--quiet``, and set them to their defaults.

    Raises UsageError where the command line names a live cluster but the environment a file: an answer about the file
    would look like one about the cluster.
    """
    named = next((name for name in _WHICH_CLUSTER if name in present), "")
    if named and "snapshot" not in present and _source(context.params):
        option = f"--{named}"
        raise UsageError(
            f"{option} names a live cluster, and {SNAPSHOT} a file: {_source(context.params)}",
            hint=f"unset {SNAPSHOT} to ask the cluster, or leave {option} out to ask the file",
        )
    parameters = {parameter.name: parameter for parameter in context.command.params}
    for names, because in list(without_effect(context.params)):
        for name in (name for name in names if name in present):
            parameter = parameters[name]
            if not context.params.get("quiet"):
                tell_no_effect(max(parameter.opts, key=len), because)
            context.params[name] = parameter.get_default(context)


def tell_no_effect(option: str, because: str) -> None:
    say(f"warning: {option} has no effect: {because}")
