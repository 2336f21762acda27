"""The dry run: the victims that make room for a pod, on every node at once.

Upstream looks at one node after another; here every step is taken on all nodes together. First all lower-priority pods
are removed and the filters run. On the nodes that pass, step k tries to reprieve the k-th potential victim of every
node: first those whose eviction violates a budget, then the others, each from the most important down.

`FilterTrials` runs the filters at every step. The verdicts of those that ignore pods come from their first run. All
others run twice where pods are nominated: the pod must pass them both with the nominated pods and without.

Upstream: defaultpreemption/default_preemption.go SelectVictimsOnNode and filterPodsWithPDBViolation,
preemption/preemption.go DryRunPreemption, framework/runtime/framework.go RunFilterPluginsWithNominatedPods,
pkg/scheduler/util/utils.go MoreImportantPod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.api.labels import valid_selector
from kplan.api.workloads import PodDisruptionBudget
from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.matching import PodMatch
from kplan.engine.pod_table import START, PodTable
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import ChangingView, PodDelta
from kplan.framework.diagnosis import FilterOutcome, NodeStatus, first_rejectors
from kplan.framework.interface import CycleState, ProfileFilters
from kplan.preemption.go_sort import INSERTION_LENGTH, go_sort
from kplan.rules.pod_info import NO_START_TIME, PodInfo

NamedVerdicts = list[tuple[str, Verdicts]]


class FilterTrials:
    """One pod tried on nodes from which pods were removed.

    `outcome` is the filters' first run in this cycle. The nodes are the first positions of the view, ascending; those
    with nominated pods stand there once more behind them, with these pods: the incoming pod must fit both ways.
    """

    def __init__(
        self,
        framework: ProfileFilters,
        cycle: CycleState,
        outcome: FilterOutcome,
        *,
        rows: RowArray,
        positions: RowArray,
        pods: RowArray,
    ) -> None:
        """Remove `pods`, each at the position of its node, an ascending index into `rows`."""
        self._cycle = cycle
        self._outcome = outcome
        filters = [plugin for plugin in framework.filter_plugins if plugin.name not in cycle.skipped_filters]
        # A node that PreFilter left out can be a candidate too, but then no filter has run on it.
        known = {name for name, _ in outcome.verdicts} if outcome.are_filtered(rows) else set()
        self._plugins = [plugin for plugin in filters if plugin.name not in framework.pod_blind & known]
        self._order = [plugin.name for plugin in filters]
        self.n_nodes = len(rows)
        self.node_at: RowArray = np.arange(len(rows))  #: intp array of shape (n_view,), the node of each position
        extra = framework.nominated_changes(cycle, rows)
        if extra is not None:
            again = np.unique(extra.positions)
            copy_of = np.zeros(len(rows), np.intp)
            copy_of[again] = len(rows) + np.arange(len(again))
            is_again = np.isin(positions, again)
            rows, pods = np.append(rows, rows[again]), np.append(pods, pods[is_again])
            positions = np.append(positions, copy_of[positions[is_again]])
            self.node_at = np.append(self.node_at, again)
            extra = PodDelta(copy_of[extra.positions], extra.pods, extra.signs)
        self.view = ChangingView(framework.cluster, rows, positions, pods, extra)

    def statuses(self) -> tuple[NamedVerdicts, dict[int, NodeStatus]]:
        """Run all filters, and return why nodes are rejected.

        These are the verdicts of every filter, in order, without nominated pods, and by node row the rejection with
        nominated pods, which counts instead.
        """
        first_run = dict(self._outcome.verdicts)
        fresh = {plugin.name: plugin.filter(self._cycle, self.view) for plugin in self._plugins}
        where = self._outcome.positions(self.view.rows)
        verdicts = [(name, fresh[name] if name in fresh else first_run[name].at(where)) for name in self._order]
        if len(self.view) == self.n_nodes:
            return verdicts, {}
        first, overrides = first_rejectors(verdicts, len(self.view)), {}
        for position in range(self.n_nodes, len(self.view)):
            if first[position] >= 0:
                name, verdict = verdicts[first[position]]
                overrides[self.view.row(position)] = NodeStatus.of(name, verdict, position)
        return [(name, verdict.at(np.arange(self.n_nodes))) for name, verdict in verdicts], overrides

    def passes(self) -> BoolArray:
        """Run the filters whose verdicts may have changed; bool array of shape (n_view,), by node.

        Valid for nodes that passed the filters that ignore pods.
        """
        passes = np.ones(len(self.view), np.bool_)
        for plugin in self._plugins:
            passes &= plugin.filter(self._cycle, self.view).bits == 0
        if len(self.view) == self.n_nodes:
            return passes
        both: BoolArray = np.ones(self.n_nodes, np.bool_)
        both[self.node_at[~passes]] = False
        return both[self.node_at]

    def narrow(self, remaining: BoolArray) -> None:
        """Go on with some of the nodes, bool array of shape (n_nodes,)."""
        at_positions = remaining[self.node_at]
        self.view = self.view.narrowed(at_positions)
        self.node_at = (np.cumsum(remaining) - 1)[self.node_at[at_positions]]
        self.n_nodes = int(np.count_nonzero(remaining))


class _Budget(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    match: PodMatch  #: by labels alone: budgets of many namespaces often share a selector
    matches_unlabelled: bool
    allowed: int
    disrupted: frozenset[str]

    def covers(self, info: PodInfo) -> bool:
        """Whether the budget counts a pod: it selects the pod, which has labels and is not yet being disrupted."""
        is_counted = bool(info.labels) and info.name not in self.disrupted
        return is_counted and info.namespace == self.namespace and self.match.selects(info)


class AllowedDisruptions:
    """Pod disruption budgets, compiled; a budget without a selector, or with an empty or invalid one, covers no pod."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._budgets: list[_Budget] = []
        for budget in budgets:
            selector, namespace = valid_selector(budget.spec.selector), budget.metadata.namespace
            if not selector.is_empty and not selector.is_nothing:
                compiled = _Budget(
                    namespace,
                    budget.metadata.name,
                    PodMatch(((None, selector),)),
                    selector.matches({}),
                    budget.status.disruptions_allowed,
                    frozenset(budget.status.disrupted_pods),
                )
                self._budgets.append(compiled)

    def with_allowed_disruptions(self, allowed: Mapping[tuple[str, str], int]) -> AllowedDisruptions:
        """Return the budgets with other numbers of allowed disruptions, by (namespace, name); the rest is unchanged."""
        updated = AllowedDisruptions(())
        updated._budgets = [
            replace(budget, allowed=allowed.get((budget.namespace, budget.name), budget.allowed))
            for budget in self._budgets
        ]
        return updated

    def violating(self, pods: PodTable, positions: RowArray, victims: RowArray) -> BoolArray:
        """Return which victims exceed the allowed disruptions of a budget when a node's victims go in this order.

        They are the most important first on each node, at ascending positions. Every node is evaluated independently,
        with all the disruptions that the budgets allow.
        """
        violating = np.zeros(len(victims), np.bool_)
        indices_of = pods.by_namespace(victims) if self._budgets else {}
        for budget in self._budgets:
            indices = indices_of.get(budget.namespace)
            if indices is None:
                continue
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
        """
        allowed = [budget.allowed for budget in self._budgets]

        def exceeds(pod: int) -> bool:
            info = pods.infos[pod]
            for index, budget in enumerate(self._budgets):
                if budget.covers(info):
                    allowed[index] -= 1
                    if allowed[index] < 0:
                        return True
            return False

        return [any(exceeds(pod) for pod in unit) for unit in units]

    def covering(self, pods: PodTable, pod: int) -> list[str]:
        """Return the budgets (NAMESPACE/NAME) that count a pod."""
        info = pods.infos[pod]
        return [f"{budget.namespace}/{budget.name}" for budget in self._budgets if budget.covers(info)]


def importance_order(positions: RowArray, priorities: Int64Array, starts: Int64Array) -> RowArray:
    """Return the order of each node's pods, most important first, as kube-scheduler's sort leaves them.

    All arrays have shape (n_pods,). `positions` of nodes ascend, starts are in microseconds, NO_START_TIME for a pod
    without one; the result is a permutation within each node.

    A pod without a start time counts as started at the moment of the comparison. Of two such pods each is thus
    "earlier" than the other when it is the first operand, and insertion sort reverses their order. Where a node has
    more pods than Go sorts by insertion, Go's algorithm decides the order of equal pods.
    """
    n_pods = len(positions)
    if n_pods == 0 or _is_in_order(positions, priorities, starts):
        return np.arange(n_pods)
    index = np.arange(n_pods)
    unstarted = starts == NO_START_TIME
    keys = (starts, -priorities, positions)
    order: RowArray = np.lexsort((np.where(unstarted, -index, index), *keys) if unstarted.any() else keys)
    sorted_like: dict[tuple[tuple[int, ...], tuple[int, ...]], RowArray] = {}
    for low, high in _undecided_groups(positions, priorities[order], starts[order]):
        pattern = _pattern(priorities[low:high], starts[low:high])
        if pattern not in sorted_like:
            sorted_like[pattern] = np.asarray(go_sort(*pattern), np.intp)
        order[low:high] = low + sorted_like[pattern]
    return order


def _is_in_order(positions: RowArray, priorities: Int64Array, starts: Int64Array) -> bool:
    """Whether sorting changes nothing: each node's pods are in order, and no comparison contradicts itself."""
    same_node = positions[1:] == positions[:-1]
    equal = priorities[1:] == priorities[:-1]
    later = (starts[1:] >= starts[:-1]) & (starts[:-1] != NO_START_TIME)
    return bool((~same_node | (priorities[1:] < priorities[:-1]) | (equal & later)).all())


