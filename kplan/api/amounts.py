"""The quantities of an object, found by the types of its fields, so that no field is forgotten."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from inspect import get_annotations
from types import GenericAlias, NoneType, SimpleNamespace, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from kplan.api.base import QuantityLike, ResourceList

_WORD = re.compile(r"\w+")

_HOLDS: dict[type, bool] = {}
"""Struct -> whether some field of it holds quantities, at any depth."""


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
    return tuple(_find_walks(target, (target,)))


def _find_walks(target: type[msgspec.Struct], inside: tuple[type, ...]) -> Iterator[tuple[str, str, _Walk]]:
    written = {
        name: (annotation, vars(sys.modules[base.__module__]))
        for base in reversed(target.__mro__)
        for name, annotation in get_annotations(base).items()
    }
    # Only annotations that name something with quantities are evaluated: evaluating takes most of the time.
    for name, json_name in zip(target.__struct_fields__, target.__struct_encode_fields__, strict=True):
        annotation, home = written[name]
        if any(_may_hold(home.get(word), inside) for word in _WORD.findall(annotation)):
            hints = SimpleNamespace(__annotations__={name: annotation})
            walk = _walk_of(get_type_hints(hints, home)[name], inside)
            if walk is not None:
                yield name, json_name, walk


def _may_hold(named: Any, inside: tuple[type, ...]) -> bool:
    """Return whether what an annotation names is a quantity, or a struct with quantities."""
    if isinstance(named, type):
        return _is_new_struct(named, inside) and _holds(named, inside)
    return isinstance(named, UnionType | GenericAlias) and named in {QuantityLike, ResourceList}


def _is_new_struct(kind: Any, inside: tuple[type, ...]) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in inside


def _holds(struct: type[msgspec.Struct], inside: tuple[type, ...]) -> bool:
    if struct not in _HOLDS:
        _HOLDS[struct] = next(_find_walks(struct, (*inside, struct)), None) is not None
    return _HOLDS[struct]


def _walk_of(kind: Any, inside: tuple[type, ...]) -> _Walk | None:
    """Return how to find the quantities in values of a type, None where there are none."""
    is_union = get_origin(kind) in {Union, UnionType}
    others = [other for other in (get_args(kind) if is_union else (kind,)) if other is not NoneType]
    if set(others) == set(get_args(QuantityLike)):
        return _walk_quantity
    for other in others:
        if _is_new_struct(other, inside) and _holds(other, inside):
            return _walk_struct
        inner, around = _inner(other)
        if inner is not None and (walk := _walk_of(inner, inside)) is not None:
            return around(walk)
    return None


def _inner(kind: Any) -> tuple[Any, Callable[[_Walk], _Walk]]:
    """Return the type of the values in a map or list, and how to go through them."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is dict:
        return arguments[1], _walk_entries
    if origin in {tuple, list}:
        return arguments[0], _walk_items
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
