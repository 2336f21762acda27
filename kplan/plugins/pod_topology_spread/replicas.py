"""Soft constraints while replicas of one pod are placed: what each group of nodes scores.

Nodes are in one group when they are in the same domain of each constraint, or have as many matching pods where the
domain is the host. Only the counts of one domain of each constraint change with a replica.
"""

from __future__ import annotations

import math

import numpy as np

from kplan.engine.arrays import MAX_NODE_SCORE, BoolArray
from kplan.engine.view import NodeView
from kplan.plugins.pod_topology_spread.scoring import ScoreState, SoftConstraint, weigh
from kplan.rules.pod_info import PodInfo

_IGNORED = -2
"""The key of nodes that are ignored."""

_UNLABELLED = -1
"""The domain of a node without the topology label, which adds nothing to its score."""


class _Counts:
    """The matching pods of a constraint: per domain, or per node for the hostname."""

    def __init__(self, constraint: SoftConstraint, nodes: NodeView, pod: PodInfo) -> None:
        self.is_per_node = constraint.is_per_node
        self.penalty = float(constraint.constraint.max_skew - 1)
        self.weight = 0.0
        self.counts_self = constraint.counts_pod(pod)
        self.labelled: list[bool] = constraint.column.present.tolist()
        self.slots: list[int] = constraint.slots.tolist()
        self.counted: list[bool] | None = None if constraint.counted is None else constraint.counted.tolist()
        self.per_slot: list[int] = [] if self.is_per_node else constraint.domain_counts.tolist()
        self.per_node: list[int] = constraint.counts(nodes).tolist() if self.is_per_node else []

    def key(self, row: int) -> int:
        """Return what nodes with equal scores have in common."""
        if not self.labelled[row]:
            return _UNLABELLED
        return self.per_node[row] if self.is_per_node else self.slots[row]

    def score(self, key: int) -> float:
        """Return what the constraint adds to the score of nodes with a key."""
        if key == _UNLABELLED:
            return 0.0
        return (key if self.is_per_node else self.per_slot[key]) * self.weight + self.penalty

    def place(self, row: int) -> None:
        """Count a replica on a node."""
        if not self.counts_self:
            return
        if self.is_per_node:
            self.per_node[row] += 1
        elif self.counted is None or self.counted[row]:
            self.per_slot[self.slots[row]] += 1


class SpreadGroups:
    """The scores of pods like one pod, group by group; see `kplan.framework.extension_points.ScoreGroups`."""

    def __init__(self, state: ScoreState, nodes: NodeView, pod: PodInfo) -> None:
        self._nodes = nodes
        self._state = state
        self._counts = [_Counts(constraint, nodes, pod) for constraint in state.constraints]
        n_nodes = len(nodes)
        self._is_ignored = [False] * n_nodes if state.unlabelled is None else state.unlabelled.tolist()
        self._keys: list[tuple[int, ...]] = []
        self._number_of: dict[tuple[int, ...], int] = {}
        self._n_feasible: list[int] = []
        self._with_slot: dict[tuple[int, int], list[int]] = {}  # place of a constraint and a domain -> groups
        self._raw: dict[int, int] = {}  # group with feasible nodes -> its score before normalizing
        self._ignored_groups: set[int] = set()
        self.group_of = [self._group(row) for row in range(n_nodes)]

    def _group(self, row: int) -> int:
        key = (_IGNORED,) if self._is_ignored[row] else tuple([counts.key(row) for counts in self._counts])
        number = self._number_of.get(key)
        if number is None:
            number = self._number_of[key] = len(self._keys)
            self._keys.append(key)
            self._n_feasible.append(0)
            for place, counts in enumerate(self._counts if key[0] != _IGNORED else ()):
                if not counts.is_per_node:
                    self._with_slot.setdefault((place, key[place]), []).append(number)
        return number

    def set_feasible(self, feasible: BoolArray) -> None:
        """Score over these nodes from now on, bool of shape (n_nodes,)."""
        rows = np.flatnonzero(feasible)
        weights = weigh(self._state, NodeView(self._nodes.cluster, rows)).weights
        for counts, weight in zip(self._counts, weights, strict=True):
            counts.weight = weight
        self._n_feasible = np.bincount(np.asarray(self.group_of)[rows], minlength=len(self._keys)).tolist()
        self._raw, self._ignored_groups = {}, set()
        for group, n_feasible in enumerate(self._n_feasible):
            if n_feasible:
                self._rate(group)

    def place(self, row: int) -> None:
        """Count a replica on a node, which may change the node's group."""
        for counts in self._counts:
            counts.place(row)
        group, moved = self.group_of[row], self._group(row)
        if moved != group:
            self.group_of[row] = moved
            self._n_feasible[group] -= 1
            self._n_feasible[moved] += 1
            if not self._n_feasible[group]:
                self._raw.pop(group, None)
                self._ignored_groups.discard(group)
            self._rate(moved)
        for place, part in enumerate(self._keys[moved]):
            for other in self._with_slot.get((place, part), ()):
                if self._n_feasible[other]:
                    self._rate(other)

    def scores(self) -> list[tuple[int, int]]:
        """Return each group that has feasible nodes, and their normalized score."""
        raw = self._raw
        top = max(raw.values(), default=0)
        if top <= 0:
            rated = [(group, MAX_NODE_SCORE) for group in raw]
        else:
            ends = top + min(raw.values())
            rated = [(group, MAX_NODE_SCORE * (ends - score) // top) for group, score in raw.items()]
        return rated + [(group, 0) for group in self._ignored_groups]

    def _rate(self, group: int) -> None:
        """Compute the raw score of a group with feasible nodes."""
        key = self._keys[group]
        if key[0] == _IGNORED:
            self._ignored_groups.add(group)
            return
        total = 0.0
        for counts, part in zip(self._counts, key, strict=True):
            total += counts.score(part)
        whole = math.trunc(total)
        rest = total - whole
        self._raw[group] = whole + (rest >= 0.5) - (rest <= -0.5)
