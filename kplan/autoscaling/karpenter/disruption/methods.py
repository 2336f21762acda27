"""The five ways in which Karpenter disrupts nodes, in the order in which it tries them.

Upstream: controllers/disruption: emptiness.go, staticdrift.go, drift.go, multinodeconsolidation.go,
singlenodeconsolidation.go, validation.go, controller.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from kplan.autoscaling.karpenter.disruption.candidates import (
    Candidate,
    Events,
    Filter,
    Question,
    concerns_consolidation,
    concerns_drift,
    concerns_emptiness,
    concerns_static_drift,
)
from kplan.autoscaling.karpenter.disruption.commands import (
    NO_PLACE,
    Command,
    consolidation,
    first_unplaced,
    simulate_without,
    without_same_types,
)
from kplan.autoscaling.karpenter.disruption.conditions import ClaimState
from kplan.autoscaling.karpenter.planned import static_node
from kplan.autoscaling.karpenter.prepared import Prepared
from kplan.autoscaling.karpenter.static_pools import Count, counts_of, reservable_nodes
from kplan.preemption.go_sort import go_sorted

_MOST_TOGETHER = 100

EMPTY = "Empty"
DRIFTED = "Drifted"
UNDERUTILIZED = "Underutilized"


class Outcome(msgspec.Struct, frozen=True):
    """What one method does by itself.

    Attributes
    ----------
    budgets : pool -> how many nodes may go for its reason, before it starts
    """

    candidates: tuple[Candidate, ...]
    budgets: Mapping[str, int]
    commands: tuple[Command, ...]
    events: Events


Compute = Callable[[Question, dict[str, int], list[Candidate]], list[Command]]


class Method(msgspec.Struct, frozen=True):
    """A way of disrupting nodes."""

    name: str
    reason: str
    concerns: Filter
    compute: Compute
    is_eventual: bool = False

    def ask(self, prepared: Prepared, conditions: Mapping[str, ClaimState]) -> Outcome:
        """Return what the method does."""
        cluster = Question(prepared, conditions, Events(), prepared.now)
        candidates = cluster.candidates(self.concerns, is_eventual=self.is_eventual)
        allowed = cluster.allowed(self.reason)
        commands = self.compute(cluster, dict(allowed), candidates) if candidates else []
        return Outcome(tuple(candidates), allowed, tuple(commands), cluster.events)


def _cheapest_first(candidates: Sequence[Candidate]) -> list[Candidate]:
    return go_sorted(candidates, (candidate.cost for candidate in candidates))


def _takes_one(allowed: dict[str, int], candidate: Candidate) -> bool:
    """Tell whether a budget lets a node go, and count it then."""
    if not allowed.get(candidate.pool_name, 0):
        return False
    allowed[candidate.pool_name] -= 1
    return True


def _emptiness(cluster: Question, allowed: dict[str, int], candidates: list[Candidate]) -> list[Command]:
    empty = [one for one in _cheapest_first(candidates) if not one.pods and _takes_one(allowed, one)]
    if not empty:
        return []
    later, names = cluster.later(), {candidate.name for candidate in empty}
    current = [one for one in later.candidates(concerns_emptiness) if one.name in names]
    if not current:
        return []
    allowed = later.allowed(EMPTY)
    valid = tuple(candidate for candidate in current if _takes_one(allowed, candidate))
    return [Command(valid)] if valid else []


def _static_drift(cluster: Question, allowed: dict[str, int], candidates: list[Candidate]) -> list[Command]:
    counts = counts_of(cluster.prepared)
    commands = []
    for name in sorted({candidate.pool_name for candidate in candidates}):
        own = [candidate for candidate in candidates if candidate.pool_name == name]
        pool, count = own[0].pool, counts.get(name, Count())
        if not allowed.get(name, 0) or count.active > (pool.spec.replicas or 0):
            continue
        template = cluster.prepared.template_of(pool, relaxes_min_values=False)
        most = reservable_nodes(pool, count, min(allowed[name], len(own)))
        commands += [Command((candidate,), (static_node(template),), consolidates=False) for candidate in own[:most]]
    return commands


def _drift(cluster: Question, allowed: dict[str, int], candidates: list[Candidate]) -> list[Command]:
    ordered = go_sorted(candidates, (candidate.condition.drifted_since for candidate in candidates))
    for candidate in sorted(ordered, key=lambda one: bool(one.pods)):
        if not allowed.get(candidate.pool_name, 0):
            continue
        command = drift_command(cluster, candidate)
        if command is not None:
            return [command]
    return []


def drift_command(cluster: Question, candidate: Candidate) -> Command | None:
    """Return how to replace a node that has drifted; None where its pods find no place."""
    simulated = simulate_without(cluster, [candidate])
    if simulated is None:
        return None
    if simulated.errors:
        pod, particulars = first_unplaced(cluster.prepared, simulated)
        cluster.events.block(candidate.state, NO_PLACE, pod=pod, particulars=particulars)
        return None
    return Command((candidate,), tuple(simulated.nodes), simulated.existing, consolidates=False)


def _multi_node(cluster: Question, allowed: dict[str, int], candidates: list[Candidate]) -> list[Command]:
    disruptable = [one for one in _cheapest_first(candidates) if one.pods and _takes_one(allowed, one)]
    command = _longest_prefix(cluster, disruptable)
    # That it is not valid any more is not told: upstream has lost the command by then.
    return [] if command is None or _why_invalid(cluster, command) else [command]


def _longest_prefix(cluster: Question, candidates: list[Candidate]) -> Command | None:
    """Search for the most nodes, from the cheapest on, that can be consolidated together."""
    best: Command | None = None
    low, high = 1, min(len(candidates) - 1, _MOST_TOGETHER)
    while low <= high:
        middle = (low + high) // 2
        command = consolidation(cluster, candidates[: middle + 1])
        if command is not None and command.replacements:
            command = without_same_types(command)
        if command is not None:
            best, low = command, middle + 1
        else:
            high = middle - 1
    return best


def _single_node(cluster: Question, allowed: dict[str, int], candidates: list[Candidate]) -> list[Command]:
    for candidate in _in_turns(_cheapest_first(candidates)):
        if not allowed.get(candidate.pool_name, 0) or not candidate.pods:
            continue
        command = consolidation(cluster, [candidate])
        if command is not None:
            return [command] if is_still_valid(cluster, command) else []
    return []


def _in_turns(candidates: list[Candidate]) -> list[Candidate]:
    """Return one candidate of each pool, then another one of each, and so on."""
    pools: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        pools.setdefault(candidate.pool_name, []).append(candidate)
    longest = max(map(len, pools.values()), default=0)
    return [pools[name][turn] for turn in range(longest) for name in sorted(pools) if turn < len(pools[name])]


def is_still_valid(cluster: Question, command: Command) -> bool:
    """Tell whether a command would be given again after the delay; notes why it would not."""
    reason = _why_invalid(cluster, command)
    if reason:
        for candidate in command.candidates:
            cluster.events.reject(candidate.state, command.text_for(candidate), reason, command.savings)
    return not reason


def _why_invalid(cluster: Question, command: Command) -> str:
    later, names = cluster.later(), {candidate.name for candidate in command.candidates}
    current = [one for one in later.candidates(concerns_consolidation) if one.name in names]
    if len(current) != len(names):
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
    Method("emptiness", EMPTY, concerns_emptiness, _emptiness),
    Method("staticDrift", DRIFTED, concerns_static_drift, _static_drift, is_eventual=True),
    Method("drift", DRIFTED, concerns_drift, _drift, is_eventual=True),
    Method("multi", UNDERUTILIZED, concerns_consolidation, _multi_node),
    Method("single", UNDERUTILIZED, concerns_consolidation, _single_node),
)
"""In the order in which they are tried."""