def _undecided_groups(positions: RowArray, priorities: Int64Array, starts: Int64Array) -> list[tuple[int, int]]:
    """Return the ranges of nodes with equal pods and more pods than Go sorts by insertion."""
    is_tie: BoolArray = (
        (positions[1:] == positions[:-1]) & (priorities[1:] == priorities[:-1]) & (starts[1:] == starts[:-1])
    )
    tied = np.unique(positions[1:][is_tie])
    lows = np.searchsorted(positions, tied)
    highs = np.searchsorted(positions, tied, side="right")
    long = highs - lows > INSERTION_LENGTH
    return list(zip(lows[long].tolist(), highs[long].tolist(), strict=True))


def _pattern(priorities: Int64Array, starts: Int64Array) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the arguments of `go_sort`, equal for nodes whose pods compare in the same way."""
    pods = list(zip((-priorities).tolist(), starts.tolist(), strict=True))
    rank_of = {pod: 2 * rank for rank, pod in enumerate(sorted(set(pods)))}
    keys = tuple(rank_of[pod] for pod in pods)
    return keys, tuple(key + (start == NO_START_TIME) for key, (_, start) in zip(keys, pods, strict=True))


_NO_VICTIMS = Reason("No preemption victims found for incoming pod", Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
_NOT_HELPFUL = Reason("Preemption is not helpful for scheduling", Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
_NARROW_SHARE = 2  #: nodes without more pods to try are dropped from the view once they are at least half of it


class Reprieve(msgspec.Struct, frozen=True):
    """The lower-priority pods of the nodes where preemption helps, each reprieved or a victim."""

    rows: RowArray  #: intp array of shape (n_nodes,), ascending node rows
    positions: RowArray  #: intp array of shape (n_pods,), ascending: the index into `rows` of each pod's node
    pods: RowArray  #: intp array of shape (n_pods,), rows of the pod table, in the order in which they were tried
    violating: BoolArray  #: bool array of shape (n_pods,): evicting the pod would violate a budget
    reprieved: BoolArray  #: bool array of shape (n_pods,): the pod stays, because the incoming pod fits beside it


class DryRun(msgspec.Struct, frozen=True):
    """The victims on each node where preemption helps, and why it does not help on the others."""

    rejections: FilterOutcome  #: statuses of the nodes where it does not help; `feasible` are those where it does
    reprieve: Reprieve  #: the lower-priority pods on the feasible nodes


def dry_run(
    framework: ProfileFilters, cycle: CycleState, outcome: FilterOutcome, budgets: AllowedDisruptions
) -> DryRun:
    """Look for victims on every node whose rejection removing pods may resolve."""
    cluster = framework.cluster
    rows = outcome.rows_with_code(Code.UNSCHEDULABLE)
    # The pods of lower priority as each node lists them, at the ascending place of their node in `rows`.
    counts = cluster.pod_count[rows]
    on_nodes = chain.from_iterable(cluster.pods_on[row] for row in rows.tolist())
    pods: RowArray = np.fromiter(on_nodes, np.intp, int(counts.sum()))
    is_lower = cluster.pods.priorities[pods] < cycle.pod.priority
    positions, pods = np.repeat(np.arange(len(rows)), counts)[is_lower], pods[is_lower]
    has_victims = np.bincount(positions, minlength=len(rows)) > 0
    absent = NodeStatus(_NOT_HELPFUL.code, "", (_NOT_HELPFUL,))
    rejections = FilterOutcome(len(cluster), np.zeros(len(cluster), np.bool_), rows=rows, absent=absent)
    rejections.verdicts.append(("", Verdicts.where(~has_victims, _NO_VICTIMS)))
    if not has_victims.any():
        no_rows: RowArray = np.zeros(0, np.intp)
        no_flags: BoolArray = np.zeros(0, np.bool_)
        return DryRun(rejections, Reprieve(no_rows, no_rows, no_rows, no_flags, no_flags))

    # Without all pods of lower priority: where the pod does not fit even then, no eviction helps (SelectVictimsOnNode).
    trials = FilterTrials(framework, cycle, outcome, rows=rows, positions=positions, pods=pods)
    verdicts, overrides = trials.statuses()
    rejections.verdicts += verdicts
    rejections.overrides.update(
        (row, status) for row, status in overrides.items() if has_victims[np.searchsorted(rows, row)]
    )
    fits = rejections.first < 0
    fits[np.searchsorted(rows, list(rejections.overrides))] = False
    rejections.feasible[rows[fits]] = True
    trials.narrow(fits)
    reprieve = _reprieve(cluster, trials, budgets)

    # A node on which all pods are spared was rejected for what no pod causes: upstream calls that an error.
    is_candidate = np.zeros(len(reprieve.rows), np.bool_)
    is_candidate[reprieve.positions[~reprieve.reprieved]] = True
    for row in reprieve.rows[~is_candidate].tolist():
        rejections.feasible[row] = False
        text = f'expected at least one victim pod on node "{cluster.nodes.names[row]}"'
        rejections.overrides[row] = NodeStatus(Code.ERROR, "", (Reason(text, Code.ERROR),))
    return DryRun(rejections, reprieve)


def order_of_importance(cluster: Cluster, positions: RowArray, pods: RowArray) -> RowArray:
    return importance_order(positions, cluster.pods.priorities[pods], cluster.pods.derived(START)[pods])


def _reprieve(cluster: Cluster, trials: FilterTrials, budgets: AllowedDisruptions) -> Reprieve:
    """Reprieve pods one by one while the incoming pod fits; on the nodes of `trials` it fits without all of them."""
    view = trials.view
    order = order_of_importance(cluster, view.positions, view.pods)
    violating = budgets.violating(cluster.pods, view.positions, view.pods[order])
    if violating.any():
        # Pods whose eviction breaks a budget come first: they are the ones to spare.
        violating_first = np.lexsort((~violating, view.positions))
        order, violating = order[violating_first], violating[violating_first]
    view.reorder(order)
    n_nodes, n_pods = trials.n_nodes, int(view.bounds[trials.n_nodes])
    rows, positions, pods = view.rows[:n_nodes], view.positions[:n_pods], view.pods[:n_pods]
    reprieved = np.zeros(len(view.pods), np.bool_)
    origin = np.arange(len(view.pods))  # index into `reprieved` of each pod that the narrowed view still contains
    step = 0
    while len(trials.view):
        bounds = trials.view.bounds
        counts = np.diff(bounds)
        has_more = counts > step
        n_left = int(np.count_nonzero(has_more))
        # One step tries the next pod of every node at once, so it takes as many steps as the fullest node has pods.
        if n_left * _NARROW_SHARE <= len(has_more):
            origin = origin[has_more[trials.view.positions]]
            trials.narrow(has_more[: trials.n_nodes])
            continue
        tried = bounds[:-1][has_more] + step
        trials.view.change(tried, 1)
        fits = trials.passes()[has_more]
        trials.view.change(tried[~fits], -1)
        reprieved[origin[tried]] = fits
        step += 1
    return Reprieve(rows, positions, pods, violating[:n_pods], reprieved[:n_pods])
