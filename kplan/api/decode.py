"""Typed decoding of Kubernetes objects: from JSON bytes, or from builtins that come from YAML.

The quick way is one msgspec call. Only if that fails, the value is compared with its type field by field, which
collects every problem with its JSON path, and reads ``null`` as the API machinery does: as an absent field, or as the
zero value in maps and lists. Configuration is always read that way: it refuses unknown fields, and what is right in a
document with problems is checked further.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from kplan.api.names import choice_hint
from kplan.api.quantity import MAX_INT64
from kplan.api.time import DURATION, parse_duration
from kplan.errors import Problem

S = TypeVar("S", bound=msgspec.Struct)
MAX_PROBLEMS = 20  #: problems beyond this number are only counted
_OBJECTS = "kplan.api."  # the modules of the structs of Kubernetes' objects
_MOST_NAME = 80  # characters of a field that is refused
_MOST_SHOWN_BITS = 128  # what is longer is no number of Kubernetes, and would fill the message
_LARGE_HINT = "write a smaller number, or a quantity in quotes with a suffix such as Gi"
DEEP_HINT = "objects are nested some ten levels deep; check for brackets that are not closed"
Refuse = Callable[[type[msgspec.Struct], str, str], Problem | None]
"""Called with a struct, the name of one of the fields that an object has, and the path of the field."""

_WRONG: Final = object()  #: in place of a value that does not match its type
_FEW_FIELDS = 8  # so many are named in a hint


class DecodeError(ValueError):
    """An object that does not match its kind; `problems` has all reasons."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems


