"""Taints and tolerations, with the comparisons of numbers that Karpenter always understands.

Upstream: scheduling/taints.go, k8s.io/api core/v1 toleration.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kplan.api.labels import parse_int64
from kplan.api.tolerations import Taint, Toleration, is_comparison, tolerates

_DECIMAL = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


def untolerated(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """Return the taints that no toleration tolerates, whatever their effect."""
    own = tuple(tolerations)
    return tuple(taint for taint in taints if not any(_tolerates(toleration, taint) for toleration in own))


def tolerates_all(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> bool:
    """Tell whether every taint is tolerated."""
    return not untolerated(tolerations, taints)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if not is_comparison(toleration):
        return tolerates(toleration, taint)
    if (toleration.effect and toleration.effect != taint.effect) or (toleration.key and toleration.key != taint.key):
        return False
    if not _DECIMAL.fullmatch(toleration.value) or not _DECIMAL.fullmatch(taint.value):
        return False
    bound, number = parse_int64(toleration.value), parse_int64(taint.value)
    if bound is None or number is None:
        return False
    return number < bound if toleration.operator == "Lt" else number > bound
