"""States of a simulation that recur: pods that preempt each other again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kplan.simulation.controllers.observed import ObservedPod
from kplan.simulation.owners import Owner

MAX_RETURNS = 2
"""How often a state may recur before it counts as a circle: the scheduler's queue may be in a different order."""


class Circles:
    """A hash of where all pods are, and how often each state has occurred."""

    def __init__(self) -> None:
        self._visits: Counter[int] = Counter()
        self._alike: dict[tuple[object, ...], int] = {}
        self._mark = 0

    def fork(self) -> Circles:
        """Return circles with the same pods in the same places, and no states counted yet."""
        forked = Circles()
        forked._alike, forked._mark = self._alike.copy(), self._mark
        return forked

    def note(self, pod: ObservedPod, owner: Owner | None, sign: int) -> None:
        """Add a pod to the hash, or remove it (sign -1); equal states have equal hashes, whatever their pods' names."""
        like = (pod.key if owner is None else owner.ref.key, pod.revision, pod.index, pod.node)
        n = self._alike.get(like, 0)
        self._alike[like] = n + sign
        self._mark ^= hash((like, n)) ^ hash((like, n + sign))

    def is_closed(self, promised: Iterable[tuple[bytes, int]]) -> bool:
        """Count the present state; tell whether it has occurred too often.

        Parameters
        ----------
        promised : shape of each nominated pod, and the row of its nominated node
        """
        state = self._mark ^ hash(tuple(sorted(promised)))
        self._visits[state] += 1
        return self._visits[state] > MAX_RETURNS

    def forget(self) -> None:
        """Forget all states: something has happened that cannot be undone."""
        self._visits.clear()
