"""Which of the equal best nodes is taken.

kube-scheduler puts the scores of the feasible nodes on a heap, in the order in which the nodes came through the
filters, and takes the one that comes up first. Among equal scores a random number should decide, but only a node that
an extender scored gets one; without it the heap's own order decides. Nodes come through the filters in the order of
the node tree, save that parallel workers overtake each other now and then.

Upstream: schedule_one.go prioritizeNodes, nodeScoreHeap, selectHost of older minors; Go's container/heap.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array, RowArray


def first_up(ties: RowArray, feasible: BoolArray, order: RowArray, places: RowArray, start: int = 0) -> int:
    """Return the row of the node that the heap brings up first.

    Parameters
    ----------
    ties : rows of the equal best nodes
    feasible : bool array of shape (n_nodes,): the nodes that are on the heap
    order : rows in the order in which they are filtered; every feasible one is among them
    places : intp array of shape (n_nodes,), the index in `order` of each node that is there
    start : index in `order` at which the search began, to go on from its end to its beginning
    """
    start %= len(order)
    positions = places[ties]
    if start:
        positions = (positions - start) % len(order)
    if np.count_nonzero(feasible) < len(order):
        turned = feasible[np.roll(order, -start) if start else order]
        positions = np.cumsum(turned)[positions] - 1
    return int(ties[first_on_heap(positions)])


def first_on_heap(positions: RowArray) -> int:
    """Return which of the largest elements of a list stands on top once the list is made a heap.

    Parameters
    ----------
    positions : where in the list the largest elements are

    Returns
    -------
    An index into `positions`.

    Notes
    -----
    A heap is a tree: the children of position i are 2i + 1 and 2i + 2. Making one, bottom up, an element gives way to
    a larger child only, and the right child is preferred if it is larger than the left one. So the largest one comes
    up that the tree walked in preorder meets first: of positions plus one, in binary, the digits from the first one on
    say the way down, and words that are compared like that, a word before those that it begins, are in preorder.
    """
    highest = int(positions.max())
    return int(_ranks(highest.bit_length())[positions].argmin())


@lru_cache(maxsize=64)
def _ranks(n_bits: int) -> Int64Array:
    """Return where each position below two to the power of `n_bits` comes in preorder, whatever the heap's size."""
    numbers = np.arange(1, (1 << n_bits) + 1)
    digits = np.frexp(numbers.astype(np.float64))[1].astype(np.int64)
    ranks = np.empty(len(numbers), np.int64)
    ranks[np.lexsort((digits, numbers << (digits.max() - digits)))] = np.arange(len(numbers))
    ranks.setflags(write=False)
    return ranks
