"""Answer a question many times, drawing each time what kube-scheduler leaves to chance, and count the outcomes."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from kplan.api.wellknown import ZONE
from kplan.cluster.asking import AskAll, Count
from kplan.cluster.base import Base
from kplan.errors import UsageError
from kplan.odds.branches import Branch, BranchRandom, all_runs
from kplan.odds.tally import DrawnPod, Ending, Tally
from kplan.subjects.question_pods import QuestionPods

MAX_RUNS: Final = 1_000_000
"""More runs make the shares no more precise, and take days."""

_ALONE = 1.0
"""Seconds for which branches are carried out in this process before the remaining ones are shared out to workers."""

_ALONE_AT_MOST = 3.0
"""Seconds after which they are shared out even if some branches stand for many more runs than others."""

_EVEN = 16
"""Branches are even when none of them stands for more than one part in this many of the remaining runs."""

_PARTS = 64


class Prepared(msgspec.Struct, frozen=True):
    """A question about one cluster, ready to be drawn many times."""

    pods: Sequence[DrawnPod]  #: the pods of the question, in order
    carry_out: Callable[[BranchRandom], Ending]  #: carries out one branch of runs
    workloads: tuple[str, ...] = ()  #: the workloads of the question, KIND/NAMESPACE/NAME
    question: QuestionPods | None = None  #: the same pods as rows; None for a change


class Drawn(Protocol):
    """A question that is drawn many times; can be sent to another process, such as a partial of `of_pods.in_order`."""

    def __call__(self, base: Base, /, *, is_single: bool) -> Prepared:
        """Do the work that is the same for all runs.

        Parameters
        ----------
        is_single : there is only one run, the plain answer with its seed
        """


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
    base: Base, question: Drawn, *, runs: int, seed: int, ask_all: AskAll | None = None, progress: Count | None = None
) -> tuple[Tally, QuestionPods | None]:
    """Answer a question many times; return the counted outcomes, and the pods of the question.

    Raises UsageError when the number of runs is less than 1 or too large.

    Parameters
    ----------
    ask_all : runs what takes long in parallel; None carries out all runs here. The answer is the same
    progress : called with the number of runs that are done, and the number of all
    """
    if not 1 <= runs <= MAX_RUNS:
        raise UsageError(f"{runs} runs", hint=f"ask for 1 to {MAX_RUNS:,} runs")
    notify = progress or _in_silence
    prepared = question(base, is_single=runs == 1)
    tally = Tally.of(prepared.pods)
    start = all_runs(runs)
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
    """Carry out all branches, one after the other."""
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


def zones_of(base: Base) -> Mapping[str, str]:
    """Return the zone of every node that has one."""
    labels = ((name, node.metadata.labels.get(ZONE, "")) for name, node in base.objects.node_by_name.items())
    return {name: zone for name, zone in labels if zone}


def _in_silence(*_: int) -> None:
    """Ignore progress."""
