"""The result of preemption, as arrays; names and documents are made from them on demand.

The choice among candidates: five criteria in turn, each among those that are equal on the previous ones.

Upstream: preemption/preemption.go pickOneNodeForPreemption, util/utils.go GetEarliestPodStartTime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

import msgspec
import numpy as np
from msgspec import UNSET, structs
from msgspec.structs import replace
from numpy.typing import NDArray

from kplan.api.meta import controller_of
from kplan.api.time import from_micros
from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.node_table import NodeTable
from kplan.engine.pod_table import PodTable
from kplan.engine.verdicts import Code, Reason
from kplan.framework.diagnosis import NodeStatus
from kplan.framework.results import (
    Candidate,
    Criteria,
    Criterion,
    DecidedBy,
    Freed,
    NotHelped,
    Preemption,
    Reprieve,
    Victim,
    WhyNot,
)
from kplan.preemption.dry_run import Budgets, DryRun
from kplan.rules.pod_info import NO_START_TIME, PodInfo
from kplan.rules.resources import nano, pod_resources, quantity_text, resource_order, rounded_requests

ONLY_CANDIDATE: Final = "only-candidate"
TIE: Final = "tie"
PRIORITY_OFFSET = 2**31
"""Added to each priority in a sum, so that more victims of negative priority do not lower the sum."""


class Candidates(msgspec.Struct, frozen=True, dict=True):
    """Candidates: nodes on which preemption makes room for the pod, with their victims."""

    table: PodTable
    rows: RowArray  #: intp array of shape (n_candidates,), ascending node rows
    #: intp array of shape (n_candidates + 1,); candidate i's victims are ``pods[bounds[i]:bounds[i + 1]]``
    bounds: RowArray
    #: intp array of shape (n_victims,), rows of the pod table, most important first; every candidate has a victim
    pods: RowArray
    violating: BoolArray  #: bool array of shape (n_victims,): evicting the pod violates a budget
    pdb_violations: Int64Array  #: int64 array of shape (n_candidates,)

    @staticmethod
    def of(table: PodTable, rows: RowArray, bounds: RowArray, pods: RowArray, violating: BoolArray) -> Candidates:
        counted: Int64Array = np.concatenate((np.zeros(1, np.int64), np.cumsum(violating)))
        violations: Int64Array = counted[bounds[1:]] - counted[bounds[:-1]]
        is_candidate = np.diff(bounds) > 0
        candidate_bounds = np.concatenate((np.zeros(1, np.intp), bounds[1:][is_candidate]))
        return Candidates(table, rows[is_candidate], candidate_bounds, pods, violating, violations[is_candidate])

    def __len__(self) -> int:
        return len(self.rows)

    def some(self, remaining: BoolArray) -> Candidates:
        """Return the candidates selected by `remaining`, bool array of shape (n_candidates,)."""
        counts = np.diff(self.bounds)
        is_victim = np.repeat(remaining, counts)
        bounds = np.concatenate((np.zeros(1, np.intp), np.cumsum(counts[remaining])))
        return Candidates(
            self.table,
            self.rows[remaining],
            bounds,
            self.pods[is_victim],
            self.violating[is_victim],
            self.pdb_violations[remaining],
        )

    def victims(self, index: int) -> list[int]:
        pods: list[int] = self.pods[self.bounds[index] : self.bounds[index + 1]].tolist()
        return pods

    @cached_property
    def _priorities(self) -> Int64Array:
        return self.table.priorities[self.pods]

    @cached_property
    def highest_priority(self) -> Int64Array:
        """Priority of each candidate's most important victim."""
        return self._priorities[self.bounds[:-1]]

    @cached_property
    def priority_sum(self) -> Int64Array:
        return np.add.reduceat(self._priorities + PRIORITY_OFFSET, self.bounds[:-1])

    @cached_property
    def n_victims(self) -> Int64Array:
        return np.diff(self.bounds).astype(np.int64)

    @cached_property
    def earliest_start(self) -> Int64Array:
        """Earliest start of each candidate's victims of the highest priority; NO_START_TIME when none has started."""
        highest = np.maximum.reduceat(self._priorities, self.bounds[:-1])
        is_highest = self._priorities == np.repeat(highest, np.diff(self.bounds))
        starts = np.where(is_highest, self.table.start_micros[self.pods], NO_START_TIME)
        return np.minimum.reduceat(starts, self.bounds[:-1])


class Choice(msgspec.Struct, frozen=True):
    """The result of comparing the candidates."""

    ties: RowArray  #: intp array of indices of the best candidates, which are equal on all criteria
    decided_by: DecidedBy  #: the criterion after which a single candidate remained, ONLY_CANDIDATE or TIE
    #: int8 array of shape (n_candidates,): index into CRITERIA of the criterion by which a candidate lost, -1 for ties
    lost_by: NDArray[np.int8]


