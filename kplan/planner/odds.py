"""How often each outcome comes, when everything that kube-scheduler leaves to chance is drawn many times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kplan.api.wellknown import ZONE
from kplan.documents.queue import QueuePlace
from kplan.engine.cluster import NOWHERE
from kplan.errors import UsageError
from kplan.framework.cycle import CycleResult
from kplan.framework.listers import Listers
from kplan.framework.queue import enqueue
from kplan.framework.session import Session
from kplan.planner.asked import AskedPods
from kplan.planner.base import Base
from kplan.planner.lots import Lots
from kplan.planner.queue_run import QueueRun
from kplan.planner.sequence import Run, nominates, run_in_order
from kplan.preemption import DefaultPreemption

PENDING: Final = "pending"
MAX_RUNS: Final = 1_000_000
"""More than this tells nothing more, and takes days."""


@dataclass(frozen=True, slots=True)
class OutcomeOdds:
    """Runs in which the same pods stay pending and the same are evicted."""

    runs: int
    pending: tuple[str, ...]
    evicted: tuple[str, ...]
    placements: dict[str, str]  #: pod -> node in one of these runs


@dataclass(frozen=True, slots=True)
class DrawnPod:
    """A pod that is asked about."""

    key: str
    workload: str  #: KIND/NAMESPACE/NAME of what asks for it; empty for a pod of its own
    is_gated: bool  #: it is kept out of the queue, whatever is drawn


@dataclass
class Tally:
    """Counts what came of the branches so far.

    Attributes
    ----------
    branches : how many of the runs are distinct
    violations : in how many runs an eviction violates a disruption budget
    victims : pod -> in how many runs it is evicted
    counts : pod -> where it stands at the end (a node, or "pending") -> in how many runs
    """

    pods: Sequence[DrawnPod]
    branches: int = 0
    violations: int = 0
    victims: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {pod.key: Counter() for pod in self.pods}
        self._outcomes: dict[tuple[tuple[str, ...], tuple[str, ...]], _Outcome] = {}

    def add(self, nodes: Sequence[str | None], evicted: set[str], weight: int, *, violates: bool) -> None:
        """Take in what came of one branch: where the pods are, and who had to go."""
        self.branches += 1
        self.violations += weight if violates else 0
        for key, node in zip(self.counts, nodes, strict=True):
            if node is not None or key not in evicted:
                self.counts[key][PENDING if node is None else node] += weight
        for key in evicted:
            self.victims[key] += weight
        unplaced = tuple(key for key, node in zip(self.counts, nodes, strict=True) if node is None)
        self._outcomes.setdefault((unplaced, tuple(sorted(evicted))), _Outcome(nodes)).runs += weight

    def outcomes(self) -> tuple[OutcomeOdds, ...]:
        """Return what came of all branches, the most frequent first."""
        ordered = sorted(self._outcomes.items(), key=lambda item: (-item[1].runs, item[0]))
        return tuple(
            OutcomeOdds(
                outcome.runs,
                tuple(key for key in unplaced if key not in evicted),
                evicted,
                {key: node for key, node in zip(self.counts, outcome.nodes, strict=True) if node is not None},
            )
            for (unplaced, evicted), outcome in ordered
        )


@dataclass
class _Outcome:
    """Runs that end alike, and where the pods are in the first of them."""

    nodes: Sequence[str | None]
    runs: int = 0


Start = Callable[[Session], tuple[Run, Callable[[], Iterable[int]]]]
"""Starts a run in a session; what is returned besides tells afterwards which pods stand for those asked about."""


def draw_in_order(base: Base, asked: AskedPods, *, runs: int, seed: int, settle_preemption: bool) -> Tally:
    """Place pods in the order given, many times; see `kplan.planner.sequence.run_in_order`."""

    def start(session: Session) -> tuple[Run, Callable[[], Iterable[int]]]:
        if not settle_preemption and runs > 1:
            # Whom a pod would evict is nobody's business here, and must not be drawn.
            for framework in session.frameworks.values():
                others = [each for each in framework.post_filter_plugins if each.name != DefaultPreemption.name]
                framework.post_filter_plugins = others
        return run_in_order(session, asked.rows, settle_preemption=settle_preemption), lambda: asked.rows

    return _draw(base, asked, start, runs=runs, seed=seed, settles=settle_preemption)


def draw_queue(
    base: Base,
    asked: AskedPods,
    listers: Listers | None,
    *,
    recreate: bool,
    max_rounds: int,
    runs: int,
    seed: int,
) -> Tally:
    """Work off a queue many times; of an evicted pod that is recreated, its replacement counts.

    Parameters
    ----------
    asked : pods that some profile is for
    listers : objects that the snapshot does not hold besides
    """

    def start(session: Session) -> tuple[Run, Callable[[], Iterable[int]]]:
        session.nominate_from_status(asked.rows)
        work = QueueRun(session, asked.rows, recreate=recreate, max_rounds=max_rounds, draws_turns=runs > 1)

        def latest() -> Iterable[int]:
            found = {pod: pod for pod in asked.rows}
            for eviction in work.evictions:
                first = work.origin.get(eviction.pod, eviction.pod)
                if first in found and eviction.successor is not None:
                    found[first] = eviction.successor
            return found.values()

        return iter(work), latest

    return _draw(base, asked, start, listers, runs=runs, seed=seed, settles=True)


def scheduled_here(base: Base, asked: AskedPods) -> AskedPods:
    """Return those of the pods that some profile is for and that are not going away, in the order of their turns."""
    queue = enqueue(base.fork(asked), asked.rows)
    rows = tuple(each.pod for each in queue if each.place in (QueuePlace.ACTIVE, QueuePlace.GATED))
    return AskedPods(rows, asked.added, asked.origins, asked.refused)


def zones_of(base: Base) -> Mapping[str, str]:
    """Return the zone of every node that has one."""
    labels = ((name, node.metadata.labels.get(ZONE, "")) for name, node in base.world.node_by_name.items())
    return {name: zone for name, zone in labels if zone}


def _draw(
    base: Base,
    asked: AskedPods,
    start: Start,
    listers: Listers | None = None,
    *,
    runs: int,
    seed: int,
    settles: bool,
) -> Tally:
    if not 1 <= runs <= MAX_RUNS:
        raise UsageError(f"{runs} runs", hint=f"ask for 1 to {MAX_RUNS:,} runs")
    names = base.session.cluster.nodes.names
    tally = Tally(_pods(base, asked))
    lots = Lots(runs, seed)
    while True:
        session = base.fork(asked, listers, lots)
        if base.options.sample and runs > 1 and names:
            session.sampling.start_index = lots.draw(len(names))
        run, ends = start(session)
        violates = False
        for result in run:
            violates |= settles and _violates(result)
        nodes = [None if (row := session.cluster.node_of[pod]) == NOWHERE else names[row] for pod in ends()]
        evicted = {session.cluster.pods.infos[change.pod].key for change in session.cluster.log if change.sign < 0}
        tally.add(nodes, evicted, lots.weight, violates=violates)
        if not lots.advance():
            return tally


def _pods(base: Base, asked: AskedPods) -> list[DrawnPod]:
    session = base.fork(asked)
    found = []
    for row in asked.rows:
        info, origin = session.cluster.pods.infos[row], asked.origins.get(row)
        workload = ""
        if origin is not None and origin.kind != "Pod":
            workload = f"{origin.kind}/{info.namespace}/{origin.name}"
        elif origin is None and info.controller is not None:
            workload = f"{info.controller[1]}/{info.namespace}/{info.controller[2]}"
        framework = session.framework_for(info)
        is_gated = framework is not None and not framework.run_pre_enqueue(info).is_success
        found.append(DrawnPod(info.key, workload, is_gated))
    return found


def _violates(result: CycleResult) -> bool:
    """Tell whether a decision evicts a pod that a disruption budget protects."""
    findings = result.post_filter.findings if result.post_filter is not None and nominates(result) else None
    return findings is not None and any(victim.pdb_violation for victim in findings.victims())
