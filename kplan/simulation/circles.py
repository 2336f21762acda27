"""Noticing that things go round in circles: the same pods on the same nodes, with the same ones waiting for room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kplan.simulation.controllers.observed import ObservedPod
from kplan.simulation.owners import Owner

MAX_RETURNS = 2
"""So often may a state come back before it counts as a circle: the scheduler's queue may stand differently."""


class Circles:
    """A mark of where all pods are, and how often each state was seen."""

    def __init__(self) -> None:
        self._seen: Counter[int] = Counter()
        self._alike: Counter[tuple[object, ...]] = Counter()
        self._mark = 0

    def fork(self) -> Circles:
        """Return one with pods where these are, that has seen nothing yet."""
        forked = Circles()
        forked._alike, forked._mark = self._alike.copy(), self._mark
        return forked

    def note(self, pod: ObservedPod, owner: Owner | None, sign: int) -> None:
        """Take in a pod, or leave it out: the mark is equal for equal states, whatever the pods are called."""
        like = (pod.key if owner is None else owner.ref.key, pod.revision, pod.index, pod.node)
        n = self._alike[like]
        self._alike[like] = n + sign
        self._mark ^= hash((like, n)) ^ hash((like, n + sign))

    def is_closed(self, promised: Iterable[tuple[bytes, int]]) -> bool:
        """Tell whether things have stood as they stand now too often.

        Parameters
        ----------
        promised : shape of each nominated pod, and the node that it waits for
        """
        state = self._mark ^ hash(tuple(sorted(promised)))
        self._seen[state] += 1
        return self._seen[state] > MAX_RETURNS
