"""Answer a question many times, drawing each time what kube-scheduler leaves to chance, and count the outcomes."""

from __future__ import annotations

import enum
import heapq
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kplan.cluster.base import Base
from kplan.cluster.runs import QuestionPods
from kplan.course.answers.verdict import Happened
from kplan.course.asking import AskAll, Count
from kplan.engine.cluster import NOWHERE
from kplan.errors import UsageError
from kplan.facts import InputWarning
from kplan.framework.pod_groups import WORKLOAD_GATE, group_of
from kplan.framework.session import Session
from kplan.reading.arguments import MOST_RUNS

if TYPE_CHECKING:
    from _typeshed import SupportsLenAndGetItem


class GroupEnding(msgspec.Struct, frozen=True):
    """How a group ends in a run."""

    pods: int  #: how many it has
    placed: int  #: how many of them have a node
    domain: str = ""  #: the value of its topology key on their nodes; empty for none


def group_endings(session: Session, pods: Iterable[int], there: Iterable[int] | None = None) -> dict[str, GroupEnding]:
    """Return NAMESPACE/NAME of the groups of some pods -> how they end in a session.

    `pods`: rows. `there`: rows of all pods that are left at the end; None for all that the groups know.
    """
    if not session.config.release.is_on(WORKLOAD_GATE):
        return {}
    infos, node_of, groups = session.cluster.pods.infos, session.cluster.node_of, session.pod_groups
    keys = dict.fromkeys(key for row in pods if (key := group_of(infos[row])) is not None)
    ids = session.pod_ids  # of those that no other pod has replaced
    left = None if there is None else set(there)
    endings = {}
    for key in keys:
        members = groups.members(key)
        rows = [row for row in members if (ids.get(infos[row].key) == row if left is None else row in left)]
        placed = [row for row in rows if node_of[row] != NOWHERE]
        group = groups.groups.get(key)
        constraints = None if group is None else group.spec.scheduling_constraints
        domain = ""
        if placed and constraints is not None and constraints.topology:
            labels = session.cluster.nodes.nodes[node_of[placed[0]]].metadata.labels
            domain = labels.get(constraints.topology[0].key, "")
        endings["/".join(key)] = GroupEnding(len(rows), len(placed), domain)
    return endings


PENDING: Final = "pending"


class Rest(enum.StrEnum):
    """How a pod ends."""

    PLACED = "placed"  #: the pod, or its replacement, is on a node
    PENDING = "pending"
    GONE = "gone"  #: the pod is evicted, and nothing replaces it
    BLOCKED = "blocked"  #: the pod cannot be evicted, and stays


class End(NamedTuple):
    """How a pod ends, and its node; empty for none."""

    rest: Rest
    node: str = ""


class DrawnPod(msgspec.Struct, frozen=True):
    """A pod of the question."""

    key: str
    workload: str  #: KIND/NAMESPACE/NAME of its workload; empty for a pod without one
    is_gated: bool = False  #: it never enters the queue, whatever is drawn
    was_pending: bool = False  #: it was pending before, and the question is about others
    node: str = ""  #: its node before the run; empty for a pending pod
    group: str = ""  #: its pod group, as PodGroup/NAMESPACE/NAME; empty for a pod that is scheduled on its own


class Ending(msgspec.Struct, frozen=True):
    """How one run ends."""

    ends: Mapping[str, End]  #: pod -> how it ends
    evicted: frozenset[str] = frozenset()  #: victims of preemption
    violates: bool = False  #: an eviction violates a disruption budget
    messages: Mapping[str, str] = {}  #: pod -> why it is pending or cannot be evicted, in Kubernetes' words
    happened: tuple[Happened, ...] = ()  #: events that --fail-on may count and that `ends` does not show
    incomplete: Mapping[str, str] = {}  #: workload -> why its change or its recovery does not end
    moved: tuple[DrawnPod, ...] = ()  #: other pods that this run moves
    warnings: tuple[InputWarning, ...] = ()
    seconds: float | None = None  #: with a clock, when it ends
    groups: Mapping[str, GroupEnding] = {}  #: NAMESPACE/NAME of a pod group -> how it ends

    def keys(self, rest: Rest) -> tuple[str, ...]:
        """Return the pods that end so, in the order of the question."""
        return tuple(key for key, end in self.ends.items() if end.rest is rest)


class OutcomeOdds(msgspec.Struct):
    """Runs with the same outcome: the same pods are pending, gone, blocked and evicted."""

    runs: int
    first: int  #: the number of the first of these runs
    example: Ending  #: how the first one ends

    @property
    def pending(self) -> tuple[str, ...]:
        """Pods that stay pending."""
        return self.example.keys(Rest.PENDING)

    @property
    def gone(self) -> tuple[str, ...]:
        """Pods that are evicted and not replaced, including victims of preemption."""
        return self.example.keys(Rest.GONE)

    @property
    def blocked(self) -> tuple[str, ...]:
        """Pods that cannot be evicted."""
        return self.example.keys(Rest.BLOCKED)

    @property
    def evicted(self) -> tuple[str, ...]:
        """Victims of preemption, by name."""
        return tuple(sorted(self.example.evicted))

    @property
    def placements(self) -> dict[str, str]:
        """Pods and their nodes in the first of these runs."""
        return {key: end.node for key, end in self.example.ends.items() if end.rest is Rest.PLACED}


_Likeness = tuple[frozenset[str], frozenset[str], frozenset[str], frozenset[str]]


