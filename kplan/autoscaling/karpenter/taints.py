"""Taints and tolerations, with the comparisons of numbers that Karpenter always understands.

Upstream: scheduling/taints.go, k8s.io/api core/v1 toleration.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from kplan.api import tolerations as api
from kplan.api.tolerations import Taint, Toleration


def untolerated(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """Return the taints that no toleration tolerates, whatever their effect."""
    return api.untolerated(tuple(tolerations), tuple(taints), compares=True)


def tolerates_all(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> bool:
    """Tell whether every taint is tolerated."""
    return not untolerated(tolerations, taints)
