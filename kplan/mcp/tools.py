"""The tools: the schemas that agents see, the question that arguments ask, and its answer as text, the sentence first.

An agent reads the whole list of tools before its first question, so that schemas are short: bounds, and fields that
there are not, are told when they are met, and a question within another one has the schema of its own tool.

An agent names no file of this machine. Wherever a question has the path of one, at any depth, text is read as manifests
or refused; what can only be asked with a file is no question for agents.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import inspect

from kplan.api.decode import DecodeError
from kplan.api.names import camel_case
from kplan.catalogue import TOOLS
from kplan.cli.messages import lines_of
from kplan.cluster.base import Base
from kplan.documents.base import Head, Report
from kplan.documents.files import PodsReport
from kplan.documents.kinds import summary
from kplan.errors import InputError, ParameterError, Problem, UsageError
from kplan.questions.base import Question, question_type
from kplan.questions.pods.view import render_table
from kplan.questions.reading import API_VERSION, question_of
from kplan.reading.arguments import descriptions, is_file_path
from kplan.reading.documents import read_documents
from kplan.reading.files import MANIFESTS, STANDARD_INPUT
from kplan.reading.items import items_of
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from kplan.visible import shown, visible

_MANIFEST_HINT = "pass the objects themselves, as JSON or as the text of YAML documents"
_MANIFESTS = {
    "type": "array",
    "items": {"anyOf": [{"type": "object"}, {"type": "string"}]},
    "description": "Kubernetes objects, or YAML text of them; no paths",
}
_TYPES: dict[type[inspect.Type], str] = {
    inspect.StrType: "string",
    inspect.BoolType: "boolean",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.DictType: "object",
}
_NO_PARAMETERS = ("apiVersion", "kind")
_IN_TURN = "InTurnQuestion"


def question_of_call(kind: str, arguments: Mapping[str, Any]) -> Question:
    """Return the question of a kind that arguments ask; raises InputError with all problems."""
    problems: list[Problem] = []
    content = _read(dict(arguments), type_of(kind), "$", problems)
    if problems:
        raise InputError(problems)
    question, problems = question_of({**content, "apiVersion": API_VERSION, "kind": kind})
    if question is None or problems:
        raise InputError(problems)
    return question


@lru_cache
def type_of(kind: str) -> inspect.Type:
    return inspect.type_info(question_type(kind))


def structs_for_agents(kind: inspect.Type) -> list[inspect.StructType]:
    """Return the structs that a value of this type may be: not those that cannot do without a file."""
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    structs = [one for one in kinds if isinstance(one, inspect.StructType)]
    return [one for one in structs if not any(field.required and is_file_path(field.type) for field in one.fields)]


def is_manifest(kind: inspect.Type) -> bool:
    """Tell whether a value of this type is an object, or the path of a file with objects."""
    return isinstance(kind, inspect.UnionType) and any(map(is_file_path, kind.types))


def _read(value: Any, kind: inspect.Type, path: str, problems: list[Problem]) -> Any:
    """Return a value with texts of manifests as their objects; note what names a file."""
    if is_file_path(kind):
        problems.append(Problem("names a file, and files are not read here", json_path=path, hint="leave it out"))
        return value
    if isinstance(kind, inspect.VarTupleType):
        if is_manifest(kind.item_type):
            return list(_manifests(value, path, problems)) if isinstance(value, str | Mapping | Sequence) else value
        if isinstance(value, list):
            return [_read(item, kind.item_type, f"{path}[{index}]", problems) for index, item in enumerate(value)]
    structs = structs_for_agents(kind)
    if not isinstance(value, dict) or not structs:
        return value
    struct = structs[0]
    if len(structs) > 1:
        tags, tag = {str(one.tag): one for one in structs}, str(struct.tag_field)
        if value.get(tag) not in tags:
            what = "question that is answered" if tag == "kind" else "change that is made"
            hint = f"choose from {', '.join(tags)}"
            problems.append(Problem(f"is no kind of {what} here", json_path=f"{path}.{tag}", hint=hint))
            return value
        struct = tags[value[tag]]
    types = {field.encode_name: field.type for field in struct.fields}
    return {
        name: _read(item, types[name], f"{path}.{name}", problems) if name in types else item
        for name, item in value.items()
    }


def _manifests(value: str | Mapping[str, Any] | Sequence[Any], path: str, problems: list[Problem]) -> Iterator[Any]:
    if isinstance(value, str | Mapping):
        value = [value]
    for index, item in enumerate(value):
        if isinstance(item, str):
            yield from _objects(item, f"{path}[{index}]", problems)
        else:
            yield item


def _objects(text: str, path: str, problems: list[Problem]) -> Iterator[dict[str, Any]]:
    if "\n" not in text and not text.lstrip().startswith("{"):
        message = "is no text of YAML documents, and files are not read here"
        problems.append(Problem(message, json_path=path, hint=_MANIFEST_HINT))
        return
    wrong: list[Problem] = []
    data = io.BytesIO(text.encode(errors="replace"))
    for document in read_documents(STANDARD_INPUT, wrong, limits=MANIFESTS, stdin=data):
        for item in items_of(document, wrong):
            try:
                yield {**item.value(), "apiVersion": item.api_version, "kind": item.kind}
            except DecodeError as error:
                wrong += map(item.locate, error.problems)
    problems += [problem._replace(path=path) for problem in wrong]


class Tool(msgspec.Struct, frozen=True):
    """A tool, as an agent sees it."""

    name: str
    description: str
    input_schema: dict[str, Any]


def tools() -> list[Tool]:
    listed = []
    for name, kind in TOOLS.items():
        about = summary(question_type(kind)).removeprefix("Asks ")
        type_info = type_of(kind)
        assert isinstance(type_info, inspect.StructType)  # noqa: S101 - every question is a struct
        listed.append(Tool(name, f"Tells {about} Nothing is changed in the cluster.", _struct_schema(type_info)))
    return listed


def _struct_schema(struct: inspect.StructType) -> dict[str, Any]:
    about = descriptions(struct.cls)
    fields = [one for one in struct.fields if one.encode_name not in _NO_PARAMETERS and not is_file_path(one.type)]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {field.encode_name: _property(field, about.get(field.name, "")) for field in fields},
    }
    required = [field.encode_name for field in fields if field.required]
    return {**schema, "required": required} if required else schema


def _property(field: inspect.Field, about: str) -> dict[str, Any]:
    schema = _schema(field.type)
    if about and "description" not in schema:
        schema["description"] = about.replace("``", "")
    if isinstance(field.default, bool | int | float | str) and field.default:
        schema["default"] = field.default
    return schema


def _schema(kind: inspect.Type) -> dict[str, Any]:
    if isinstance(kind, inspect.VarTupleType):
        item = kind.item_type
        return dict(_MANIFESTS) if is_manifest(item) else {"type": "array", "items": _schema(item)}
    if structs := structs_for_agents(kind):
        tag = structs[0].tag_field
        return _struct_schema(structs[0]) if tag is None else _tagged_schema(tag, [str(one.tag) for one in structs])
    if isinstance(kind, inspect.UnionType):
        others = [_schema(one) for one in kind.types if not isinstance(one, inspect.NoneType)]
        if all("enum" in other for other in others):
            return {"type": "string", "enum": [word for other in others for word in other["enum"]]}
        return others[0] if len(others) == 1 else {"anyOf": others}
    if isinstance(kind, inspect.LiteralType):
        return {"type": "string", "enum": list(kind.values)}
    return {"type": _TYPES[type(kind)]}


def _tagged_schema(tag: str, kinds: list[str]) -> dict[str, Any]:
    """Return the schema of a question within another one, or of a change."""
    schema = {"type": "object", "properties": {tag: {"type": "string", "enum": kinds}}, "required": [tag]}
    if tag != "kind":
        return schema
    about = "its kind, and the parameters of the tool of this kind"
    if _IN_TURN in kinds:
        about += f" ({_IN_TURN}: drain_each)"
    return {**schema, "description": about}


MAX_TEXT = 40_000  #: how long the text of an answer may be: some ten thousand tokens
#: How long one line of an error may be, so that its hint is not lost behind it.
_MAX_LINE = 2_000
#: How long the facts may be as JSON; events that do not fit are counted.
_MAX_FACTS = 8_000
_WIDTH = 110


class ToolAnswer(msgspec.Struct, frozen=True):
    """The answer of a tool; `facts` are kind, verdict and summary of the document, and empty for an error."""

    text: str
    facts: dict[str, Any] = {}
    is_error: bool = False


def call(base: Base, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
    """Answer the question of a tool, whose parameters are the arguments; what is wrong with it is an answer, too."""
    if name not in TOOLS:
        return refusal(UsageError(f"no tool is called {name}", hint=f"choose from {', '.join(TOOLS)}"))
    try:
        return _answer(question_of_call(TOOLS[name], arguments).answer(base))
    except ParameterError as error:
        return refusal(error.naming(camel_case))
    except Exception as error:  # noqa: BLE001 - an agent is told in these words, and not in those of the SDK
        return refusal(error)


def refusal(error: Exception) -> ToolAnswer:
    lines = []
    for text in map(visible, lines_of(error)):
        more = f"… ({len(text) - _MAX_LINE:,} more characters)" if len(text) > _MAX_LINE else ""
        lines.append(text[:_MAX_LINE] + more)
    return ToolAnswer(_cut("\n".join(lines)), is_error=True)


def _answer(document: Head) -> ToolAnswer:
    if isinstance(document, Report):
        fields = document.to_dict()
        facts: dict[str, Any] = {field: fields[field] for field in ("kind", "verdict", "summary") if field in fields}
        return ToolAnswer(_cut(render(document, "table", ReportOptions(width=_WIDTH))), _within_bounds(shown(facts)))
    if isinstance(document, PodsReport):
        summary = document.to_dict()["summary"]
        counts = ", ".join(f"{number} {name}" for name, number in summary.items())
        table = render_table(document, _WIDTH)
        return ToolAnswer(_cut(f"{counts}\n\n{table}"), {"kind": document.kind, "summary": summary})
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
