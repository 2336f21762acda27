"""Calls of tools: the question that the arguments ask, and its answer as text, the sentence first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kplan.catalogue import TOOLS
from kplan.cli.faults import lines_of
from kplan.cluster.base import Base
from kplan.documents.base import Head, Report
from kplan.documents.pods import PodsReport
from kplan.errors import ParameterError, UsageError
from kplan.mcp.arguments import question_of_call
from kplan.questions.pods.view import render_table
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from kplan.visible import shown, visible

#: How long the text of an answer may be: some ten thousand tokens.
MAX_TEXT = 40_000
#: How long one line of an error may be, so that its hint is not lost behind it.
_MAX_LINE = 2_000
#: How long the facts may be as JSON; events that do not fit are counted.
_MAX_FACTS = 8_000
_WIDTH = 110


class Answer(msgspec.Struct, frozen=True):
    """The answer of a tool.

    `facts` are kind, verdict and summary of the document; empty for an error.
    """

    text: str
    facts: dict[str, Any] = {}
    is_error: bool = False


def call(planner: Base, name: str, arguments: Mapping[str, Any]) -> Answer:
    """Answer a question; what is wrong with it is an answer, too.

    Parameters
    ----------
    name : of the tool
    arguments : the parameters of the question, as its schema has them
    """
    if name not in TOOLS:
        return refusal(UsageError(f"no tool is called {name}", hint=f"choose from {', '.join(TOOLS)}"))
    try:
        return _answer(question_of_call(TOOLS[name], arguments).answer(planner))
    except ParameterError as error:
        return refusal(error.naming(_argument_of))
    except Exception as error:  # noqa: BLE001 - an agent is told in these words, and not in those of the SDK
        return refusal(error)


def refusal(error: Exception) -> Answer:
    return Answer(_cut("\n".join(_shortened(visible(line)) for line in lines_of(error))), is_error=True)


def _argument_of(parameter: str) -> str:
    """Return the name of a parameter in documents: ``maxUnavailable`` for ``max_unavailable``."""
    first, *others = parameter.split("_")
    return first + "".join(map(str.capitalize, others))


def _answer(document: Head) -> Answer:
    if isinstance(document, Report):
        fields = document.to_dict()
        facts: dict[str, Any] = {field: fields[field] for field in ("kind", "verdict", "summary") if field in fields}
        return Answer(_cut(render(document, "table", ReportOptions(width=_WIDTH))), _within_bounds(shown(facts)))
    if isinstance(document, PodsReport):
        summary = document.to_dict()["summary"]
        counts = ", ".join(f"{number} {name}" for name, number in summary.items())
        table = render_table(document, _WIDTH)
        return Answer(_cut(f"{counts}\n\n{table}"), {"kind": document.kind, "summary": summary})
    raise UsageError(f"an answer of kind {document.kind} has no text")


def _within_bounds(facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts with as many of the verdict's events as fit, and the number of the others."""
    verdict = facts["verdict"]
    because, counted = verdict["because"], verdict["counted"]
    n_listed = len(because)
    while n_listed and len(msgspec.json.encode(facts)) > _MAX_FACTS:
        n_listed //= 2
        more = verdict["more"] + len(because) - n_listed
        facts = {
            **facts,
            "verdict": {**verdict, "because": because[:n_listed], "counted": counted[:n_listed], "more": more},
        }
    return facts


def _shortened(line: str) -> str:
    return line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}… ({len(line) - _MAX_LINE:,} more characters)"


def _cut(text: str) -> str:
    text = text.strip("\n")
    if len(text) <= MAX_TEXT:
        return text
    beginning = text[:MAX_TEXT]
    whole_lines = beginning.rpartition("\n")[0]
    if len(whole_lines) > MAX_TEXT // 2:
        beginning = whole_lines
    n_more = len(text) - len(beginning)
    return f"{beginning}\n… cut here, {n_more:,} more characters: ask about fewer pods or nodes to see the rest"
