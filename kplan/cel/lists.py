"""CEL's functions on lists and maps: Kubernetes' lists, the lists extension (version 3), sets, and what macros use.

Upstream: k8s.io/apiserver pkg/cel/library/lists.go, cel-go ext/lists.go, ext/sets.go, ext/comprehensions.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key, reduce
from itertools import pairwise

from kplan.cel.operators import OPERATORS, is_int
from kplan.cel.texts import TEXT_FUNCTIONS
from kplan.cel.values import (
    CelError,
    OptionalValue,
    Value,
    compare,
    equal,
    no_such_overload,
)

__all__ = ["LIST_FUNCTIONS"]


def _on_lists(function: str, compute: Callable[..., Value], n_lists: int = 1) -> Callable[..., Value]:
    def call(*values: Value) -> Value:
        if not all(isinstance(value, list) for value in values[:n_lists]):
            raise no_such_overload(function, *values)
        return compute(*values)

    return call


def _contains(items: list[Value], item: Value) -> bool:
    return any(equal(item, other) for other in items)


def _contains_all(items: list[Value], part: list[Value]) -> bool:
    return all(_contains(items, item) for item in part)


def _is_sorted(items: list[Value]) -> bool:
    return all(compare("isSorted", left, right) <= 0 for left, right in pairwise(items))


def _sum(items: list[Value]) -> Value:
    return reduce(OPERATORS["_+_"], items) if items else 0


def _extreme(name: str, direction: int) -> Callable[[list[Value]], Value]:
    def choose(items: list[Value]) -> Value:
        if not items:
            msg = f"{name} called on empty list"
            raise CelError(msg)
        return reduce(lambda best, item: item if compare(name, item, best) == direction else best, items)

    return choose


def _position(text_function: str, step: int) -> Callable[..., int]:
    """Return indexOf or lastIndexOf, which search lists for elements and strings for parts."""

    def search(container: Value, item: Value, *offset: Value) -> int:
        if not isinstance(container, list):
            return int(TEXT_FUNCTIONS[text_function](container, item, *offset))
        indices = range(len(container))[::step]
        return next((index for index in indices if equal(container[index], item)), -1)

    return search


def _slice(items: list[Value], start: Value, end: Value) -> list[Value]:
    if not (is_int(start) and is_int(end)):
        raise no_such_overload("slice", items, start, end)
    if start < 0 or end < 0 or start > end or end > len(items):
        msg = f"cannot slice({start}, {end}) of a list of {len(items)} elements"
        raise CelError(msg)
    return items[start:end]


def _flatten(items: list[Value], depth: Value = 1) -> list[Value]:
    if not is_int(depth) or depth < 0:
        msg = "level must be non-negative"
        raise CelError(msg)
    flat: list[Value] = []
    for item in items:
        if isinstance(item, list) and depth > 0:
            flat.extend(_flatten(item, depth - 1))
        else:
            flat.append(item)
    return flat


def _distinct(items: list[Value]) -> list[Value]:
    unique: list[Value] = []
    for item in items:
        if not _contains(unique, item):
            unique.append(item)
    return unique


def _sort_by(items: list[Value], keys: list[Value]) -> list[Value]:
    if any(type(key) is not type(keys[0]) for key in keys):
        msg = "list elements must have the same type"
        raise CelError(msg)
    order = cmp_to_key(lambda left, right: compare("sort", left, right))
    ranked = sorted(range(len(items)), key=lambda index: order(keys[index]))
    return [items[index] for index in ranked]


def _range(count: Value) -> list[int]:
    if not is_int(count):
        raise no_such_overload("lists.range", count)
    return list(range(count))


def _first(items: list[Value]) -> OptionalValue:
    return OptionalValue(items[0], is_present=True) if items else OptionalValue()


def _map_insert(target: Value, *entry: Value) -> dict[Value, Value]:
    added = entry[0] if len(entry) == 1 else {entry[0]: entry[1]}
    if not isinstance(target, dict) or not isinstance(added, dict):
        raise no_such_overload("cel.@mapInsert", target, *entry)
    for key in added:
        if any(equal(key, other) for other in target):
            msg = f"insert failed: key {key} already exists"
            raise CelError(msg)
    return target | added


LIST_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "isSorted": _on_lists("isSorted", _is_sorted),
    "sum": _on_lists("sum", _sum),
    "min": _on_lists("min", _extreme("min", -1)),
    "max": _on_lists("max", _extreme("max", 1)),
    "indexOf": _position("indexOf", 1),
    "lastIndexOf": _position("lastIndexOf", -1),
    "slice": _on_lists("slice", _slice),
    "flatten": _on_lists("flatten", _flatten),
    "distinct": _on_lists("distinct", _distinct),
    "reverse": _on_lists("reverse", lambda items: items[::-1]),
    "sort": _on_lists("sort", lambda items: _sort_by(items, items)),
    "@sortByAssociatedKeys": _on_lists("sortBy", _sort_by, n_lists=2),
    "first": _on_lists("first", _first),
    "last": _on_lists("last", lambda items: _first(items[-1:])),
    "lists.range": _range,
    "sets.contains": _on_lists("sets.contains", _contains_all, n_lists=2),
    "sets.intersects": _on_lists(
        "sets.intersects", lambda left, right: any(_contains(right, item) for item in left), n_lists=2
    ),
    "sets.equivalent": _on_lists(
        "sets.equivalent", lambda left, right: _contains_all(left, right) and _contains_all(right, left), n_lists=2
    ),
    "cel.@mapInsert": _map_insert,
}
