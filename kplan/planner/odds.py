"""How often each outcome comes, when everything that kube-scheduler leaves to chance is drawn many times."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kplan.api.wellknown import ZONE
from kplan.errors import UsageError
from kplan.planner.base import Base
from kplan.planner.lots import Branch, Lots, all_runs
from kplan.planner.tally import DrawnPod, Ending, Tally

MAX_RUNS: Final = 1_000_000
"""More than this tells nothing more, and takes days."""

_ALONE = 1.0
"""Seconds for which branches are carried out here, before others are asked to."""

_ALONE_AT_MOST = 3.0
"""Seconds after which they are asked even where some have much more to do than others."""

_EVEN = 16
"""No open branch stands for more than this part of the runs that are left, when others are asked."""

_PARTS = 64


@dataclass(frozen=True, slots=True)
class Prepared:
    """A question about one cluster, ready to be asked many times."""

    pods: Sequence[DrawnPod]  #: those that it is about, in order
    carry_out: Callable[[Lots], Ending]  #: carries out one branch of runs
    workloads: tuple[str, ...] = ()  #: KIND/NAMESPACE/NAME of those that it is about


class Drawn(Protocol):
    """A question that is asked many times; can be sent to another process."""

    def prepare(self, base: Base, *, is_single: bool) -> Prepared:
        """Do what is the same for all runs.

        Parameters
        ----------
        is_single : there is one run only, the plain answer with its seed
        """


Progress = Callable[[int, int], None]
"""Told how many runs are carried out, or questions answered, and how many there are."""


class AskAll(Protocol):
    """Has questions answered, in order, by whomever."""

    def __call__(self, questions: Sequence[Branches], *, progress: Progress) -> Iterable[Tally]:
        """Return the answers."""


@dataclass(frozen=True, slots=True)
class Branches:
    """Asks a planner what comes of some branches; can be sent to another process."""

    question: Drawn
    seed: int
    branches: tuple[Branch, ...]

    def __call__(self, base: Base) -> Tally:
        """Carry them out."""
        prepared = self.question.prepare(base, is_single=False)
        tally = Tally()
        for branch in self.branches:
            _carry_out(prepared, Lots(branch, self.seed), tally, _in_silence)
        return tally


def draw(
    base: Base,
    question: Drawn,
    *,
    runs: int,
    seed: int,
    ask_all: AskAll | None = None,
    progress: Progress | None = None,
) -> Tally:
    """Ask a question many times.

    Parameters
    ----------
    ask_all : has what takes long carried out; None carries out everything here. It makes no difference to the answer
    progress : told how many runs are carried out, and how many there are

    Raises
    ------
    UsageError
        For a number of runs that is none, or too large.
    """
    if not 1 <= runs <= MAX_RUNS:
        raise UsageError(f"{runs} runs", hint=f"ask for 1 to {MAX_RUNS:,} runs")
    tell = progress or _in_silence
    prepared = question.prepare(base, is_single=runs == 1)
    tally = Tally.of(prepared.pods)
    start = all_runs(runs)
    if ask_all is None or runs == 1:
        lots = Lots(start, seed, is_single=runs == 1)
        _carry_out(prepared, lots, tally, lambda done: tell(done, runs))
    else:
        left = _scatter(prepared, start, seed, tally, lambda done: tell(done, runs))
        n_left = sum(map(len, left))
        questions = [Branches(question, seed, part) for part in _parts(left)]
        if questions:

            def tell_part(n: int, of: int) -> None:
                tell(runs - n_left + n_left * n // of, runs)

            for found in ask_all(questions, progress=tell_part):
                tally.merge(found)
    tally.complete(runs, prepared.pods, prepared.workloads)
    return tally


def _carry_out(prepared: Prepared, lots: Lots, tally: Tally, tell: Callable[[int], None]) -> None:
    """Carry out all branches, one after the other."""
    done = 0
    while True:
        tally.add(prepared.carry_out(lots), len(lots.runs), int(lots.runs[0]))
        done += len(lots.runs)
        tell(done)
        if not lots.advance():
            return


def _scatter(prepared: Prepared, start: Branch, seed: int, tally: Tally, tell: Callable[[int], None]) -> list[Branch]:
    """Carry out branches for a while, those of the most runs first, and return those that are left."""
    begin = time.monotonic()
    left = [(-len(start), start.options, start)]
    n_left = len(start)
    while left:
        seconds = time.monotonic() - begin
        is_even = -left[0][0] * _EVEN <= n_left
        if seconds > _ALONE_AT_MOST or (seconds > _ALONE and is_even):
            break
        *_, branch = heapq.heappop(left)
        lots = Lots(branch, seed)
        tally.add(prepared.carry_out(lots), len(lots.runs), int(lots.runs[0]))
        n_left -= len(lots.runs)
        tell(len(start) - n_left)
        for other in lots.others():
            heapq.heappush(left, (-len(other), other.options, other))
    return [branch for *_, branch in sorted(left, key=lambda each: each[:2])]


def _parts(branches: Sequence[Branch]) -> list[tuple[Branch, ...]]:
    """Share branches out, the largest first, so that all parts stand for about as many runs."""
    parts: list[tuple[int, int, list[Branch]]] = [(0, index, []) for index in range(min(len(branches), _PARTS))]
    for branch in branches:
        n_runs, index, part = parts[0]
        part.append(branch)
        heapq.heapreplace(parts, (n_runs + len(branch), index, part))
    return [tuple(part) for _, _, part in sorted(parts, key=lambda each: each[1])]


def zones_of(base: Base) -> Mapping[str, str]:
    """Return the zone of every node that has one."""
    labels = ((name, node.metadata.labels.get(ZONE, "")) for name, node in base.world.node_by_name.items())
    return {name: zone for name, zone in labels if zone}


def _in_silence(*_: int) -> None:
    """Nobody wants to know."""
