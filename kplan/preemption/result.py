"""The result of preemption, as arrays; names and documents are made from them on demand.

The choice among candidates: five criteria in turn, each among those that are equal on the previous ones.

Upstream: preemption/preemption.go pickOneNodeForPreemption, util/utils.go GetEarliestPodStartTime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from random import Random

import msgspec
import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.meta import controller_of
from kplan.api.time import from_micros
from kplan.engine.arrays import BoolArray, Int64Array, NDArray, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.node_table import NodeTable
from kplan.engine.pod_table import START, PodTable
from kplan.engine.verdicts import Code
from kplan.framework import results
from kplan.preemption.dry_run import AllowedDisruptions, DryRun, Reprieve, order_of_importance
from kplan.rules.pod_info import NO_START_TIME, PodInfo
from kplan.rules.resources import nano, pod_resources, quantity_text, resource_order, rounded_requests

PRIORITY_OFFSET = 2**31
"""Added to each priority in a sum, so that more victims of negative priority do not lower the sum."""


class CandidateNodes(msgspec.Struct, frozen=True, dict=True):
    """Nodes on which preemption makes room for the pod, with their victims."""

    table: PodTable
    rows: RowArray  #: intp array of shape (n_candidates,), ascending node rows
    #: intp array of shape (n_candidates + 1,); candidate i's victims are ``pods[bounds[i]:bounds[i + 1]]``
    bounds: RowArray
    #: intp array of shape (n_victims,), rows of the pod table, most important first; every candidate has a victim
    pods: RowArray
    violating: BoolArray  #: bool array of shape (n_victims,): evicting the pod violates a budget
    pdb_violations: Int64Array  #: int64 array of shape (n_candidates,)

    @staticmethod
    def of(cluster: Cluster, reprieve: Reprieve) -> CandidateNodes:
        """Return the nodes on which not all pods were reprieved."""
        evicted = np.flatnonzero(~reprieve.reprieved)
        positions = reprieve.positions[evicted]
        if reprieve.violating.any():
            # Upstream sorts again only where both kinds of pods were tried, which matters for pods without a start.
            n_nodes = len(reprieve.rows)
            n_violating = np.bincount(reprieve.positions[reprieve.violating], minlength=n_nodes)
            n_others = np.bincount(reprieve.positions[~reprieve.violating], minlength=n_nodes)
            is_mixed = ((n_violating > 0) & (n_others > 0))[positions]
            mixed = evicted[is_mixed]
            evicted[is_mixed] = mixed[order_of_importance(cluster, reprieve.positions[mixed], reprieve.pods[mixed])]
        candidates, first = np.unique(positions, return_index=True)
        bounds, violating = np.append(first, len(evicted)), reprieve.violating[evicted]
        counted = np.append(0, np.cumsum(violating))
        pods, n_violations = reprieve.pods[evicted], np.diff(counted[bounds])
        return CandidateNodes(cluster.pods, reprieve.rows[candidates], bounds, pods, violating, n_violations)

    def __len__(self) -> int:
        return len(self.rows)

    def some(self, remaining: BoolArray) -> CandidateNodes:
        """Return the candidates that remain, bool array of shape (n_candidates,)."""
        counts = np.diff(self.bounds)
        is_victim = np.repeat(remaining, counts)
        bounds = np.append(0, np.cumsum(counts[remaining]))
        pods, violating = self.pods[is_victim], self.violating[is_victim]
        return CandidateNodes(self.table, self.rows[remaining], bounds, pods, violating, self.pdb_violations[remaining])

    def victims(self, index: int) -> list[int]:
        pods: list[int] = self.pods[self.bounds[index] : self.bounds[index + 1]].tolist()
        return pods

    @cached_property
    def _priorities(self) -> Int64Array:
        return self.table.priorities[self.pods]

    @cached_property
    def highest_priority(self) -> Int64Array:
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
        starts = np.where(is_highest, self.table.derived(START)[self.pods], NO_START_TIME)
        return np.minimum.reduceat(starts, self.bounds[:-1])


_PENALTIES: dict[results.Criterion, Callable[[CandidateNodes], Int64Array]] = {
    "pdb-violations": lambda candidates: candidates.pdb_violations,
    "lowest-highest-victim-priority": lambda candidates: candidates.highest_priority,
    "lowest-priority-sum": lambda candidates: candidates.priority_sum,
    "fewest-victims": lambda candidates: candidates.n_victims,
    "latest-start-time": lambda candidates: -candidates.earliest_start,
}
"""The criteria in order, each with its values per candidate, of which the lowest is best."""
CRITERIA = tuple(_PENALTIES)


class Choice(msgspec.Struct, frozen=True):
    """The result of comparing the candidates."""

    candidates: CandidateNodes  #: those that extenders and limits leave
    ties: RowArray  #: intp array of indices of the best candidates, which are equal on all criteria
    decided_by: results.DecidedBy  #: the criterion after which a single candidate remained
    #: int8 array of shape (n_candidates,): index into CRITERIA of the criterion by which a candidate lost, -1 for ties
    lost_by: NDArray[np.int8]
    chosen: int  #: one of the ties, the first unless the session draws

    @property
    def row(self) -> int:
        return int(self.candidates.rows[self.chosen])


def choose(candidates: CandidateNodes, random: Random | None) -> Choice:
    lost_by = np.full(len(candidates), -1, np.int8)
    remaining: RowArray = np.arange(len(candidates))
    decided_by: results.DecidedBy = "only-candidate" if len(candidates) == 1 else "tie"
    for k, criterion in enumerate(CRITERIA):
        if len(remaining) == 1:
            break
        penalty = _PENALTIES[criterion](candidates)[remaining]
        is_best = penalty == penalty.min()
        lost_by[remaining[~is_best]] = k
        remaining = remaining[is_best]
        if len(remaining) == 1:
            decided_by = criterion
    ties: list[int] = remaining.tolist()
    chosen = ties[0] if random is None or len(ties) == 1 else random.choice(ties)
    return Choice(candidates, remaining, decided_by, lost_by, chosen)


class PreemptionResult(msgspec.Struct, frozen=True):
    """The victims that the pod would evict, and why these; stays valid when the cluster changes."""

    infos: Sequence[PodInfo]  #: pods by row
    nodes: NodeTable  #: by row
    budgets: AllowedDisruptions
    eligible: bool = True  #: the pod may preempt at all
    message: str = ""  #: DefaultPreemption's message; empty when it nominates a node
    why_not: results.WhyNot | None = None  #: why it nominates none
    dry_run: DryRun | None = None  #: None when there was none
    choice: Choice | None = None  #: how the candidates compare; None when there are none
    cleared_pods: tuple[int, ...] = ()  #: pods of lower priority that lose their nomination to the chosen node

    @property
    def victim_pods(self) -> tuple[int, ...]:
        return () if self.choice is None else tuple(self.choice.candidates.victims(self.choice.chosen))

    @property
    def leaving_pods(self) -> tuple[int, ...]:
        """Pods to be evicted in the order in which they leave, by name.

        The order matters: the last pod of a node's list takes the place of one that leaves, and among equal pods the
        place in the list decides later.
        """
        return tuple(sorted(self.victim_pods, key=lambda pod: (self.infos[pod].namespace, self.infos[pod].name)))

    def victims(self) -> tuple[results.Victim, ...]:
        if self.choice is None:
            return ()
        low = int(self.choice.candidates.bounds[self.choice.chosen])
        violating = self.choice.candidates.violating[low:].tolist()
        victims = []
        for pod, is_violating in zip(self.victim_pods, violating, strict=False):
            info, owner = self.infos[pod], controller_of(self.infos[pod].pod.metadata)
            victim = results.Victim(
                namespace=info.namespace,
                name=info.name,
                priority=info.priority,
                pdb_violation=is_violating,
                owner=None if owner is None else f"{owner.kind}/{owner.name}",
                start_time=info.pod.status.start_time,
            )
            victims.append(victim)
        return tuple(victims)

    def to_document(self, message: str | None = None) -> results.Preemption:
        """Return the document of the result, with all nodes; None as `message` stands for that of this plugin."""
        names, choice, rejected = self.nodes.names, self.choice, {}
        # A node was tried where its status says why preemption does not help.
        rejections = None if self.dry_run is None else self.dry_run.rejections
        for row in () if rejections is None or rejections.rows is None else rejections.rows.tolist():
            status = None if rejections is None else rejections.status(row)
            if status is not None:
                reasons = (status.error,) if status.code is Code.ERROR else status.texts
                rejected[names[row]] = results.NotHelped(
                    code=status.code.text, plugin=status.plugin or None, reasons=reasons
                )
        return results.Preemption(
            eligible=self.eligible,
            message=self.message if message is None else message,
            why_not=self.why_not,
            nominated_node=None if choice is None else names[choice.row],
            ties=() if choice is None else tuple(names[row] for row in choice.candidates.rows[choice.ties].tolist()),
            decided_by=None if choice is None else choice.decided_by,
            victims=self.victims(),
            candidates=self._candidates(),
            rejected=rejected,
            cleared_nominations=tuple(sorted(self.infos[pod].key for pod in self.cleared_pods)),
        )

    def _candidates(self) -> dict[str, results.Candidate]:
        """Return the candidates by node: those that violate no budget first, then by name."""
        if self.choice is None:
            return {}
        candidates, documents = self.choice.candidates, {}
        for index in np.argsort(candidates.pdb_violations > 0, kind="stable").tolist():
            start, n_violations = int(candidates.earliest_start[index]), int(candidates.pdb_violations[index])
            documents[self.nodes.names[candidates.rows[index]]] = results.Candidate(
                victims=tuple(self.infos[pod].key for pod in candidates.victims(index)),
                pdb_violations=n_violations,
                criteria=results.Criteria(
                    pdb_violations=n_violations,
                    highest_victim_priority=int(candidates.highest_priority[index]),
                    priority_sum=int(candidates.priority_sum[index]),
                    victims=int(candidates.n_victims[index]),
                    latest_start_time=None if start == NO_START_TIME else from_micros(start),
                ),
            )
        return documents

    def with_costs(self, preemption: results.Preemption, *, reprieve: bool) -> results.Preemption:
        """Return a document of this result with the costs of the preemption added.

        They are for each victim what its eviction frees, the budgets that count it and its grace period, and for each
        candidate the criterion by which it lost; with `reprieve` also which of its lower-priority pods were reprieved.
        """
        if self.choice is None:
            return preemption
        lost_by = zip(self.choice.candidates.rows.tolist(), self.choice.lost_by.tolist(), strict=True)
        criteria = {self.nodes.names[row]: None if index < 0 else CRITERIA[index] for row, index in lost_by}
        steps = self.reprieves() if reprieve else {}
        victims = zip(preemption.victims, self.victim_pods, strict=True)
        return replace(
            preemption,
            victims=tuple(self._with_cost(victim, pod, self.choice) for victim, pod in victims),
            candidates={
                node: replace(candidate, lost_by=criteria[node], reprieve=steps.get(node, ()) if reprieve else UNSET)
                for node, candidate in preemption.candidates.items()
            },
        )

    def reprieves(self) -> dict[str, tuple[results.Reprieve, ...]]:
        """Return, by node name, the steps of the reprieve: the lower-priority pods in the order they were tried."""
        if self.dry_run is None:
            return {}
        reprieve = self.dry_run.reprieve
        steps: dict[str, list[results.Reprieve]] = {}
        for i, position in enumerate(reprieve.positions.tolist()):
            node_steps = steps.setdefault(self.nodes.names[int(reprieve.rows[position])], [])
            node_steps.append(
                results.Reprieve(
                    pod=self.infos[int(reprieve.pods[i])].key,
                    step=len(node_steps) + 1,
                    pdb_violation=bool(reprieve.violating[i]),
                    reprieved=bool(reprieve.reprieved[i]),
                )
            )
        return {node: tuple(node_steps) for node, node_steps in steps.items()}

    def _with_cost(self, victim: results.Victim, pod: int, choice: Choice) -> results.Victim:
        info, node = self.infos[pod], self.nodes.nodes[choice.row]
        allocatable = rounded_requests({name: nano(quantity) for name, quantity in node.status.allocatable.items()})
        requests = pod_resources(info.pod).requests
        return replace(
            victim,
            node=node.metadata.name,
            frees={
                name: results.Freed(
                    quantity_text(name, requests[name]),
                    round(100 * requests[name] / allocatable[name]) if allocatable.get(name) else None,
                )
                for name in resource_order(requests)
                if requests[name]
            },
            budgets=tuple(self.budgets.covering(choice.candidates.table, pod)),
            termination_grace_period_seconds=info.pod.spec.termination_grace_period_seconds,
        )
