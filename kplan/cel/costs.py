"""What functions cost beside their arguments, where that depends on them; all others cost 1.

Upstream: cel-go interpreter/runtimecost.go, k8s.io/apiserver pkg/cel/library/cost.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from kplan.cel.values import Value, size

__all__ = ["COSTS", "LIST_COST", "MAP_COST"]

#: What it costs to make a list, or a map, that is not constant.
LIST_COST, MAP_COST = 10, 30

_TRAVERSAL, _REGEX = 0.1, 0.25


def _share(length: int, factor: float) -> int:
    return ceil(length * factor)


def _traversal(values: list[Value]) -> int:
    return _share(size(values[0]), _TRAVERSAL)


def _both(values: list[Value]) -> int:
    return _share(size(values[0]) + size(values[1]), _TRAVERSAL) if isinstance(values[0], str | bytes) else 1


def _comparison(values: list[Value]) -> int:
    return max(1, _share(min(size(values[0]), size(values[1])), _TRAVERSAL))


def _regex(values: list[Value]) -> int:
    return _share(1 + size(values[0]), _TRAVERSAL) * _share(size(values[1]), _REGEX)


def _product(values: list[Value]) -> int:
    return 1 + size(values[0]) * size(values[1])


def _self_comparison(values: list[Value]) -> int:
    return 1 + LIST_COST + 2 * size(values[-1]) ** 2


COSTS: dict[str, Callable[[list[Value]], int]] = {
    **dict.fromkeys(("startsWith", "endsWith", "bytes", "strings.quote", "format", "url", "lowerAscii"), _traversal),
    **dict.fromkeys(("upperAscii", "substring", "trim", "quantity", "isQuantity", "semver", "isSemver"), _traversal),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "ip"), _traversal),
    **dict.fromkeys(("replace", "split", "join", "ip.isCanonical"), lambda values: 2 * _traversal(values)),
    **dict.fromkeys(("isSorted", "sum", "min", "max", "indexOf", "lastIndexOf"), lambda values: size(values[0])),
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"), _comparison),
    **dict.fromkeys(("matches", "find", "findAll"), _regex),
    **dict.fromkeys(("sets.contains", "sets.intersects", "sets.equivalent"), _product),
    **dict.fromkeys(("distinct", "sort", "@sortByAssociatedKeys"), _self_comparison),
    **dict.fromkeys(("slice", "flatten", "reverse"), lambda values: 1 + LIST_COST + size(values[0])),
    "contains": lambda values: _traversal(values) * _share(size(values[1]), _TRAVERSAL),
    "@in": lambda values: size(values[1]) if isinstance(values[1], list) else 1,
    "_+_": _both,
    "lists.range": lambda values: 1 + LIST_COST + max(values[0], 0) if isinstance(values[0], int) else 1,
}
