"""Every document in every format: the view of each kind, and the writer of each format.

A kind of document is one module that has a ``VIEW``, and is named in `kplan.catalogue`. A format that is written from
the cases of that view is one function, and an entry in `_WRITERS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.api.quantity import count
from kplan.catalogue import VIEWS, loaded
from kplan.documents.base import Report, with_sentence
from kplan.errors import Problem
from kplan.report.options import JSONPATH, OutputFormat, ReportOptions, Repository
from kplan.report.view import Case, CaseReport, View, in_repository, verdict_line, warning_cases
from kplan.visible import as_json, as_yaml, encode, escape_json, shown, visible

FORMATS = tuple(OutputFormat)
HUMAN_FORMATS = frozenset({"table", "wide", "markdown", "html"})
"""Formats that show warnings themselves, so that standard error need not."""

KINDS = tuple(VIEWS)

_WRITERS = {
    "junit": "kplan.report.pipelines:render_junit",
    "github": "kplan.report.pipelines:render_github",
    "sarif": "kplan.report.pipelines:render_sarif",
    "codequality": "kplan.report.pipelines:render_code_quality",
}
"""Formats that hold what went well and what did not -> the function that writes it."""
PROGRAM_FORMATS = frozenset({*_WRITERS, "openmetrics"})
_OF_REFUSALS = {
    **_WRITERS,
    "openmetrics": "kplan.report.pipelines:refused_in_openmetrics",
    "markdown": "kplan.report.markdown:refused_in_markdown",
    "html": "kplan.report.html.page:refused_in_html",
}
"""The same of formats that say why there is no answer."""


def view_of(kind: str) -> View[Any]:
    view: View[Any] = loaded(VIEWS[kind])
    return view


def render(document: Report, output: str, options: ReportOptions) -> str:
    """Return a document in one format, as `Rendering.text` does."""
    return Rendering(document).text(output, options)


class Rendering(msgspec.Struct, frozen=True, dict=True):
    """A document that is written in several formats; what these share is made once."""

    document: Report

    @cached_property
    def _visible(self) -> Report:
        return shown(self._complete, self._encoded)

    @cached_property
    def _complete(self) -> Report:
        return with_sentence(self.document)

    @cached_property
    def _encoded(self) -> bytes:
        return encode(self._complete)

    def text(self, output: str, options: ReportOptions) -> str:
        """Return it in one of `FORMATS`, which end with a line feed, or as ``jsonpath=TEMPLATE`` selects."""
        if output == "json":
            return escape_json(msgspec.json.format(self._encoded, indent=2).decode()) + "\n"
        if output == "yaml":
            return as_yaml(self._complete.to_dict())
        document = self._visible
        if output.startswith(JSONPATH):
            from kplan.report.jsonpath import render_jsonpath

            return render_jsonpath(output.removeprefix(JSONPATH), document.to_dict())
        view = view_of(document.kind)
        options = replace(
            options,
            top=None if output == "html" else options.top,
            is_wide=output == "wide",
            pages=options.pages if output == "markdown" else "",
            ties=document.scheduler.ties or "",
            is_page=output == "html",
            is_comment=output == "markdown",
            has_details=output == "junit",
        )
        if output in ("name", "short"):
            lines = view.names(document) if output == "name" else (document.sentence,)
            return "".join(f"{line}\n" for line in lines)
        if output in PROGRAM_FORMATS:
            return _for_programs(document, output, view, options)
        return self._for_people(output, view, options)

    def _for_people(self, output: str, view: View[Any], options: ReportOptions) -> str:
        from kplan.report.blocks import arranged, without_hints
        from kplan.report.text import render_plain, render_terminal

        document = self._visible
        blocks = list(view.blocks(document, options))
        if output in ("html", "markdown"):
            blocks = list(without_hints(blocks))
        if output != "html":
            reasons = view.reasons(document) if document.verdict.failed else ""
            blocks = arranged(blocks, verdict_line(document.verdict, reasons), is_wide=options.is_wide)
        if output == "markdown":
            from kplan.report.markdown import render_markdown

            return render_markdown(blocks, document.sentence)
        if output == "html":
            from kplan.report.html.page import embedded, render_html

            cases, whole = _cases(document, view, options), embedded(self._complete, self._encoded)
            return render_html(blocks, view, document, whole, cases, command=options.command)
        return render_terminal(blocks, options.width) if options.has_colour else render_plain(blocks, options.width)


def _for_programs(document: Report, output: str, view: View[Any], options: ReportOptions) -> str:
    if output == "openmetrics":
        from kplan.report.pipelines import render_openmetrics

        return render_openmetrics(document, view.metrics(document))
    report = CaseReport(
        kind=document.kind,
        title=document.sentence,
        generated_at=document.generated_at,
        source=options.repository.file(document.snapshot.source),
        cases=_cases(document, view, options),
        exit_code=document.verdict.exit_code,
        facts=(
            ("snapshot.source", document.snapshot.source),
            ("snapshot.digest", document.snapshot.digest),
            ("scheduler.kubernetesVersion", document.scheduler.kubernetes_version),
            ("failOn", ",".join(document.verdict.fail_on)),
        ),
    )
    return render_for_programs(report, output)


def _cases(document: Report, view: View[Any], options: ReportOptions) -> list[Case]:
    return in_repository([*view.cases(document, options), *warning_cases(document)], options.repository)


def render_for_programs(report: CaseReport, output: str) -> str:
    """Return the cases in one of the formats for programs, such as `junit`."""
    text: str = loaded(_OF_REFUSALS[output])(report)
    return text


_MOST_PROBLEMS = 50  #: so many problems are reported at most; GitHub shows no more annotations of a step than that


def refused(problems: Sequence[Problem], where: Repository) -> CaseReport:
    located = [(problem, where.file(visible(problem.path))) for problem in problems]
    return CaseReport(
        kind="Refusal",
        title=f"kplan: nothing was decided: {count(len(problems), 'problem')} with what was given",
        source=next((file for _, file in located if file), "kplan"),
        cases=[
            Case(
                name=visible(problem.json_path or problem.path) or "input",
                state="failed",
                rule="Invalid",
                message=visible(problem.message),
                detail=visible(str(problem)),
                file=file,
                document=problem.document,
                line=problem.line,
                hint=visible(problem.hint),
            )
            for problem, file in located[:_MOST_PROBLEMS]
        ],
        exit_code=2,
    )


def render_refusal(report: CaseReport, output: str) -> str:
    """Return why there is no answer in one of `FORMATS`."""
    if output in _OF_REFUSALS:
        return render_for_programs(report, output)
    if output in ("json", "yaml"):
        problems = [{"message": case.detail, "hint": case.hint} for case in report.cases]
        document = {"apiVersion": "kplan/v1", "kind": report.kind, "message": report.title, "problems": problems}
        return as_yaml(document) if output == "yaml" else as_json(document) + "\n"
    return "".join(f"{line}\n" for line in (report.title, *(case.detail for case in report.cases)))
