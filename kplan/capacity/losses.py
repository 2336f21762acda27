"""How many replicas fit so that all of them can be rescheduled if any node, or zone, is lost.

The pods of lost nodes are recreated by their controllers, pods of the cluster like the replicas, and compete for the
remaining nodes: by priority, and at the same priority pods of the cluster first. Nobody is evicted for them. Replicas
outlast a loss if each of them finds a node, and also every pod of the cluster that would find one without the replicas,
except pods of lower priority, which come later anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import comb

import msgspec

from kplan.api.labels import ZONE
from kplan.capacity.counting import Fit, Template, fill
from kplan.cluster.base import Base
from kplan.documents.capacity import Loss, Survival
from kplan.effects.watching import begin
from kplan.engine.node_table import NodeTable
from kplan.errors import NotFoundError, UsageError
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.listers import Listers
from kplan.framework.results import Outcome
from kplan.framework.session import Session
from kplan.rules.pod_info import PodInfo
from kplan.simulation.loop import Simulation
from kplan.simulation.nodes import is_replaced, replacement

MAX_LOSSES = 5_000
"""The largest number of combinations of nodes or zones to try."""

MAX_NUMBERS = 200
"""The number of larger counts to try one by one: more replicas may find places where fewer do not."""

_MOST_NAMED = 20
_MOST_TABLES = 256
"""The number of cached node tables, each of which has nearly the size of the cluster's."""


class Lost(msgspec.Struct, frozen=True):
    """Nodes or zones that are lost together."""

    names: tuple[str, ...]
    rows: frozenset[int]


@dataclass(frozen=True)
class Broken:
    """A loss that some replicas do not outlast."""

    loss: Loss
    session: Session = field(repr=False)
    result: CycleResult = field(repr=False)  #: the decision about the first pod that finds no node; live
    template: int | None  #: the index of its template; None for a pod of the cluster
    pod: str = ""  #: NAMESPACE/NAME of the pod of the cluster that it replaces


@dataclass(frozen=True)
class Outlasting:
    """The number of replicas that outlast every loss."""

    total: int
    course: Sequence[tuple[int, int]]  #: (template, node row) of each replica, in the order of placement
    before: Fit = field(repr=False)  #: the replicas that fit as long as nothing is lost
    before_session: Session = field(repr=False)
    broken: Broken | None  #: the loss that one more replica does not outlast; None if all that fit outlast every loss
    survival: Survival


def possible_losses(base: Base, lose: int, *, zones: bool) -> list[Lost]:
    """Return all combinations of `lose` nodes, or zones.

    Raises
    ------
    NotFoundError
        When no node has a zone label.
    UsageError
        When there are fewer nodes or zones, or too many combinations.
    """
    nodes = base.session.cluster.nodes
    groups: dict[str, list[int]] = {}
    labels = nodes.label(ZONE)
    for row, name in enumerate(nodes.names):
        if not zones:
            groups[name] = [row]
        elif labels.present[row]:
            groups.setdefault(labels.values[labels.codes[row]], []).append(row)
    what = "zone" if zones else "node"
    if zones and not groups:
        raise NotFoundError("no node says in which zone it is", hint=f"label nodes with {ZONE}, or leave out --zones")
    if lose > len(groups):
        raise UsageError(f"--lose {lose}: there are only {len(groups)} {what}s", hint="lose fewer")
    ways = comb(len(groups), lose)
    if ways > MAX_LOSSES:
        hint = "lose fewer, whole zones with --zones, or leave nodes out with --exclude-nodes"
        raise UsageError(
            f"--lose {lose}: {ways:,} ways to lose {what}s, and {MAX_LOSSES:,} are tried at most", hint=hint
        )
    return [
        Lost(names, frozenset(row for name in names for row in groups[name]))
        for names in combinations(sorted(groups), lose)
    ]


