"""Functions on lists that the CEL library lacks, or whose results it does not limit, and on values of any type.

Upstream: k8s.io/apiserver pkg/cel/library/lists.go, cel-go ext/lists.go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import pairwise

from kplan.cel.library import evaluate
from kplan.cel.values import (
    CelError,
    TypeValue,
    UnsupportedError,
    Value,
    compare,
    equal,
    no_such_overload,
    type_name,
    typed,
)

#: How many elements a list may have that an expression creates, by a range or from another list.
MAX_ELEMENTS = 1000


def _is_sorted(items: list[Value]) -> bool:
    return all(compare("isSorted", left, right) <= 0 for left, right in pairwise(items))


def _sum(items: list[Value]) -> Value:
    return reduce(lambda left, right: evaluate("left + right", left=left, right=right), items) if items else 0


def _extreme(name: str, direction: int) -> Callable[[list[Value]], Value]:
    def choose(items: list[Value]) -> Value:
        if not items:
            raise CelError(f"{name} called on empty list")
        return reduce(lambda best, item: item if compare(name, item, best) == direction else best, items)

    return choose


def _position(step: int) -> Callable[[list[Value], Value], int]:
    def search(items: list[Value], item: Value) -> int:
        return next((index for index in range(len(items))[::step] if equal(items[index], item)), -1)

    return search


def _range(count: int) -> list[int]:
    if count > MAX_ELEMENTS:
        raise UnsupportedError(f"lists.range of more than {MAX_ELEMENTS} numbers cannot be evaluated")
    return list(range(count))


def _size(value: Value) -> int:
    if isinstance(value, str | bytes | list):
        return len(value)
    raise no_such_overload("size", value)


def _in(element: Value, container: Value) -> bool:
    if isinstance(container, list):
        return any(equal(element, other) for other in container)
    raise no_such_overload("@in", element, container)


LIST_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "isSorted": typed("isSorted", _is_sorted, list),
    "sum": typed("sum", _sum, list),
    "min": typed("min", _extreme("min", -1), list),
    "max": typed("max", _extreme("max", 1), list),
    "indexOf": typed("indexOf", _position(1), list),
    "lastIndexOf": typed("lastIndexOf", _position(-1), list),
    "lists.range": typed("lists.range", _range, int),
    "size": _size,
    "@in": _in,
    "type": lambda value: TypeValue(type_name(value)),
    "_==_": equal,
    "_!=_": lambda left, right: not equal(left, right),
}
