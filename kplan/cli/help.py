"""Commands: help with groups of options and examples, and the order of options on the command line.

Changes of a cluster follow each other, whichever options ask for them. Help is laid out by Typer's own plain formatter,
as Rich alone takes three times as long to load as all of the help.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from kplan.cli.faults import convert_quickly
from kplan.cli.no_effect import pass_over

_ORDER: ContextVar[tuple[str, ...]] = ContextVar("order of options", default=())


OPTIONS = "Options"
_ARGUMENTS = "Arguments"
_GOES_ON = " \\"
_WHOLE = "--help-all"
_HELP = "-h, --help"
MORE = "More options"
"""A command's own options that only the whole help shows."""

_COMMON = frozenset({"namespace", "all_namespaces", "replicas", "snapshot", "context", "output", "explain", "fail_on"})
"""Shared parameters that `--help` shows, too."""

_HELPS = [(_HELP, "Show the common options and exit."), (_WHOLE, "Show this message and exit.")]
_LAST = ("Pods", "Manifests", "Cluster", "What if", "Scheduler", "Autoscaler", "Many questions", "Output", "Messages")
"""Groups of shared options, in their order in the whole help."""


class KplanCommand(TyperCommand):
    """A command with a short and a whole help; in both, examples come first.

    `--help` shows the command's own options and the commonest of the shared ones, `--help-all` all of them in groups
    (``rich_help_panel``). Each line of the epilog is an example: a command, two blanks, ``#`` and its purpose. The
    command keeps the order of its options; Typer itself collects the values of each.
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
        _ORDER.set(present)
        rest = super().parse_args(ctx, args)
        pass_over(ctx, present)
        return rest

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all parameters."""
        parameters: list[Any] = super().get_params(ctx)
        convert_quickly(parameters)
        return parameters

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_epilog(ctx, formatter)
        self.format_options(ctx, formatter)

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what the command does: the first sentences, or all of it."""
        text = inspect.cleandoc(self.help or "")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text if _WHOLE in ctx.meta else text.partition("\n\n")[0])

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments first, then options: the common ones together, or all by group."""
        groups: dict[str, list[tuple[str, str]]] = {_ARGUMENTS: [], OPTIONS: []}
        shared: dict[str, list[tuple[str, str]]] = {panel: [] for panel in _LAST}
        common: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None or record[0] == _HELP:
                continue
            if parameter.param_type_name == "argument":
                groups[_ARGUMENTS].append((parameter.metavar or parameter.name, record[1]))
                continue
            panel = getattr(parameter, "rich_help_panel", None) or OPTIONS
            (shared if panel in shared else groups).setdefault(panel, []).append(record)
            if panel not in (OPTIONS, MORE) and parameter.name in _COMMON:
                common.append(record)
        more = groups.pop(MORE, [])
        n_options = len(more) + sum(map(len, (groups | shared).values())) - len(groups[_ARGUMENTS])
        n_common = len(groups[OPTIONS]) + len(common)
        if _WHOLE in ctx.meta or n_common == n_options:
            groups[OPTIONS] += [(_HELP, "Show this message and exit.")] if n_common == n_options else _HELPS
            groups |= {MORE: more, **shared}
        else:
            groups = {_ARGUMENTS: groups[_ARGUMENTS], OPTIONS: [*groups[OPTIONS], *common]}
        for panel, records in groups.items():
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records)
        if _WHOLE not in ctx.meta and n_common != n_options:
            formatter.write_paragraph()
            formatter.write_text(f"{ctx.command_path} {_WHOLE} shows all {n_options} options, and says more.")

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as Typer calls it
        """Write the examples: commands with their purposes."""
        if not self.epilog:
            return
        with formatter.section("Examples"):
            for command, purpose in examples_of(self.epilog):
                indent = " " * formatter.current_indent
                written = _wrapped(f"# {purpose}", formatter.width, indent, "# ")
                written += _wrapped(command, formatter.width - len(_GOES_ON), indent, "    ", _GOES_ON)
                formatter.write("".join(f"{line}\n" for line in written))


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


def examples_of(epilog: str) -> list[tuple[str, str]]:
    """Return the commands of an epilog with their purposes."""
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
