"""Reports as GitHub workflow commands: annotations on the manifests of a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from kplan.report.view import Case

_LEVELS = {"failed": "error", "warning": "warning", "skipped": "notice"}


def render_github(cases: Sequence[Case], summary: str) -> str:
    """Write an annotation for everything that did not go well, and a notice that sums up."""
    lines = [_annotation(case) for case in cases if case.state in _LEVELS]
    lines.append(f"::notice title=kplan::{_data(summary)}")
    return "\n".join(lines) + "\n"


def _annotation(case: Case) -> str:
    properties = [f"file={_property(case.file)}"] if case.file and case.file != "-" else []
    properties.append(f"title={_property(f'kplan: {case.name} ({case.rule})')}")
    return f"::{_LEVELS[case.state]} {','.join(properties)}::{_data(case.detail or case.message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
