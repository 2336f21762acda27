"""Commands: help with groups of options and examples, and the order of options on the command line.

Changes of a cluster follow each other, whichever options ask for them. Help is laid out by Typer's own plain formatter,
as Rich alone takes three times as long to load as all of the help.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from typer.core import TyperCommand

from kplan.cli.conversion import convert_quickly
from kplan.cli.no_effect import pass_over

_ORDER: ContextVar[tuple[str, ...]] = ContextVar("order of options", default=())


_OPTIONS = "Options"
_ARGUMENTS = "Arguments"
_GOES_ON = " \\"


class KplanCommand(TyperCommand):
    """A command with groups of options in its help (``rich_help_panel``), and examples in its epilog.

    It keeps the order of its options; Typer itself collects the values of each. Each line of the epilog is a command,
    two blanks, ``#`` and its purpose.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line, remember the order of its options, and warn of options without effect."""
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

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments first, then the command's own options, then shared options by group."""
        groups: dict[str, list[tuple[str, str]]] = {_ARGUMENTS: [], _OPTIONS: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                groups[_ARGUMENTS].append((parameter.metavar or parameter.name, record[1]))
            else:
                panel = getattr(parameter, "rich_help_panel", None) or _OPTIONS
                groups.setdefault(panel, []).append(record)
        for panel, records in groups.items():
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records)

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
