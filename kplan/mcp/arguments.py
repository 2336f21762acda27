"""The arguments of a tool as the question that they ask.

An agent names no file of this machine. Wherever a question has the path of one, at any depth, text is read as manifests
or refused; what can only be asked with a file is no question for agents.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from msgspec import inspect

from kplan.api.decode import DecodeError
from kplan.errors import InputError, Problem
from kplan.questions.base import Question, is_file_path, question_type
from kplan.questions.reading import API_VERSION, question_of
from kplan.reading.documents import read_documents
from kplan.reading.files import MANIFESTS, STANDARD_INPUT
from kplan.reading.items import items_of

_MANIFEST_HINT = "pass the objects themselves, as JSON or as the text of YAML documents"


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
    """Return the type of a kind of question."""
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
        tags = {str(one.tag): one for one in structs}
        if value.get("kind") not in tags:
            hint = f"choose from {', '.join(tags)}"
            problems.append(
                Problem("is no kind of question that is answered here", json_path=f"{path}.kind", hint=hint)
            )
            return value
        struct = tags[value["kind"]]
    types = {field.encode_name: field.type for field in struct.fields}
    return {
        name: _read(item, types[name], f"{path}.{name}", problems) if name in types else item
        for name, item in value.items()
    }


def _manifests(value: str | Mapping[str, Any] | Sequence[Any], path: str, problems: list[Problem]) -> Iterator[Any]:
    """Yield the objects of manifests; a single one may stand where a list does."""
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
    problems += [replace(problem, path=path) for problem in wrong]
