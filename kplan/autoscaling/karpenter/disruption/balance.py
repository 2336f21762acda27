"""The consolidation policy Balanced: what a command saves of the price of a pool, against what it disrupts of the pool.

Upstream: controllers/disruption/balanced.go, state/cost/cost.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from kplan.api.labels import ZONE
from kplan.autoscaling.karpenter.disruption.candidates import Candidate, Question
from kplan.autoscaling.karpenter.disruption.commands import Command
from kplan.autoscaling.karpenter.names import CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL
from kplan.autoscaling.karpenter.pods import is_of_daemon_set, is_terminal, move_cost

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
        """How much is saved for what is disrupted."""
        if self.saved <= 0:
            return 0.0
        return self.saved / self.disrupted if self.disrupted else math.inf

    @property
    def is_enough(self) -> bool:
        """Whether Karpenter does it."""
        return self.value >= _LEAST

    @property
    def text(self) -> str:
        """The score in Karpenter's words."""
        relation = ">=" if self.is_enough else "<"
        parts = f"savings {self.saved * 100:.1f}%, disruption {self.disrupted * 100:.1f}%"
        return f"score {self.value:.2f} {relation} threshold {_LEAST:.2f} (k: {_K}, {parts})"


class Balance:
    """The price of each pool with nodes that may go, and what it would cost to disrupt all of its nodes."""

    def __init__(self, question: Question) -> None:
        self._is_followed = question.prepared.release.balances
        self._prices: dict[str, float] = {}
        self._costs: dict[str, float] = {}
        every = question.every
        if not self._is_followed or not any(map(self._concerns, every)):
            return
        costs = {candidate.name: candidate.move_cost for candidate in every}
        for state in question.prepared.state.nodes:
            cost = costs.get(state.name)
            if cost is None:
                cost = move_cost(pod for pod in state.pods if not is_terminal(pod) and not is_of_daemon_set(pod))
            self._costs[state.pool] = self._costs.get(state.pool, 0.0) + cost
        for candidate in every:
            name = candidate.pool_name
            self._prices[name] = self._prices.get(name, 0.0) + (candidate.price or 0.0)
        self._prices |= {name: price for name, price in _claim_prices(question) if price > 0 and name in self._prices}

    def _concerns(self, candidate: Candidate) -> bool:
        return self._is_followed and candidate.pool.spec.disruption.consolidation_policy == POLICY

    def _score(self, pool: str, savings: float, cost: float) -> Score:
        price, whole = self._prices.get(pool, 0.0), self._costs.get(pool, 0.0)
        return Score(savings / price, cost / whole) if price > 0 and whole > 0 else Score()

    def may_pass(self, candidate: Candidate) -> bool:
        """Tell whether a node would be deleted if it needed no replacement."""
        if not self._concerns(candidate) or self._prices.get(candidate.pool_name, 0.0) <= 0:
            return True
        return self._score(candidate.pool_name, candidate.price or 0.0, candidate.move_cost).is_enough

    def scores(self, command: Command) -> Mapping[str, Score]:
        """Return the score of a command for each pool with the policy; all must be enough."""
        pools: dict[str, list[Candidate]] = {}
        for candidate in command.candidates:
            pools.setdefault(candidate.pool_name, []).append(candidate)
        total = sum(candidate.price or 0.0 for candidate in command.candidates)
        scores = {}
        for name in sorted(pools):
            own = pools[name]
            if not self._concerns(own[0]):
                continue
            savings = command.savings
            if total > 0 and len(pools) > 1:
                savings *= sum(candidate.price or 0.0 for candidate in own) / total
            scores[name] = self._score(name, savings, sum(candidate.move_cost for candidate in own))
        return scores


def _claim_prices(question: Question) -> Iterable[tuple[str, float]]:
    prepared = question.prepared
    prices: dict[str, float] = {}
    for claim in prepared.snapshot.node_claims:
        labels = claim.metadata.labels
        if all(key in labels for key in _LABELS) and labels[NODEPOOL] in prepared.pools:
            own = prepared.columns[labels[NODEPOOL]].listed_price(labels)
            prices[labels[NODEPOOL]] = prices.get(labels[NODEPOOL], 0.0) + own
    return prices.items()


def are_enough(scores: Mapping[str, Score]) -> bool:
    return all(score.is_enough for score in scores.values())
