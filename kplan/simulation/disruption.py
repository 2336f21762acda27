"""How many disruptions budgets allow, and whether the eviction API evicts a pod.

Upstream: pkg/controller/disruption/disruption.go trySync, getExpectedPodCount;
pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from kplan.api.labels import InvalidSelector, Selector, selector_from
from kplan.api.meta import IntOrString
from kplan.api.policy import PodDisruptionBudget
from kplan.rules.pod_info import PodInfo
from kplan.simulation.controllers.observed import ObservedPod, scaled
from kplan.simulation.jobs import JobState
from kplan.simulation.owners import DaemonSetState, ForeignState, Owner

VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
ALWAYS_ALLOW = "AlwaysAllow"
SYNC_FAILED = "SyncFailed"

FindOwner = Callable[[str], Owner | None]


class BudgetState(msgspec.Struct):
    """A budget with the pods that it covers."""

    namespace: str
    name: str
    selector: Selector
    min_available: IntOrString | None
    max_unavailable: IntOrString | None
    evicts_unhealthy: bool
    find: FindOwner  #: looks up an owner by its key
    #: how many pods the disruption controller expected last; it knows controllers that kplan does not
    recorded: int | None = None
    pods: dict[int, ObservedPod] = {}  #: row -> covered pod
    owners: dict[int, str | None] = {}  #: row -> key of its owner; None for bare pods

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"

    @property
    def healthy(self) -> int:
        """How many covered pods are ready."""
        return sum(pod.is_ready for pod in self.pods.values())

    @property
    def expected(self) -> int | None:
        """How many pods there should be; None where the disruption controller cannot tell and allows nothing."""
        if self.max_unavailable is None and not isinstance(self.min_available, str):
            return 0 if self.min_available is None else len(self.pods)
        owners = [self.find(key) for key in set(self.owners.values()) if key is not None]
        if any(isinstance(owner, JobState | DaemonSetState) for owner in owners):
            return None  # neither has a scale subresource, which the controller needs
        if any(isinstance(owner, ForeignState) for owner in owners):
            return self.recorded
        # Replica sets of one deployment share its scale.
        return sum({owner.workload.key: owner.scale for owner in owners if owner is not None}.values())

    @property
    def desired(self) -> int:
        """How many must stay healthy."""
        total = self.expected or 0
        if self.max_unavailable is not None:
            return max(total - scaled(self.max_unavailable, total, round_up=True), 0)
        return 0 if self.min_available is None else scaled(self.min_available, total, round_up=True)

    @property
    def allowed(self) -> int:
        """How many disruptions it allows now."""
        expected = self.expected
        return max(self.healthy - self.desired, 0) if expected else 0


class Disruptions:
    """All budgets of a cluster, up to date as pods come and go."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget], find: FindOwner) -> None:
        self.budgets = [state for budget in budgets if (state := _state(budget, find)) is not None]
        self._of: dict[int, tuple[int, ...]] = {}
        self._in: dict[str, list[int]] = {}
        for index, budget in enumerate(self.budgets):
            self._in.setdefault(budget.namespace, []).append(index)

    def fork(self, find: FindOwner) -> Disruptions:
        """Return a copy, whose pods come and go without a change to this one."""
        forked = Disruptions((), find)
        forked.budgets = [
            replace(budget, find=find, pods=budget.pods.copy(), owners=budget.owners.copy()) for budget in self.budgets
        ]
        forked._of, forked._in = self._of.copy(), self._in
        return forked

    def join(self, pod: ObservedPod, info: PodInfo, owner: Owner | None) -> None:
        """Count a new pod for the budgets that cover it."""
        nearby = self._in.get(pod.namespace, ())
        covering = tuple(index for index in nearby if self.budgets[index].selector.matches(info.labels))
        if covering:
            self._of[pod.row] = covering
        for index in covering:
            self.budgets[index].pods[pod.row] = pod
            self.budgets[index].owners[pod.row] = None if owner is None else owner.ref.key

    def settle(self, pod: ObservedPod) -> None:
        """Update a pod that now has a node."""
        for index in self._of.get(pod.row, ()):
            self.budgets[index].pods[pod.row] = pod

    def leave(self, pod: ObservedPod) -> None:
        """Discount a pod that is gone."""
        for index in self._of.pop(pod.row, ()):
            del self.budgets[index].pods[pod.row]
            del self.budgets[index].owners[pod.row]

    def covering(self, pod: ObservedPod) -> list[BudgetState]:
        """Return the budgets that cover a pod."""
        return [self.budgets[index] for index in self._of.get(pod.row, ())]

    def allowed(self) -> dict[tuple[str, str], int]:
        """Return how many disruptions each budget allows, by (namespace, name)."""
        return {(budget.namespace, budget.name): budget.allowed for budget in self.budgets}

    def broken_by(self, pods: Iterable[ObservedPod]) -> list[ObservedPod]:
        """Return the pods whose disruption breaks a budget, when all are disrupted in this order."""
        left = [budget.allowed for budget in self.budgets]
        broken: list[ObservedPod] = []
        for pod in pods:
            covering = self._of.get(pod.row, ())
            if any(left[index] <= 0 for index in covering):
                broken.append(pod)
            for index in covering:
                left[index] -= 1
        return broken

    def refusal(self, pod: ObservedPod) -> str:
        """Return why the eviction API refuses to evict a pod; empty when it does not."""
        if not pod.node or pod.phase in ("Pending", "Succeeded", "Failed"):
            return ""
        covering = self.covering(pod)
        if not covering:
            return ""
        if len(covering) > 1:
            return SEVERAL
        budget = covering[0]
        if not pod.is_ready and (budget.evicts_unhealthy or 0 < budget.desired <= budget.healthy):
            return ""
        return "" if budget.allowed > 0 else VIOLATED


def _state(budget: PodDisruptionBudget, find: FindOwner) -> BudgetState | None:
    try:
        selector = selector_from(budget.spec.selector)
    except InvalidSelector:
        return None
    if selector.is_nothing:
        return None
    metadata, spec = budget.metadata, budget.spec
    has_failed = any(
        condition.reason == SYNC_FAILED and condition.status == "False" for condition in budget.status.conditions
    )
    return BudgetState(
        metadata.namespace,
        metadata.name,
        selector,
        spec.min_available,
        spec.max_unavailable,
        spec.unhealthy_pod_eviction_policy == ALWAYS_ALLOW,
        find,
        None if has_failed else budget.status.expected_pods or None,
    )
