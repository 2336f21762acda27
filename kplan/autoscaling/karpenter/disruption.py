"""The five ways in which Karpenter disrupts nodes, in the order in which it tries them, and why nodes stay.

Karpenter asks nodes one after the other and stops at the first that it can do without; those behind it are asked here
by themselves, up to a number. With the policy Balanced a command has to save as much of the price of a pool as it
disrupts of the pool.

Upstream: controllers/disruption: emptiness.go, staticdrift.go, drift.go, multinodeconsolidation.go,
singlenodeconsolidation.go, validation.go, controller.go, balanced.go; state/cost/cost.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest

import msgspec
from msgspec.structs import replace

from kplan.api.labels import INSTANCE_TYPE, NODEPOOL, ZONE
from kplan.api.provisioning import DRIFTED, EMPTY, NEVER, UNDERUTILIZED
from kplan.api.quantity import grouped
from kplan.autoscaling.karpenter.amounts import added
from kplan.autoscaling.karpenter.candidates import (
    BLOCKED,
    CANDIDATE,
    UNCONSOLIDATABLE,
    Candidate,
    ClaimState,
    DisruptableCluster,
    Event,
    Events,
    Filter,
    no_budget,
    price_of,
)
from kplan.autoscaling.karpenter.cluster import StateNode
from kplan.autoscaling.karpenter.commands import (
    NO_PLACE,
    Command,
    consolidation,
    counts_of,
    first_unplaced,
    reservable_nodes,
    simulate_without,
    without_same_types,
)
from kplan.autoscaling.karpenter.pods import is_of_daemon_set, is_terminal, move_cost
from kplan.autoscaling.karpenter.prepared import Prepared
from kplan.autoscaling.karpenter.requirements import CAPACITY_TYPE
from kplan.autoscaling.seam import reason_to_stay
from kplan.documents.nodes import KeptNode
from kplan.preemption.go_sort import go_sorted

_MOST_TOGETHER = 100

REJECTED = "ConsolidationRejected"
APPROVED = "ConsolidationApproved"


def _concerns_emptiness(candidate: Candidate, cluster: DisruptableCluster) -> bool:
    if candidate.is_static:
        return False
    why = _why_disabled(candidate)
    if not why and candidate.name in cluster.prepared.buffer_nodes:
        why = f'Node "{candidate.name}" has buffer pods'
    if why:
        cluster.events.note(candidate.state, UNCONSOLIDATABLE, why)
        return False
    return candidate.is_empty and candidate.condition.is_consolidatable


def _concerns_consolidation(candidate: Candidate, cluster: DisruptableCluster) -> bool:
    """Tell whether a node may be removed or replaced to save money."""
    if candidate.is_static:
        return False
    release, why = cluster.prepared.release, _why_unpriced(candidate) or _why_disabled(candidate)
    if not why and release.empties_costless and candidate.is_empty:
        return False
    policy = candidate.pool.spec.disruption.consolidation_policy
    if not why and (policy == "WhenEmpty" if release.balances else policy != "WhenEmptyOrUnderutilized"):
        words = "consolidation policy WhenEmpty, but node is not empty"
        words = words if release.balances else "non-empty consolidation disabled"
        why = f'NodePool "{candidate.pool_name}" has {words}'
    if why:
        cluster.events.note(candidate.state, UNCONSOLIDATABLE, why)
        return False
    return candidate.condition.is_consolidatable


def _why_disabled(candidate: Candidate) -> str:
    is_never = candidate.pool.spec.disruption.consolidate_after in (None, NEVER)
    return f'NodePool "{candidate.pool_name}" has consolidation disabled' if is_never else ""


def _why_unpriced(candidate: Candidate) -> str:
    """Return why the price of a node cannot be compared; empty if it can."""
    labels = candidate.state.labels
    if candidate.type_index is None:
        return f'Instance Type "{labels.get(INSTANCE_TYPE, "")}" not found'
    missing = next((key for key in (CAPACITY_TYPE, ZONE) if key not in labels), None)
    return "" if missing is None else f'Node does not have label "{missing}"'


class MethodResult(msgspec.Struct, frozen=True):
    """What one method does by itself."""

    candidates: tuple[Candidate, ...]
    budgets: Mapping[str, int]  #: pool -> how many nodes may go for its reason, before it starts
    commands: tuple[Command, ...]
    events: Events


class Method(msgspec.Struct, frozen=True):
    """A way of disrupting nodes."""

    name: str
    reason: str
    concerns: Filter
    compute: Callable[[DisruptableCluster, dict[str, int], list[Candidate]], list[Command]]
    is_eventual: bool = False

    def ask(self, prepared: Prepared, conditions: Mapping[str, ClaimState]) -> MethodResult:
        cluster = DisruptableCluster(prepared, conditions, Events(), prepared.now, self.is_eventual)
        candidates = cluster.candidates(self.concerns)
        allowed = cluster.allowed(self.reason)
        commands = self.compute(cluster, dict(allowed), candidates) if candidates else []
        return MethodResult(tuple(candidates), allowed, tuple(commands), cluster.events)


def _ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    return go_sorted(candidates, (candidate.rank for candidate in candidates))


def _takes_one(allowed: dict[str, int], candidate: Candidate) -> bool:
    """Tell whether a budget lets a node go, and count it then."""
    if not allowed.get(candidate.pool_name, 0):
        return False
    allowed[candidate.pool_name] -= 1
    return True


def _emptiness(cluster: DisruptableCluster, allowed: dict[str, int], candidates: list[Candidate]) -> list[Command]:
    empty = [one for one in _ranked(candidates) if one.is_empty and _takes_one(allowed, one)]
    if not empty:
        return []
    later, current = cluster.later(empty, _concerns_emptiness)
    allowed = later.allowed(EMPTY) if current else {}
    valid = tuple(candidate for candidate in current if _takes_one(allowed, candidate))
    return [Command(valid)] if valid else []


def _static_drift(cluster: DisruptableCluster, allowed: dict[str, int], candidates: list[Candidate]) -> list[Command]:
    present, staying = counts_of(cluster.prepared)
    commands = []
    for name, own in sorted(_by_pool(candidates).items()):
        pool = own[0].pool
        if not allowed.get(name, 0) or staying[name] > (pool.spec.replicas or 0):
            continue
        node = cluster.prepared.static_node(pool)
        most = reservable_nodes(pool, present[name], min(allowed[name], len(own)))
        commands += [Command((candidate,), (node,), consolidates=False) for candidate in own[:most]]
    return commands


def _drift(cluster: DisruptableCluster, allowed: dict[str, int], candidates: list[Candidate]) -> list[Command]:
    ordered = go_sorted(candidates, (candidate.condition.drifted_since for candidate in candidates))
    for candidate in sorted(ordered, key=lambda one: bool(one.pods)):
        if not allowed.get(candidate.pool_name, 0):
            continue
        simulated = simulate_without(cluster, [candidate], consolidates=False)
        if simulated is not None and not simulated.errors:
            return [Command((candidate,), tuple(simulated.nodes), simulated.existing, consolidates=False)]
        if simulated is not None:
            pod, particulars = first_unplaced(cluster.prepared, simulated)
            cluster.events.note(candidate.state, BLOCKED, NO_PLACE, pod=pod, particulars=particulars)
    return []


def _multi_node(cluster: DisruptableCluster, allowed: dict[str, int], candidates: list[Candidate]) -> list[Command]:
    """Search for the most nodes, from the cheapest on, that can be consolidated together."""
    candidates = [one for one in _ranked(candidates) if not one.is_empty and _takes_one(allowed, one)]
    best: Command | None = None
    balance, approved = Balance(cluster), dict[str, Score]()
    low, high = 1, min(len(candidates) - 1, _MOST_TOGETHER)
    while low <= high:
        middle = (low + high) // 2
        command = consolidation(cluster, candidates[: middle + 1])
        if command is not None and command.replacements:
            command = without_same_types(command)
        scores = {} if command is None else dict(balance.scores(command))
        if command is not None and are_enough(scores):
            best, approved, low = command, scores, middle + 1
        else:
            high = middle - 1
    for pool, score in approved.items():
        cluster.events.add(Event(f"nodepool/{pool}", APPROVED, score.text))
    # That it is not valid any more is not told: upstream has lost the command by then.
    return [] if best is None or _why_invalid(cluster, best) else [best]


def _single_node(cluster: DisruptableCluster, allowed: dict[str, int], candidates: list[Candidate]) -> list[Command]:
    balance, pools = Balance(cluster), _by_pool(_ranked(candidates))
    # One candidate of each pool, then another one of each, and so on.
    in_turns = chain.from_iterable(zip_longest(*(pools[name] for name in sorted(pools))))
    for candidate in filter(None, in_turns):
        if not allowed.get(candidate.pool_name, 0) or candidate.is_empty or not balance.may_pass(candidate):
            continue
        command = consolidation(cluster, [candidate])
        if command is None:
            continue
        scores = balance.scores(command)
        if not are_enough(scores):
            continue
        for score in scores.values():
            cluster.events.note(candidate.state, APPROVED, score.text)
        reason = _why_invalid(cluster, command)
        if reason:
            command.note(cluster.events, REJECTED, "Consolidation rejected", f", reason: {reason}")
        return [] if reason else [command]
    return []


def _by_pool(candidates: Iterable[Candidate]) -> dict[str, list[Candidate]]:
    return grouped((candidate.pool_name, candidate) for candidate in candidates)


def _why_invalid(cluster: DisruptableCluster, command: Command) -> str:
    """Return why a command would not be given again after the delay; empty if it would."""
    later, current = cluster.later(command.candidates, _concerns_consolidation)
    if len(current) != len(command.candidates):
        return "churn"
    allowed = later.allowed(UNDERUTILIZED)
    if not all(_takes_one(allowed, candidate) for candidate in current):
        return "budget"
    simulated = simulate_without(later, current)
    if simulated is None or simulated.errors or len(simulated.nodes) != len(command.replacements):
        return "scheduling"
    pairs = zip(command.replacements, simulated.nodes, strict=True)
    return "" if all(set(old.type_names) <= set(new.type_names) for old, new in pairs) else "scheduling"


METHODS: tuple[Method, ...] = (
    Method("emptiness", EMPTY, _concerns_emptiness, _emptiness),
    Method("staticDrift", DRIFTED, lambda one, _: one.is_static and one.is_drifted, _static_drift, is_eventual=True),
    Method("drift", DRIFTED, lambda one, _: not one.is_static and one.is_drifted, _drift, is_eventual=True),
    Method("multi", UNDERUTILIZED, _concerns_consolidation, _multi_node),
    Method("single", UNDERUTILIZED, _concerns_consolidation, _single_node),
)
"""In the order in which they are tried."""


_MOST_ALONE = 100
_SECOND_WORDS = (APPROVED, CANDIDATE, REJECTED)


def stays(
    prepared: Prepared,
    conditions: Mapping[str, ClaimState],
    outcomes: Mapping[str, MethodResult],
    removed: frozenset[str],
) -> Iterator[tuple[str, KeptNode]]:
    """Yield each node that is not removed, in the order of their names, and why it stays."""
    single = outcomes["single"]
    behind = {candidate.name: candidate for candidate in single.candidates}
    n_alone = 0
    for state in prepared.state.nodes:
        if state.node is None or state.name in removed:
            continue
        condition = conditions.get("" if state.claim is None else state.claim.metadata.name, ClaimState())
        candidate = behind.get(state.name)
        # What Karpenter writes about the node: what blocks it for good first.
        events = [event for outcome in outcomes.values() for event in outcome.events.about(state.name)]
        telling = [event for reason in (BLOCKED, UNCONSOLIDATABLE) for event in events if event.reason == reason]
        stay = _stay(telling[0]) if telling else None
        if stay is None and candidate is not None and not single.budgets.get(candidate.pool_name, 0):
            stay = reason_to_stay(BLOCKED, no_budget(UNDERUTILIZED))
        if stay is None and candidate is not None and n_alone < _MOST_ALONE:
            n_alone += 1
            stay = _alone(prepared, candidate)
        stay = stay or _otherwise(state, condition, is_behind=candidate is not None)
        drift = condition.drift or DRIFTED
        if condition.drift is not None and stay.reason == BLOCKED:
            stay = replace(stay, message=f"{stay.message} ({drift})")
        elif condition.drift is not None:
            stay = reason_to_stay(DRIFTED, f"{drift}: Karpenter replaces it once its turn comes")
        yield state.name, stay


def _stay(event: Event) -> KeptNode:
    message = f"{event.message}, {event.pod} => {event.particulars}" if event.particulars else event.message
    return reason_to_stay(event.reason, message, event.pod)


def _alone(prepared: Prepared, candidate: Candidate) -> KeptNode | None:
    """Return why Karpenter could not do without a node; where it could, that another one comes first."""
    if candidate.is_empty:
        return None
    cluster = DisruptableCluster(prepared, {}, Events(), prepared.now)
    command = consolidation(cluster, [candidate])
    telling = [event for event in cluster.events.about(candidate.name) if event.reason not in _SECOND_WORDS]
    if telling:
        return _stay(telling[0])
    if command is None:
        return None
    scores, text = Balance(cluster).scores(command), command.text_for(candidate)
    if are_enough(scores):
        return reason_to_stay(CANDIDATE, f"{text} is possible, but Karpenter disrupts other nodes first")
    (score,) = scores.values()
    return reason_to_stay(UNCONSOLIDATABLE, f"{text} would save too little for what it disrupts: {score.text}")


def _otherwise(state: StateNode, condition: ClaimState, *, is_behind: bool) -> KeptNode:
    """Return a reason for which Karpenter has no words."""
    if state.claim is None:
        return reason_to_stay(BLOCKED, "Node isn't managed by karpenter")
    if is_behind:
        return reason_to_stay(CANDIDATE, "Karpenter disrupts other nodes first")
    if condition.is_consolidatable or condition.drift is not None:
        return reason_to_stay(UNCONSOLIDATABLE, "no method of disruption concerns the node")
    return reason_to_stay(
        UNCONSOLIDATABLE, "not consolidatable: consolidateAfter has not passed since a pod came or went"
    )


POLICY = "Balanced"
_K = 2
_LEAST = 1 / _K
_LABELS = (INSTANCE_TYPE, CAPACITY_TYPE, ZONE, NODEPOOL)


class Score(msgspec.Struct, frozen=True):
    """The parts of a pool that a command saves, and disrupts."""

    saved: float = 0.0
    disrupted: float = 0.0

    @property
    def value(self) -> float:
        if self.saved <= 0:
            return 0.0
        return self.saved / self.disrupted if self.disrupted else math.inf

    @property
    def is_enough(self) -> bool:
        return self.value >= _LEAST

    @property
    def text(self) -> str:
        relation = ">=" if self.is_enough else "<"
        parts = f"savings {self.saved * 100:.1f}%, disruption {self.disrupted * 100:.1f}%"
        return f"score {self.value:.2f} {relation} threshold {_LEAST:.2f} (k: {_K}, {parts})"


class Balance:
    """The price of each pool with the policy, and what it would cost to disrupt all of its nodes."""

    def __init__(self, cluster: DisruptableCluster) -> None:
        prepared, every = cluster.prepared, cluster.every if cluster.prepared.release.balances else []
        balanced = [one for one in every if one.pool.spec.disruption.consolidation_policy == POLICY]
        self._prices = {candidate.pool_name: 0.0 for candidate in balanced}
        self._costs = dict(self._prices)
        costs = {candidate.name: candidate.move_cost for candidate in balanced}
        for state in prepared.state.nodes:
            if state.pool in self._costs:
                moving = (pod for pod in state.pods if not is_terminal(pod) and not is_of_daemon_set(pod))
                self._costs[state.pool] += costs[state.name] if state.name in costs else move_cost(moving)
        # The prices of claims count; of a pool whose claims have none, those of the nodes that may go.
        of_claims = dict(self._prices)
        for claim in prepared.snapshot.node_claims:
            labels = claim.metadata.labels
            if all(key in labels for key in _LABELS) and labels[NODEPOOL] in of_claims:
                of_claims[labels[NODEPOOL]] += prepared.columns[labels[NODEPOOL]].listed_price(labels)
        for candidate in balanced:
            self._prices[candidate.pool_name] += candidate.price or 0.0
        self._prices |= {name: price for name, price in of_claims.items() if price > 0}

    def _score(self, pool: str, savings: float, cost: float) -> Score:
        price, whole = self._prices[pool], self._costs[pool]
        return Score(savings / price, cost / whole) if price > 0 and whole > 0 else Score()

    def may_pass(self, candidate: Candidate) -> bool:
        """Tell whether a node would be deleted if it needed no replacement."""
        if self._prices.get(candidate.pool_name, 0.0) <= 0:
            return True
        return self._score(candidate.pool_name, candidate.price or 0.0, candidate.move_cost).is_enough

    def scores(self, command: Command) -> Mapping[str, Score]:
        """Return the score of a command for each pool with the policy; all must be enough."""
        pools = _by_pool(command.candidates)
        total = price_of(command.candidates)
        scores = {}
        for name in sorted(pools.keys() & self._prices):
            own, savings = pools[name], command.savings
            if total > 0 and len(pools) > 1:
                savings *= price_of(own) / total
            scores[name] = self._score(name, savings, added(candidate.move_cost for candidate in own))
        return scores


def are_enough(scores: Mapping[str, Score]) -> bool:
    return all(score.is_enough for score in scores.values())
