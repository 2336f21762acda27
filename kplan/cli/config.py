"""`kplan config`: look at the scheduler configuration that would take effect, or check one."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kplan.cli.faults import say
from kplan.visible import as_json, as_yaml, shown, visible

if TYPE_CHECKING:
    from kplan.config.model import SchedulerConfiguration

__all__ = ["app"]

app = typer.Typer(
    name="config",
    help="Show the effective KubeSchedulerConfiguration, or check one.",
    no_args_is_help=True,
)


class OutputFormat(StrEnum):
    """What `kplan config` can print."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


FileArgument = Annotated[
    str | None, typer.Argument(metavar="[FILE]", help="KubeSchedulerConfiguration; - for standard input")
]
ConfigOption = Annotated[str | None, typer.Option("--scheduler-config", metavar="PATH", help="The same, as an option")]
OutputOption = Annotated[OutputFormat, typer.Option("-o", "--output", help="How to print it")]


@app.command("show", short_help="Print the effective configuration, and mark what is not default.")
def show(
    file: FileArgument = None,
    scheduler_config: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Print the effective configuration, defaults filled in, and mark what differs from the default.

    Without a file: the configuration of a kube-scheduler that is started without one.
    """
    from kplan.config import load_scheduler_config
    from kplan.report.config_view import config_report, render_config

    config = load_scheduler_config(_source(file, scheduler_config))
    _print_warnings(config)
    _print(render_config(shown(config)) if output is OutputFormat.TABLE else _dump(config_report(config), output))


@app.command("check", short_help="Print ok, or every problem with what to write instead.")
def check(
    file: FileArgument = None,
    scheduler_config: ConfigOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Print ok, or every problem with its path and what to write instead.

    Exit code 2 when kube-scheduler would refuse the file.
    """
    from kplan.config import load_scheduler_config
    from kplan.errors import ConfigError, Problem, UsageError
    from kplan.report.config_view import check_report, render_check

    source = _source(file, scheduler_config)
    if source is None:
        raise UsageError("nothing to check", hint="name the file: kplan config check scheduler.yaml")
    config: SchedulerConfiguration | None = None
    problems: tuple[Problem, ...] = ()
    try:
        config = load_scheduler_config(source)
        _print_warnings(config)
    except ConfigError as error:
        problems = error.problems
    if output is OutputFormat.TABLE:
        _print(render_check(visible(source), shown(config), shown(problems)))
    else:
        _print(_dump(check_report(source, config, problems), output))
    if config is None:
        raise typer.Exit(2)


def _source(file: str | None, scheduler_config: str | None) -> str | None:
    from kplan.errors import UsageError

    if file is not None and scheduler_config is not None and file != scheduler_config:
        raise UsageError("two configurations given", hint="name the file once, or use --scheduler-config")
    return scheduler_config if file is None else file


def _print_warnings(config: SchedulerConfiguration) -> None:
    for warning in config.warnings:
        say(f"warning: {warning.object}: {warning.message}")


def _dump(document: dict[str, object], output: OutputFormat) -> str:
    if output is OutputFormat.JSON:
        return as_json(document)
    return as_yaml(document).rstrip("\n")


def _print(text: str) -> None:
    from kplan.cli.answer import write_out

    write_out(f"{text}\n")
