"""Reports as GitHub workflow commands: annotations on the manifests of a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from kplan.report.view import Case, CaseReport, alike, brief_lines

_LEVELS = {"failed": "error", "warning": "warning", "skipped": "notice"}


def render_github(report: CaseReport) -> str:
    """Return an annotation for every workload with a failure or a warning, and a notice with the summary."""
    lines = [_annotation(cases) for cases in alike(case for case in report.cases if case.state in _LEVELS)]
    lines.append(f"::notice title=kplan::{_data(report.title)}")
    return "\n".join(lines) + "\n"


def _annotation(cases: Sequence[Case]) -> str:
    case = cases[0]
    properties = [f"file={_property(case.file)}"] if case.file else []
    if properties and case.line is not None:
        properties.append(f"line={case.line}")
    properties.append(f"title={_property(f'kplan: {case.about} ({case.rule})')}")
    body = "\n".join(brief_lines(cases))
    return f"::{_LEVELS[case.state]} {','.join(properties)}::{_data(body)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
