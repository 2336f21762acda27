"""Draws of many runs at once: runs that have drawn alike so far are one branch, and are carried out once.

A run is deterministic but for its draws, so a branch is told by what it drew. Where a branch comes to a new draw, its
runs are shared out among the options, each run on its own; the branch goes on with the first option that any run drew,
and the others are taken up later, from the start, with the same draws up to there. The number of branches is never
larger than that of the runs.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)


class _Indexed(Protocol[T_co]):
    """What elements can be taken from by their position."""

    def __len__(self) -> int: ...
    def __getitem__(self, position: int, /) -> T_co: ...


class _Fork:
    """A draw that a branch has come to: the options that its runs drew, and how many runs drew each."""

    def __init__(self, shares: Counter[int]) -> None:
        self._left = sorted(shares.items(), reverse=True)
        self.option, self.runs = self._left.pop()

    def advance(self) -> bool:
        """Go on to the next option; False when there is none."""
        if not self._left:
            return False
        self.option, self.runs = self._left.pop()
        return True


class Lots(random.Random):
    """What a scheduler that leaves equal choices to chance asks, for many runs at once.

    Parameters
    ----------
    runs : how many
    seed : equal seeds draw alike

    Attributes
    ----------
    weight : how many runs the branch stands for that is under way
    """

    def __init__(self, runs: int, seed: int) -> None:
        super().__init__(seed)
        self.runs = runs
        self._forks: list[_Fork] = []
        self.rewind()

    def rewind(self) -> None:
        """Start a branch."""
        self.weight = self.runs
        self._depth = 0

    def advance(self) -> bool:
        """Turn to the next branch; False when all have been carried out."""
        while self._forks:
            if self._forks[-1].advance():
                self.rewind()
                return True
            self._forks.pop()
        return False

    def draw(self, n: int) -> int:
        """Return one of the numbers below n; each run draws evenly."""
        if n == 1:
            return 0  # what is certain costs no draw, as with a plain seed
        if self._depth == len(self._forks):
            self._forks.append(_Fork(Counter(super(Lots, self).randrange(n) for _ in range(self.weight))))
        fork = self._forks[self._depth]
        self._depth += 1
        self.weight = fork.runs
        return fork.option

    def choice(self, seq: _Indexed[T_co]) -> T_co:
        """Return one of the elements."""
        return seq[self.draw(len(seq))]

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """Return a number of a range."""
        numbers = range(start) if stop is None else range(start, stop, step)
        return numbers[self.draw(len(numbers))]
