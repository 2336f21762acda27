"""What preemption came to, as arrays that turn into names when somebody asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from kplan.api.meta import controller_of
from kplan.api.time import from_micros
from kplan.engine.verdicts import Code, Reason
from kplan.framework.diagnosis import NodeStatus
from kplan.preemption.budgets import Budgets
from kplan.preemption.choice import CRITERIA, Candidates, Choice
from kplan.preemption.dry_run import DryRun
from kplan.rules.pod_info import NO_START_TIME, PodInfo


@dataclass(frozen=True)
class PreemptionResult:
    """Whom the pod would evict, and why those.

    Lasts: it holds nothing that changes with the cluster.

    Attributes
    ----------
    infos : pods by row
    names : node names by row
    eligible : the pod may preempt at all
    message : what DefaultPreemption says; empty when it found a node
    dry_run : None when no node was looked at
    candidates : nodes where room can be made, after extenders and limits; None when there are none
    choice : how they compare
    chosen : index of the candidate that is taken, or None
    cleared_pods : pods of lower priority that lose their nomination to the chosen node
    """

    infos: Sequence[PodInfo]
    names: Sequence[str]
    budgets: Budgets
    eligible: bool = True
    message: str = ""
    dry_run: DryRun | None = None
    candidates: Candidates | None = None
    choice: Choice | None = None
    chosen: int | None = None
    cleared_pods: tuple[int, ...] = ()

    # --- the decision -------------------------------------------------------------------------------------------------

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
    def leaving_pods(self) -> list[int]:
        """Pods to be evicted in the order in which they leave, by name.

        Each leaves a gap in its node's list that the last pod fills, and that order tells equal pods apart later.
        """
        return sorted(self.victim_pods, key=lambda pod: (self.infos[pod].namespace, self.infos[pod].name))

    @cached_property
    def ties(self) -> tuple[str, ...]:
        """Candidates equal on all criteria, by name."""
        if self.candidates is None or self.choice is None:
            return ()
        return tuple(self.names[row] for row in self.candidates.rows[self.choice.ties].tolist())

    @property
    def decided_by(self) -> str | None:
        """The criterion that singled out the chosen node."""
        return None if self.choice is None else self.choice.decided_by

    # --- the alternatives ---------------------------------------------------------------------------------------------

    @cached_property
    def candidate_order(self) -> tuple[int, ...]:
        """Indices of the candidates: those that violate no budget first, then by name."""
        if self.candidates is None:
            return ()
        order: list[int] = np.argsort(self.candidates.pdb_violations > 0, kind="stable").tolist()
        return tuple(order)

    def candidate(self, index: int) -> dict[str, Any]:
        """Return one candidate as the contract has it."""
        assert self.candidates is not None  # noqa: S101 - there is none to ask about
        found = self.candidates
        start = int(found.earliest_start[index])
        return {
            "victims": [self.infos[pod].key for pod in found.victims(index)],
            "pdbViolations": int(found.pdb_violations[index]),
            "criteria": {
                "pdbViolations": int(found.pdb_violations[index]),
                "highestVictimPriority": int(found.highest_priority[index]),
                "prioritySum": int(found.priority_sum[index]),
                "victims": int(found.n_victims[index]),
                "latestStartTime": None if start == NO_START_TIME else from_micros(start),
            },
        }

    def lost_by(self, index: int) -> str | None:
        """Return the criterion by which a candidate lost; None for one that is tied with the chosen node or is it."""
        assert self.choice is not None  # noqa: S101 - there is no candidate to ask about
        criterion = int(self.choice.lost_by[index])
        return None if criterion < 0 else CRITERIA[criterion]

    def rejected(self) -> dict[str, NodeStatus]:
        """Return why making room does not help, for each node where it was tried, by name."""
        if self.dry_run is None or self.dry_run.rejections.rows is None:
            return {}
        rejections = self.dry_run.rejections
        statuses = ((row, rejections.status(row)) for row in self.dry_run.rejections.rows.tolist())
        return {self.names[row]: _as_reported(status) for row, status in statuses if status is not None}

    def reprieve_steps(self, node: str) -> list[dict[str, Any]]:
        """List what became of every lower-priority pod of a node, in the order in which it was tried.

        Each has ``pod``, ``step`` (from 1), ``pdbViolation`` (evicting it would violate a budget, so it was tried
        before the others) and ``kept``.
        """
        if self.dry_run is None:
            return []
        reprieve = self.dry_run.reprieve
        position = next((i for i, row in enumerate(reprieve.rows.tolist()) if self.names[row] == node), None)
        if position is None:
            return []
        return [
            {
                "pod": self.infos[int(reprieve.pods[i])].key,
                "step": step,
                "pdbViolation": bool(reprieve.violating[i]),
                "kept": bool(reprieve.kept[i]),
            }
            for step, i in enumerate(np.flatnonzero(reprieve.positions == position).tolist(), start=1)
        ]

    def victim_budgets(self, pod: int) -> list[str]:
        """List the budgets (NAMESPACE/NAME) that count a victim."""
        assert self.candidates is not None  # noqa: S101 - there is no victim to ask about
        return self.budgets.covering(self.candidates.table, pod)

    # --- the contract's object ----------------------------------------------------------------------------------------

    def victims(self) -> list[dict[str, Any]]:
        """Return the victims on the nominated node as the contract has them."""
        if self.candidates is None or self.chosen is None:
            return []
        low = int(self.candidates.bounds[self.chosen])
        return [
            _victim(self.infos[pod], is_violating=bool(self.candidates.violating[low + i]))
            for i, pod in enumerate(self.victim_pods)
        ]

    def to_dict(self, message: str | None = None) -> dict[str, Any]:
        """Return the contract's ``preemption`` object, complete for all nodes.

        Parameters
        ----------
        message : what all PostFilter plugins said together; None for this one's own
        """
        candidates = self.candidates
        return {
            "eligible": self.eligible,
            "message": self.message if message is None else message,
            "nominatedNode": self.nominated_node,
            "ties": list(self.ties),
            "decidedBy": self.decided_by,
            "victims": self.victims(),
            "candidates": {}
            if candidates is None
            else {self.names[int(candidates.rows[index])]: self.candidate(index) for index in self.candidate_order},
            "rejected": {
                name: {"code": status.code.text, "plugin": status.plugin or None, "reasons": list(status.texts)}
                for name, status in self.rejected().items()
            },
            "clearedNominations": sorted(self.infos[pod].key for pod in self.cleared_pods),
        }


def not_tried(message: str) -> dict[str, Any]:
    """Return the contract's ``preemption`` object for a pod that another PostFilter plugin turned down before."""
    return {
        "eligible": False,
        "message": message,
        "nominatedNode": None,
        "ties": [],
        "decidedBy": None,
        "victims": [],
        "candidates": {},
        "rejected": {},
        "clearedNominations": [],
    }


def _victim(info: PodInfo, *, is_violating: bool) -> dict[str, Any]:
    owner = controller_of(info.pod.metadata)
    return {
        "namespace": info.namespace,
        "name": info.name,
        "priority": info.priority,
        "pdbViolation": is_violating,
        "owner": None if owner is None else f"{owner.kind}/{owner.name}",
        "startTime": info.pod.status.start_time,
    }


def _as_reported(status: NodeStatus) -> NodeStatus:
    """Return a status as the runtime reports it: the error of a plugin names the plugin."""
    return replace(status, reasons=(Reason(status.error, Code.ERROR),)) if status.code is Code.ERROR else status
