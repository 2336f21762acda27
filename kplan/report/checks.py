"""Results of `kplan pods`, `snapshot check` and `config check`, and refused inputs, as cases for programs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from msgspec.structs import replace

from kplan.api.quantity import count
from kplan.documents.base import now
from kplan.documents.files import SnapshotCheck
from kplan.documents.pods import PodsMade, PodsReport
from kplan.errors import Problem
from kplan.facts import InputWarning
from kplan.report.markdown import escape_markdown
from kplan.report.options import Repository
from kplan.report.view import Case, CaseReport
from kplan.visible import shown, visible


def pods_cases(document: PodsReport, where: Repository) -> CaseReport:
    """Return a case for each object: the API server accepts its pods, or refuses them."""
    report = shown(document)
    n_refused = sum(1 for pods in report.pods if pods.refusal)
    return CaseReport(
        kind=report.kind,
        title=f"kplan pods: {count(len(report.pods), 'object')}, {n_refused} refused",
        generated_at=report.generated_at,
        source=where.file(report.cluster),
        cases=[
            *(_pods_case(pods, where) for pods in report.pods),
            *(_warning(warning, where) for warning in report.warnings),
        ],
        exit_code=1 if report.summary.refused or n_refused else 0,
    )


def _pods_case(pods: PodsMade, where: Repository) -> Case:
    source = pods.source
    name = f"{source.kind} {source.namespace}/{source.name}"
    message = pods.refusal or f"makes {count(pods.count, 'pod')}"
    return Case(
        name,
        "failed" if pods.refusal else "passed",
        "Refused" if pods.refusal else "Taken",
        message,
        message,
        where.file(source.file),
        source.document,
        source.line,
    )


def snapshot_cases(document: SnapshotCheck, where: Repository) -> CaseReport:
    """Return a case for each finding; those that are only worth knowing do not count."""
    report = shown(document)
    source = report.snapshot.source
    file = "" if source == "demo" else where.file(source)
    cases = [
        *(_finding(finding, file) for finding in report.findings),
        *(replace(_finding(note, file), state="skipped") for note in report.notes),
    ]
    if report.valid:
        cases.append(Case(source, "passed", "Valid", "everything fits together", "everything fits together", file))
    numbers = f"{count(len(report.findings), 'finding')}, {count(len(report.notes), 'note')}"
    return CaseReport(
        kind=report.kind,
        title=f"kplan snapshot check: {source}: {numbers}",
        generated_at=now(),
        source=file or source,
        cases=cases,
        exit_code=0 if report.valid else 1,
    )


def _finding(finding: InputWarning, file: str) -> Case:
    return Case(finding.object or "snapshot", "failed", finding.code, finding.message, finding.message, file)


def configuration_cases(
    source: str, problems: Sequence[Problem], warnings: Sequence[InputWarning], where: Repository
) -> CaseReport:
    name = visible(source)
    if problems:
        return replace(
            refused(problems, where),
            kind="SchedulerConfigCheck",
            title=f"kplan config check: {name}: {count(len(problems), 'problem')}",
        )
    return CaseReport(
        kind="SchedulerConfigCheck",
        title=f"kplan config check: {name}: ok",
        generated_at=now(),
        source=where.file(name) or name,
        cases=[
            Case(name, "passed", "Valid", "kube-scheduler takes it", "kube-scheduler takes it", where.file(name)),
            *(_warning(shown(warning), where) for warning in warnings),
        ],
    )


def _warning(warning: InputWarning, where: Repository) -> Case:
    file = where.file(warning.file or "")
    return Case(warning.object, "warning", warning.code, warning.message, file=file, line=warning.line or None)


_MOST_PROBLEMS = 50  #: so many problems are reported at most; GitHub shows no more annotations of a step than that

_FAILED = 2


def refused(problems: Sequence[Problem], where: Repository) -> CaseReport:
    """Return a case for each problem, with its file and line."""
    files = [where.file(visible(problem.path)) for problem in problems]
    return CaseReport(
        kind="Refusal",
        title=f"kplan: nothing was decided: {count(len(problems), 'problem')} with what was given",
        generated_at=now(),
        source=next(filter(None, files), "kplan"),
        cases=[_case(problem, file) for problem, file in zip(problems[:_MOST_PROBLEMS], files, strict=False)],
        exit_code=_FAILED,
    )


def _case(problem: Problem, file: str) -> Case:
    return Case(
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


def refused_in_markdown(report: CaseReport) -> str:
    items = [f"- **{escape_markdown(_place(case))}** {escape_markdown(case.message)}" for case in report.cases]
    return "\n".join([f"# {escape_markdown(report.title)}", "", *items, ""])


def refused_in_html(report: CaseReport) -> str:
    items = "".join(f"<li>{escape(case.detail)}</li>" for case in report.cases)
    title = escape(report.title)
    head = f'<meta charset="utf-8"><title>{title}</title>'
    return f'<!doctype html><html lang="en">{head}<h1>{title}</h1><ul>{items}</ul>\n'


def _place(case: Case) -> str:
    place = f"{case.file}:{case.line}" if case.file and case.line is not None else case.file
    return f"{place} {case.name}" if place and place != case.name else case.name
