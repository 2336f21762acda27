"""Random draws of many runs at once: runs with the same draws so far form one branch, which is carried out once.

A run is deterministic except for its draws, so its draws identify a branch. A draw depends only on the seed, the number
of the run and the number of earlier draws: a run ends the same whichever worker carries it out, alone or in a branch.
At a new draw, a branch continues with the first option that any of its runs draws. The runs with other options form new
branches, which are carried out later, from the start and with the same draws up to this one. There are never more
branches than runs.
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
    """A sequence of elements, as `random.Random.choice` takes it."""

    def __len__(self) -> int: ...
    def __getitem__(self, position: int, /) -> T_co: ...


class Branch(msgspec.Struct, frozen=True):
    """Runs whose first draws are the same."""

    runs: Runs
    options: tuple[int, ...] = ()  #: these draws, in order

    def __len__(self) -> int:
        return len(self.runs)


def all_runs(n: int) -> Branch:
    """Return the branch of n runs before the first draw."""
    return Branch(np.arange(n, dtype=np.uint64))


class _Fork:
    """A draw of a branch: the options that its runs draw, and the runs of each option."""

    def __init__(self, runs: Runs, drawn: Runs) -> None:
        order = np.argsort(drawn, kind="stable")
        options, first = np.unique(drawn[order], return_index=True)
        groups = np.split(runs[order], first[1:])
        self.left: list[tuple[int, Runs]] = [*zip(options.tolist(), groups, strict=True)][::-1]
        self.option, self.runs = self.left.pop()

    def advance(self) -> bool:
        """Go on to the next option; return False if there is none."""
        if not self.left:
            return False
        self.option, self.runs = self.left.pop()
        return True


class BranchRandom(random.Random):
    """A random generator for a scheduler that chooses evenly among equal options, for many runs at once.

    Parameters
    ----------
    branch : the runs
    seed : the same seed gives the same draws
    is_single : draw as Python's own generator with this seed, for a single run

    Attributes
    ----------
    runs : the runs of the present branch
    """

    def __init__(self, branch: Branch, seed: int, *, is_single: bool = False) -> None:
        super().__init__(seed)
        self._start = branch
        self._is_single = is_single
        # Mixing makes the draws of consecutive seeds, and of consecutive runs of a seed, independent.
        self._seed = np.uint64(random.Random(f"kplan {seed}").getrandbits(64))  # noqa: S311 - no secret
        self._forks: list[_Fork] = []
        self.rewind()

    def rewind(self) -> None:
        """Go back to the start of the branch."""
        self.runs = self._start.runs
        self._depth = 0

    def advance(self) -> bool:
        """Go on to the next branch; return False if all have been carried out."""
        while self._forks:
            if self._forks[-1].advance():
                self.rewind()
                return True
            self._forks.pop()
        return False

    def others(self) -> Iterator[Branch]:
        """Yield the branches that split off from the present one and have not been carried out."""
        options = self._start.options
        for fork in self._forks:
            yield from (Branch(runs, (*options, option)) for option, runs in fork.left)
            options = (*options, fork.option)

    def draw(self, n: int) -> int:
        """Return one of the numbers below n; each run draws evenly."""
        if n == 1:
            return 0  # a single option needs no draw, as in Python's generator
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
        """Return a random element."""
        return seq[self.draw(len(seq))]

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """Return a random number of a range."""
        numbers = range(start) if stop is None else range(start, stop, step)
        return numbers[self.draw(len(numbers))]


def _drawn(seed: np.uint64, runs: Runs, depth: int) -> Runs:
    """Return a 64-bit number for each run.

    Notes
    -----
    SplitMix64 (Steele, Lea, Flood 2014), applied to the number of the run, and to the result plus that of the draw.
    """
    return _mixed(_mixed(seed + runs * np.uint64(_STEP)) + np.uint64(depth * _STEP % _BITS))


def _mixed(numbers: Runs) -> Runs:
    for shift, factor in _MIX:
        numbers = (numbers ^ (numbers >> shift)) * factor
    return numbers ^ (numbers >> _LAST)
