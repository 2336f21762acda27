"""Decoding a manifest as an API server does: types, unknown and duplicate fields, and what is left out when stored.

The result is the manifest's own object without nulls and without the zeros and empty lists that an API server does not
write; quantities are in canonical form.
Upstream: sigs.k8s.io/json (strict decoding), k8s.io/apimachinery pkg/api/resource and pkg/util/intstr.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kplan.admission.fields import Field, fields_of, go_name, go_type, nearest
from kplan.admission.go_names import embedding, text_type
from kplan.admission.times import time_problem
from kplan.api.quantity import MAX_INT64, InvalidQuantity, parse

_INT32 = 2**31


class Fault(msgspec.Struct, frozen=True):
    """Something that does not decode."""

    path: str  #: of the field, such as ``spec.containers[0].image``
    words: str  #: the API server's
    is_strict: bool = False  #: only strict decoding minds: an unknown or duplicate field
    meant: str = ""  #: the field that was probably meant


class Decoded(msgspec.Struct):
    """An object as its fields have been read, and what was wrong with it."""

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
        """Read an object; `plain` is its path without indices, as Go names it in messages."""
        known, go = fields_of(struct), go_name(struct)
        read: dict[str, Any] = {}
        for key, value in content.items():
            name = _key(key)
            at = f"{path}.{name}" if path else name
            its = known.get(name)
            if its is None:
                self._faults.append(Fault(at, f'unknown field "{at}"', is_strict=True, meant=nearest(struct, name)))
                continue
            below = embedding(go, name) + name
            found = self.value(value, its, at, f"{plain}.{below}" if plain else below, struct)
            if found is not None and (found or its.is_always_written or _is_kept(its)):
                read[name] = found
        for name, its in known.items():
            if its.is_always_written and its.is_struct and name not in read:
                read[name] = self.struct({}, its.kind, path, plain)
        return read

    def value(self, value: Any, its: Field, path: str, plain: str, owner: str) -> Any:
        if value is None:
            return None
        if its.outer:
            return self._many(value, its, path, plain, owner)
        if its.is_struct:
            if isinstance(value, dict):
                return self.struct(value, its.kind, path, plain)
            return self._mismatch(value, its, path, plain, owner)
        return self._scalar(value, its, path, plain, owner)

    def _many(self, value: Any, its: Field, path: str, plain: str, owner: str) -> Any:
        """Read a list or map; what cannot be read in it becomes zero, as null does."""
        inner = its.inner()
        if its.outer[0] == "[":
            if not isinstance(value, list):
                return self._mismatch(value, its, path, plain, owner)
            items = [{} if each is None and inner.is_struct and not inner.outer else each for each in value]
            read = [self.value(each, inner, f"{path}[{index}]", plain, owner) for index, each in enumerate(items)]
            return [_zero(inner) if each is None else each for each in read]
        if not isinstance(value, dict):
            return self._mismatch(value, its, path, plain, owner)
        named = {_key(key): each for key, each in value.items()}
        found = {key: self.value(each, inner, f"{path}.{key}", plain, owner) for key, each in named.items()}
        return {key: _zero(inner) if each is None else each for key, each in found.items()}

    def _scalar(self, value: Any, its: Field, path: str, plain: str, owner: str) -> Any:  # noqa: PLR0911 - one a kind
        match its.kind:
            case "s" | "y" if isinstance(value, str):
                return value
            case "b" if isinstance(value, bool):
                return value
            case "i" | "l" if (whole := _whole(value)) is not None:
                most = _INT32 if its.kind == "i" else MAX_INT64 + 1
                if -most <= whole < most:
                    return whole
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
        return self._mismatch(value, its, path, plain, owner)

    def _quantity(self, value: Any, path: str) -> str | None:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        try:
            exact = parse(text if isinstance(value, str | int | float) else "")
        except InvalidQuantity as error:
            self._faults.append(Fault(path, str(error)))
            return None
        return str(exact)

    def _number_or_string(self, value: Any, path: str, plain: str, owner: str) -> int | str | None:
        whole = _whole(value)
        if isinstance(value, str) or (whole is not None and -_INT32 <= whole < _INT32):
            return value if isinstance(value, str) else whole
        self._refuse(_called(value), "int32", path, plain, owner)
        return None

    def _time(self, value: Any, path: str, plain: str, owner: str) -> str | None:
        if isinstance(value, bool | int | float | list | dict):
            self._refuse(_called(value).split()[0], "string", path, plain, owner)
            return None
        text = value if isinstance(value, str) else _key(value)
        if problem := time_problem(text):
            self._faults.append(Fault(path, problem))
            return None
        return text

    def _mismatch(self, value: Any, its: Field, path: str, plain: str, owner: str) -> None:
        called = _called(value)
        if not its.outer and its.kind not in "il":
            called = called.split()[0]
        of_type = go_type(its, text_type(go_name(owner), plain.rpartition(".")[2]))
        self._refuse(called, of_type, path, plain, owner)

    def _refuse(self, called: str, of_type: str, path: str, plain: str, owner: str) -> None:
        words = f"json: cannot unmarshal {called} into Go struct field {go_name(owner)}.{plain} of type {of_type}"
        self._faults.append(Fault(path, words))


def _is_kept(its: Field) -> bool:
    """Tell whether an empty value is written: a pointer to a scalar, an empty object."""
    return its.is_pointer or (its.is_struct and not its.outer) or (its.kind in "qxo" and not its.outer)


def _zero(its: Field) -> Any:
    """Return what a null element of a list or map stands for."""
    if its.outer:
        return [] if its.outer[0] == "[" else {}
    return {} if its.is_struct else {"s": "", "b": False, "i": 0, "l": 0, "n": 0, "q": "0", "x": 0}.get(its.kind)


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value == value // 1 and abs(value) <= 2 * MAX_INT64 else None


def _called(value: Any) -> str:
    """Name a value as Go's decoder does."""
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
    """Write a key or date that YAML did not read as text as JSON would."""
    if isinstance(key, str):
        return key
    return "null" if key is None else str(key).lower() if isinstance(key, bool) else str(key)