class Tally(msgspec.Struct):
    """Counts over the branches so far."""

    pods: dict[str, DrawnPod] = {}  #: the pods of the question in their order, then others that some run moves
    branches: int = 0  #: number of distinct runs
    violations: int = 0  #: number of runs in which an eviction violates a disruption budget
    victims: Counter[str] = msgspec.field(default_factory=Counter)  #: pod -> number of runs in which it is preempted
    counts: dict[str, Counter[End]] = {}  #: pod -> how it ends -> number of runs
    #: event that --fail-on may count -> number of runs
    happened: Counter[Happened] = msgspec.field(default_factory=Counter)
    #: workload -> number of runs in which its change does not end
    incomplete: Counter[str] = msgspec.field(default_factory=Counter)
    because: dict[str, tuple[int, str]] = {}  #: workload -> the first of these runs, and the reason
    warnings: set[InputWarning] = set()
    seconds: Counter[float] = msgspec.field(default_factory=Counter)  #: with a clock, when runs end -> how many do
    groups: dict[str, Counter[GroupEnding]] = {}  #: NAMESPACE/NAME of a pod group -> how it ends
    _outcomes: dict[_Likeness, OutcomeOdds] = {}

    @staticmethod
    def of(pods: Iterable[DrawnPod]) -> Tally:
        known = {pod.key: pod for pod in pods}
        return Tally(known, counts={key: Counter() for key in known})

    def add(self, ending: Ending, runs: int, first: int) -> None:
        """Add a branch of so many `runs` to the counts; `first`: the number of its first run."""
        for pod in ending.moved:
            self.pods.setdefault(pod.key, pod)
        for key, end in ending.ends.items():  # not by `merge`: a counter of its own for each pod takes long
            self.counts.setdefault(key, Counter())[end] += runs
        pending, gone, blocked = (frozenset(ending.keys(rest)) for rest in (Rest.PENDING, Rest.GONE, Rest.BLOCKED))
        branch = Tally(
            branches=1,
            violations=runs if ending.violates else 0,
            victims=Counter(dict.fromkeys(ending.evicted, runs)),
            happened=Counter(dict.fromkeys(ending.happened, runs)),
            incomplete=Counter(dict.fromkeys(ending.incomplete, runs)),
            because={workload: (first, words) for workload, words in ending.incomplete.items()},
            warnings=set(ending.warnings),
            seconds=Counter({} if ending.seconds is None else {ending.seconds: runs}),
            groups={name: Counter({group: runs}) for name, group in ending.groups.items()},
            _outcomes={(pending, gone, blocked, ending.evicted): OutcomeOdds(runs, first, ending)},
        )
        self.merge(branch)

    def merge(self, other: Tally) -> None:
        """Add the counts over other branches."""
        self.branches += other.branches
        self.violations += other.violations
        for key, pod in other.pods.items():
            self.pods.setdefault(key, pod)
        for key, ends in other.counts.items():
            self.counts.setdefault(key, Counter()).update(ends)
        self.victims.update(other.victims)
        self.happened.update(other.happened)
        self.incomplete.update(other.incomplete)
        for workload, reason in other.because.items():
            self.because[workload] = min(self.because.get(workload, reason), reason)
        self.warnings |= other.warnings
        self.seconds.update(other.seconds)
        for name, endings in other.groups.items():
            self.groups.setdefault(name, Counter()).update(endings)
        for alike, outcome in other._outcomes.items():
            known = self._outcomes.get(alike)
            runs = outcome.runs + (0 if known is None else known.runs)
            earlier = outcome if known is None or outcome.first < known.first else known
            self._outcomes[alike] = OutcomeOdds(runs, earlier.first, earlier.example)

    def outcomes(self) -> tuple[OutcomeOdds, ...]:
        """Return the outcomes, the most frequent first."""
        return tuple(sorted(self._outcomes.values(), key=lambda outcome: (-outcome.runs, outcome.first)))

    def complete(self, runs: int, pods: Sequence[DrawnPod], workloads: Sequence[str] = ()) -> None:
        """Count each pod in the runs that did not move it, on its present node, and put all pods in order.

        `runs`: the number of all runs. `pods`: pods that come first. `workloads`: workloads whose pods come next.
        """
        rank = {workload: index for index, workload in enumerate(workloads)}
        first = {pod.key: pod for pod in pods}
        others = sorted(
            (pod for pod in self.pods.values() if pod.key not in first),
            key=lambda pod: (rank.get(pod.workload, len(rank)), pod.workload, pod.key),
        )
        self.pods = {**first, **{pod.key: pod for pod in others}}
        for pod in self.pods.values():
            ends = self.counts.setdefault(pod.key, Counter())
            left = runs - ends.total()
            if left and (pod.node or pod.was_pending or pod.key in first):  # else it is not made in the other runs
                ends[End(Rest.PLACED, pod.node) if pod.node else End(Rest.PENDING)] += left


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
            self._forks.append(_Fork(self.runs, _drawn(self._seed, self.runs, depth) % np.uint64(n)))
        fork = self._forks[depth - known]
        self.runs = fork.runs
        return fork.option

    def choice(self, seq: SupportsLenAndGetItem[T]) -> T:
        return seq[self.draw(len(seq))]

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        numbers = range(start) if stop is None else range(start, stop, step)
        return numbers[self.draw(len(numbers))]


def _drawn(seed: np.uint64, runs: Runs, depth: int) -> Runs:
    """Return a 64-bit number for each run: SplitMix64 (Steele, Lea, Flood 2014) of its number, and the draw's."""
    return _mixed(_mixed(seed + runs * np.uint64(_STEP)) + np.uint64(depth * _STEP % _BITS))


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
    carry_out: Callable[[BranchRandom], Ending]  #: carries out one branch of runs
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
    base: Base, question: Drawn, *, runs: int, seed: int, ask_all: AskAll | None = None, progress: Count | None = None
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
