"""`kplan`: the command line. Every command imports what it needs when it runs, so that help is quick."""

from __future__ import annotations

from typing import Annotated

import typer

from kplan.catalogue import HOMES
from kplan.cli.options import option
from kplan.program.program import Entry, Program, command, group
from kplan.version import __version__

_COMMANDS: dict[str, Entry] = {}


class _Kplan(Program):
    """All of kplan's commands."""

    entries = _COMMANDS


app = typer.Typer(
    name="kplan",
    cls=_Kplan,
    help="""terraform plan for the Kubernetes scheduler: where pods land, whom they evict, and why.

    Decides as the cluster's release of kube-scheduler does, from a snapshot or a live cluster. Changes nothing.""",
    epilog="""Exit codes: 0 nothing in --fail-on happened; 1 something in --fail-on happened; 2 no answer. Try:
    kplan preempt --snapshot demo""",
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


_ANSWERS = "Compare and keep answers"
_FILES = "Files and settings"


def _add(name: str, home: str, short_help: str, section: str) -> None:
    _COMMANDS[name] = command(name, home, short_help, section)


for _home in HOMES:
    if _home.short_help:
        _add(_home.name, f"{_home.module('command')}:{_home.name}", _home.short_help, _home.section)
_add("ask", "kplan.program.ask:ask", "Answer questions that are written as documents.", _ANSWERS)
_add("show", "kplan.program.show:show", "Print a saved report of any command in any format.", _ANSWERS)
_COMMANDS["snapshot"] = group(
    "kplan.program.snapshot:app", "Save a cluster to a file, show what is in it, or check it.", _FILES
)
_COMMANDS["config"] = group(
    "kplan.program.config:app", "Show the effective KubeSchedulerConfiguration, or check one.", _FILES
)
_add("mcp", "kplan.program.mcp:mcp", "Serve the questions as tools for agents (Model Context Protocol).", _FILES)
_add("schema", "kplan.program.schema:schema", "Print the JSON Schema of a document, or list the kinds.", _FILES)
_add("completion", "kplan.program.shells:completion", "Print a completion script for bash, zsh or fish.", _FILES)
_COMMANDS["names"] = command("names", "kplan.program.names:names")
