"""Finding places for pods: where they were last put, else the first node from the cursor on.

Upstream: cluster-autoscaler simulator/scheduling/hinting_simulator.go, hints.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kplan.api.core import Pod
from kplan.autoscaling.cluster_autoscaler.board import Board
from kplan.autoscaling.cluster_autoscaler.pods import SimilarPods, identity
from kplan.engine.arrays import BoolArray


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
