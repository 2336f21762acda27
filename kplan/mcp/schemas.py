"""The tools as agents see them.

An agent reads the whole list before its first question, so that schemas are short: bounds, and fields that there are
not, are told when they are met, and a question within another one has the schema of its own tool.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect

from kplan.catalogue import TOOLS
from kplan.documents.schemas import descriptions, summary
from kplan.mcp.arguments import is_manifest, structs_for_agents, type_of
from kplan.questions.base import is_file_path, question_type

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


class Tool(msgspec.Struct, frozen=True):
    """A tool, as an agent sees it."""

    name: str
    description: str
    input_schema: dict[str, Any]


def tools() -> list[Tool]:
    """Return all tools."""
    return [_tool(name, kind) for name, kind in TOOLS.items()]


def _tool(name: str, kind: str) -> Tool:
    about = summary(question_type(kind)).removeprefix("Asks ")
    type_info = type_of(kind)
    assert isinstance(type_info, inspect.StructType)  # noqa: S101 - every question is a struct
    return Tool(name, f"Tells {about} Nothing is changed in the cluster.", _struct_schema(type_info))


def _struct_schema(struct: inspect.StructType) -> dict[str, Any]:
    about = descriptions(struct.cls)
    fields = [
        field for field in struct.fields if field.encode_name not in _NO_PARAMETERS and not is_file_path(field.type)
    ]
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
    """Return the schema of a type."""
    if isinstance(kind, inspect.VarTupleType):
        item = kind.item_type
        return dict(_MANIFESTS) if is_manifest(item) else {"type": "array", "items": _schema(item)}
    if structs := structs_for_agents(kind):
        is_question = structs[0].tag is not None
        return _question_schema([str(one.tag) for one in structs]) if is_question else _struct_schema(structs[0])
    if isinstance(kind, inspect.UnionType):
        others = [_schema(one) for one in kind.types if not isinstance(one, inspect.NoneType)]
        return others[0] if len(others) == 1 else {"anyOf": others}
    if isinstance(kind, inspect.LiteralType):
        return {"type": "string", "enum": list(kind.values)}
    return {"type": _TYPES[type(kind)]}


def _question_schema(kinds: list[str]) -> dict[str, Any]:
    """Return the schema of a question within another one."""
    about = "its kind, and the parameters of the tool of this kind"
    if _IN_TURN in kinds:
        about += f" ({_IN_TURN}: drain_each)"
    return {
        "type": "object",
        "properties": {"kind": {"type": "string", "enum": kinds}},
        "required": ["kind"],
        "description": about,
    }
