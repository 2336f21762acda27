"""The way of a command from its flags to its answer: cluster, scheduler and pods in, reports out."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import typer
from msgspec.structs import replace

from kplan.api.names import choice_hint
from kplan.cli import pipelines, process
from kplan.cli.arguments import STANDARD_INPUT, check_read_once, split_arguments
from kplan.cli.cluster import ChangedClusterFlags, open_cluster, requested_changes
from kplan.cli.faults import busy, counted, say, silence_output
from kplan.cli.flags import (
    SPELLED,
    CommonFlags,
    ExtenderMode,
    GrowingClusterFlags,
    ManifestFlags,
    OutputFlags,
    SchedulerFlags,
    ValidateMode,
    VerbosityFlags,
)
from kplan.cli.help import tell_no_effect
from kplan.cli.options import flag, options
from kplan.errors import KplanError, ParameterError, UsageError
from kplan.report.options import DEFAULT_TOP, DEFAULT_WIDTH, JsonFormat, ReportOptions
from kplan.visible import as_json, as_yaml, shown

if TYPE_CHECKING:
    from kplan.cluster.base import Base, PodLike
    from kplan.config.model import SchedulerConfiguration
    from kplan.course.asking import Asks, Showing
    from kplan.course.subject import Subject
    from kplan.diagnosis.explanation import Shown
    from kplan.documents.base import Condition, Head, Report
    from kplan.framework.interface import Extender
    from kplan.report.options import Repository
    from kplan.report.view import CaseReport

_MOST_ON_PAGE = 200  #: a page explains so many nodes of each kind for a pod, folded where there are many

_OUTLINE_FORMATS = frozenset({"table", "wide", "short", "markdown", "name"})
"""Formats for people, which show details of a few of many replicas, and only the nodes of the others."""

_DOCUMENT_FORMATS = ("json", "yaml")
"""Formats that hold the whole report, with the decision about each pod; jsonpath is one of them."""


def ask(
    what: Sequence[str] | None,
    flags: CommonFlags,
    manifests: ManifestFlags | None = None,
    *,
    run_cronjobs: bool = False,
    may_be_idle: bool = False,
) -> Subject:
    """Load cluster, configuration and manifests, and return what the question is about; raises KplanError.

    `what`: manifests, and pods or workloads of the snapshot; of a workload its pending pods, or else its next one.
    `run_cronjobs`: cron jobs among other manifests start a run now.
    `may_be_idle`: manifests without a pod and without a workload are no error.
    """
    cluster, scheduler, verbosity = flags.cluster, flags.scheduler, flags.verbosity
    manifests = manifests or ManifestFlags()
    files, names = split_arguments(what or (), manifests.filename or (), manifests.namespace)
    _check(cluster, manifests, scheduler, files, names_pods=bool(names))
    from kplan.config.loading import read_configuration
    from kplan.config.releases import chosen_release, nearest, parse_gates, with_gates

    gates = parse_gates(scheduler.feature_gates)
    release = chosen_release(scheduler.kubernetes_version, gates)
    # The configuration is checked before the cluster is read, unless its rules depend on the cluster's version.
    config = read_configuration(scheduler.scheduler_config or None, release) if release else None
    following = cluster if isinstance(cluster, GrowingClusterFlags) else None
    if following is not None:
        following.check()
    live = cluster.live(
        stdin_is_free=STANDARD_INPUT not in (*files, *(cluster.with_ or ()), scheduler.scheduler_config)
    )
    changes = requested_changes(cluster)
    snapshot = open_cluster(cluster.snapshot, live, quiet=verbosity.quiet)
    if config is None:
        release = with_gates(nearest(snapshot.server_version), gates)
        config = read_configuration(scheduler.scheduler_config or None, release)
    if verbosity.verbose:
        counted = f"{len(snapshot.nodes)} nodes, {len(snapshot.pods)} pods"
        say(f"snapshot: {snapshot.source}: {counted}, {snapshot.digest}")
        if snapshot.skipped:
            kinds = ", ".join(f"{kind} {number}" for kind, number in snapshot.skipped.items())
            say(f"snapshot: left out, because scheduling does not use them: {kinds}")
    from kplan.cluster.base import Base

    planner = Base(
        snapshot,
        config,
        kubernetes=scheduler.kubernetes_version,
        feature_gates=gates,
        sampling=scheduler.sampling.value,
        start_index=scheduler.start_index or 0,
        ties=None if scheduler.ties is None else scheduler.ties.value,
        seed=scheduler.seed,
        extenders=_extenders(config, scheduler, verbosity),
        autoscaler=None if following is None else following.settings_for(snapshot),
    )
    planner.gives_digest = not _OUTLINE_FORMATS.issuperset(formats_of(flags.output))
    if changes:
        from kplan.course.what_if import edited

        planner = edited(planner, changes)
    if following is not None and planner.autoscaler is None:
        planner.autoscaler = following.settings_for(planner.objects)
    from kplan.course.subject import Subject, loaded_subject

    process.finish_loading()
    subject = Subject(planner)
    if files or manifests.kustomize:
        from kplan.cli.manifests import read_manifests

        minor, held = planner.release.number, planner.snapshot
        loaded = read_manifests(files, manifests, cluster, held, verbosity, minor=minor, may_be_idle=may_be_idle)
        subject = loaded_subject(planner, loaded, replicas=manifests.replicas, run_cron_jobs=run_cronjobs)
    if not names:
        return subject
    base = subject.base
    named: list[PodLike] = []
    for name in names:
        base, pods = _pods_of(name, base, manifests.namespace or cluster.default_namespace(), verbosity)
        named += pods
    return replace(subject, base=base, pods=[*subject.pods, *named], names_pods=True)


def _pods_of(name: str, planner: Base, namespace: str, verbosity: VerbosityFlags) -> tuple[Base, list[PodLike]]:
    """Return the pods to place of a pod or workload, and a planner of the cluster with their claims."""
    from kplan.cluster.workload_pods import object_named

    named = object_named(name, namespace, planner.objects)
    if named.kind == "Pod":
        return planner, [named.key]
    from kplan.capacity.templates import next_pod
    from kplan.cluster.workload_pods import living_pods

    pods = living_pods(planner.objects, *named)
    if waiting := [pod.metadata.key for pod in pods if not pod.spec.node_name]:
        return planner, [*waiting]
    next_one, claims = next_pod(planner, *named)
    if not verbosity.quiet:
        say(f"{name} has no pending pod; this is where its next one would go")
    return planner.with_additions(claims) if claims else planner, [next_one]


def _check(
    cluster: ChangedClusterFlags,
    manifests: ManifestFlags,
    scheduler: SchedulerFlags,
    files: Sequence[str],
    *,
    names_pods: bool,
) -> None:
    check_read_once([*files, *(cluster.with_ or ()), cluster.snapshot, scheduler.scheduler_config])
    if files or manifests.kustomize:
        return
    options = {"--namespace": "" if names_pods else manifests.namespace, "--replicas": manifests.replicas}
    options["--validate"] = "" if manifests.validate is ValidateMode.STRICT else manifests.validate
    options["--as-deployment"] = ", ".join(manifests.as_deployment or ())
    for option, value in options.items():
        if value not in ("", None):
            raise UsageError(f"{option} is for manifests, but there are none", hint="name a manifest, or leave it out")


def _extenders(
    config: SchedulerConfiguration, scheduler: SchedulerFlags, verbosity: VerbosityFlags
) -> Sequence[Extender]:
    if scheduler.extenders is ExtenderMode.IGNORE:
        return ()
    if not config.extenders:
        if not verbosity.quiet:
            tell_no_effect("--extenders call", "the scheduler configuration has no extenders")
        return ()
    from kplan.live.extenders import http_extenders

    return http_extenders(config)


def showing_for(flags: CommonFlags, command: str = "") -> Showing:
    """Return how answers to a command are shown, and which conditions count; raises UsageError."""
    from kplan.course.answers.verdict import DEFAULT_FAIL_ON, parse_fail_on

    listed = flags.output.fail_on
    return showing_of(flags.output, parse_fail_on(listed) if listed else DEFAULT_FAIL_ON.get(command))


def showing_of(output: OutputFlags, fail_on: Sequence[Condition] | None) -> Showing:
    """Return how answers are shown in the output formats; raises UsageError as `formats_of`."""
    from kplan.course.asking import Showing

    formats = formats_of(output)
    return Showing(
        fail_on=fail_on,
        nodes=shown_nodes(output),
        others=shown_nodes(output, with_score_details=False),
        is_outlined=_OUTLINE_FORMATS.issuperset(formats),
        explain=output.explain,
        is_whole=any(name.startswith(_DOCUMENT_FORMATS) for name in formats),
        with_map=output.explain or "html" in formats,
        max_listed=output.max_listed,
    )


def shown_nodes(output: OutputFlags, *, with_score_details: bool = True) -> Shown:
    """Return the nodes that a document covers: all with `--explain`, else those that a table shows."""
    from kplan.diagnosis.explanation import Shown

    top = None if output.explain else _top(output)
    if top is not None and "html" in formats_of(output):
        top = max(top, _MOST_ON_PAGE)
    return Shown(top, output.explain and with_score_details)


def _top(output: OutputFlags) -> int | None:
    if output.all_nodes:
        return None
    return output.top if output.top is not None else None if output.explain else DEFAULT_TOP


def formats_of(output: OutputFlags) -> list[str]:
    """Return all output formats, the printed one first.

    Commands call it before the work: it raises UsageError as `emit` does, also for files that cannot be written.
    """
    from kplan.writing import check_writable

    check_template(output.output)
    reports = _reports(output)
    for _, path in reports:
        check_writable(path)
    pipelines.remember_formats([(output.output.value, ""), *reports])
    return [output.output.value, *(name for name, _ in reports)]


def _reports(output: OutputFlags) -> list[tuple[str, str]]:
    from kplan.report.registry import FORMATS

    reports: list[tuple[str, str]] = []
    for option in output.reports():
        name, separator, path = option.partition("=")
        if not separator or not path:
            raise UsageError(f"--report {option}: expected FORMAT=PATH", hint="for example --report junit=kplan.xml")
        if name not in FORMATS:
            raise UsageError(f"--report {option}: unknown format {name!r}", hint=choice_hint(name, FORMATS))
        if any(path == known for _, known in reports):
            raise UsageError(f"--report {option}: two reports for one file", hint="give each a file of its own")
        reports.append((name, path))
    return reports


def emit(document: Report, output: OutputFlags, verbosity: VerbosityFlags) -> None:
    """Write a document in all formats, and end with the verdict's exit code; raises KplanError where it cannot."""
    from kplan.report.registry import HUMAN_FORMATS, Rendering
    from kplan.writing import write_file

    if output.exit_zero:
        document = replace(document, verdict=document.verdict.without_exit_code())
    written = output.output.value
    if written not in HUMAN_FORMATS and not verbosity.quiet:
        from kplan.report.view import warning_texts

        for text in warning_texts(document):
            say(f"warning: {text}")
    rendering = Rendering(document)
    reports = _reports(output)
    for name, path in reports:
        text = rendering.text(name, _options(output, name, verbosity, is_file=True))
        write_file(path, text.encode())
    if "github" in (written, *dict(reports)):
        pipelines.add_to_step_summary(rendering.text("markdown", _options(output, "markdown", verbosity, is_file=True)))
    write_out(rendering.text(written, _options(output, written, verbosity, is_file=False)))
    if document.verdict.exit_code:
        raise typer.Exit(document.verdict.exit_code)