@lru_cache(maxsize=256)
def decoder(target: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(target)


@lru_cache(maxsize=256)
def type_info(target: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(target)


def decode(data: bytes | msgspec.Raw, target: type[S]) -> S:
    """Decode one object from JSON; raises DecodeError with every problem, and msgspec.DecodeError for no JSON."""
    try:
        decoded: S = decoder(target).decode(data)
    except (msgspec.ValidationError, RecursionError):
        return convert(builtins(data), target)
    return decoded


def decode_sound(objects: Sequence[Any], target: type[S]) -> list[S] | None:
    """Decode objects of one kind, all from JSON, from builtins or decoded already; None if one does not match."""
    if isinstance(objects[0], target):
        return list(objects)
    try:
        if isinstance(objects[0], msgspec.Raw):
            return list(map(decoder(target).decode, objects))
        return [msgspec.convert(obj, target) for obj in objects]
    except (msgspec.ValidationError, RecursionError):
        return None


def builtins(data: bytes | msgspec.Raw) -> Any:
    """Return JSON as builtins.

    Raises DecodeError if it is nested too deeply or holds a number beyond float64, and msgspec.DecodeError if the text
    is not JSON.
    """
    try:
        with suppress(msgspec.ValidationError):
            return msgspec.json.decode(data)
        msgspec.json.decode(data, type=msgspec.Raw)  # what follows the number is JSON, too
        value = json.loads(bytes(data), parse_int=float)
    except RecursionError:
        raise DecodeError((Problem("nested too deeply", json_path="$", hint=DEEP_HINT),)) from None
    problems = [Problem("a number too large for any field", json_path=at, hint=_LARGE_HINT) for at in _endless(value)]
    raise DecodeError(tuple(problems[:MAX_PROBLEMS]))


def _endless(value: Any, path: str = "$") -> Iterator[str]:
    """Yield the paths of numbers that are too large, and so became infinite."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _endless(item, f"{path}.{key}" if key.isidentifier() else f"{path}[{key!r}]")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _endless(item, f"{path}[{index}]")
    elif isinstance(value, float) and math.isinf(value):
        yield path


def convert(value: Any, target: type[S], *, shows_values: bool = True, refuse: Refuse | None = None) -> S:
    """Decode an object from builtins; raises DecodeError with every problem and its JSON path.

    Problems quote wrong values where it `shows_values`, as not of objects with secrets. Without `refuse` all fields may
    be there.
    """
    unfit = (msgspec.ValidationError, UnicodeEncodeError)  # half of a pair is no character that msgspec can compare
    if refuse is None:
        with suppress(*unfit, RecursionError):
            return msgspec.convert(value, target)
    reading = _Reading(shows_values=shows_values, refuse=refuse)
    try:
        cleaned = _clean(value, type_info(target), "$", reading)
    except RecursionError:
        raise DecodeError((Problem("nested too deeply", json_path="$", hint=DEEP_HINT),)) from None
    if reading.problems:
        raise DecodeError(tuple(reading.problems[:MAX_PROBLEMS]))
    try:
        return msgspec.convert(cleaned, target)
    except unfit as error:
        path = str(error).partition(" - at `")[2].rstrip("`")
        own = str(error.__cause__) if shows_values and error.__cause__ is not None else ""  # by the struct itself
        raise DecodeError((Problem(own or "not the kind of value that belongs here", json_path=path or "$"),)) from None


def convert_what_is_right(value: Any, target: type[S], refuse: Refuse) -> tuple[S, list[Problem]]:
    """Decode an object from builtins as far as it is right, with every problem and its JSON path.

    What does not match its type gets its default, which all fields of the struct have, or else the zero value.
    """
    reading = _Reading(refuse=refuse)
    cleaned = _clean(value, type_info(target), "$", reading)
    return msgspec.convert({} if cleaned is _WRONG else cleaned, target), reading.problems


def refuse_unknown(struct: type[msgspec.Struct], name: str, path: str) -> Problem | None:
    """Refuse fields that a struct does not have; objects of Kubernetes have more than their structs."""
    known = struct.__struct_encode_fields__
    if name in known or struct.__module__.startswith(_OBJECTS):
        return None
    return Problem(f"unknown field {str(name)[:_MOST_NAME]!r}", json_path=path, hint=choice_hint(str(name), known))


class _Kinds(msgspec.Struct, frozen=True):
    """The alternatives of a field's type, without None."""

    allows_none: bool
    others: tuple[inspect.Type, ...]


class _Reading:
    """Collects values that do not match their types, and refused fields."""

    def __init__(self, *, shows_values: bool = True, refuse: Refuse | None = None) -> None:
        self.problems: list[Problem] = []
        self.refuse = refuse
        self._shows_values = shows_values

    def note(self, value: Any, kinds: _Kinds, path: str) -> None:
        tagged = [kind for kind in kinds.others if isinstance(kind, inspect.StructType) and kind.tag_field is not None]
        if isinstance(value, dict) and tagged:
            tags = ", ".join(str(kind.tag) for kind in tagged)
            self.problems.append(Problem(f"expected one of {tags}", json_path=f"{path}.{tagged[0].tag_field}"))
            return
        expected = " or ".join(dict.fromkeys(_name(kind, value) for kind in kinds.others))
        got = f", got {describe(value)}" if self._shows_values else ""
        hint = _hint(value, kinds) if self._shows_values else ""
        is_bare = self._shows_values and _wants_text(kinds) and isinstance(value, bool | int | float)
        self.problems.append(Problem(f"expected {expected}{got}", json_path=path, hint=hint, wants_quotes=is_bare))


def _clean(value: Any, type_info: inspect.Type, path: str, reading: _Reading) -> Any:
    """Return a value with nulls as absent or zero; `_WRONG`, with a problem, for one that does not match its type."""
    kinds = _alternatives(type_info)
    if value is None and kinds.allows_none:
        return None
    for kind in kinds.others:
        if isinstance(kind, inspect.StructType) and isinstance(value, dict):
            of_one = kind.tag if len(kinds.others) == 1 else None  # where only one fits, it need not say that it is it
            if kind.tag in (None, value.get(kind.tag_field, of_one)):
                return _clean_struct(value, kind, path, reading)
        if isinstance(kind, inspect.DictType) and isinstance(value, dict):
            return {
                str(key): _clean_item(item, kind.value_type, f"{path}[{key!r}]", reading) for key, item in value.items()
            }
        if isinstance(kind, inspect.VarTupleType | inspect.ListType) and isinstance(value, list | tuple):
            return [_clean_item(item, kind.item_type, f"{path}[{index}]", reading) for index, item in enumerate(value)]
        if _is_scalar(value, kind):
            if isinstance(kind, inspect.IntType):
                value = int(value)  # the API machinery accepts 3.0 as an integer; msgspec does so only in JSON text
            return parse_duration(value) if isinstance(kind, inspect.Metadata) else value
    reading.note(value, kinds, path)
    return _WRONG


def _clean_item(item: Any, type_info: inspect.Type, path: str, reading: _Reading) -> Any:
    """Return an item of a list or map, where Go turns null into the zero value."""
    cleaned = _clean(_zero(type_info) if item is None else item, type_info, path, reading)
    return _zero(type_info) if cleaned is _WRONG else cleaned


def _clean_struct(value: dict[Any, Any], kind: inspect.StructType, path: str, reading: _Reading) -> dict[str, Any]:
    cleaned = {} if kind.tag_field is None else {kind.tag_field: kind.tag}
    refused: dict[Any, Problem] = {}
    if (refuse := reading.refuse) is not None:
        places = {name: f"{path}.{str(name)[:_MOST_NAME]}" for name in value if name != kind.tag_field}
        refusals = ((name, refuse(kind.cls, name, place)) for name, place in places.items())
        refused = {name: refusal for name, refusal in refusals if refusal is not None}
    reading.problems += refused.values()
    for field in kind.fields:
        name = field.encode_name
        item = None if name in refused else value.get(name)
        if item is not None:
            item = _clean(item, field.type, f"{path}.{name}", reading)
            if item is not _WRONG:
                cleaned[name] = item
        elif name in value and _alternatives(field.type).allows_none:
            cleaned[name] = None
        elif field.required:
            reading.problems.append(Problem("is missing", json_path=f"{path}.{name}"))
    return cleaned


def _alternatives(type_info: inspect.Type) -> _Kinds:
    types = type_info.types if isinstance(type_info, inspect.UnionType) else (type_info,)
    types = tuple(one.type if isinstance(one, inspect.Metadata) and one.extra != DURATION else one for one in types)
    others = tuple(kind for kind in types if not isinstance(kind, inspect.NoneType))
    return _Kinds(any(isinstance(kind, inspect.NoneType) for kind in types), others)


def _is_scalar(value: Any, kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.AnyType | inspect.RawType):
        return True
    if isinstance(value, bool):
        return isinstance(kind, inspect.BoolType)
    if isinstance(kind, inspect.LiteralType | inspect.EnumType):
        return value in _choices(kind)
    if isinstance(kind, inspect.IntType):
        is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        return is_whole and _is_within(value, kind)
    if isinstance(kind, inspect.FloatType):
        return isinstance(value, int | float) and _is_within(value, kind)
    return isinstance(value, str) and _is_text_of(value, kind)


def _is_text_of(text: str, kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.Metadata):
        return parse_duration(text) is not None
    if isinstance(kind, inspect.BytesType):
        with suppress(ValueError):
            base64.b64decode(text, validate=True)
            return True
    return isinstance(kind, inspect.StrType)


def _is_within(value: float, kind: inspect.IntType | inspect.FloatType) -> bool:
    return (kind.ge is None or kind.ge <= value) and (kind.le is None or value <= kind.le)


def _choices(kind: inspect.LiteralType | inspect.EnumType) -> tuple[Any, ...]:
    return tuple(kind.values) if isinstance(kind, inspect.LiteralType) else tuple(member.value for member in kind.cls)


def _zero(type_info: inspect.Type) -> Any:
    kind = _alternatives(type_info).others[0]
    if isinstance(kind, inspect.StructType | inspect.DictType):
        return {}
    if isinstance(kind, inspect.VarTupleType | inspect.ListType):
        return []
    is_quantity = isinstance(type_info, inspect.UnionType)
    return ("0" if is_quantity else "") if isinstance(kind, inspect.StrType | inspect.BytesType) else 0


_WORDS = {
    "VarTupleType": ("a list", "write a list: a dash before each item in YAML, [ ] around them in JSON"),
    "ListType": ("a list", ""),
    "StructType": ("an object", "write its fields below it, indented, in YAML, or { } around them in JSON"),
    "DictType": ("an object", "write its entries below it, indented, in YAML, or { } around them in JSON"),
    "StrType": ("a string", ""),
    "IntType": ("an integer", "write a whole number, without quotes"),
    "FloatType": ("a number", ""),
    "BoolType": ("true or false", "write true or false, without quotes"),
    "BytesType": ("base64 text", "encode the PEM file: base64 -w0 FILE"),
    "Metadata": ("a duration", "write a number with its unit: 500ms, 30s, 1m30s, 2h"),
    "CustomType": ("a function", ""),  # the only type of parameters of the Python API that no document has
}
"""What is expected, and how it is written, by the name of its type; of several the first counts."""


def _name(kind: inspect.Type, value: Any) -> str:
    if isinstance(kind, inspect.IntType | inspect.FloatType) and isinstance(value, int | float):
        return _WORDS[type(kind).__name__][0] + _bounds(kind, value)
    if isinstance(kind, inspect.LiteralType | inspect.EnumType):
        choices = _choices(kind)
        return ("one of " if len(choices) > 1 else "") + ", ".join(map(describe, choices))
    return _WORDS.get(type(kind).__name__, ("another value", ""))[0]


def _bounds(kind: inspect.IntType | inspect.FloatType, value: float) -> str:
    """Return the bounds of a number in words; those of 64 bits go without saying where a value is within them."""
    if kind.ge is None or (kind.ge < -MAX_INT64 and abs(value) <= MAX_INT64):
        return ""
    is_open = kind.le is None or (kind.le >= MAX_INT64 and value <= kind.le)
    least, most = (bound if bound is None else int(bound) for bound in (kind.ge, kind.le))
    return f" from {least} up" if is_open else f" from {least} to {most}"


def describe(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and value.bit_length() > _MOST_SHOWN_BITS:
        # Formatting a huge number takes long, and Python refuses to format some thousands of digits.
        return "an integer of more than 64 bits"
    if isinstance(value, float) and not math.isfinite(value):
        return "no number" if math.isnan(value) else "a number beyond all bounds"
    return shortened(json.dumps(value, ensure_ascii=False, default=str))


def shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def in_quotes(text: str) -> str:
    return f'put quotes around it: "{text}"'


def _wants_text(kinds: _Kinds) -> bool:
    return any(isinstance(kind, inspect.StrType) for kind in kinds.others)


def _hint(value: Any, kinds: _Kinds) -> str:
    if _wants_text(kinds) and isinstance(value, bool | int | float):
        return in_quotes(describe(value))
    wants_list = any(isinstance(kind, inspect.VarTupleType) for kind in kinds.others)
    if wants_list and isinstance(value, dict):
        return "start the item with a dash in YAML, or put [ ] around it in JSON"
    if isinstance(value, int | float) and any(isinstance(kind, inspect.Metadata) for kind in kinds.others):
        return f'write a number with its unit, as text: "{describe(value)}s"'
    names = [field.encode_name for one in kinds.others if isinstance(one, inspect.StructType) for field in one.fields]
    if 0 < len(names) <= _FEW_FIELDS:
        return f"write an object with the fields {', '.join(names)}"
    expected = {type(kind).__name__ for kind in kinds.others}
    return next((hint for kind, (_, hint) in _WORDS.items() if hint and kind in expected), "")