def losses_survived(
    base: Base,
    templates: Sequence[Template],
    losses: Sequence[Lost],
    *,
    lose: int,
    zones: bool,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Outlasting:
    """Return the largest number of replicas that outlast every loss.

    Parameters
    ----------
    limit : the largest number to try
    progress : called with each number that is tried
    """
    session = base.fork()
    course: list[tuple[int, int]] = []
    before = fill(session, templates, limit=limit, course=course)
    trials = _Trials(base, templates, course, list(losses), progress or (lambda _: None))
    total, tried_all = _most(trials, before.total)
    broken = trials.broken_by(total + 1) if total < before.total else None
    homeless = trials.homeless(total)
    survival = Survival(
        lose=lose,
        by="zone" if zones else "node",
        losses=len(losses),
        fits_before=before.total,
        tried_all=tried_all,
        stopped_by=None if broken is None else broken.loss,
        homeless=homeless[:_MOST_NAMED],
        homeless_count=len(homeless),
    )
    return Outlasting(total, course[:total], before, session, broken, survival)


def _most(trials: _Trials, n_fit: int) -> tuple[int, bool]:
    """Return the largest number that holds among those tried, and whether all larger ones were tried.

    If a number holds, smaller ones mostly hold too, but not always. So bisection finds a number; then larger numbers
    are tried from above, if they are few.
    """
    if trials.holds(n_fit):
        return n_fit, True
    low, high = 0, n_fit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if trials.holds(middle) else (low, middle)
    if n_fit - low > MAX_NUMBERS:
        return low, False
    return next((number for number in range(n_fit - 1, low, -1) if trials.holds(number)), low), True


class _Trials:
    """Tries numbers of replicas against losses; the loss that the last number did not outlast is tried first."""

    def __init__(
        self,
        base: Base,
        templates: Sequence[Template],
        course: Sequence[tuple[int, int]],
        losses: list[Lost],
        progress: Callable[[int], None],
    ) -> None:
        self._base, self._templates, self._course, self._progress = base, templates, course, progress
        self._losses = losses
        self._least_priority = min(template.replicas[0].priority for template in templates)
        self._known: dict[int, bool] = {0: True}
        self._excused: dict[int, set[int]] = {}
        self._anyway: dict[Lost, frozenset[int]] = {}
        self._infos: dict[int, PodInfo] = {}
        self._tables: dict[Lost, NodeTable] = {}

    def holds(self, number: int) -> bool:
        """Return whether this number of replicas outlasts every loss."""
        if number not in self._known:
            self._progress(number)
            self._known[number] = self.broken_by(number) is None
        return self._known[number]

    def homeless(self, number: int) -> tuple[str, ...]:
        """Return the pods of the cluster that find no other node even without replicas, by name."""
        if number not in self._excused:
            self.broken_by(number)
        infos = self._base.session.cluster.pods.infos
        return tuple(sorted(infos[pod].key for pod in self._excused[number]))

    def broken_by(self, number: int) -> Broken | None:
        """Return the first loss that this number of replicas does not outlast; None if it outlasts all."""
        start, rows = self._with_replicas(number)
        excused = self._excused[number] = set()
        for index, loss in enumerate(self._losses):
            broken = self._broken(loss, start, rows, excused)
            if broken is not None:
                self._losses.insert(0, self._losses.pop(index))
                return broken
        return None

    def _with_replicas(self, number: int) -> tuple[Session, dict[int, int]]:
        """Return a session in which this number of replicas runs, and the template of each replica by its row."""
        session = self._base.fork(listers=self._listers)
        counts = [0] * len(self._templates)
        rows: dict[int, int] = {}
        for index, place in self._course[:number]:
            info = self._templates[index].replica(counts[index])
            assert info is not None  # noqa: S101 - it was placed before
            counts[index] += 1
            pod = session.add_pod(info)
            session.bind(pod, place)
            rows[pod] = index
        return session, rows

    @cached_property
    def _simulation(self) -> Simulation:
        """The controllers of the cluster, which say what they create in place of lost pods."""
        return begin(self._base)

    @property
    def _listers(self) -> Listers:
        """The objects of the cluster, with the claims of the pods that controllers create."""
        return self._simulation.session.listers

    def _broken(self, loss: Lost, start: Session, replicas: Mapping[int, int], excused: set[int]) -> Broken | None:
        """Remove lost nodes and reschedule their pods; return the first one that finds no node and is not excused.

        Parameters
        ----------
        excused : filled with the pods of the cluster that find no node, with or without the replicas
        """
        mine, others = self._leaving(loss, start, replicas)
        if not mine and not others:
            return None
        session = start.narrowed(self._left(loss))
        document = Loss(names=loss.names, nodes=len(loss.rows), replicas=len(mine), others=len(others))
        for pod, info in self._queue(mine, others, start):
            row = pod if pod in replicas else session.add_pod(info)
            if _finds_place(session, row):
                continue
            if pod in replicas or pod not in self._without_replicas(loss):
                known = "" if pod in replicas else start.cluster.pods.infos[pod].key
                return Broken(document, session, schedule_pod(session, row), replicas.get(pod), known)
            excused.add(pod)
        return None

    def _without_replicas(self, loss: Lost) -> frozenset[int]:
        """Return the pods that find no node after a loss even without replicas."""
        if loss not in self._anyway:
            start = self._base.fork(listers=self._listers)
            _, others = self._leaving(loss, start, {})
            session = start.narrowed(self._left(loss)) if others else start
            queue = self._queue([], others, start)
            self._anyway[loss] = frozenset(
                pod for pod, info in queue if not _finds_place(session, session.add_pod(info))
            )
        return self._anyway[loss]

    def _leaving(self, loss: Lost, start: Session, replicas: Mapping[int, int]) -> tuple[list[int], list[int]]:
        """Return the replicas on lost nodes, and the other pods there that controllers recreate."""
        infos = start.cluster.pods.infos
        there = [pod for row in sorted(loss.rows) for pod in start.cluster.pods_on[row]]
        others = [
            pod
            for pod in there
            if pod not in replicas
            and infos[pod].priority >= self._least_priority
            and is_replaced(self._simulation, pod)
        ]
        return [pod for pod in there if pod in replicas], others

    def _queue(self, mine: Sequence[int], others: Sequence[int], start: Session) -> list[tuple[int, PodInfo]]:
        """Return pods in the order of scheduling: by priority, pods of the cluster first, then in their order."""
        infos = start.cluster.pods.infos
        entries = [(-infos[pod].priority, 0, infos[pod].key, pod, self._again(pod)) for pod in others]
        entries += [(-infos[pod].priority, 1, "", pod, infos[pod]) for pod in mine]
        return [(pod, info) for *_, pod, info in sorted(entries, key=lambda entry: entry[:4])]

    def _again(self, pod: int) -> PodInfo:
        if pod not in self._infos:
            self._infos[pod] = replacement(self._simulation, pod)
        return self._infos[pod]

    def _left(self, loss: Lost) -> NodeTable:
        nodes = self._base.session.cluster.nodes.nodes
        if loss not in self._tables:
            if len(self._tables) >= _MOST_TABLES:
                self._tables.clear()
            self._tables[loss] = NodeTable([node for row, node in enumerate(nodes) if row not in loss.rows])
        return self._tables[loss]


def _finds_place(session: Session, pod: int) -> bool:
    """Schedule and bind a pod; return whether it finds a node."""
    result = schedule_pod(session, pod, looks_for_victims=False)
    if result.outcome is not Outcome.SCHEDULED or result.row is None:
        return False
    session.bind(pod, result.row)
    return True
