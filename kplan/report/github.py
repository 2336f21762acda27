"""Reports as GitHub workflow commands: annotations on the manifests of a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from kplan.report.view import Case
from kplan.report.words import count, name_ranges

_LEVELS = {"failed": "error", "warning": "warning", "skipped": "notice"}
_STANDARD_INPUT = "-"


def render_github(cases: Sequence[Case], summary: str) -> str:
    """Write an annotation for every workload of which something did not go well, and a notice that sums up."""
    lines = [_annotation(alike) for alike in _alike([case for case in cases if case.state in _LEVELS])]
    lines.append(f"::notice title=kplan::{_data(summary)}")
    return "\n".join(lines) + "\n"


def _alike(cases: Sequence[Case]) -> list[list[Case]]:
    """Put together what is to be said once: the replicas of a workload that end the same way."""
    groups: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        end: tuple[object, ...] = (case.state, case.rule, case.file, case.document, case.about)
        # Two warnings about one object are two things to say.
        groups.setdefault(end if case.workload else (*end, case.message), []).append(case)
    return list(groups.values())


def _annotation(alike: Sequence[Case]) -> str:
    case = alike[0]
    properties = [f"file={_property(case.file)}"] if case.file and case.file != _STANDARD_INPUT else []
    if properties and case.line is not None:
        properties.append(f"line={case.line}")
    properties.append(f"title={_property(f'kplan: {case.about} ({case.rule})')}")
    return f"::{_LEVELS[case.state]} {','.join(properties)}::{_data(_body(alike))}"


def _body(alike: Sequence[Case]) -> str:
    """Say how many, why, what would help, and how to ask for more: a line each."""
    case = alike[0]
    names = name_ranges([each.name for each in alike])
    lines = [f"{count(len(alike), 'pod')}: {names}"] if len(alike) > 1 else []
    lines.append(" ".join(case.message.split()))
    lines += [f"What would help: {case.would_help}"] if case.would_help else []
    lines += [f"More: {case.more}"] if case.more else []
    return "\n".join(lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
