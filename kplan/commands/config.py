"""`kplan config`: look at the scheduler configuration that would take effect, or check one."""

from typing import TYPE_CHECKING, Annotated

import typer

from kplan.cli.answer import check_template, write_document
from kplan.cli.help import subcommand, subgroup
from kplan.cli.messages import warn_of
from kplan.cli.options import OPTIONS, Flags, argument, flag, with_flags
from kplan.errors import ConfigError, Problem, UsageError
from kplan.report.options import CheckFormat, DataFormat
from kplan.visible import shown, visible

if TYPE_CHECKING:
    from kplan.config.model import SchedulerConfiguration
    from kplan.config.releases import Release

app = subgroup("config", "Show the effective KubeSchedulerConfiguration, or check one.")


class _ConfigFlags(Flags, panel=OPTIONS):
    """Which configuration, and how kube-scheduler reads it."""

    file: Annotated[str | None, argument("FILE", "KubeSchedulerConfiguration; - for standard input.")] = None
    scheduler_config: str | None = flag("--scheduler-config PATH", "The file, as an option.", default=None)
    kubernetes_version: str = flag(
        "--kubernetes-version MINOR",
        "Minor of kube-scheduler, such as 1.34; auto: the newest that kplan was compared with.",
        default="auto",
    )
    feature_gates: str = flag("--feature-gates NAME=BOOL,...", "Feature gates of kube-scheduler to change.")

    def source(self) -> str | None:
        if None not in (self.file, self.scheduler_config) and self.file != self.scheduler_config:
            raise UsageError("two configurations given", hint="name the file once, or use --scheduler-config")
        return self.scheduler_config if self.file is None else self.file

    def release(self) -> "Release":
        from kplan.config.releases import chosen_release, parse_gates, reference, with_gates

        gates = parse_gates(self.feature_gates)
        return chosen_release(self.kubernetes_version, gates) or with_gates(reference(), gates)


@subcommand(
    app,
    "Print the effective configuration, and mark differences.",
    """
    kplan config show  # the default configuration
    kplan config show scheduler.yaml  # this one, with differences marked
    """,
)
@with_flags
def show(
    *, flags: _ConfigFlags, output: DataFormat = flag("-o --output", "Output format.", default=DataFormat.TABLE)
) -> None:
    """Print the effective configuration with all defaults, and mark what differs from the default.

    Without a file: the configuration of a kube-scheduler that is started without one.
    """
    from kplan.config.loading import read_configuration
    from kplan.report.config_view import config_report, render_config

    check_template(output)
    config = read_configuration(flags.source(), flags.release())
    warn_of(config.warnings)
    write_document(config_report(config), output, lambda width: render_config(shown(config), width))


@subcommand(
    app,
    "Check a configuration, and print every problem.",
    """
    kplan config check scheduler.yaml  # every problem, each with a hint
    kplan config check scheduler.yaml --kubernetes-version 1.34  # as an older scheduler reads it
    """,
)
@with_flags
def check(
    *,
    flags: _ConfigFlags,
    output: CheckFormat = flag(
        "-o --output FORMAT",
        "Output format: table, json, yaml, junit, github, sarif or codequality.",
        default=CheckFormat.TABLE,
    ),
) -> None:
    """Check a configuration, and print every problem with its path and what to write instead.

    Exits with 2 if kube-scheduler would refuse the file.
    """
    from kplan.config.loading import read_configuration
    from kplan.reading.documents import name_of
    from kplan.report.config_view import config_check, configuration_cases, render_config_check

    check_template(output)
    if (source := flags.source()) is None:
        raise UsageError("nothing to check", hint="name the file: kplan config check scheduler.yaml")
    release = flags.release()
    config: SchedulerConfiguration | None = None
    problems: tuple[Problem, ...] = ()
    try:
        config = read_configuration(source, release)
        warn_of(config.warnings)
    except ConfigError as error:
        problems = error.problems
    name = name_of(source)
    warnings = config.warnings if config is not None else ()
    write_document(
        config_check(name, config, problems),
        output,
        lambda width: render_config_check(visible(name), shown(config), shown(problems), width),
        lambda where: configuration_cases(name, problems, warnings, where),
    )
    if config is None:
        raise typer.Exit(2)
