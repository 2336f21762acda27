"""The tools: a question each, with its JSON Schema; the answers as text, the sentence first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kplan.catalogue import TOOLS
from kplan.cluster.base import Base
from kplan.documents.base import Head, Report
from kplan.documents.pods import PodsReport
from kplan.errors import InputError, KplanError, Problem, UsageError
from kplan.questions.pods.view import render_table
from kplan.questions.reading import question_of, question_schema
from kplan.report.options import ReportOptions
from kplan.report.registry import render

#: How long the text of an answer may be: some ten thousand tokens.
MAX_TEXT = 40_000
_WIDTH = 110
_HEAD = ("kind", "apiVersion")


class Tool(msgspec.Struct, frozen=True):
    """A tool, as an agent sees it."""

    name: str
    description: str
    input_schema: dict[str, Any]


class Answer(msgspec.Struct, frozen=True):
    """The answer of a tool.

    `facts` are kind, verdict and summary of the document; empty for an error.
    """

    text: str
    facts: dict[str, Any] = {}
    is_error: bool = False


def tools() -> list[Tool]:
    """Return all tools."""
    return [_tool(name, kind) for name, kind in TOOLS.items()]


def _tool(name: str, kind: str) -> Tool:
    schema = question_schema(kind)
    properties = {field: value for field, value in schema["properties"].items() if field not in _HEAD}
    required = [field for field in schema.get("required", ()) if field not in _HEAD]
    about = schema["description"].removeprefix("Asks ")
    description = f"Tells {about} Nothing is changed in the cluster. Manifests are objects, not paths."
    return Tool(name, description, {**schema, "properties": properties, "required": required})


def call(planner: Base, name: str, arguments: Mapping[str, Any]) -> Answer:
    """Answer a question; what is wrong with it is an answer, too.

    Parameters
    ----------
    name : of the tool
    arguments : the parameters of the question, as its schema has them
    """
    try:
        if name not in TOOLS:
            raise UsageError(f"no tool is called {name!r}", hint=f"choose from {', '.join(TOOLS)}")
        content = {**arguments, "apiVersion": "kplan/v1", "kind": TOOLS[name]}
        question, problems = question_of(content)
        problems += _paths(content, "$")
        if question is None or problems:
            raise InputError(problems)
        return _answer(question.answer(planner))
    except KplanError as error:
        return Answer(_cut(f"error: {error}" + (f"\nhint: {error.hint}" if error.hint else "")), is_error=True)


def _paths(content: Any, path: str) -> Iterator[Problem]:
    """Yield the manifests that are paths: an agent does not read files of this machine through kplan."""
    if not isinstance(content, dict):
        return
    for field in ("manifests", "objects"):
        sources = content.get(field)
        for index, source in enumerate(sources if isinstance(sources, list) else ()):
            if isinstance(source, str):
                hint = "pass the object itself, as JSON"
                yield Problem("is a path, and files are not read here", json_path=f"{path}.{field}[{index}]", hint=hint)
    for field in ("question", "before", "after"):
        yield from _paths(content.get(field), f"{path}.{field}")


def _answer(document: Head) -> Answer:
    if isinstance(document, Report):
        text = render(document, "table", ReportOptions(width=_WIDTH))
        fields = document.to_dict()
        facts: dict[str, Any] = {field: fields[field] for field in ("kind", "verdict", "summary") if field in fields}
        facts["verdict"] = {**facts["verdict"], "counted": facts["verdict"]["counted"][:20]}
        facts["verdict"]["because"] = facts["verdict"]["because"][:20]
        return Answer(_cut(text), facts)
    if isinstance(document, PodsReport):
        summary = document.to_dict()["summary"]
        counts = ", ".join(f"{number} {name}" for name, number in summary.items())
        return Answer(
            _cut(f"{counts}\n\n{render_table(document, _WIDTH)}"), {"kind": document.kind, "summary": summary}
        )
    raise UsageError(f"an answer of kind {document.kind} has no text")


def _cut(text: str) -> str:
    text = text.strip("\n")
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT].rpartition(chr(10))[0]}\n… cut here: ask about fewer pods or nodes to see the rest"
