"""How many disruptions budgets allow, and whether the eviction API evicts a pod.

Upstream: pkg/controller/disruption/disruption.go trySync, getExpectedPodCount;
pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.labels import Selector, valid_selector
from kplan.api.workloads import PodDisruptionBudget, PodDisruptionBudgetSpec
from kplan.course.simulation.controllers.observed import ObservedPod, scaled
from kplan.course.simulation.owners import ForeignState, Owner
from kplan.engine.mappings import Overlay
from kplan.framework.listers import key_of
from kplan.rules.pod_info import PodInfo

VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
ALWAYS_ALLOW = "AlwaysAllow"
SYNC_FAILED = "SyncFailed"

_WITHOUT_SCALE = ("Job/", "DaemonSet/")  #: kinds that have no scale subresource

FindOwner = Callable[[str], Owner | None]


def loosened(spec: PodDisruptionBudgetSpec, missing: int, expected: int) -> Iterator[PodDisruptionBudgetSpec]:
    """Yield a budget of which so many fewer pods have to be healthy, written as it is; then one that counts them.

    `expected`: how many pods there should be.
    """
    least, most = spec.min_available, spec.max_unavailable
    if isinstance(most, int):
        yield replace(spec, max_unavailable=most + missing)
        return
    if isinstance(least, int) and least > missing:
        yield replace(spec, min_available=least - missing)
        return
    if isinstance(most, str):
        gone = min(scaled(most, expected, round_up=True) + missing, expected)
        yield replace(spec, max_unavailable=f"{_share(gone, expected) or 1}%")
    elif isinstance(least, str):
        share = _share(min(scaled(least, expected, round_up=True), expected) - missing, expected)
        if share > 0:
            yield replace(spec, min_available=f"{share}%")
    yield replace(spec, min_available=None, max_unavailable=max(missing, 1))


def _share(number: int, total: int) -> int:
    """Return the largest percentage of which no more than so many pods are the share, rounded up."""
    return 100 * number // total if total > 0 else 0


class BudgetState(msgspec.Struct):
    """A budget with the pods that it covers."""

    budget: PodDisruptionBudget
    selector: Selector
    find: FindOwner  #: looks up an owner by its key
    pods: dict[int, ObservedPod] = {}  #: row -> covered pod
    n_owned: dict[str, int] = {}  #: key of a workload, empty for pods of their own -> how many of these pods it has
    n_ended: dict[str, int] = {}  #: how many covered pods of each have ended, whose objects are still there
    healthy: int = 0  #: how many covered pods are ready

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return self.budget.metadata.key

    @property
    def expected(self) -> int | None:
        """How many pods there should be; None where the disruption controller cannot tell and allows nothing."""
        spec, status = self.budget.spec, self.budget.status
        if not self._needs_scales:
            return 0 if spec.min_available is None else len(self.pods) + sum(self.n_ended.values())
        if self.without_scale:
            return None
        scales: dict[str, int] = {}  # replica sets of one deployment share its scale
        is_foreign = False
        for key in filter(None, self.n_owned | self.n_ended):
            owner = self.find(key)
            if owner is None or isinstance(owner, ForeignState):
                is_foreign = True
            else:
                scales[owner.workload.key] = owner.scale
        if not is_foreign:
            return sum(scales.values())
        # What the controller expected last, unless it could not tell either: it knows controllers that kplan does not.
        has_failed = any((one.reason, one.status) == (SYNC_FAILED, "False") for one in status.conditions)
        return None if has_failed else status.expected_pods or None

    @property
    def without_scale(self) -> str:
        """What has no scale, so that the controller allows nothing: a workload, or a pod if none has a controller.

        Empty where there are scales.
        """
        owners = self.n_owned | self.n_ended if self._needs_scales else {}
        if owners and not any(owners):
            return next((f"Pod/{pod.key}" for pod in self.pods.values()), "")
        return min((key for key in owners if key and key.startswith(_WITHOUT_SCALE)), default="")

    @property
    def _needs_scales(self) -> bool:
        """Whether it is about a share of the pods that there should be; it counts those that there are otherwise."""
        return self.budget.spec.max_unavailable is not None or isinstance(self.budget.spec.min_available, str)

    @property
    def desired(self) -> int:
        """How many must stay healthy."""
        return self._desired_of(self.expected or 0)

    def _desired_of(self, total: int) -> int:
        spec = self.budget.spec
        if spec.max_unavailable is not None:
            return max(total - scaled(spec.max_unavailable, total, round_up=True), 0)
        return 0 if spec.min_available is None else scaled(spec.min_available, total, round_up=True)

    @property
    def allowed(self) -> int:
        expected = self.expected
        return max(self.healthy - self._desired_of(expected), 0) if expected else 0

    def unready(self) -> Iterator[ObservedPod]:
        return (pod for pod in self.pods.values() if not pod.is_ready) if len(self.pods) > self.healthy else iter(())

    def copy(self, find: FindOwner) -> BudgetState:
        pods, n_owned, n_ended = self.pods.copy(), self.n_owned.copy(), self.n_ended.copy()
        return replace(self, find=find, pods=pods, n_owned=n_owned, n_ended=n_ended)

    def add(self, pod: ObservedPod) -> None:
        self.pods[pod.row] = pod
        self.n_owned[pod.owner] = self.n_owned.get(pod.owner, 0) + 1
        self.healthy += pod.is_ready

    def update(self, pod: ObservedPod) -> None:
        self.healthy += pod.is_ready - self.pods[pod.row].is_ready
        self.pods[pod.row] = pod

    def drop(self, row: int, *, stays: bool) -> None:
        pod = self.pods.pop(row)
        owner, self.healthy = pod.owner, self.healthy - pod.is_ready
        if stays:
            self.n_ended[owner] = self.n_ended.get(owner, 0) + 1
        self.n_owned[owner] -= 1
        if not self.n_owned[owner]:
            del self.n_owned[owner]


class Disruptions:
    """All budgets of a cluster, up to date as pods come and go; copies share what has not changed in either."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget], find: FindOwner) -> None:
        selected = ((budget, valid_selector(budget.spec.selector)) for budget in budgets)
        self._states = [BudgetState(budget, selector, find) for budget, selector in selected if not selector.is_nothing]
        self._find = find
        self._shared: set[int] = set()  # indexes of the states that a copy has, too
        self._of: Overlay[int, tuple[int, ...]] = Overlay()
        self._in: dict[str, list[int]] = {}
        self._selecting: dict[tuple[str, frozenset[tuple[str, str]]], tuple[int, ...]] = {}
        self._changed: set[int] = set()
        self._moved: set[int] = set()  # indexes of the budgets whose own status is out of date
        for index, state in enumerate(self._states):
            self._in.setdefault(state.budget.metadata.namespace, []).append(index)

    def fork(self, find: FindOwner) -> Disruptions:
        """Return a copy, whose pods come and go without a change to this one."""
        forked = Disruptions((), find)
        forked._states = self._states.copy()
        self._shared = set(range(len(self._states)))
        forked._shared = self._shared.copy()
        forked._of, forked._in, forked._selecting = self._of.copy(), self._in, self._selecting
        forked._moved = self._moved.copy()
        return forked

    @property
    def budgets(self) -> list[BudgetState]:
        return list(map(self._own, range(len(self._states))))

    def _own(self, index: int) -> BudgetState:
        """Return the state of a budget, which no copy shares from now on."""
        if index in self._shared:
            self._shared.discard(index)
            self._states[index] = self._states[index].copy(self._find)
        return self._states[index]

    def join(self, pod: ObservedPod, info: PodInfo) -> None:
        covering = self._selected_by(pod.namespace, info.labels) if self._states else ()
        if covering:
            self._of[pod.row] = covering
        for state in self._changing(covering):
            state.add(pod)

    def join_ended(self, pod: Pod, owner: str) -> None:
        for state in self._changing(self._selected_by(pod.metadata.namespace, pod.metadata.labels)):
            state.n_ended[owner] = state.n_ended.get(owner, 0) + 1

    def forget_ended(self, owner: str) -> None:
        """Forget the pods of a workload that have ended: their objects are gone."""
        for state in self._changing([index for index, state in enumerate(self._states) if owner in state.n_ended]):
            del state.n_ended[owner]

    def _selected_by(self, namespace: str, labels: Mapping[str, str]) -> tuple[int, ...]:
        """Return the budgets that select pods with these labels; the pods of a workload share the answer."""
        nearby = self._in.get(namespace, ())
        if not nearby:
            return ()
        key = namespace, frozenset(labels.items())
        if key not in self._selecting:
            self._selecting[key] = tuple(index for index in nearby if self._states[index].selector.matches(labels))
        return self._selecting[key]

    def settle(self, pod: ObservedPod) -> None:
        """Update a pod: it has a node now, is ready, or is terminating."""
        for state in self._changing(self._of.get(pod.row)) if self._states else ():
            state.update(pod)

    def leave(self, pod: ObservedPod, *, stays: bool = False) -> None:
        """Take a pod out; `stays`: its object stays, as it has ended."""
        for state in self._changing(self._of.pop(pod.row)) if self._states else ():
            state.drop(pod.row, stays=stays)

    def _changing(self, covering: Sequence[int] | None) -> Sequence[BudgetState]:
        """Return budgets of which a pod changes, to be changed."""
        if not covering:
            return ()
        self._changed.update(covering)
        self._moved.update(covering)
        return [self._own(index) for index in covering]

    def covering(self, pod: ObservedPod) -> list[BudgetState]:
        return [self._own(index) for index in self._of.get(pod.row) or ()]

    def trust_status(self) -> None:
        """Take it that the budgets' own status is up to date with all that has happened so far."""
        self._changed.clear()
        self._moved.clear()

    def statuses(self, names: Collection[tuple[str, str]] = ()) -> dict[tuple[str, str], tuple[int, int]]:
        """Return how many disruptions budgets allow, and how many pods they expect, by (namespace, name).

        `names`: budgets to tell of besides those whose own status is out of date.
        """
        known = ((key_of(state.budget), index) for index, state in enumerate(self._states))
        states = [(key, self._own(index)) for key, index in known if index in self._moved or key in names]
        return {key: (state.allowed, state.expected or 0) for key, state in states}

    def newly_allowed(self) -> dict[tuple[str, str], int]:
        """Return what budgets allow whose pods have changed since the last call, by (namespace, name)."""
        if not self._changed:
            return {}
        changed = [self._own(index) for index in self._changed]
        self._changed.clear()
        return {key_of(state.budget): state.allowed for state in changed}

    def broken_by(self, pods: Iterable[ObservedPod]) -> list[ObservedPod]:
        """Return the pods whose disruption breaks a budget, when all are disrupted in this order."""
        left: dict[int, int] = {}
        broken: list[ObservedPod] = []
        for pod in pods:
            covering = self._of.get(pod.row) or ()
            left = {index: self._own(index).allowed for index in covering} | left
            if any(left[index] <= 0 for index in covering):
                broken.append(pod)
            for index in covering:
                left[index] -= 1
        return broken

    def refusal(self, pod: ObservedPod) -> str:
        """Return why the eviction API refuses to evict a pod; empty when it does not."""
        if not pod.node or pod.is_terminating or pod.phase in ("Pending", "Succeeded", "Failed"):
            return ""
        covering = self.covering(pod)
        if not covering:
            return ""
        if len(covering) > 1:
            return SEVERAL
        state = covering[0]
        evicts_unhealthy = state.budget.spec.unhealthy_pod_eviction_policy == ALWAYS_ALLOW
        if not pod.is_ready and (evicts_unhealthy or 0 < state.desired <= state.healthy):
            return ""
        return "" if state.allowed > 0 else VIOLATED
