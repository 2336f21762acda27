"""Problems of an input in the formats of pipelines, so that a failed run shows them where answers are shown."""

from __future__ import annotations

from collections.abc import Sequence

from kplan.documents.base import now
from kplan.errors import Problem
from kplan.report.markdown import escape_markdown
from kplan.report.repository import file_in
from kplan.report.view import Case, CaseReport
from kplan.report.words import count
from kplan.visible import visible

_MOST_PROBLEMS = 50
"""So many problems are reported at most; GitHub shows no more annotations of a step than that."""

_FAILED = 2


def refused(problems: Sequence[Problem], here: str, repository: str) -> CaseReport:
    """Return a case for each problem, with its file and line."""
    return CaseReport(
        kind="Refusal",
        title=f"kplan: nothing was decided: {count(len(problems), 'problem')} with what was given",
        generated_at=now(),
        source=next(
            (name for problem in problems if (name := file_in(repository, here, visible(problem.path)))), "kplan"
        ),
        cases=[_case(problem, here, repository) for problem in problems[:_MOST_PROBLEMS]],
        exit_code=_FAILED,
    )


def _case(problem: Problem, here: str, repository: str) -> Case:
    message = visible(problem.message)
    return Case(
        name=visible(problem.json_path or problem.path) or "input",
        state="failed",
        rule="Invalid",
        message=message,
        detail=visible(str(problem)),
        file=file_in(repository, here, visible(problem.path)),
        document=problem.document,
        line=problem.line,
        hint=visible(problem.hint),
    )


def refused_in_markdown(report: CaseReport) -> str:
    """Return the summary of a job as Markdown."""
    items = [f"- **{escape_markdown(_place(case))}** {escape_markdown(case.message)}" for case in report.cases]
    return "\n".join([f"# {escape_markdown(report.title)}", "", *items, ""])


def _place(case: Case) -> str:
    place = f"{case.file}:{case.line}" if case.file and case.line is not None else case.file
    return f"{place} {case.name}" if place and place != case.name else case.name
