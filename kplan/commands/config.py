"""`kplan config`: look at the scheduler configuration that would take effect, or check one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kplan.cli.answer import as_data, check_template
from kplan.cli.faults import say
from kplan.cli.help import KplanCommand, subgroup
from kplan.cli.options import argument, option
from kplan.cli.pipelines import repository
from kplan.report.options import CheckFormat, DataFormat
from kplan.visible import shown, visible

if TYPE_CHECKING:
    from kplan.config.model import SchedulerConfiguration
    from kplan.config.releases import Release

app = subgroup("config", "Show the effective KubeSchedulerConfiguration, or check one.")


FileArgument = Annotated[str | None, argument("FILE", "KubeSchedulerConfiguration; - for standard input.")]
ConfigOption = Annotated[str | None, option("--scheduler-config PATH", "The file, as an option.")]
KubernetesOption = Annotated[
    str,
    option(
        "--kubernetes-version MINOR",
        "Minor of kube-scheduler, such as 1.34; auto: the newest that kplan was compared with.",
    ),
]
FeatureGatesOption = Annotated[
    str, option("--feature-gates NAME=BOOL,...", "Feature gates of kube-scheduler to change.")
]
_AUTO = "auto"
OutputOption = Annotated[DataFormat, option("-o --output", "Output format.")]


@app.command(
    "show",
    cls=KplanCommand,
    epilog="""
    kplan config show  # the default configuration
    kplan config show scheduler.yaml  # this one, with differences marked
    """,
    short_help="Print the effective configuration, and mark differences.",
)
def show(
    file: FileArgument = None,
    scheduler_config: ConfigOption = None,
    kubernetes_version: KubernetesOption = _AUTO,
    feature_gates: FeatureGatesOption = "",
    output: OutputOption = DataFormat.TABLE,
) -> None:
    """Print the effective configuration with all defaults, and mark what differs from the default.

    Without a file: the configuration of a kube-scheduler that is started without one.
    """
    from kplan.cli.answer import text_width, write_out
    from kplan.config.loading import read_configuration
    from kplan.report.files_view import config_report, render_config

    check_template(output)
    release = _release(kubernetes_version, feature_gates)
    config = read_configuration(_source(file, scheduler_config), release)
    _print_warnings(config)
    is_table = output is DataFormat.TABLE
    if is_table:
        write_out(render_config(shown(config), text_width()))
    else:
        write_out(as_data(config_report(config).to_dict(), output))


@app.command(
    "check",
    cls=KplanCommand,
    epilog="""
    kplan config check scheduler.yaml  # every problem, each with a hint
    kplan config check scheduler.yaml --kubernetes-version 1.34  # as an older scheduler reads it
    """,
    short_help="Check a configuration, and print every problem.",
)
def check(
    file: FileArgument = None,
    scheduler_config: ConfigOption = None,
    kubernetes_version: KubernetesOption = _AUTO,
    feature_gates: FeatureGatesOption = "",
    output: Annotated[
        CheckFormat,
        option("-o --output FORMAT", "Output format: table, json, yaml, junit, github, sarif or codequality."),
    ] = CheckFormat.TABLE,
) -> None:
    """Check a configuration, and print every problem with its path and what to write instead.

    Exits with 2 if kube-scheduler would refuse the file.
    """
    from kplan.cli.answer import text_width, write_out
    from kplan.config.loading import read_configuration
    from kplan.errors import ConfigError, Problem, UsageError
    from kplan.reading.documents import name_of
    from kplan.report.files_view import config_check as check_report
    from kplan.report.files_view import render_config_check as render_check

    check_template(output)
    source = _source(file, scheduler_config)
    if source is None:
        raise UsageError("nothing to check", hint="name the file: kplan config check scheduler.yaml")
    release = _release(kubernetes_version, feature_gates)
    config: SchedulerConfiguration | None = None
    problems: tuple[Problem, ...] = ()
    try:
        config = read_configuration(source, release)
        _print_warnings(config)
    except ConfigError as error:
        problems = error.problems
    name = name_of(source)
    from kplan.report.registry import PROGRAM_FORMATS, render_for_programs

    if output in PROGRAM_FORMATS:
        from kplan.report.checks import configuration_cases

        warnings = config.warnings if config is not None else ()
        write_out(render_for_programs(configuration_cases(name, problems, warnings, repository()), output))
    elif output is CheckFormat.TABLE:
        write_out(render_check(visible(name), shown(config), shown(problems), text_width()))
    else:
        write_out(as_data(check_report(name, config, problems).to_dict(), output))
    if config is None:
        raise typer.Exit(2)


def _release(kubernetes_version: str, feature_gates: str) -> Release:
    from kplan.config.releases import chosen_release, parse_gates, reference, with_gates

    gates = parse_gates(feature_gates)
    return chosen_release(kubernetes_version, gates) or with_gates(reference(), gates)


def _source(file: str | None, scheduler_config: str | None) -> str | None:
    from kplan.errors import UsageError

    if file is not None and scheduler_config is not None and file != scheduler_config:
        raise UsageError("two configurations given", hint="name the file once, or use --scheduler-config")
    return scheduler_config if file is None else file


def _print_warnings(config: SchedulerConfiguration) -> None:
    for warning in config.warnings:
        say(f"warning: {warning.object}: {warning.message}")
