"""`kplan`: the command line. Every command imports what it needs when it runs, so that help is there at once."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kplan import __version__
from kplan.cli import capacity, config, drain, explain, place, plan, pods, preempt, schema, show, snapshot
from kplan.cli.faults import FAILED, KplanGroup, say_traceback

__all__ = ["app", "run"]

app = typer.Typer(
    name="kplan",
    cls=KplanGroup,
    help="""terraform plan for the Kubernetes scheduler: where pods land, whom they evict, and why.

    Decides as the cluster's own release of kube-scheduler, from a snapshot or a live cluster, and changes nothing.""",
    epilog="""Exit codes: 0 answered, nothing in --fail-on happened; 1 answered, something in it happened; 2 could not
    be answered. Try: kplan preempt --snapshot demo""",
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
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
) -> None:
    """Set what holds for all commands."""


app.command("place")(place.place)
app.command("preempt")(preempt.preempt)
app.command("plan")(plan.plan)
app.command("capacity")(capacity.capacity)
app.command("drain")(drain.drain)
app.command("pods", short_help="Print the pods that manifests make, as they would be stored.")(pods.pods)
app.command("explain")(explain.explain)
app.command("show")(show.show)
app.add_typer(snapshot.app)
app.add_typer(config.app)
app.command("schema")(schema.schema)


def run() -> None:
    """Run kplan as a program."""
    try:
        app(prog_name="kplan")
    except Exception as error:  # noqa: BLE001 - with --debug whatever went wrong arrives here
        say_traceback(error)
        sys.exit(FAILED)
