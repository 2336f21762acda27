"""`kplan`: the command line. Every command imports what it needs when it runs, so that help is quick."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
import typer.main

from kplan.catalogue import HOMES
from kplan.cli.faults import KplanGroup
from kplan.cli.help import KplanCommand
from kplan.cli.options import option
from kplan.version import __version__

_FIRST = ("explain", "place", "plan", "drain", "remedy", "check")  #: the commands that the program's help lists first


class Entry(NamedTuple):
    """A command, or a group of commands, that is loaded on demand."""

    load: Callable[[], Any]  #: returns the command that Typer runs
    short_help: str  #: its line in the program's help; empty for a hidden command


def command(name: str, short_help: str = "", home: str = "kplan.commands") -> Entry:
    """Return the entry of the command that a module in `home` is, by its name; without a short help it is hidden.

    `EXAMPLES` of the module are lines of the help, each a command, two blanks, ``#`` and its purpose.
    """

    def load() -> Any:
        module = import_module(f"{home}.{name}")
        examples = getattr(module, "EXAMPLES", None)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(name, cls=KplanCommand, epilog=examples, short_help=short_help, hidden=not short_help)(
            getattr(module, name)
        )
        return typer.main.get_command(alone)

    return Entry(load, short_help)


def group(module: str, short_help: str) -> Entry:
    """Return the entry of the group of commands that is the `app` of a module."""
    return Entry(lambda: typer.main.get_command(import_module(module).app), short_help)


_COMMANDS = {home.name: command(home.name, home.short_help) for home in HOMES if home.short_help} | {
    "ask": command("ask", "Answer questions that are written as documents."),
    "show": command("show", "Print a saved report of any command in any format."),
    "snapshot": group("kplan.commands.snapshot", "Save a cluster to a file, show what is in it, or check it."),
    "config": group("kplan.commands.config", "Show the effective KubeSchedulerConfiguration, or check one."),
    "mcp": command("mcp", "Serve the questions as tools for agents (MCP)."),
    "schema": command("schema", "Print the JSON Schema of a document, or list the kinds."),
    "completion": command("completion", "Print a completion script for bash, zsh or fish.", "kplan.program"),
    "names": command("names"),
}


class Program(KplanGroup):
    """All of kplan's commands, each loaded when it is looked up."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _OnDemand(_COMMANDS)  # type: ignore[assignment] # nobody adds commands

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as Typer calls it
        return list(self.commands)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, then the options."""
        self.format_commands(ctx, formatter)
        records = [record for parameter in self.get_params(ctx) if (record := parameter.get_help_record(ctx))]
        with formatter.section("Options"):
            formatter.write_dl(records)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as Typer calls it
        """Write one line for each command, the commonest first, without loading any."""
        shown = {name: entry.short_help for name, entry in _COMMANDS.items() if entry.short_help}
        width = max(map(len, shown))
        for heading, names in (("Commands", _FIRST), ("More", [name for name in shown if name not in _FIRST])):
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), shown[name]) for name in names])


class _OnDemand(Mapping[str, Any]):
    """Commands by name, each loaded when it is first looked up."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._loaders = {name: cache(entry.load) for name, entry in entries.items()}

    def __getitem__(self, name: str) -> Any:
        return self._loaders[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)


app = typer.Typer(
    name="kplan",
    cls=Program,
    help="""terraform plan for the Kubernetes scheduler: where pods land, and why. It changes nothing.
    Without --snapshot it reads the cluster of your kubeconfig; --snapshot demo is an example.""",
    epilog="""Exit codes: 0 nothing in --fail-on happened; 1 something in --fail-on happened; 2 no answer. Try:
    kplan plan --snapshot demo""",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def _print_version(value: bool) -> None:  # noqa: FBT001 - Typer's callback
    if value:
        from kplan.config.releases import known_minors

        minors = known_minors()
        typer.echo(f"kplan {__version__} (decides as Kubernetes {minors[0]} to {minors[-1]})")
        raise typer.Exit


@app.callback()
def main(
    *,
    version: Annotated[bool, option("--version", "Print the version.", callback=_print_version, is_eager=True)] = False,
    debug: Annotated[bool, option("--debug", "Show a traceback if something fails.")] = False,
) -> None:
    """Options of all commands."""
