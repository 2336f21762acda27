"""Which nodes kube-scheduler looks at, and which of the equal best ones it chooses."""

from __future__ import annotations

from functools import lru_cache

import msgspec
import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array, RowArray

MIN_FEASIBLE_NODES = 100
MIN_FEASIBLE_PERCENTAGE = 5


def num_feasible_nodes_to_find(percentage: int, n_nodes: int) -> int:
    """Return after how many feasible nodes the search stops; percentage 0 means one that falls with cluster size."""
    if n_nodes < MIN_FEASIBLE_NODES:
        return n_nodes
    if percentage == 0:
        percentage = max(50 - n_nodes // 125, MIN_FEASIBLE_PERCENTAGE)
    return max(n_nodes * percentage // 100, MIN_FEASIBLE_NODES)


class Sampling(msgspec.Struct):
    """The start of the next search, carried over from pod to pod."""

    start_index: int = 0  #: position in the node tree's order at which the next search starts

    def look(self, order: RowArray, passes: BoolArray, limit: int) -> BoolArray:
        """Search nodes in turn until more than `limit` feasible ones are found.

        Parameters
        ----------
        order : node rows in the order of the node tree; the search starts at the start index and wraps around
        passes : bool array of shape (n_nodes,)

        Returns
        -------
        bool array of shape (n_nodes,): nodes that the search evaluates. The feasible node at which it stops is not
        among them.
        """
        in_turn = np.roll(order, -(self.start_index % len(order))) if len(order) else order
        evaluated = np.zeros(len(passes), np.bool_)
        n_feasible = np.cumsum(passes[in_turn])
        stop = int(np.searchsorted(n_feasible, limit + 1))
        evaluated[in_turn[:stop]] = True
        return evaluated

    def advance(self, n_processed: int, n_nodes: int) -> None:
        """Move the start index past the nodes that were processed."""
        self.start_index = (self.start_index + n_processed) % n_nodes


def first_up(ties: RowArray, feasible: BoolArray, order: RowArray, places: RowArray, start: int = 0) -> int:
    """Return the row of the node that the heap yields first.

    Parameters
    ----------
    ties : rows of the equal best nodes
    feasible : bool array of shape (n_nodes,): the nodes that are on the heap
    order : rows in the order in which they are filtered; every feasible node is among them
    places : intp array of shape (n_nodes,), the index in `order` of each of its nodes
    start : index in `order` at which the search began; it wraps around at the end
    """
    start %= len(order)
    positions = places[ties]
    if start:
        positions = (positions - start) % len(order)
    if np.count_nonzero(feasible) < len(order):
        left_out = np.logical_not(feasible).take(np.roll(order, -start) if start else order).nonzero()[0]
        positions = positions - left_out.searchsorted(positions)
    return int(ties[_ranks(len(order).bit_length()).take(positions).argmin()])


def heap_places(feasible: BoolArray, order: RowArray, start: int = 0) -> RowArray:
    """Return which of equal nodes the heap yields first: the one with the smallest number.

    Parameters
    ----------
    feasible, order, start : as for `first_up`; all nodes are in `order`

    Returns
    -------
    intp array of shape (n_nodes,); undefined for nodes that are not feasible
    """
    in_turn = np.roll(order, -(start % len(order)))
    on_heap = in_turn[feasible[in_turn]]
    places = np.zeros(len(feasible), np.intp)
    places[on_heap] = _ranks(len(on_heap).bit_length())[: len(on_heap)]
    return places


@lru_cache(maxsize=64)
def _ranks(n_bits: int) -> Int64Array:
    """Return the rank in preorder of each position below two to the power of `n_bits`, whatever the heap's size.

    Notes
    -----
    A heap is a tree: the children of position i are 2i + 1 and 2i + 2. When the heap is built, bottom up, an element
    is swapped with a larger child only, and with the right child only if it is larger than the left. So the root is the
    largest element that comes first when the tree is walked in preorder. The digits of a position plus one, in binary,
    after the leading one, are the way down to it (0 left, 1 right); sorted as words, with a prefix before its longer
    words, they are in preorder.
    """
    numbers = np.arange(1, (1 << n_bits) + 1)
    digits = np.frexp(numbers.astype(np.float64))[1].astype(np.int64)
    ranks = np.empty(len(numbers), np.int64)
    ranks[np.lexsort((digits, numbers << (digits.max() - digits)))] = np.arange(len(numbers))
    ranks.setflags(write=False)
    return ranks
