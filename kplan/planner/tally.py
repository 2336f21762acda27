"""What many runs come to: how often each pod ends where, and in how many ways runs end."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from kplan.documents.base import InputWarning
from kplan.planner.verdict import Happened

PENDING: Final = "pending"


class Rest(enum.StrEnum):
    """How a pod ends."""

    PLACED = "placed"
    """It, or the pod that its controller made instead, is on a node."""
    PENDING = "pending"
    GONE = "gone"
    """It had to go, and nothing came in its place."""
    BLOCKED = "blocked"
    """It may not be evicted, and stays where it is."""


class End(NamedTuple):
    """How a pod ends, and on which node; empty for none."""

    rest: Rest
    node: str = ""


class DrawnPod(msgspec.Struct, frozen=True):
    """A pod that runs are about."""

    key: str
    workload: str  #: KIND/NAMESPACE/NAME of what asks for it; empty for a pod of its own
    is_gated: bool = False  #: it is kept out of the queue, whatever is drawn
    node: str = ""  #: where it stands before anything moves, and stays in runs that do not move it; empty for nowhere


class Ending(msgspec.Struct, frozen=True):
    """How one run ends."""

    ends: Mapping[str, End]  #: pod -> how it ends
    evicted: frozenset[str] = frozenset()  #: pods that had to make room for others
    violates: bool = False  #: an eviction violates a disruption budget
    #: pod -> why it is on no node, or may not go, in Kubernetes' words
    messages: Mapping[str, str] = {}
    happened: tuple[Happened, ...] = ()  #: what --fail-on may count, where that is not told from how pods end
    #: workload -> what holds up the change that was asked of it, or that moved it
    incomplete: Mapping[str, str] = {}
    moved: tuple[DrawnPod, ...] = ()  #: pods that this run is about, besides those that were asked about
    warnings: tuple[InputWarning, ...] = ()  #: what was odd about this run

    def keys(self, rest: Rest) -> tuple[str, ...]:
        """Return the pods that end so, in the order in which they were asked about."""
        return tuple(key for key, end in self.ends.items() if end.rest is rest)


class OutcomeOdds(msgspec.Struct):
    """Runs in which the same pods stay pending, the same are gone or blocked, and the same are evicted."""

    runs: int
    first: int  #: number of the first of these runs
    example: Ending  #: how that one ends

    @property
    def pending(self) -> tuple[str, ...]:
        """Pods that stay pending."""
        return self.example.keys(Rest.PENDING)

    @property
    def gone(self) -> tuple[str, ...]:
        """Pods that have to go and that nothing comes in place of, those that make room for others among them."""
        return self.example.keys(Rest.GONE)

    @property
    def blocked(self) -> tuple[str, ...]:
        """Pods that may not be evicted."""
        return self.example.keys(Rest.BLOCKED)

    @property
    def evicted(self) -> tuple[str, ...]:
        """Pods that make room for others, by name."""
        return tuple(sorted(self.example.evicted))

    @property
    def placements(self) -> dict[str, str]:
        """Pods and their nodes in the first of these runs."""
        return {key: end.node for key, end in self.example.ends.items() if end.rest is Rest.PLACED}


_Likeness = tuple[frozenset[str], frozenset[str], frozenset[str], frozenset[str]]


class Tally(msgspec.Struct):
    """Counts what came of the branches so far."""

    #: those that are asked about in their order, then those that some run moved
    pods: dict[str, DrawnPod] = {}
    branches: int = 0  #: how many of the runs are distinct
    violations: int = 0  #: in how many runs an eviction violates a disruption budget
    victims: Counter[str] = msgspec.field(default_factory=Counter)  #: pod -> in how many runs it makes room for others
    counts: dict[str, Counter[End]] = {}  #: pod -> how it ends -> in how many runs
    #: what --fail-on may count -> in how many runs
    happened: Counter[Happened] = msgspec.field(default_factory=Counter)
    #: workload -> in how many runs its change is not carried through
    incomplete: Counter[str] = msgspec.field(default_factory=Counter)
    #: workload -> the first run in which it is not, and what holds it up there
    because: dict[str, tuple[int, str]] = {}
    warnings: set[InputWarning] = set()
    _outcomes: dict[_Likeness, OutcomeOdds] = {}

    @staticmethod
    def of(pods: Iterable[DrawnPod]) -> Tally:
        """Return the tally of no run about these pods."""
        known = {pod.key: pod for pod in pods}
        return Tally(known, counts={key: Counter() for key in known})

    def add(self, ending: Ending, runs: int, first: int) -> None:
        """Take in how a branch ends.

        Parameters
        ----------
        runs : how many runs it stands for
        first : the number of the first of them
        """
        self.branches += 1
        self.violations += runs if ending.violates else 0
        for pod in ending.moved:
            self.pods.setdefault(pod.key, pod)
        for key, end in ending.ends.items():
            self.counts.setdefault(key, Counter())[end] += runs
        self.victims.update(dict.fromkeys(ending.evicted, runs))
        self.happened.update(dict.fromkeys(ending.happened, runs))
        self.incomplete.update(dict.fromkeys(ending.incomplete, runs))
        for workload, words in ending.incomplete.items():
            self._note_reason(workload, (first, words))
        self.warnings.update(ending.warnings)
        alike = (
            frozenset(ending.keys(Rest.PENDING)),
            frozenset(ending.keys(Rest.GONE)),
            frozenset(ending.keys(Rest.BLOCKED)),
            ending.evicted,
        )
        self._note_outcome(alike, OutcomeOdds(runs, first, ending))

    def merge(self, other: Tally) -> None:
        """Take in what came of other runs."""
        self.branches += other.branches
        self.violations += other.violations
        for key, pod in other.pods.items():
            self.pods.setdefault(key, pod)
        for key, found in other.counts.items():
            self.counts.setdefault(key, Counter()).update(found)
        self.victims.update(other.victims)
        self.happened.update(other.happened)
        self.incomplete.update(other.incomplete)
        for workload, reason in other.because.items():
            self._note_reason(workload, reason)
        self.warnings |= other.warnings
        for alike, outcome in other._outcomes.items():
            self._note_outcome(alike, outcome)

    def _note_reason(self, workload: str, reason: tuple[int, str]) -> None:
        self.because[workload] = min(self.because.get(workload, reason), reason)

    def _note_outcome(self, alike: _Likeness, outcome: OutcomeOdds) -> None:
        known = self._outcomes.get(alike)
        if known is None:
            self._outcomes[alike] = outcome
            return
        earlier = min(known, outcome, key=lambda each: each.first)
        self._outcomes[alike] = OutcomeOdds(known.runs + outcome.runs, earlier.first, earlier.example)

    def outcomes(self) -> tuple[OutcomeOdds, ...]:
        """Return what came of all branches, the most frequent first."""
        return tuple(sorted(self._outcomes.values(), key=lambda each: (-each.runs, each.first)))

    def complete(self, runs: int, asked: Sequence[DrawnPod], workloads: Sequence[str] = ()) -> None:
        """Say of pods that some runs did not move that they stand where they stood, and put all pods in order.

        Parameters
        ----------
        runs : how many runs there were
        asked : pods that come first
        workloads : whose pods come next
        """
        rank = {workload: index for index, workload in enumerate(workloads)}
        first = {pod.key: pod for pod in asked}
        others = sorted(
            (pod for pod in self.pods.values() if pod.key not in first),
            key=lambda pod: (rank.get(pod.workload, len(rank)), pod.workload, pod.key),
        )
        self.pods = {**first, **{pod.key: pod for pod in others}}
        for pod in self.pods.values():
            found = self.counts.setdefault(pod.key, Counter())
            left = runs - found.total()
            if left:
                found[End(Rest.PLACED, pod.node) if pod.node else End(Rest.PENDING)] += left
