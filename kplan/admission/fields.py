"""Kinds, types and fields of the Kubernetes API, from its OpenAPI description in fields.json.

``tests/admission/generate_fields.py`` writes that file and explains its codes.
"""

from __future__ import annotations

import difflib
import re
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from kplan.api.kinds import split_api_version


class ApiKind(NamedTuple):
    """A kind that can be created: its struct, its resource (the plural in URLs), and whether it is namespaced."""

    struct: str
    resource: str
    is_namespaced: bool


class Field(NamedTuple):
    """The type of a field."""

    outer: str  #: ``[`` and ``{`` from the outside in: lists and maps around the value
    kind: str  #: a letter for a scalar, or the name of a struct
    is_pointer: bool  #: an explicit zero is stored
    is_always_written: bool  #: stored even when empty

    @property
    def is_struct(self) -> bool:
        """Whether the value is an object with fields of its own."""
        return len(self.kind) > 1

    def inner(self) -> Field:
        """Return the type of an element of the list or map."""
        return Field(self.outer[1:], self.kind, is_pointer=False, is_always_written=False)


class _Table(msgspec.Struct):
    kinds: dict[str, tuple[str, str, bool]]
    newer: dict[str, str]
    texts: dict[str, str]  #: field such as ``Toleration.effect`` -> Go's name of its string type
    embedded: dict[str, str]  #: field -> the struct that holds it in Go, where that is embedded in its own
    types: dict[str, msgspec.Raw]  #: struct -> its fields, each with its code; decoded when first used


@cache
def _table() -> _Table:
    return msgspec.json.decode(Path(__file__).with_name("fields.json").read_bytes(), type=_Table)


@lru_cache(maxsize=256)
def kinds_in(group: str) -> dict[str, list[str]]:
    """Return the kinds of an API group with their versions; empty for a group that is not Kubernetes' own."""
    versions: dict[str, list[str]] = {}
    for key in _table().kinds:
        api_version, _, kind = key.rpartition("/")
        its_group, version = split_api_version(api_version)
        if its_group == group:
            versions.setdefault(kind, []).append(version)
    return versions


def kind_named(api_version: str, kind: str) -> ApiKind | None:
    """Return a kind of exactly this version; None where the API does not serve it."""
    row = _table().kinds.get(f"{api_version}/{kind}")
    return None if row is None else ApiKind(*row)


def nearest_kind(api_version: str, kind: str) -> tuple[str, str] | None:
    """Return the version and kind with the most similar name; None where none is similar."""
    keys = list(_table().kinds)
    equal = [key for key in keys if key.rpartition("/")[2].lower() == kind.lower()]
    near = equal or difflib.get_close_matches(f"{api_version}/{kind}"[:100], keys, n=1, cutoff=0.75)
    if not near:
        return None
    best = difflib.get_close_matches(f"{api_version}/{kind}"[:100], near, n=1, cutoff=0.0)[0]
    version, _, name = best.rpartition("/")
    return version, name


@cache
def fields_of(struct: str) -> dict[str, Field]:
    """Return the fields of a struct in the newest release."""
    table = _table()
    short = go_name(struct)
    codes = msgspec.json.decode(table.types.get(struct, b"{}"), type=dict[str, str])
    return {name: _field(code) for name, code in codes.items() if f"{short}.{name}" not in table.newer}


def _field(code: str) -> Field:
    kind = code.lstrip("[{")
    outer = code[: len(code) - len(kind)]
    return Field(outer, kind.rstrip("*!"), is_pointer=kind.endswith("*"), is_always_written=kind.endswith("!"))


def nearest(struct: str, name: str) -> str:
    """Return the field with the most similar name; "" where none is similar."""
    near = difflib.get_close_matches(name[:100], fields_of(struct), n=1)
    return near[0] if near else ""


def text_type(struct: str, field: str) -> str:
    """Return the string type of a field in Go, such as ``v1.TaintEffect``."""
    return _table().texts.get(f"{struct}.{field}", "string")


def embedding(struct: str, field: str) -> str:
    """Return the embedded struct that holds a field in Go, with a dot after it; "" for the struct's own fields."""
    holder = _table().embedded.get(f"{struct}.{field}")
    return f"{holder}." if holder else ""


def go_type(field: Field, text: str = "string") -> str:
    """Return Go's name of a field's type, for messages; `text` is the name of its string type."""
    if field.outer:
        if field.kind == "q":
            return "v1.ResourceList"
        return {"[": "[]", "{": "map[string]"}[field.outer[0]] + go_type(field.inner(), text)
    if field.kind == "s":
        return text
    return _GO.get(field.kind) or f"{_version(field.kind)}.{go_name(field.kind)}"


_GO = {
    "b": "bool",
    "i": "int32",
    "l": "int64",
    "n": "float64",
    "q": "resource.Quantity",
    "x": "intstr.IntOrString",
    "t": "v1.Time",
    "y": "[]uint8",
    "o": "runtime.RawExtension",
}


_VERSION = re.compile(r"V\d+(?:(?:alpha|beta)\d+)?")


def go_name(struct: str) -> str:
    """Return the name of a struct in Go: that behind the version in ``EventsV1beta1Event``."""
    match = _VERSION.search(struct)
    return struct if match is None else struct[match.end() :]


def _version(struct: str) -> str:
    match = _VERSION.search(struct)
    return "v1" if match is None else match[0].lower()
