"""Finding places for pods on a board, and filling new nodes that are all alike by arithmetic alone.

A pod whose verdicts depend on one node alone fits a new node if its resources do. Pods that are alike go to the nodes
in turn, so many of them are placed at once. On a board pods go where they were last put, else to the first node from
the cursor on.

Upstream: cluster-autoscaler simulator/scheduling/hinting_simulator.go, hints.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kplan.api.core import Pod
from kplan.autoscaling.cluster_autoscaler.board import Board, first_from
from kplan.autoscaling.cluster_autoscaler.pods import SimilarPods, identity
from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.rules.resources import PODS

_FIRST_CAPACITY = 16

Wanted = tuple[tuple[str, int], ...]
"""What a pod requests: (resource, amount) with amounts above 0, a place for the pod itself among them."""


def wanted_by(requests: Mapping[str, int]) -> Wanted:
    """Return what a pod with these requests takes from a node."""
    return (*((name, amount) for name, amount in requests.items() if amount > 0), (PODS, 1))


class NewNodes:
    """New nodes of one template, in the order in which they were added, and what is free on each.

    Parameters
    ----------
    free : resource -> what pods may request of a new node, of all resources that count
    n_before : the number of nodes before the new ones in the list on which the cursor runs
    """

    def __init__(self, free: Mapping[str, int], n_before: int) -> None:
        self._template = free
        self._n_before = n_before
        self._free: dict[str, Int64Array] = {name: np.zeros(_FIRST_CAPACITY, np.int64) for name in free}
        self._size = _FIRST_CAPACITY
        self.n_nodes = 0
        self.n_pods: list[int] = []  #: of each node, the pods that the packing put there

    def add_node(self) -> None:
        """Add an empty node."""
        if self.n_nodes == self._size:
            self._free = {name: np.concatenate((free, np.zeros_like(free))) for name, free in self._free.items()}
            self._size *= 2
        for name, amount in self._template.items():
            self._free[name][self.n_nodes] = amount
        self.n_nodes += 1
        self.n_pods.append(0)

    def capacity(self, wanted: Wanted, node: int) -> int:
        """Return how many pods of a kind fit a node."""
        return max(min(int(self._free[name][node]) // amount for name, amount in wanted), 0)

    def put(self, node: int, wanted: Wanted, n: int) -> None:
        """Put pods of a kind on a node."""
        for name, amount in wanted:
            self._free[name][node] -= amount * n
        self.n_pods[node] += n

    def spread(self, wanted: Wanted, n: int, last: int) -> tuple[list[int], int]:
        """Put pods of a kind on the nodes in turn, each on the next one that it fits.

        Parameters
        ----------
        n : how many pods
        last : where the last search ended, an index into the whole list

        Returns
        -------
        nodes : the nodes of the pods, in order; fewer than `n` when they fit no node any more
        last : where the last search ended
        """
        if not self.n_nodes:
            return [], last
        n_listed = self._n_before + self.n_nodes
        start = max((last + 1) % n_listed - self._n_before, 0)
        if n == 1:
            node = first_from(self._fitting(wanted), start)
            if node is None:
                return [], last
            self.put(node, wanted, 1)
            return [node], self._n_before + node
        nodes = self._in_turn(wanted, n, start)
        if not len(nodes):
            return [], last
        counts = np.bincount(nodes, minlength=self.n_nodes)
        for name, amount in wanted:
            self._free[name][: self.n_nodes] -= counts * amount
        for node in np.flatnonzero(counts).tolist():
            self.n_pods[node] += int(counts[node])
        return nodes.tolist(), self._n_before + int(nodes[-1])

    def _fitting(self, wanted: Wanted) -> BoolArray:
        """Return which nodes a pod of a kind fits, bool of shape (n_nodes,)."""
        (name, amount), *others = wanted
        fitting: BoolArray = self._free[name][: self.n_nodes] >= amount
        for name, amount in others:
            fitting &= self._free[name][: self.n_nodes] >= amount
        return fitting

    def _in_turn(self, wanted: Wanted, n: int, start: int) -> RowArray:
        """Return the nodes that pods of a kind go to, going round from a node on."""
        capacities = np.full(self.n_nodes, n, np.int64)
        for name, amount in wanted:
            np.minimum(capacities, self._free[name][: self.n_nodes] // amount, out=capacities)
        turn = np.roll(np.arange(self.n_nodes), -start)
        rounds = capacities[turn]
        # In round k all nodes that hold more than k pods get one.
        chosen: list[RowArray] = []
        missing = n
        for level in range(int(rounds.max())):
            nodes = turn[rounds > level][:missing]
            chosen.append(nodes)
            missing -= len(nodes)
            if not missing:
                break
        return np.concatenate(chosen) if chosen else np.zeros(0, np.intp)


class Placer:
    """Places pods on a board, and remembers the nodes by name for the next two loops."""

    def __init__(self) -> None:
        self._hints: dict[str, str] = {}
        self._old_hints: dict[str, str] = {}

    def place(
        self, board: Board, pods: Iterable[Pod], acceptable: BoolArray | None = None, *, all_or_none: bool = False
    ) -> list[tuple[Pod, int]]:
        """Put pods on nodes where they fit, and return them with the rows of their nodes.

        Parameters
        ----------
        acceptable : bool array of shape (n_nodes,); nodes that may be taken; None for all
        all_or_none : stop at the first pod that fits nowhere
        """
        similar = SimilarPods()
        placed: list[tuple[Pod, int]] = []
        for pod in pods:
            row = self._by_hint(board, pod, acceptable)
            if row is None and not similar.fits_nowhere(pod):
                row = board.find(board.pod_row(pod), acceptable)
                if row is None:
                    similar.note(pod)
                else:
                    self._hints[identity(pod)] = board.name(row)
            if row is not None:
                board.bind(board.pod_row(pod), row)
                placed.append((pod, row))
            elif all_or_none:
                break
        return placed

    def _by_hint(self, board: Board, pod: Pod, acceptable: BoolArray | None) -> int | None:
        """Return the node where the pod was last put, if it fits there now."""
        key = identity(pod)
        name = self._hints.get(key) or self._old_hints.get(key)
        row = None if name is None else board.cluster.nodes.row_of.get(name)
        if name is None or row is None or not board.is_present(row):
            return None
        if acceptable is not None and not acceptable[row]:
            return None
        if board.rejections(board.pod_row(pod), [row])[0] is not None:
            return None
        self._hints[key] = name
        return row

    def drop_old(self) -> None:
        """Forget what was remembered before the last call."""
        self._old_hints = self._hints
        self._hints = {}


def settle(board: Board, pods: Sequence[Pod], rows: Sequence[int]) -> bool:
    """Put pods on new nodes, and return whether all fit."""
    acceptable = board.only(rows)
    for pod in pods:
        row = board.find(board.pod_row(pod), acceptable)
        if row is None:
            return False
        board.bind(board.pod_row(pod), row)
    return True
