"""Decoding of a manifest as an API server does it: types, unknown and duplicate fields, and omitted empty values.

The result is the manifest's object without nulls and without the zeros and empty lists that an API server does not
store; quantities are in canonical form.
Upstream: sigs.k8s.io/json (strict decoding), k8s.io/apimachinery pkg/api/resource and pkg/util/intstr.

Kinds, types and fields of the Kubernetes API, from its OpenAPI description in fields.json.

``tests/admission/generate_fields.py`` writes that file and explains its codes.
"""

from __future__ import annotations

import difflib
import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kplan.api.kinds import split_api_version
from kplan.api.quantity import MAX_INT64, InvalidQuantity, parse


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


_LAYOUT = "2006-01-02T15:04:05Z07:00"
_PIECES = (
    ("2006", r"[0-9]{4}"),
    ("-", "-"),
    ("01", "[0-9]{2}"),
    ("-", "-"),
    ("02", "[0-9]{2}"),
    ("T", "T"),
    ("15", "[0-9]{1,2}"),
    (":", ":"),
    ("04", "[0-9]{2}"),
    (":", ":"),
    ("05", r"[0-9]{2}([.,][0-9]+)?"),
    ("Z07:00", "Z|[-+][0-9]{2}:[0-9]{2}"),
)
"""Pieces of the layout, with the patterns of their values."""

_RANGES = {"01": ("month", 1, 12), "15": ("hour", 0, 23), "04": ("minute", 0, 59), "05": ("second", 0, 59)}


def time_problem(text: str) -> str:
    """Return what is wrong with a time, as Go's time.Parse says for RFC 3339; "" where nothing is."""
    start = f'parsing time "{text[:60]}"'
    rest = text[:60]
    read: dict[str, str] = {}
    for piece, form in _PIECES:
        match = re.match(form, rest)
        if match is None:
            return f'{start} as "{_LAYOUT}": cannot parse "{rest}" as "{piece}"'
        read[piece] = match[0]
        rest = rest[match.end() :]
        if piece in _RANGES:
            what, least, most = _RANGES[piece]
            if not least <= int(match[0][:2]) <= most:
                return f"{start}: {what} out of range"
    if rest or len(text) > 60:
        return f'{start}: extra text: "{rest}"'
    zone = read["Z07:00"]
    if zone != "Z":
        if int(zone[1:3]) > 24:
            return f"{start}: time zone offset hour out of range"
        if int(zone[4:6]) > 60:
            return f"{start}: time zone offset minute out of range"
    year, month, day = int(read["2006"]), int(read["01"]), int(read["02"])
    # As calendar.isleap, whose module takes longer to load than this one.
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    longest = 29 if month == 2 and is_leap else (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]
    return "" if 1 <= day <= longest else f"{start}: day out of range"


_INT32 = 2**31


class Fault(msgspec.Struct, frozen=True):
    """A value that does not decode, or an unknown field."""

    path: str  #: of the field, such as ``spec.containers[0].image``
    message: str  #: in the API server's words
    is_strict: bool = False  #: only strict decoding refuses it: an unknown or duplicate field
    hint: str = ""  #: the known field with the most similar name
    is_quantity: bool = False  #: it ought to be a quantity


class Decoded(msgspec.Struct):
    """A decoded object, with the faults in the manifest."""

    content: dict[str, Any]
    faults: list[Fault] = []


def decode_object(content: dict[str, Any], struct: str) -> Decoded:
    """Decode an object of a struct such as ``V1Pod``; faults come in the order of the text."""
    decoded = Decoded({})
    reader = _Reader(decoded.faults)
    decoded.content = reader.struct(content, struct, "", "")
    return decoded


