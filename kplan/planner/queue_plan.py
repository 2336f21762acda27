"""The answer of `kplan plan`: what changes, who stays pending, and how full the cluster is before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kplan.documents.placement import Outcome
from kplan.documents.queue import QueuePlace
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.planner.document import header, placements_document, summary, warnings_of
from kplan.planner.explanation import Shown
from kplan.planner.placement import Placement
from kplan.planner.queue_report import queue_entries
from kplan.planner.queue_run import QueueRun
from kplan.planner.utilisation import largest_fits_dict, utilisation_dict
from kplan.planner.verdict import DEFAULT_FAIL_ON, Verdict, judge

if TYPE_CHECKING:
    from kplan.planner.planner import Planner

PLACED, MOVED, EVICTED, PENDING = "+", "~", "-", "!"

_LEFT_ALONE = (QueuePlace.FOREIGN, QueuePlace.DELETING)
"""Pods that no profile is for, or that are going away: kube-scheduler does nothing about them either."""

KEEPS_BEING_EVICTED = "keeps being evicted wherever its controller puts it"

MOST_TIES = 10
"""Of equal best nodes so many are named: in a plan of thousands of pods all of them would be most of the document."""

NodesOf = Mapping[int, Iterable[str] | Shown | None]
"""Index of a placement -> the nodes to tell about; see `placement_report`."""


@dataclass(frozen=True, slots=True)
class PodChange:
    """What becomes of one pod.

    Attributes
    ----------
    action : ``+`` placed, ``~`` evicted and placed elsewhere, ``-`` evicted for good, ``!`` pending at the end
    pod : NAMESPACE/NAME as before the plan
    workload : KIND/NAME of what makes such pods; empty for a pod of its own
    from_node, to_node : node before and after; None for none
    by : the pod for which it was evicted, or None
    recreated_as : the pod that its controller made instead, by the name that it has here; None when it was not evicted
    outcome : that of the last try, for a pod that stays pending
    reason : kube-scheduler's message for a pod that stays pending
    attempt : index of the last placement about it; None when it was not tried
    """

    action: str
    pod: str
    workload: str
    from_node: str | None
    to_node: str | None
    by: str | None = None
    recreated_as: str | None = None
    outcome: str = ""
    reason: str = ""
    attempt: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "action": self.action,
            "pod": self.pod,
            "workload": self.workload,
            "from": self.from_node,
            "to": self.to_node,
            "by": self.by,
            "recreatedAs": self.recreated_as,
            "outcome": self.outcome,
            "reason": self.reason,
            "attempt": self.attempt,
        }


@dataclass(frozen=True)
class QueuePlan:
    """A scheduling queue worked off to the end.

    Attributes
    ----------
    placements : every decision, in order
    run : how it went
    before, after : the cluster; not to be changed
    """

    planner: Planner = field(repr=False)
    placements: tuple[Placement, ...]
    run: QueueRun = field(repr=False)
    before: Cluster = field(repr=False)
    after: Cluster = field(repr=False)

    @cached_property
    def changes(self) -> tuple[PodChange, ...]:
        """What becomes of each pod that was pending or had to move, in the order of the queue, then of eviction."""
        run = self.run
        last = {attempt.pod: index for index, attempt in enumerate(run.attempts)}
        latest: dict[int, int | None] = {queued.pod: queued.pod for queued in run.queue}
        by: dict[int, int] = {}
        for eviction in run.evictions:
            first = run.origin.get(eviction.pod, eviction.pod)
            latest[first] = eviction.successor
            by[first] = eviction.by
        return tuple(self._change(first, current, by.get(first), last) for first, current in latest.items())

    def _change(self, first: int, current: int | None, by: int | None, last: dict[int, int]) -> PodChange:
        infos, names = self.after.pods.infos, self.after.nodes.names
        source = self._node(self.before, first)
        target = None if current is None else self._node(self.after, current)
        is_circling = first in self.run.circling
        if target is not None:
            action = PLACED if source is None else MOVED
        else:
            action = EVICTED if current is None and not is_circling else PENDING
        attempt = None if current is None else last.get(current)
        decision = None if attempt is None or target is not None else self.placements[attempt]
        return PodChange(
            action,
            infos[first].key,
            self._workload(first),
            None if source is None else names[source],
            None if target is None else names[target],
            None if by is None else infos[by].key,
            None if current is None or current == first else infos[current].key,
            "" if decision is None else decision.outcome.value,
            KEEPS_BEING_EVICTED if is_circling and target is None else "" if decision is None else decision.message,
            attempt,
        )

    def _workload(self, pod: int) -> str:
        origin = self.planner.origin_of(pod)
        if origin is not None:
            return "" if origin.kind == "Pod" else f"{origin.kind}/{origin.name}"
        controller = self.after.pods.infos[pod].controller
        return "" if controller is None else f"{controller[1]}/{controller[2]}"

    @staticmethod
    def _node(cluster: Cluster, pod: int) -> int | None:
        if pod >= len(cluster.node_of) or cluster.node_of[pod] == NOWHERE:
            return None
        return cluster.node_of[pod]

    @property
    def final_placements(self) -> tuple[Placement, ...]:
        """The last decision about each pod; what a verdict and a summary speak of."""
        return tuple({placement.pod.key: placement for placement in self.placements}.values())

    def verdict(self, fail_on: Sequence[str] | None = None, command: str = "plan") -> Verdict:
        """Hold what happened against what counts; pods of the cluster that are nobody's turn here do not count."""
        chosen = DEFAULT_FAIL_ON[command] if fail_on is None else fail_on
        infos = self.after.pods.infos
        left_alone = {
            infos[queued.pod].key
            for queued in self.run.queue
            if queued.place in _LEFT_ALONE and self.planner.origin_of(queued.pod) is None
        }
        counted = [placement for placement in self.placements if placement.pod.key not in left_alone]
        return judge(counted, self.planner.warnings, chosen)

    def to_dict(
        self,
        *,
        fail_on: Sequence[str] | None = None,
        command: str = "plan",
        nodes_of: NodesOf | None = None,
        most_ties: int | None = MOST_TIES,
        exit_zero: bool = False,
    ) -> dict[str, Any]:
        """Return the PlanReport document.

        Parameters
        ----------
        fail_on : what makes the verdict a failure; None for the defaults of `command`
        nodes_of : as for `placement_report`; None tells about no single nodes
        most_ties : name so many of the equal best nodes of a placement; None for all
        exit_zero : the verdict is told, and does not count
        """
        actions = Counter(change.action for change in self.changes)
        told = dict.fromkeys(range(len(self.placements)), ()) if nodes_of is None else nodes_of
        return {
            **header(self.planner, "PlanReport"),
            "command": command,
            "verdict": self.verdict(fail_on, command).to_dict(exit_zero=exit_zero),
            "summary": {
                **summary(self.placements),
                "placed": actions[PLACED],
                "moved": actions[MOVED],
                "evicted": actions[EVICTED],
                "pending": actions[PENDING],
                "rounds": self.run.rounds,
            },
            "warnings": warnings_of(self.planner.warnings) + self._endings(),
            "queue": self.queue(),
            "changes": [change.to_dict() for change in self.changes],
            "placements": [_with_few_ties(each, most_ties) for each in placements_document(self.placements, told)],
            "utilisation": utilisation_dict(self.before, self.after),
            "largestFit": largest_fits_dict(self.before, self.after),
        }

    def _endings(self) -> list[dict[str, str]]:
        infos = self.after.pods.infos
        found = [
            {
                "code": "EvictionCycle",
                "object": f"Pod/{infos[pod].key}",
                "message": f"{KEEPS_BEING_EVICTED}; it is left pending here",
            }
            for pod in self.run.circling
        ]
        if self.run.hit_limit:
            message = f"the queue was still changing after {self.run.rounds} rounds; what is pending may yet be placed"
            found.append({"code": "RoundLimit", "object": "", "message": message})
        return found

    def queue(self) -> list[dict[str, Any]]:
        """Return the queue as it stood at first, in its JSON form."""
        return queue_entries(self.run.session, self.run.queue)

    @property
    def unschedulable(self) -> tuple[Placement, ...]:
        """Last decisions about pods that stay pending."""
        return tuple(each for each in self.final_placements if each.outcome is not Outcome.SCHEDULED)


def _with_few_ties(placement: dict[str, Any], most: int | None) -> dict[str, Any]:
    """Count the equal best nodes of a placement, and name the first of them only."""
    ties = placement.get("ties")
    if ties is None:
        return placement
    return {**placement, "ties": ties[:most], "tiesCount": len(ties)}
