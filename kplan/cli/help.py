"""Help of commands: options in groups, and examples.

Laid out by Typer's own plain formatter, since Rich alone takes three times as long to load as all of the help.
"""

from __future__ import annotations

from typing import Any

from kplan.cli.conversion import convert_quickly
from kplan.cli.ordering import OrderedCommand

_OPTIONS = "Options"
_ARGUMENTS = "Arguments"


class KplanCommand(OrderedCommand):
    """A command whose options stand in groups (``rich_help_panel``), and whose epilog holds examples.

    Each line of the epilog is a command, two blanks, ``#`` and what it is for.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all parameters."""
        parameters: list[Any] = super().get_params(ctx)
        convert_quickly(parameters)
        return parameters

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments first, then the command's own options, then those that several commands share."""
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
        """Write the examples, a command and what it is for in two lines or one."""
        if not self.epilog:
            return
        with formatter.section("Examples"):
            formatter.write_dl([(command, purpose) for command, purpose in examples_of(self.epilog)])


def examples_of(epilog: str) -> list[tuple[str, str]]:
    """Return the commands of an epilog, each with what it is for."""
    parts = (line.partition("  # ") for line in epilog.strip().splitlines())
    return [(command.strip(), purpose.strip()) for command, _, purpose in parts]
