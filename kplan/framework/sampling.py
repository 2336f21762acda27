"""Node sampling: how many feasible nodes kube-scheduler looks for, and which nodes it therefore never evaluates.

Upstream: schedule_one.go numFeasibleNodesToFind, findNodesThatPassFilters, with one worker.
"""

from __future__ import annotations

import msgspec
import numpy as np

from kplan.engine.arrays import BoolArray, RowArray

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
