"""The quantities of an object, found by the types of its fields, so that no field is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec

from kplan.api.base import QuantityLike, structs_in, types_of


class Amount(NamedTuple):
    """One quantity of an object, with its path."""

    json_path: str
    name: str  #: the key of the map that it stands in, such as ``cpu``; else empty
    quantity: QuantityLike


def amounts_of(obj: msgspec.Struct) -> Iterator[Amount]:
    """Yield all quantities of an object."""
    return _amounts(obj, "$", "")


def _amounts(value: Any, path: str, name: str) -> Iterator[Amount]:
    """Yield the quantities in a value that is one, or holds some."""
    if isinstance(value, msgspec.Struct):
        for attribute, json_name in _fields(type(value)):
            item = getattr(value, attribute)
            if item is not None and item is not msgspec.UNSET:
                yield from _amounts(item, f"{path}.{json_name}", name)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _amounts(item, f"{path}.{key}" if key.isalnum() else f"{path}[{key!r}]", key)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _amounts(item, f"{path}[{index}]", name)
    else:
        yield Amount(path, name, value)


@cache
def _fields(struct: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """Return the fields of a struct that hold quantities at any depth: attribute, and name in JSON."""
    names = zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    return tuple((attribute, json_name) for attribute, json_name in names if _holds(struct, attribute))


def _holds(struct: type[msgspec.Struct], field: str) -> bool:
    kinds = list(types_of(struct, field))
    # No other field of any kind may be a float.
    return float in kinds or any(map(_fields, structs_in(kinds)))
