"""Reports as GitHub workflow commands: annotations on the manifests of a pull request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kplan.api.readable import listing
from kplan.report.view import Case, CaseReport, State, alike, brief_lines
from kplan.report.words import count, grouped

_LEVELS = {"failed": "error", "warning": "warning", "skipped": "notice"}
_MOST_NAMES = 10


_ORDER: tuple[State, ...] = ("failed", "warning", "skipped")
MOST_ANNOTATIONS = 10
"""GitHub shows at most so many of each level for a step, whichever come first."""


def render_github(report: CaseReport) -> str:
    """Return annotations, the most important first, and a notice with the summary and with what is left out.

    A workload has one, and so has a warning that is about several objects. There are `MOST_ANNOTATIONS` at most.
    """
    groups = [*alike(case for case in report.cases if case.state in ("failed", "skipped")), *_warnings(report)]
    groups.sort(key=lambda cases: (_ORDER.index(cases[0].state), not cases[0].file))
    shown, rest = groups[: MOST_ANNOTATIONS - 1], groups[MOST_ANNOTATIONS - 1 :]
    lines = [_annotation(cases) for cases in shown]
    lines.append(f"::notice title=kplan::{_data(report.title + _left_out(rest))}")
    return "\n".join(lines) + "\n"


def _warnings(report: CaseReport) -> list[list[Case]]:
    """Return the warnings, those that say the same about several objects together."""
    groups = grouped(((case.rule, case.message), case) for case in report.cases if case.state == "warning")
    return list(groups.values())


def _left_out(groups: Sequence[Sequence[Case]]) -> str:
    """Return how many annotations more there would be, and about what the most important ones are."""
    if not groups:
        return ""
    numbers = Counter(cases[0].state for cases in groups)
    kinds = ", ".join(count(numbers[state], _LEVELS[state]) for state in _ORDER if numbers[state])
    names = [f"{cases[0].about} ({cases[0].rule})" for cases in groups]
    return f"\nNot annotated: {kinds}: {listing(names, most=_MOST_NAMES)}"


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
