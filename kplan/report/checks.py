"""Results of `kplan pods`, `snapshot check` and `config check`, and refused inputs, as cases for programs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from msgspec.structs import replace

from kplan.api.quantity import count
from kplan.documents.base import now
from kplan.documents.files import SnapshotCheck
from kplan.documents.pods import PodsReport
from kplan.errors import Problem
from kplan.facts import InputWarning
from kplan.report.markdown import escape_markdown
from kplan.report.options import Repository
from kplan.report.view import Case, CaseReport, State
from kplan.visible import shown, visible


def pods_cases(document: PodsReport, where: Repository) -> CaseReport:
    """Return a case for each object: the API server accepts its pods, or refuses them."""
    report = shown(document)
    cases = []
    for pods in report.pods:
        source, message = pods.source, pods.refusal or f"makes {count(pods.count, 'pod')}"
        name, at = f"{source.kind} {source.namespace}/{source.name}", where.file(source.file)
        state: State = "failed" if pods.refusal else "passed"
        rule = "Refused" if pods.refusal else "Taken"
        cases.append(Case(name, state, rule, message, message, at, source.document, source.line))
    n_refused = sum(case.state == "failed" for case in cases)
    return CaseReport(
        kind=report.kind,
        title=f"kplan pods: {count(len(report.pods), 'object')}, {n_refused} refused",
        generated_at=report.generated_at,
        source=where.file(report.cluster),
        cases=[*cases, *(_warning(warning, where) for warning in report.warnings)],
        exit_code=1 if report.summary.refused or n_refused else 0,
    )


def snapshot_cases(document: SnapshotCheck, where: Repository) -> CaseReport:
    """Return a case for each finding; those that are only worth knowing do not count."""
    report = shown(document)
    source = report.snapshot.source
    file = "" if source == "demo" else where.file(source)
    states: tuple[tuple[State, Sequence[InputWarning]], ...] = (("failed", report.findings), ("skipped", report.notes))
    cases = [
        Case(finding.object or "snapshot", state, finding.code, finding.message, finding.message, file)
        for state, findings in states
        for finding in findings
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


def configuration_cases(
    source: str, problems: Sequence[Problem], warnings: Sequence[InputWarning], where: Repository
) -> CaseReport:
    name = visible(source)
    kind, title = "SchedulerConfigCheck", f"kplan config check: {name}"
    if problems:
        return replace(refused(problems, where), kind=kind, title=f"{title}: {count(len(problems), 'problem')}")
    valid = Case(name, "passed", "Valid", "kube-scheduler takes it", "kube-scheduler takes it", where.file(name))
    return CaseReport(
        kind=kind,
        title=f"{title}: ok",
        generated_at=now(),
        source=where.file(name) or name,
        cases=[valid, *(_warning(shown(warning), where) for warning in warnings)],
    )


def _warning(warning: InputWarning, where: Repository) -> Case:
    file = where.file(warning.file or "")
    return Case(warning.object, "warning", warning.code, warning.message, file=file, line=warning.line or None)


_MOST_PROBLEMS = 50  #: so many problems are reported at most; GitHub shows no more annotations of a step than that


def refused(problems: Sequence[Problem], where: Repository) -> CaseReport:
    """Return a case for each problem, with its file and line."""
    files = [where.file(visible(problem.path)) for problem in problems]
    return CaseReport(
        kind="Refusal",
        title=f"kplan: nothing was decided: {count(len(problems), 'problem')} with what was given",
        generated_at=now(),
        source=next(filter(None, files), "kplan"),
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
            for problem, file in zip(problems[:_MOST_PROBLEMS], files, strict=False)
        ],
        exit_code=2,
    )


def refused_in_markdown(report: CaseReport) -> str:
    places = [f"{case.place} {case.name}" if case.place not in ("", case.name) else case.name for case in report.cases]
    items = [
        f"- **{escape_markdown(place)}** {escape_markdown(case.message)}"
        for place, case in zip(places, report.cases, strict=True)
    ]
    return "\n".join([f"# {escape_markdown(report.title)}", "", *items, ""])


def refused_in_html(report: CaseReport) -> str:
    items = "".join(f"<li>{escape(case.detail)}</li>" for case in report.cases)
    title = escape(report.title)
    head = f'<meta charset="utf-8"><title>{title}</title>'
    return f'<!doctype html><html lang="en">{head}<h1>{title}</h1><ul>{items}</ul>\n'
