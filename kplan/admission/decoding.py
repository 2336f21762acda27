"""Decoding of a manifest as an API server does it: types, unknown and duplicate fields, omitted empty values.

The result is the manifest's object without nulls and without the zeros and empty lists that an API server does not
store; quantities are in canonical form. Types and fields come from the OpenAPI description of Kubernetes in
fields.json; ``tests/admission/generate_fields.py`` writes that file and explains its codes. Upstream: sigs.k8s.io/json
(strict decoding), k8s.io/apimachinery pkg/api/resource and pkg/util/intstr.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from kplan.api.kinds import split_api_version
from kplan.api.quantity import MAX_INT64, InvalidQuantity, stored

_WORKLOADS: Final = ("Deployment", "StatefulSet", "DaemonSet", "CronJob")
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

_VERSION = r"V\d+(?:(?:alpha|beta)\d+)?"
_INT32 = 2**31


class ApiKind(msgspec.Struct, frozen=True):
    """A kind that can be created: its struct, its resource (the plural in URLs), and whether it is namespaced."""

    struct: str
    resource: str
    is_namespaced: bool


class Field(msgspec.Struct, frozen=True):
    """The type of a field."""

    outer: str  #: ``[`` and ``{`` from the outside in: lists and maps around the value
    kind: str  #: a letter for a scalar, or the name of a struct
    is_pointer: bool  #: an explicit zero is stored
    is_always_written: bool  #: stored even when empty

    @property
    def is_struct(self) -> bool:
        return len(self.kind) > 1

    @property
    def keeps_empty(self) -> bool:
        """Whether an empty value is stored where one is written."""
        return self.is_pointer or (not self.outer and (self.is_struct or self.kind in "qxo"))

    def inner(self) -> Field:
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


class Emptiness(msgspec.Struct, frozen=True):
    """The names of fields of workloads where an empty value such as ``false`` or ``""`` is another than none."""

    pointers: frozenset[str]  #: Go's pointers; without those names that are none in another struct
    maps: frozenset[str]  #: maps, of which each entry is told


@cache
def emptiness() -> Emptiness:
    """Return what emptiness says in the fields of Deployments, StatefulSets, DaemonSets and Jobs."""
    pointers, maps, others, known = set[str](), set[str](), set[str](), set[str]()
    waiting = [f"V1{kind}" for kind in _WORKLOADS]
    while waiting:
        if (struct := waiting.pop()) in known:
            continue
        known.add(struct)
        for name, field in fields_of(struct).items():
            is_pointer = field.keeps_empty and not field.is_always_written
            (pointers if is_pointer else maps if field.outer == "{" else others).add(name)
            if field.is_struct:
                waiting.append(field.kind)
    return Emptiness(frozenset(pointers - others - maps), frozenset(maps))


def _field(code: str) -> Field:
    kind = code.lstrip("[{")
    outer = code[: len(code) - len(kind)]
    return Field(outer, kind.rstrip("*!"), is_pointer=kind.endswith("*"), is_always_written=kind.endswith("!"))


def go_type(field: Field, text: str = "string") -> str:
    """Return Go's name of a field's type, for messages; `text` is the name of its string type."""
    if field.outer:
        if field.kind == "q":
            return "v1.ResourceList"
        return {"[": "[]", "{": "map[string]"}[field.outer[0]] + go_type(field.inner(), text)
    if field.kind == "s":
        return text
    return _GO.get(field.kind) or f"{_version(field.kind)}.{go_name(field.kind)}"


def go_name(struct: str) -> str:
    """Return the name of a struct in Go: that behind the version in ``EventsV1beta1Event``."""
    return re.split(_VERSION, struct, maxsplit=1)[-1]


def _version(struct: str) -> str:
    match = re.search(_VERSION, struct)
    return "v1" if match is None else match[0].lower()


_LAYOUT = "2006-01-02T15:04:05Z07:00"
_FORMS = {"2006": "[0-9]{4}", "15": "[0-9]{1,2}", "05": "[0-9]{2}([.,][0-9]+)?", "Z07:00": "Z|[-+][0-9]{2}:[0-9]{2}"}
_PIECES = tuple(
    (piece, _FORMS.get(piece, "[0-9]{2}" if piece.isdigit() else piece))
    for piece in ("2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05", "Z07:00")
)
"""Pieces of the layout, with the patterns of their values."""

_RANGES = {"01": ("month", 1, 12), "15": ("hour", 0, 23), "04": ("minute", 0, 59), "05": ("second", 0, 59)}


def time_problem(text: str) -> str:
    """Return what is wrong with a time, as Go's time.Parse says for RFC 3339; "" where nothing is."""
    start = f'parsing time "{text[:60]}"'
    rest = text[:60]
    read: dict[str, str] = {}
    for piece, form in _PIECES:
        if (match := re.match(form, rest)) is None:
            return f'{start} as "{_LAYOUT}": cannot parse "{rest}" as "{piece}"'
        read[piece] = match[0]
        rest = rest[match.end() :]
        what, least, most = _RANGES.get(piece, ("", 0, 99))
        if what and not least <= int(match[0][:2]) <= most:
            return f"{start}: {what} out of range"
    if rest or len(text) > 60:
        return f'{start}: extra text: "{rest}"'
    zone = read["Z07:00"].replace("Z", "+00:00")
    for what, digits, most in (("hour", zone[1:3], 24), ("minute", zone[4:6], 60)):
        if int(digits) > most:
            return f"{start}: time zone offset {what} out of range"
    year, month, day = int(read["2006"]), int(read["01"]), int(read["02"])
    # As calendar.isleap, whose module takes longer to load than this one.
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    longest = 29 if month == 2 and is_leap else (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]
    return "" if 1 <= day <= longest else f"{start}: day out of range"


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
    reader = _Reader()
    return Decoded(reader.struct(content, struct, "", ""), reader.faults)


