"""Which victims would violate a pod disruption budget.

Upstream: defaultpreemption/default_preemption.go filterPodsWithPDBViolation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.api.labels import valid_selector
from kplan.api.policy import PodDisruptionBudget
from kplan.engine.arrays import BoolArray, RowArray
from kplan.engine.pod_matching import PodMatch
from kplan.engine.pod_table import PodTable
from kplan.rules.pod_info import PodInfo


class _Budget(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    match: PodMatch
    matches_unlabelled: bool
    allowed: int
    disrupted: frozenset[str]

    def covers(self, info: PodInfo) -> bool:
        """Whether the budget counts a pod that `match` matches: one that has labels and is not yet being disrupted."""
        return bool(info.labels) and info.name not in self.disrupted


class Budgets:
    """Pod disruption budgets, compiled; a budget without a selector, or with an empty or invalid one, covers no pod."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._budgets = [compiled for budget in budgets if (compiled := _compile(budget)) is not None]

    def with_allowed_disruptions(self, allowed: Mapping[tuple[str, str], int]) -> Budgets:
        """Return the budgets with other numbers of allowed disruptions, by (namespace, name); the rest is unchanged."""
        updated = Budgets(())
        updated._budgets = [
            replace(budget, allowed=allowed.get((budget.namespace, budget.name), budget.allowed))
            for budget in self._budgets
        ]
        return updated

    def violating(self, pods: PodTable, positions: RowArray, victims: RowArray) -> BoolArray:
        """Return which victims exceed the allowed disruptions of a budget when a node's victims go in this order.

        Parameters
        ----------
        positions : intp array of shape (n,), ascending: the position of each victim's node
        victims : intp array of shape (n,), rows of the pod table, most important first on each node

        Notes
        -----
        Every node is evaluated independently, with all the disruptions that the budgets allow.
        """
        violating = np.zeros(len(victims), np.bool_)
        indices_of: dict[str, RowArray] = {}
        for budget in self._budgets:
            indices = indices_of.get(budget.namespace)
            if indices is None:
                in_namespace = pods.in_namespaces((budget.namespace,))
                indices = indices_of[budget.namespace] = np.flatnonzero(in_namespace[victims])
            covered = indices[pods.matching_rows(budget.match, victims[indices])]
            if budget.disrupted or budget.matches_unlabelled:
                is_covered = [budget.covers(pods.infos[pod]) for pod in victims[covered].tolist()]
                covered = covered[np.asarray(is_covered, np.bool_)]
            covered_positions = positions[covered]
            number_on_node = np.arange(1, len(covered) + 1) - np.searchsorted(covered_positions, covered_positions)
            violating[covered[number_on_node > budget.allowed]] = True
        return violating

    def violating_units(self, pods: PodTable, units: Iterable[Sequence[int]]) -> list[bool]:
        """Return which units exceed the allowed disruptions of a budget when the pods of all leave in this order.

        The first budget that a pod exceeds settles its unit: later budgets do not count the pod, and none counts the
        pods of the unit after it. Upstream: filterVictimsWithPDBViolation.

        Parameters
        ----------
        units : the pods of each unit, rows of the pod table
        """
        allowed = [budget.allowed for budget in self._budgets]

        def exceeds(pod: int) -> bool:
            info = pods.infos[pod]
            for index, budget in enumerate(self._budgets):
                if budget.namespace == info.namespace and pods.matches(budget.match, pod) and budget.covers(info):
                    allowed[index] -= 1
                    if allowed[index] < 0:
                        return True
            return False

        return [any(exceeds(pod) for pod in unit) for unit in units]

    def covering(self, pods: PodTable, pod: int) -> list[str]:
        """Return the budgets (NAMESPACE/NAME) that count a pod."""
        return [
            f"{budget.namespace}/{budget.name}"
            for budget in self._budgets
            if pods.matches(budget.match, pod) and budget.covers(pods.infos[pod])
        ]

    def forbids(self, pods: PodTable, pod: int) -> bool:
        """Return whether a budget that counts a pod allows no disruption."""
        info = pods.infos[pod]
        return any(
            budget.allowed < 1 and pods.matches(budget.match, pod) and budget.covers(info) for budget in self._budgets
        )


def _compile(budget: PodDisruptionBudget) -> _Budget | None:
    selector = valid_selector(budget.spec.selector)
    if selector.is_empty or selector.is_nothing:
        return None
    namespace = budget.metadata.namespace
    return _Budget(
        namespace,
        budget.metadata.name,
        PodMatch(((frozenset((namespace,)), selector),)),
        selector.matches({}),
        budget.status.disruptions_allowed,
        frozenset(budget.status.disrupted_pods),
    )
