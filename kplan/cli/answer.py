"""The answer of a command: how it is shown, asking for it, and writing it in all formats that the flags name."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import typer
from msgspec.structs import replace

from kplan.api.names import choice_hint
from kplan.cli import pipelines
from kplan.cli.effects import tell_no_effect
from kplan.cli.flags import CommonFlags, OutputFlags, SweepFlags, VerbosityFlags
from kplan.cli.messages import busy, counted, say, silence_output
from kplan.cli.options import option_of
from kplan.errors import KplanError, UsageError
from kplan.report.options import DEFAULT_TOP, DEFAULT_WIDTH, JsonFormat, ReportOptions
from kplan.visible import as_json, as_yaml, shown

if TYPE_CHECKING:
    from kplan.course.asking import Asks, Showing
    from kplan.course.subject import Subject
    from kplan.documents.base import Condition, Head, Report
    from kplan.report.options import Repository
    from kplan.report.view import CaseReport

R = TypeVar("R", bound="Report")

_MOST_ON_PAGE = 200  #: a page explains so many nodes of each kind for a pod, folded where there are many

OUTLINE_FORMATS = frozenset({"table", "wide", "short", "markdown", "name"})
"""Formats for people, which show details of a few of many replicas, and only the nodes of the others."""

_DOCUMENT_FORMATS = ("json", "yaml")
"""Formats that hold the whole report, with the decision about each pod; jsonpath is one of them."""


def showing_for(flags: CommonFlags) -> Showing:
    """Return how answers are shown, and which conditions count; raises UsageError."""
    from kplan.course.answers.verdict import parse_fail_on

    return showing_of(flags.output, parse_fail_on(flags.output.fail_on) if flags.output.fail_on else None)


def showing_of(output: OutputFlags, fail_on: Sequence[Condition] | None) -> Showing:
    """Return how answers are shown in the output formats; raises UsageError as `formats_of`.

    `fail_on`: the conditions that count; None for the default of the question.
    """
    from kplan.course.asking import Showing
    from kplan.diagnosis.explanation import Shown

    formats = formats_of(output)
    # A document covers all nodes with --explain, else those that a table shows.
    top = None if output.explain else _top(output)
    if top is not None and "html" in formats:
        top = max(top, _MOST_ON_PAGE)
    return Showing(
        fail_on=fail_on,
        nodes=Shown(top, output.explain),
        others=Shown(top, with_score_details=False),
        is_outlined=OUTLINE_FORMATS.issuperset(formats),
        explain=output.explain,
        is_whole=any(name.startswith(_DOCUMENT_FORMATS) for name in formats),
        with_map=output.explain or "html" in formats,
        max_listed=output.max_listed,
    )


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
    rendering, reports = Rendering(document), _reports(output)
    of_files = ReportOptions(
        top=_top(output),
        explain=output.explain,
        command=pipelines.command_line(),
        repository=pipelines.repository(),
        pages=pipelines.repository_pages(),
    )
    for name, path in reports:
        write_file(path, rendering.text(name, of_files).encode())
    if "github" in (written, *dict(reports)):
        pipelines.add_to_step_summary(rendering.text("markdown", of_files))
    has_colour = _shows_colour() and not verbosity.no_color
    write_out(rendering.text(written, replace(of_files, width=text_width(), has_colour=has_colour)))
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


def _shows_colour() -> bool:
    is_terminal = sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return bool(is_terminal or os.environ.get("FORCE_COLOR")) and not os.environ.get("NO_COLOR")


def text_width() -> int:
    """Return the width of text on standard output: that of the terminal, or COLUMNS, else the default."""
    if (sys.stdout is not None and sys.stdout.isatty()) or os.environ.get("COLUMNS", "").isdigit():
        return shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns
    return DEFAULT_WIDTH


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
    if not words:
        with counted(doing, subject.base, quiet=verbosity.quiet):
            return located(question.answer_about(subject, showing), subject)
    with busy(doing, quiet=verbosity.quiet) as tell:
        showing = replace(showing, progress=lambda n, of: tell(words.format(n, of)))
        return located(question.answer_about(subject, showing), subject)


def located(document: R, subject: Subject) -> R:
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
