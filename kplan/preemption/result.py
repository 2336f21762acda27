"""What preemption came to, as arrays that turn into names when somebody asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from msgspec import UNSET, structs

from kplan.api.meta import controller_of
from kplan.api.time import from_micros
from kplan.documents.preemption import (
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
from kplan.engine.node_table import NodeTable
from kplan.engine.verdicts import Code, Reason
from kplan.framework.diagnosis import NodeStatus
from kplan.preemption.budgets import Budgets
from kplan.preemption.choice import CRITERIA, Candidates, Choice
from kplan.preemption.dry_run import DryRun
from kplan.rules.pod_info import NO_START_TIME, PodInfo
from kplan.rules.resources import nano, pod_resources, quantity_text, resource_order, rounded_requests


@dataclass(frozen=True)
class PreemptionResult:
    """Whom the pod would evict, and why those.

    Lasts: it holds nothing that changes with the cluster.
    """

    infos: Sequence[PodInfo]  #: pods by row
    nodes: NodeTable  #: by row
    budgets: Budgets
    eligible: bool = True  #: the pod may preempt at all
    message: str = ""  #: what DefaultPreemption says; empty when it found a node
    why_not: WhyNot | None = None  #: why it found no node
    dry_run: DryRun | None = None  #: None when no node was looked at
    #: nodes where room can be made, after extenders and limits; None when there are none
    candidates: Candidates | None = None
    choice: Choice | None = None  #: how they compare
    chosen: int | None = None  #: index of the candidate that is taken, or None
    cleared_pods: tuple[int, ...] = ()  #: pods of lower priority that lose their nomination to the chosen node

    @property
    def names(self) -> Sequence[str]:
        """Node names by row."""
        return self.nodes.names

    @property
    def nominated_row(self) -> int | None:
        """Node on which room is made."""
        if self.candidates is None or self.chosen is None:
            return None
        return int(self.candidates.rows[self.chosen])

    @property
    def nominated_node(self) -> str | None:
        """Its name."""
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

        Each leaves a gap in its node's list that the last pod fills, and that order tells equal pods apart later.
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
        """The criterion that singled out the chosen node."""
        return None if self.choice is None else self.choice.decided_by

    @cached_property
    def candidate_order(self) -> tuple[int, ...]:
        """Indices of the candidates: those that violate no budget first, then by name."""
        if self.candidates is None:
            return ()
        order: list[int] = np.argsort(self.candidates.pdb_violations > 0, kind="stable").tolist()
        return tuple(order)

    def rejected(self) -> dict[str, NodeStatus]:
        """Return why making room does not help, for each node where it was tried, by name."""
        if self.dry_run is None or self.dry_run.rejections.rows is None:
            return {}
        rejections = self.dry_run.rejections
        statuses = ((row, rejections.status(row)) for row in self.dry_run.rejections.rows.tolist())
        return {self.names[row]: _as_reported(status) for row, status in statuses if status is not None}

    def victim_budgets(self, pod: int) -> list[str]:
        """List the budgets (NAMESPACE/NAME) that count a victim."""
        assert self.candidates is not None  # noqa: S101 - there is no victim to ask about
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
        """Return what preemption came to, complete for all nodes.

        Parameters
        ----------
        message : what all PostFilter plugins said together; None for this one's own
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

    def with_costs(self, found: Preemption, *, reprieve: bool) -> Preemption:
        """Add to a document of this result what it takes to judge it.

        Tells for each victim what its eviction frees, which budgets count it and how long it may take to end, and for
        each candidate by what it lost; with `reprieve` also what became of each of its pods of lower priority.
        """
        index_of = {self._node_of(index): index for index in self.candidate_order}
        steps = self.reprieves() if reprieve else {}
        return structs.replace(
            found,
            victims=tuple(
                self._with_cost(victim, pod) for victim, pod in zip(found.victims, self.victim_pods, strict=True)
            ),
            candidates={
                node: structs.replace(
                    candidate, lost_by=self.lost_by(index_of[node]), reprieve=steps.get(node, ()) if reprieve else UNSET
                )
                for node, candidate in found.candidates.items()
            },
        )

    def _node_of(self, index: int) -> str:
        assert self.candidates is not None  # noqa: S101 - there is none to ask about
        return self.names[int(self.candidates.rows[index])]

    def _candidate(self, index: int) -> Candidate:
        assert self.candidates is not None  # noqa: S101 - there is none to ask about
        found = self.candidates
        start = int(found.earliest_start[index])
        return Candidate(
            victims=tuple(self.infos[pod].key for pod in found.victims(index)),
            pdb_violations=int(found.pdb_violations[index]),
            criteria=Criteria(
                pdb_violations=int(found.pdb_violations[index]),
                highest_victim_priority=int(found.highest_priority[index]),
                priority_sum=int(found.priority_sum[index]),
                victims=int(found.n_victims[index]),
                latest_start_time=None if start == NO_START_TIME else from_micros(start),
            ),
        )

    def lost_by(self, index: int) -> Criterion | None:
        """Return the criterion by which a candidate lost; None for one that is tied with the chosen node or is it."""
        assert self.choice is not None  # noqa: S101 - there is no candidate to ask about
        criterion = int(self.choice.lost_by[index])
        return None if criterion < 0 else CRITERIA[criterion]

    def reprieves(self) -> dict[str, tuple[Reprieve, ...]]:
        """List for each node what became of its pods of lower priority, in the order in which they were tried."""
        if self.dry_run is None:
            return {}
        found = self.dry_run.reprieve
        steps: dict[str, list[Reprieve]] = {}
        for i, position in enumerate(found.positions.tolist()):
            of_node = steps.setdefault(self.names[int(found.rows[position])], [])
            of_node.append(
                Reprieve(
                    pod=self.infos[int(found.pods[i])].key,
                    step=len(of_node) + 1,
                    pdb_violation=bool(found.violating[i]),
                    reprieved=bool(found.kept[i]),
                )
            )
        return {node: tuple(each) for node, each in steps.items()}

    def _with_cost(self, victim: Victim, pod: int) -> Victim:
        row = self.nominated_row
        assert row is not None  # noqa: S101 - victims are where room is made
        info, node = self.infos[pod], self.nodes.nodes[row]
        offered = rounded_requests({name: nano(quantity) for name, quantity in node.status.allocatable.items()})
        requests = pod_resources(info.pod).requests
        return structs.replace(
            victim,
            node=node.metadata.name,
            frees={
                name: Freed(
                    quantity_text(name, requests[name]),
                    round(100 * requests[name] / offered[name]) if offered.get(name) else None,
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
    """Return a status as the runtime reports it: the error of a plugin names the plugin."""
    return replace(status, reasons=(Reason(status.error, Code.ERROR),)) if status.code is Code.ERROR else status
