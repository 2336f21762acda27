"""Answer a question many times, drawing each time what kube-scheduler leaves to chance."""

from __future__ import annotations

import heapq
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np

from kplan.cluster.base import Base
from kplan.cluster.runs import QuestionPods
from kplan.course.asking import AskAll, Notify
from kplan.course.odds.tally import DrawnPod, RunEnd, Tally
from kplan.engine.arrays import NDArray
from kplan.errors import UsageError
from kplan.reading.arguments import MOST_RUNS

if TYPE_CHECKING:
    from _typeshed import SupportsLenAndGetItem


T = TypeVar("T")

Runs = NDArray[np.uint64]  #: numbers of runs, in ascending order

_STEP = 0x9E3779B97F4A7C15
_BITS = 2**64
_MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_LAST = np.uint64(31)


class Branch(msgspec.Struct, frozen=True):
    """Runs whose first draws are the same."""

    runs: Runs
    options: tuple[int, ...] = ()  #: these draws, in order

    def __len__(self) -> int:
        return len(self.runs)


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

    Runs with the same draws so far form one branch, which is carried out once. A run is deterministic except for its
    draws, so its draws identify a branch. A draw depends only on the seed, the number of the run and the number of
    earlier draws: a run ends the same whichever worker carries it out, alone or in a branch. At a new draw, a branch
    continues with the first option that any of its runs draws. The runs with other options form new branches, which are
    carried out later, from the start and with the same draws up to this one. There are never more branches than runs.
    The same seed gives the same draws; a single run draws as Python's own generator with this seed.
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
        self.runs = self._start.runs  #: of the present branch
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
            # A 64-bit number for each run: SplitMix64 (Steele, Lea, Flood 2014) of its number, and the draw's.
            numbers = _mixed(_mixed(self._seed + self.runs * np.uint64(_STEP)) + np.uint64(depth * _STEP % _BITS))
            self._forks.append(_Fork(self.runs, numbers % np.uint64(n)))
        fork = self._forks[depth - known]
        self.runs = fork.runs
        return fork.option

    def choice(self, seq: SupportsLenAndGetItem[T]) -> T:
        return seq[self.draw(len(seq))]

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        numbers = range(start) if stop is None else range(start, stop, step)
        return numbers[self.draw(len(numbers))]


def _mixed(numbers: Runs) -> Runs:
    for shift, factor in _MIX:
        numbers = (numbers ^ (numbers >> shift)) * factor
    return numbers ^ (numbers >> _LAST)


_ALONE = 1.0
"""Seconds for which branches are carried out in this process before the remaining ones are shared out to workers."""

_ALONE_AT_MOST = 3.0
"""Seconds after which they are shared out even if some branches stand for many more runs than others."""

_EVEN = 16  #: branches are even when none of them stands for more than one part in this many of the remaining runs

_PARTS = 64


class Prepared(msgspec.Struct, frozen=True):
    """A question about one cluster, ready to be drawn many times."""

    pods: Sequence[DrawnPod]  #: the pods of the question, in order
    carry_out: Callable[[BranchRandom], RunEnd]  #: carries out one branch of runs
    workloads: tuple[str, ...] = ()  #: the workloads of the question, KIND/NAMESPACE/NAME
    question: QuestionPods | None = None  #: the same pods as rows; None for a change


Drawn = Callable[..., Prepared]
"""A question that is drawn many times: it does the work that is the same for all runs, in a cluster. It can be sent to
another process, such as a partial of `of_pods.of_pods`. `is_single`: there is only one run, the plain answer with its
seed."""


class Branches(msgspec.Struct, frozen=True):
    """Some branches of the runs, as a question of their own; can be sent to another process."""

    question: Drawn
    seed: int
    branches: tuple[Branch, ...]

    def __call__(self, base: Base) -> Tally:
        """Carry the branches out, and count their outcomes."""
        prepared = self.question(base, is_single=False)
        tally = Tally()
        for branch in self.branches:
            _carry_out(prepared, BranchRandom(branch, self.seed), tally, _in_silence)
        return tally


def draw(
    base: Base,
    question: Drawn,
    *,
    runs: int,
    seed: int,
    ask_all: AskAll | None = None,
    progress: Notify | None = None,
) -> tuple[Tally, QuestionPods | None]:
    """Answer a question many times; return the counted outcomes, and the pods of the question.

    Raises UsageError when the number of runs is less than 1 or too large.

    `ask_all`: runs what takes long in parallel; None carries out all runs here. The answer is the same. `progress`:
    called with the number of runs that are done, and the number of all.
    """
    if not 1 <= runs <= MOST_RUNS:
        raise UsageError(f"{runs} runs", hint=f"ask for 1 to {MOST_RUNS:,} runs")
    notify = progress or _in_silence
    prepared = question(base, is_single=runs == 1)
    tally = Tally.of(prepared.pods)
    start = Branch(np.arange(runs, dtype=np.uint64))  # before the first draw
    if ask_all is None or runs == 1:
        generator = BranchRandom(start, seed, is_single=runs == 1)
        _carry_out(prepared, generator, tally, lambda done: notify(done, runs))
    else:
        remaining = _scatter(prepared, start, seed, tally, lambda done: notify(done, runs))
        n_remaining = sum(map(len, remaining))
        questions = [Branches(question, seed, part) for part in _parts(remaining)]
        if questions:

            def notify_part(n: int, of: int) -> None:
                notify(runs - n_remaining + n_remaining * n // of, runs)

            for other in ask_all(base, questions, progress=notify_part):
                tally.merge(other)
    tally.complete(runs, prepared.pods, prepared.workloads)
    return tally, prepared.question


def _carry_out(prepared: Prepared, generator: BranchRandom, tally: Tally, notify: Callable[[int], None]) -> None:
    done = 0
    while True:
        tally.add(prepared.carry_out(generator), len(generator.runs), int(generator.runs[0]))
        done += len(generator.runs)
        notify(done)
        if not generator.advance():
            return


def _scatter(prepared: Prepared, start: Branch, seed: int, tally: Tally, notify: Callable[[int], None]) -> list[Branch]:
    """Carry out branches for a while, those that stand for the most runs first, and return the remaining ones."""
    begin = time.monotonic()
    remaining = [(-len(start), start.options, start)]
    n_remaining = len(start)
    while remaining:
        seconds = time.monotonic() - begin
        is_even = -remaining[0][0] * _EVEN <= n_remaining
        if seconds > _ALONE_AT_MOST or (seconds > _ALONE and is_even):
            break
        *_, branch = heapq.heappop(remaining)
        generator = BranchRandom(branch, seed)
        tally.add(prepared.carry_out(generator), len(generator.runs), int(generator.runs[0]))
        n_remaining -= len(generator.runs)
        notify(len(start) - n_remaining)
        for other in generator.others():
            heapq.heappush(remaining, (-len(other), other.options, other))
    return [branch for *_, branch in sorted(remaining, key=lambda entry: entry[:2])]


def _parts(branches: Sequence[Branch]) -> list[tuple[Branch, ...]]:
    """Divide branches, the largest first, into parts that stand for about the same number of runs."""
    parts: list[tuple[int, int, list[Branch]]] = [(0, index, []) for index in range(min(len(branches), _PARTS))]
    for branch in branches:
        n_runs, index, part = parts[0]
        part.append(branch)
        heapq.heapreplace(parts, (n_runs + len(branch), index, part))
    return [tuple(part) for _, _, part in sorted(parts, key=lambda entry: entry[1])]


def _in_silence(*_: int) -> None:
    """Ignore progress."""