def write_out(text: str) -> None:
    """Write the result to standard output, or raise KplanError, as for a full disk; a closed pipe is no error."""
    if sys.stdout is None:
        raise KplanError("standard output is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        silence_output()
    except OSError as error:
        silence_output()
        raise KplanError(f"cannot write to standard output: {error.strerror}") from error


def _options(output: OutputFlags, name: str, verbosity: VerbosityFlags, *, is_file: bool) -> ReportOptions:
    is_terminal = sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    wants_colour = not is_file and bool(is_terminal or os.environ.get("FORCE_COLOR"))
    return ReportOptions(
        top=_top(output),
        explain=output.explain,
        is_wide=name == "wide",
        width=DEFAULT_WIDTH if is_file else text_width(),
        has_colour=wants_colour and not verbosity.no_color and not os.environ.get("NO_COLOR"),
        command=pipelines.command_line(),
        repository=pipelines.repository(),
        pages=pipelines.repository_pages() if name == "markdown" else "",
    )


def text_width() -> int:
    """Return the width of text on standard output: that of the terminal, or COLUMNS, else the default."""
    if (sys.stdout is not None and sys.stdout.isatty()) or os.environ.get("COLUMNS", "").isdigit():
        return shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns
    return DEFAULT_WIDTH


T = TypeVar("T")
R = TypeVar("R", bound="Report")
_MOST = 512
_ADDRESS = r"([a-z]+://)?([^\s/:\[\]]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}/?"


def _checked_address(address: str) -> str:
    """Return the address of a Dask scheduler; raises UsageError for what is none, even if the option has no effect."""
    if address and re.fullmatch(_ADDRESS, address) is None:
        raise UsageError(f"--dask {address}: is no address", hint="write host and port, such as tcp://10.0.0.1:8786")
    return address


@options
class SweepFlags:
    """Options for the workers that answer many questions."""

    panel: ClassVar[str] = "Many questions"

    workers: int | None = flag(
        "--workers N",
        "Number of processes (default: one per core where that is faster).",
        default=None,
        min=1,
        max=_MOST,
    )
    dask: str = flag(
        "--dask ADDRESS", "Scheduler of a Dask cluster, whose workers are used instead.", callback=_checked_address
    )

    def check(self) -> None:
        """Refuse options that contradict each other, and a Dask cluster that does not answer."""
        if self.workers is not None and self.dask:
            raise UsageError("--workers and --dask are two ways to answer", hint="choose one of them")
        if self.dask:
            from kplan.sweeps import check_address

            with _quiet():
                check_address(self.dask)

    def ask_all(
        self,
        base: Base,
        questions: Sequence[Callable[[Base], T]],
        /,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[T]:
        """Return the answers to questions, in order; `progress` is called with the numbers of answers and questions."""
        from kplan.sweeps import ask_all

        with _quiet() if self.dask else nullcontext():
            return ask_all(base, questions, workers=self.workers, dask=self.dask, progress=progress)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what Dask logs about its connections from standard error; what matters of it is in kplan's own error."""
    import logging

    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def options_named() -> Iterator[None]:
    """Name the options of the command in errors about the parameters of a question."""
    try:
        yield
    except ParameterError as error:
        raise error.naming(option_of) from None


def option_of(parameter: str) -> str:
    """Return the option that sets a parameter: ``--node-start`` for ``node_start``."""
    return SPELLED.get(parameter) or f"--{parameter.replace('_', '-')}"


class Meanwhile(NamedTuple):
    """What kplan does while a question is answered."""

    doing: str
    words: str = ""  #: of the progress, with its two numbers as ``{0}`` and ``{1}``; empty to count the steps
    sweeping: SweepFlags | None = None  #: how what can be answered in parallel is; None for one after the other


def reply(question: Asks[Report], subject: Subject, showing: Showing, flags: CommonFlags, meanwhile: Meanwhile) -> None:
    """Answer a question as `answered`, write the answer, and end the command with its exit code."""
    emit(answered(question, subject, showing, flags, meanwhile), flags.output, flags.verbosity)


def answered(
    question: Asks[Report], subject: Subject, showing: Showing, flags: CommonFlags, meanwhile: Meanwhile
) -> Report:
    """Return the answer to a question, with the lines of what is at fault in its manifests."""
    doing, words, sweeping = meanwhile
    verbosity = flags.verbosity
    if sweeping is not None:
        showing = replace(showing, ask_all=sweeping.ask_all)
    if not verbosity.quiet:
        showing = replace(showing, on_no_effect=lambda name, because: tell_no_effect(option_of(name), because))
    with options_named():
        if not words:
            with counted(doing, subject.base, quiet=verbosity.quiet):
                document = question.answer_about(subject, showing)
        else:
            with busy(doing, quiet=verbosity.quiet) as tell:
                showing = replace(showing, progress=lambda n, of: tell(words.format(n, of)))
                document = question.answer_about(subject, showing)
    return located(document, subject)


def located(document: R, subject: Subject) -> R:
    """Return an answer with the lines of what is at fault in its manifests."""
    if subject.manifests is None:
        return document
    from kplan.cluster.field_lines import with_lines

    return with_lines(document, subject.manifests)


def check_template(output_format: JsonFormat) -> None:
    """Raise UsageError for an invalid JSONPath template."""
    if output_format.template is not None:
        from kplan.report.jsonpath import parse_jsonpath

        parse_jsonpath(output_format.template)


def as_data(document: dict[str, Any] | list[dict[str, Any]], output_format: JsonFormat) -> str:
    """Return a document as text, or through its template; raises UsageError where that does not match."""
    if output_format.template is not None:
        from kplan.report.jsonpath import render_jsonpath

        return render_jsonpath(output_format.template, shown(document))
    return as_yaml(document) if output_format == "yaml" else f"{as_json(document)}\n"


def write_document(
    document: Head,
    output: JsonFormat,
    table: Callable[[int], str],
    cases: Callable[[Repository], CaseReport] | None = None,
) -> None:
    """Write a document that answers no question: as data, as a table of some width, or as cases for programs."""
    from kplan.report.registry import PROGRAM_FORMATS, render_for_programs

    if cases is not None and output in PROGRAM_FORMATS:
        write_out(render_for_programs(cases(pipelines.repository()), output))
    elif output == "table":
        write_out(table(text_width()))
    else:
        write_out(as_data(document.to_dict(), output))
