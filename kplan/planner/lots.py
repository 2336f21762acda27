"""Draws of many runs at once: runs that have drawn alike so far are one branch, and are carried out once.

A run is deterministic but for its draws, so a branch is told by what it drew. What a run draws depends on nothing but
the seed, the number of the run and how often it has drawn before: however runs are shared out, and whoever carries them
out, each ends as it would alone. Where a branch comes to a new draw, it goes on with the first option that any of its
runs drew, and the others are taken up later, from the start, with the same draws up to there. The number of branches is
never larger than that of the runs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

T_co = TypeVar("T_co", covariant=True)

Runs = NDArray[np.uint64]
"""Numbers of runs, in ascending order."""

_STEP = 0x9E3779B97F4A7C15
_BITS = 2**64
_MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_LAST = np.uint64(31)


class _Indexed(Protocol[T_co]):
    """What elements can be taken from by their position."""

    def __len__(self) -> int: ...
    def __getitem__(self, position: int, /) -> T_co: ...


class Branch(msgspec.Struct, frozen=True):
    """Runs that draw alike for a while; afterwards each goes its own way."""

    runs: Runs
    options: tuple[int, ...] = ()  #: what they draw, in this order

    def __len__(self) -> int:
        return len(self.runs)


def all_runs(n: int) -> Branch:
    """Return the branch of so many runs before anything is drawn."""
    return Branch(np.arange(n, dtype=np.uint64))


class _Fork:
    """A draw that runs have come to together: the options that they drew, and which of them drew each."""

    def __init__(self, runs: Runs, drawn: Runs) -> None:
        order = np.argsort(drawn, kind="stable")
        options, first = np.unique(drawn[order], return_index=True)
        groups = np.split(runs[order], first[1:])
        self.left: list[tuple[int, Runs]] = [*zip(options.tolist(), groups, strict=True)][::-1]
        self.option, self.runs = self.left.pop()

    def advance(self) -> bool:
        """Go on to the next option; False when there is none."""
        if not self.left:
            return False
        self.option, self.runs = self.left.pop()
        return True


class Lots(random.Random):
    """What a scheduler that leaves equal choices to chance asks, for many runs at once.

    Parameters
    ----------
    branch : the runs; a single one draws as Python's generator with that seed does
    seed : equal seeds draw alike

    Attributes
    ----------
    runs : those that the branch stands for that is under way
    """

    def __init__(self, branch: Branch, seed: int, *, is_single: bool = False) -> None:
        super().__init__(seed)
        self._start = branch
        self._is_single = is_single
        # Neighbouring seeds, and neighbouring runs of one seed, have nothing in common once they are mixed.
        self._seed = np.uint64(random.Random(f"kplan {seed}").getrandbits(64))  # noqa: S311 - no secret
        self._forks: list[_Fork] = []
        self.rewind()

    def rewind(self) -> None:
        """Start a branch."""
        self.runs = self._start.runs
        self._depth = 0

    def advance(self) -> bool:
        """Turn to the next branch; False when all have been carried out."""
        while self._forks:
            if self._forks[-1].advance():
                self.rewind()
                return True
            self._forks.pop()
        return False

    def others(self) -> Iterator[Branch]:
        """Yield the branches that have left the one that was carried out, none of them carried out itself."""
        options = self._start.options
        for fork in self._forks:
            yield from (Branch(runs, (*options, option)) for option, runs in fork.left)
            options = (*options, fork.option)

    def draw(self, n: int) -> int:
        """Return one of the numbers below n; each run draws evenly."""
        if n == 1:
            return 0  # what is certain costs no draw, as with a plain seed
        if self._is_single:
            return super().randrange(n)
        depth, known = self._depth, len(self._start.options)
        self._depth += 1
        if depth < known:
            return self._start.options[depth]
        if depth - known == len(self._forks):
            self._forks.append(_Fork(self.runs, _drawn(self._seed, self.runs, depth) % np.uint64(n)))
        fork = self._forks[depth - known]
        self.runs = fork.runs
        return fork.option

    def choice(self, seq: _Indexed[T_co]) -> T_co:
        """Return one of the elements."""
        return seq[self.draw(len(seq))]

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """Return a number of a range."""
        numbers = range(start) if stop is None else range(start, stop, step)
        return numbers[self.draw(len(numbers))]


def _drawn(seed: np.uint64, runs: Runs, depth: int) -> Runs:
    """Return a 64-bit number for each run.

    Notes
    -----
    SplitMix64 (Steele, Lea, Flood 2014), over the runs and, of what comes of that, over the draws.
    """
    return _mixed(_mixed(seed + runs * np.uint64(_STEP)) + np.uint64(depth * _STEP % _BITS))


def _mixed(numbers: Runs) -> Runs:
    for shift, factor in _MIX:
        numbers = (numbers ^ (numbers >> shift)) * factor
    return numbers ^ (numbers >> _LAST)