_PENALTIES: dict[Criterion, Callable[[Candidates], Int64Array]] = {
    "pdb-violations": lambda candidates: candidates.pdb_violations,
    "lowest-highest-victim-priority": lambda candidates: candidates.highest_priority,
    "lowest-priority-sum": lambda candidates: candidates.priority_sum,
    "fewest-victims": lambda candidates: candidates.n_victims,
    "latest-start-time": lambda candidates: -candidates.earliest_start,
}
"""The criteria in order, each with its values per candidate, of which the lowest is best."""
CRITERIA = tuple(_PENALTIES)


def choose(candidates: Candidates) -> Choice:
    lost_by = np.full(len(candidates), -1, np.int8)
    if len(candidates) == 1:
        return Choice(np.zeros(1, np.intp), ONLY_CANDIDATE, lost_by)
    remaining = np.arange(len(candidates))
    for k, criterion in enumerate(CRITERIA):
        penalty = _PENALTIES[criterion](candidates)[remaining]
        is_best = penalty == penalty.min()
        lost_by[remaining[~is_best]] = k
        remaining = remaining[is_best]
        if len(remaining) == 1:
            return Choice(remaining, criterion, lost_by)
    return Choice(remaining, TIE, lost_by)


class PreemptionResult(msgspec.Struct, frozen=True, dict=True):
    """The victims that the pod would evict, and why these.

    Stays valid when the cluster changes.
    """

    infos: Sequence[PodInfo]  #: pods by row
    nodes: NodeTable  #: by row
    budgets: Budgets
    eligible: bool = True  #: the pod may preempt at all
    message: str = ""  #: DefaultPreemption's message; empty when it nominates a node
    why_not: WhyNot | None = None  #: why it nominates none
    dry_run: DryRun | None = None  #: None when there was none
    #: candidates that extenders and limits leave; None when there are none
    candidates: Candidates | None = None
    choice: Choice | None = None  #: how the candidates compare
    chosen: int | None = None  #: index of the chosen candidate, or None
    cleared_pods: tuple[int, ...] = ()  #: pods of lower priority that lose their nomination to the chosen node

    @property
    def names(self) -> Sequence[str]:
        return self.nodes.names

    @property
    def nominated_row(self) -> int | None:
        if self.candidates is None or self.chosen is None:
            return None
        return int(self.candidates.rows[self.chosen])

    @property
    def nominated_node(self) -> str | None:
        row = self.nominated_row
        return None if row is None else self.names[row]

    @cached_property
    def victim_pods(self) -> tuple[int, ...]:
        """Pods to be evicted, most important first."""
        if self.candidates is None or self.chosen is None:
            return ()
        return tuple(self.candidates.victims(self.chosen))

    @property
    def leaving_pods(self) -> tuple[int, ...]:
        """Pods to be evicted in the order in which they leave, by name.

        The order matters: the last pod of a node's list takes the place of one that leaves, and among equal pods the
        place in the list decides later.
        """
        return tuple(sorted(self.victim_pods, key=lambda pod: (self.infos[pod].namespace, self.infos[pod].name)))

    @cached_property
    def ties(self) -> tuple[str, ...]:
        """Candidates equal on all criteria, by name."""
        if self.candidates is None or self.choice is None:
            return ()
        return tuple(self.names[row] for row in self.candidates.rows[self.choice.ties].tolist())

    @property
    def decided_by(self) -> DecidedBy | None:
        return None if self.choice is None else self.choice.decided_by

    @cached_property
    def candidate_order(self) -> tuple[int, ...]:
        """Indices of the candidates: those that violate no budget first, then by name."""
        if self.candidates is None:
            return ()
        order: list[int] = np.argsort(self.candidates.pdb_violations > 0, kind="stable").tolist()
        return tuple(order)

    def rejected(self) -> dict[str, NodeStatus]:
        """Return, by name, why preemption does not help on each node where it was tried."""
        if self.dry_run is None or self.dry_run.rejections.rows is None:
            return {}
        rejections = self.dry_run.rejections
        statuses = ((row, rejections.status(row)) for row in self.dry_run.rejections.rows.tolist())
        return {self.names[row]: _as_reported(status) for row, status in statuses if status is not None}

    def victim_budgets(self, pod: int) -> list[str]:
        assert self.candidates is not None  # noqa: S101 - without candidates there is no victim
        return self.budgets.covering(self.candidates.table, pod)

    def victims(self) -> tuple[Victim, ...]:
        """Return the victims on the nominated node, most important first."""
        if self.candidates is None or self.chosen is None:
            return ()
        low = int(self.candidates.bounds[self.chosen])
        return tuple(
            _victim(self.infos[pod], is_violating=bool(self.candidates.violating[low + i]))
            for i, pod in enumerate(self.victim_pods)
        )

    def to_document(self, message: str | None = None) -> Preemption:
        """Return the document of the result, with all nodes.

        Parameters
        ----------
        message : the message of all PostFilter plugins together; None for that of this plugin
        """
        return Preemption(
            eligible=self.eligible,
            message=self.message if message is None else message,
            why_not=self.why_not,
            nominated_node=self.nominated_node,
            ties=self.ties,
            decided_by=self.decided_by,
            victims=self.victims(),
            candidates={self._node_of(index): self._candidate(index) for index in self.candidate_order},
            rejected={
                name: NotHelped(code=status.code.text, plugin=status.plugin or None, reasons=status.texts)
                for name, status in self.rejected().items()
            },
            cleared_nominations=tuple(sorted(self.infos[pod].key for pod in self.cleared_pods)),
        )

    def with_costs(self, preemption: Preemption, *, reprieve: bool) -> Preemption:
        """Return a document of this result with the costs of the preemption added.

        They are for each victim what its eviction frees, the budgets that count it and its grace period, and for each
        candidate the criterion by which it lost; with `reprieve` also which of its lower-priority pods were reprieved.
        """
        index_of = {self._node_of(index): index for index in self.candidate_order}
        steps = self.reprieves() if reprieve else {}
        return structs.replace(
            preemption,
            victims=tuple(
                self._with_cost(victim, pod) for victim, pod in zip(preemption.victims, self.victim_pods, strict=True)
            ),
            candidates={
                node: structs.replace(
                    candidate, lost_by=self.lost_by(index_of[node]), reprieve=steps.get(node, ()) if reprieve else UNSET
                )
                for node, candidate in preemption.candidates.items()
            },
        )

    def _node_of(self, index: int) -> str:
        assert self.candidates is not None  # noqa: S101 - `index` is of a candidate
        return self.names[int(self.candidates.rows[index])]

    def _candidate(self, index: int) -> Candidate:
        assert self.candidates is not None  # noqa: S101 - `index` is of a candidate
        candidates = self.candidates
        start = int(candidates.earliest_start[index])
        return Candidate(
            victims=tuple(self.infos[pod].key for pod in candidates.victims(index)),
            pdb_violations=int(candidates.pdb_violations[index]),
            criteria=Criteria(
                pdb_violations=int(candidates.pdb_violations[index]),
                highest_victim_priority=int(candidates.highest_priority[index]),
                priority_sum=int(candidates.priority_sum[index]),
                victims=int(candidates.n_victims[index]),
                latest_start_time=None if start == NO_START_TIME else from_micros(start),
            ),
        )

    def lost_by(self, index: int) -> Criterion | None:
        """Return the criterion by which a candidate lost; None for the chosen candidate and its ties."""
        assert self.choice is not None  # noqa: S101 - `index` is of a candidate
        criterion = int(self.choice.lost_by[index])
        return None if criterion < 0 else CRITERIA[criterion]

    def reprieves(self) -> dict[str, tuple[Reprieve, ...]]:
        """Return, by node name, the steps of the reprieve: the lower-priority pods in the order they were tried."""
        if self.dry_run is None:
            return {}
        reprieve = self.dry_run.reprieve
        steps: dict[str, list[Reprieve]] = {}
        for i, position in enumerate(reprieve.positions.tolist()):
            node_steps = steps.setdefault(self.names[int(reprieve.rows[position])], [])
            node_steps.append(
                Reprieve(
                    pod=self.infos[int(reprieve.pods[i])].key,
                    step=len(node_steps) + 1,
                    pdb_violation=bool(reprieve.violating[i]),
                    reprieved=bool(reprieve.reprieved[i]),
                )
            )
        return {node: tuple(node_steps) for node, node_steps in steps.items()}

    def _with_cost(self, victim: Victim, pod: int) -> Victim:
        row = self.nominated_row
        assert row is not None  # noqa: S101 - there are victims only on a nominated node
        info, node = self.infos[pod], self.nodes.nodes[row]
        allocatable = rounded_requests({name: nano(quantity) for name, quantity in node.status.allocatable.items()})
        requests = pod_resources(info.pod).requests
        return structs.replace(
            victim,
            node=node.metadata.name,
            frees={
                name: Freed(
                    quantity_text(name, requests[name]),
                    round(100 * requests[name] / allocatable[name]) if allocatable.get(name) else None,
                )
                for name in resource_order(requests)
                if requests[name]
            },
            budgets=tuple(self.victim_budgets(pod)),
            termination_grace_period_seconds=info.pod.spec.termination_grace_period_seconds,
        )


def _victim(info: PodInfo, *, is_violating: bool) -> Victim:
    owner = controller_of(info.pod.metadata)
    return Victim(
        namespace=info.namespace,
        name=info.name,
        priority=info.priority,
        pdb_violation=is_violating,
        owner=None if owner is None else f"{owner.kind}/{owner.name}",
        start_time=info.pod.status.start_time,
    )


def _as_reported(status: NodeStatus) -> NodeStatus:
    return replace(status, reasons=(Reason(status.error, Code.ERROR),)) if status.code is Code.ERROR else status