class _Reader:
    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def struct(self, content: dict[Any, Any], struct: str, path: str, plain: str) -> dict[str, Any]:
        """Decode an object; `plain` is its path without indices, as Go's messages have it."""
        known, go = fields_of(struct), go_name(struct)
        read: dict[str, Any] = {}
        for key, value in content.items():
            name = _key(key)
            at = f"{path}.{name}" if path else name
            if (field := known.get(name)) is None:
                near = difflib.get_close_matches(name[:100], known, n=1)
                self.faults.append(Fault(at, f'unknown field "{at}"', is_strict=True, hint=near[0] if near else ""))
                continue
            holder = _table().embedded.get(f"{go}.{name}")  # the embedded struct that holds the field in Go
            below = f"{holder}.{name}" if holder else name
            item = self.value(value, field, at, f"{plain}.{below}" if plain else below, struct)
            if item is not None and (item or field.is_always_written or field.keeps_empty):
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
            items = [{} if element is None and inner.is_struct else element for element in value]
            read = [self.value(element, inner, f"{path}[{index}]", plain, owner) for index, element in enumerate(items)]
            return [_zero(inner) if element is None else element for element in read]
        if not isinstance(value, dict):
            return self._mismatch(value, field, path, plain, owner)
        named = {_key(key): item for key, item in value.items()}
        entries = {key: self.value(item, inner, f"{path}.{key}", plain, owner) for key, item in named.items()}
        return {key: _zero(inner) if item is None else item for key, item in entries.items()}

    def _scalar(self, value: Any, field: Field, path: str, plain: str, owner: str) -> Any:
        match field.kind:
            case "q":
                return self._quantity(value, path)
            case "t":
                return self._time(value, path, plain, owner)
            case "x" if not isinstance(value, str) and not _is_whole(value, _INT32):
                return self._refuse(_json_kind(value), "int32", path, plain, owner)
        fits = _FITS.get(field.kind)
        return value if fits is None or fits(value) else self._mismatch(value, field, path, plain, owner)

    def _quantity(self, value: Any, path: str) -> str | None:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        try:
            return stored(text if isinstance(value, str | int | float) else "")
        except InvalidQuantity as error:
            self.faults.append(Fault(path, str(error), is_quantity=True))
            return None

    def _time(self, value: Any, path: str, plain: str, owner: str) -> str | None:
        if isinstance(value, bool | int | float | list | dict):
            self._refuse(_json_kind(value).split()[0], "string", path, plain, owner)
            return None
        text = _key(value)
        if problem := time_problem(text):
            self.faults.append(Fault(path, problem))
            return None
        return text

    def _mismatch(self, value: Any, field: Field, path: str, plain: str, owner: str) -> None:
        kind = _json_kind(value)
        if not field.outer and field.kind not in "il":
            kind = kind.split()[0]
        # Strings too have a type in Go, such as v1.TaintEffect.
        text_type = _table().texts.get(f"{go_name(owner)}.{plain.rpartition('.')[2]}", "string")
        self._refuse(kind, go_type(field, text_type), path, plain, owner)

    def _refuse(self, kind: str, of_type: str, path: str, plain: str, owner: str) -> None:
        words = f"json: cannot unmarshal {kind} into Go struct field {go_name(owner)}.{plain} of type {of_type}"
        self.faults.append(Fault(path, words))


def _zero(field: Field) -> Any:
    if field.outer:
        return []  # maps hold lists, and lists hold neither
    return {} if field.is_struct else {"s": "", "b": False, "i": 0, "l": 0, "n": 0, "q": "0", "x": 0}.get(field.kind)


def _is_whole(value: Any, most: int) -> bool:
    """Tell integers below `most`; JSON's 1e1 and 1.0 are none, and YAML's are 10 and 1 when they come here."""
    return isinstance(value, int) and not isinstance(value, bool) and -most <= value < most


_FITS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "s": lambda value: isinstance(value, str),
    "y": lambda value: isinstance(value, str),
    "b": lambda value: isinstance(value, bool),
    "i": lambda value: _is_whole(value, _INT32),
    "l": lambda value: _is_whole(value, MAX_INT64 + 1),
    "n": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}
"""Kind of scalars that are what JSON has -> whether a value is one."""


def _json_kind(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"number {value}"[:60]
    return {bool: "bool", list: "array", dict: "object"}.get(type(value), "string")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    return "null" if key is None else str(key).lower() if isinstance(key, bool) else str(key)
