"""The quantities of an object, found by the types of its fields, so that no field is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from kplan.api.base import QuantityLike

_QUANTITY = frozenset({inspect.StrType, inspect.IntType, inspect.FloatType})
"""The alternatives of `kplan.api.base.QuantityLike`; no other field has just these."""


class Amount(NamedTuple):
    """One quantity of an object, with its path."""

    json_path: str
    name: str  #: the key of the map that it stands in, such as ``cpu``; else empty
    quantity: QuantityLike


_Walk = Callable[[Any, str, str], Iterator[Amount]]
"""Yields the quantities in a value, of which path and name are known."""


def amounts_of(obj: msgspec.Struct) -> Iterator[Amount]:
    """Yield all quantities of an object."""
    return _walk_struct(obj, "$", "")


def _walk_struct(obj: Any, path: str, name: str) -> Iterator[Amount]:
    for attribute, json_name, walk in _walks(obj.__class__):
        value = getattr(obj, attribute)
        if value is not None and value is not msgspec.UNSET:
            yield from walk(value, f"{path}.{json_name}", name)


@lru_cache(maxsize=1024)
def _walks(target: type[msgspec.Struct]) -> tuple[tuple[str, str, _Walk], ...]:
    """Return the fields of a struct that hold quantities at any depth: attribute, name in JSON, and how to go on."""
    info = inspect.type_info(target)
    assert isinstance(info, inspect.StructType)  # noqa: S101 - what a struct is to msgspec
    walks = ((field.name, field.encode_name, _walk_of(field.type, (target,))) for field in info.fields)
    return tuple((name, json_name, walk) for name, json_name, walk in walks if walk is not None)


def _walk_of(type_info: inspect.Type, inside: tuple[type, ...]) -> _Walk | None:
    """Return how to find the quantities in values of a type, None where there are none."""
    types = type_info.types if isinstance(type_info, inspect.UnionType) else (type_info,)
    others = [kind for kind in types if not isinstance(kind, inspect.NoneType)]
    if {type(kind) for kind in others} == _QUANTITY:
        return _walk_quantity
    for kind in others:
        if isinstance(kind, inspect.StructType):
            is_new = kind.cls not in inside
            if is_new and any(_walk_of(field.type, (*inside, kind.cls)) is not None for field in kind.fields):
                return _walk_struct
        inner, around = _inner(kind)
        if inner is not None and (walk := _walk_of(inner, inside)) is not None:
            return around(walk)
    return None


def _inner(kind: inspect.Type) -> tuple[inspect.Type | None, Callable[[_Walk], _Walk]]:
    """Return the type of the values in a map or list, and how to go through them."""
    if isinstance(kind, inspect.DictType):
        return kind.value_type, _walk_entries
    if isinstance(kind, inspect.VarTupleType | inspect.ListType):
        return kind.item_type, _walk_items
    return None, _walk_items


def _walk_quantity(value: QuantityLike, path: str, name: str) -> Iterator[Amount]:
    yield Amount(path, name, value)


def _walk_entries(walk: _Walk) -> _Walk:
    def entries(value: Any, path: str, _name: str) -> Iterator[Amount]:
        for key, item in value.items():
            yield from walk(item, f"{path}.{key}" if key.isalnum() else f"{path}[{key!r}]", key)

    return entries


def _walk_items(walk: _Walk) -> _Walk:
    def items(value: Any, path: str, name: str) -> Iterator[Amount]:
        for index, item in enumerate(value):
            yield from walk(item, f"{path}[{index}]", name)

    return items
