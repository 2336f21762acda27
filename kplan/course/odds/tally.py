"""How runs end, and how often each outcome occurs among them."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from kplan.course.answers.verdict import Happened
from kplan.engine.cluster import NOWHERE
from kplan.facts import InputWarning
from kplan.framework.pod_groups import WORKLOAD_GATE, group_of
from kplan.framework.session import Session


class GroupEnd(msgspec.Struct, frozen=True):
    """How a group ends in a run."""

    pods: int  #: how many it has
    placed: int  #: how many of them have a node
    domain: str = ""  #: the value of its topology key on their nodes; empty for none


def group_ends(session: Session, pods: Iterable[int], there: Iterable[int] | None = None) -> dict[str, GroupEnd]:
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
        endings["/".join(key)] = GroupEnd(len(rows), len(placed), domain)
    return endings


class Rest(enum.StrEnum):
    """How a pod ends."""

    PLACED = "placed"  #: the pod, or its replacement, is on a node
    PENDING = "pending"
    GONE = "gone"  #: the pod is evicted, also by preemption, and nothing replaces it
    BLOCKED = "blocked"  #: the pod cannot be evicted, and stays


class PodEnd(NamedTuple):
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


class RunEnd(msgspec.Struct, frozen=True):
    """How one run ends."""

    ends: Mapping[str, PodEnd]  #: pod -> how it ends
    evicted: frozenset[str] = frozenset()  #: victims of preemption
    violates: bool = False  #: an eviction violates a disruption budget
    messages: Mapping[str, str] = {}  #: pod -> why it is pending or cannot be evicted, in Kubernetes' words
    happened: tuple[Happened, ...] = ()  #: events that --fail-on may count and that `ends` does not show
    incomplete: Mapping[str, str] = {}  #: workload -> why its change or its recovery does not end
    moved: tuple[DrawnPod, ...] = ()  #: other pods that this run moves
    warnings: tuple[InputWarning, ...] = ()
    seconds: float | None = None  #: with a clock, when it ends
    groups: Mapping[str, GroupEnd] = {}  #: NAMESPACE/NAME of a pod group -> how it ends

    def keys(self, rest: Rest) -> tuple[str, ...]:
        """Return the pods that end so, in the order of the question."""
        return tuple(key for key, end in self.ends.items() if end.rest is rest)


class OutcomeOdds(msgspec.Struct):
    """Runs with the same outcome: the same pods are pending, gone, blocked and evicted."""

    runs: int
    first: int  #: the number of the first of these runs
    example: RunEnd  #: how the first one ends

    @property
    def pending(self) -> tuple[str, ...]:
        return self.example.keys(Rest.PENDING)

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
    counts: dict[str, Counter[PodEnd]] = {}  #: pod -> how it ends -> number of runs
    #: event that --fail-on may count -> number of runs
    happened: Counter[Happened] = msgspec.field(default_factory=Counter)
    #: workload -> number of runs in which its change does not end
    incomplete: Counter[str] = msgspec.field(default_factory=Counter)
    because: dict[str, tuple[int, str]] = {}  #: workload -> the first of these runs, and the reason
    warnings: set[InputWarning] = set()
    seconds: Counter[float] = msgspec.field(default_factory=Counter)  #: with a clock, when runs end -> how many do
    groups: dict[str, Counter[GroupEnd]] = {}  #: NAMESPACE/NAME of a pod group -> how it ends
    _outcomes: dict[_Likeness, OutcomeOdds] = {}

    @staticmethod
    def of(pods: Iterable[DrawnPod]) -> Tally:
        known = {pod.key: pod for pod in pods}
        return Tally(known, counts={key: Counter() for key in known})

    def add(self, ending: RunEnd, runs: int, first: int) -> None:
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
                ends[PodEnd(Rest.PLACED, pod.node) if pod.node else PodEnd(Rest.PENDING)] += left
