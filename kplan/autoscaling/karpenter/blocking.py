"""Pod disruption budgets as Karpenter reads them.

Upstream: utils/pdb/pdb.go.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kplan.api.core import Pod
from kplan.api.labels import Selector, valid_selector
from kplan.api.policy import PodDisruptionBudget
from kplan.autoscaling.karpenter.pods import is_disruptable, is_evictable, is_reschedulable


class _Budget(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    selector: Selector
    allowed: int
    allows_none: bool  #: by its spec, whatever the pods
    always_evicts_unready: bool


class Budgets:
    """The budgets of a cluster, at a moment (microseconds since 1970)."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget], now: int) -> None:
        self._now = now
        self._of_namespace: dict[str, list[_Budget]] = {}
        for budget in sorted(budgets, key=lambda budget: budget.metadata.key):
            spec = budget.spec
            own = _Budget(
                budget.metadata.namespace,
                budget.metadata.name,
                valid_selector(spec.selector),
                budget.status.disruptions_allowed,
                allows_none=spec.max_unavailable in (0, "0%") or spec.min_available == "100%",
                always_evicts_unready=spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
            )
            self._of_namespace.setdefault(own.namespace, []).append(own)

    def blocking(self, pod: Pod, *, for_ever: bool = False) -> tuple[str, ...]:
        """Return the budgets, NAMESPACE/NAME, that keep a pod from being evicted: now, or with `for_ever` at any time.

        Several budgets of one pod always do.
        """
        if not is_evictable(pod, self._now):
            return ()
        own = [
            budget
            for budget in self._of_namespace.get(pod.metadata.namespace, ())
            if budget.selector.matches(pod.metadata.labels)
        ]
        if len(own) > 1:
            return tuple(f"{budget.namespace}/{budget.name}" for budget in own)
        for budget in own:
            if budget.always_evicts_unready and _is_unready(pod):
                return ()
            if budget.allows_none if for_ever else budget.allowed == 0:
                return (f"{budget.namespace}/{budget.name}",)
        return ()

    def lets_move(self, pod: Pod) -> bool:
        """Tell whether a pod can be moved to another node at present (upstream IsCurrentlyReschedulable)."""
        return is_reschedulable(pod) and is_disruptable(pod, self._now) and not self.blocking(pod, for_ever=True)


def _is_unready(pod: Pod) -> bool:
    return any(condition.type == "Ready" and condition.status == "False" for condition in pod.status.conditions)