class _Reader:
    def __init__(self, faults: list[Fault]) -> None:
        self._faults = faults

    def struct(self, content: dict[Any, Any], struct: str, path: str, plain: str) -> dict[str, Any]:
        """Decode an object; `plain` is its path without indices, as Go's messages have it."""
        known, go = fields_of(struct), go_name(struct)
        read: dict[str, Any] = {}
        for key, value in content.items():
            name = _key(key)
            at = f"{path}.{name}" if path else name
            field = known.get(name)
            if field is None:
                self._faults.append(Fault(at, f'unknown field "{at}"', is_strict=True, hint=nearest(struct, name)))
                continue
            below = embedding(go, name) + name
            item = self.value(value, field, at, f"{plain}.{below}" if plain else below, struct)
            if item is not None and (item or field.is_always_written or _is_stored_empty(field)):
                read[name] = item
        for name, field in known.items():
            if field.is_always_written and field.is_struct and name not in read:
                read[name] = self.struct({}, field.kind, path, plain)
        return read

    def value(self, value: Any, field: Field, path: str, plain: str, owner: str) -> Any:
        if value is None:
            return None
        if field.outer:
            return self._many(value, field, path, plain, owner)
        if field.is_struct:
            if isinstance(value, dict):
                return self.struct(value, field.kind, path, plain)
            return self._mismatch(value, field, path, plain, owner)
        return self._scalar(value, field, path, plain, owner)

    def _many(self, value: Any, field: Field, path: str, plain: str, owner: str) -> Any:
        """Decode a list or map; elements that do not decode become zero values, as null does."""
        inner = field.inner()
        if field.outer[0] == "[":
            if not isinstance(value, list):
                return self._mismatch(value, field, path, plain, owner)
            items = [{} if element is None and inner.is_struct and not inner.outer else element for element in value]
            read = [self.value(element, inner, f"{path}[{index}]", plain, owner) for index, element in enumerate(items)]
            return [_zero(inner) if element is None else element for element in read]
        if not isinstance(value, dict):
            return self._mismatch(value, field, path, plain, owner)
        named = {_key(key): item for key, item in value.items()}
        entries = {key: self.value(item, inner, f"{path}.{key}", plain, owner) for key, item in named.items()}
        return {key: _zero(inner) if item is None else item for key, item in entries.items()}

    def _scalar(self, value: Any, field: Field, path: str, plain: str, owner: str) -> Any:  # noqa: PLR0911 - one a kind
        match field.kind:
            case "s" | "y" if isinstance(value, str):
                return value
            case "b" if isinstance(value, bool):
                return value
            case "i" | "l" if _is_whole(value):
                most = _INT32 if field.kind == "i" else MAX_INT64 + 1
                if -most <= value < most:
                    return value
            case "n" if isinstance(value, int | float) and not isinstance(value, bool):
                return value
            case "q":
                return self._quantity(value, path)
            case "x":
                return self._number_or_string(value, path, plain, owner)
            case "t":
                return self._time(value, path, plain, owner)
            case "o":
                return value
            case _:
                pass
        return self._mismatch(value, field, path, plain, owner)

    def _quantity(self, value: Any, path: str) -> str | None:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        try:
            exact = parse(text if isinstance(value, str | int | float) else "")
        except InvalidQuantity as error:
            self._faults.append(Fault(path, str(error), is_quantity=True))
            return None
        return str(exact)

    def _number_or_string(self, value: Any, path: str, plain: str, owner: str) -> int | str | None:
        if isinstance(value, str) or (_is_whole(value) and -_INT32 <= value < _INT32):
            return value  # type: ignore[no-any-return] # a text or an integer, as just checked
        self._refuse(_json_kind(value), "int32", path, plain, owner)
        return None

    def _time(self, value: Any, path: str, plain: str, owner: str) -> str | None:
        if isinstance(value, bool | int | float | list | dict):
            self._refuse(_json_kind(value).split()[0], "string", path, plain, owner)
            return None
        text = value if isinstance(value, str) else _key(value)
        if problem := time_problem(text):
            self._faults.append(Fault(path, problem))
            return None
        return text

    def _mismatch(self, value: Any, field: Field, path: str, plain: str, owner: str) -> None:
        kind = _json_kind(value)
        if not field.outer and field.kind not in "il":
            kind = kind.split()[0]
        of_type = go_type(field, text_type(go_name(owner), plain.rpartition(".")[2]))
        self._refuse(kind, of_type, path, plain, owner)

    def _refuse(self, kind: str, of_type: str, path: str, plain: str, owner: str) -> None:
        words = f"json: cannot unmarshal {kind} into Go struct field {go_name(owner)}.{plain} of type {of_type}"
        self._faults.append(Fault(path, words))


def _is_stored_empty(field: Field) -> bool:
    """Tell whether an empty value is stored: that of a pointer to a scalar, or an empty object."""
    return field.is_pointer or (field.is_struct and not field.outer) or (field.kind in "qxo" and not field.outer)


def _zero(field: Field) -> Any:
    if field.outer:
        return [] if field.outer[0] == "[" else {}
    return {} if field.is_struct else {"s": "", "b": False, "i": 0, "l": 0, "n": 0, "q": "0", "x": 0}.get(field.kind)


def _is_whole(value: Any) -> bool:
    """Tell integers; JSON's 1e1 and 1.0 are none, and YAML's are 10 and 1 when they come here."""
    return isinstance(value, int) and not isinstance(value, bool)


def _json_kind(value: Any) -> str:
    """Return Go's name for the JSON type of a value."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return f"number {value}"[:60]
        case list():
            return "array"
        case _:
            return "object" if isinstance(value, dict) else "string"


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    return "null" if key is None else str(key).lower() if isinstance(key, bool) else str(key)
