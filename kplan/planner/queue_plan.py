"""The answer of `kplan plan`: what changes, who stays pending, and how full the cluster is before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kplan.engine.cluster import NOWHERE, Cluster
from kplan.framework.cycle import Outcome
from kplan.planner.document import header, summary, warnings_of
from kplan.planner.placement import Placement
from kplan.planner.queue_run import QueueRun
from kplan.planner.utilisation import ZONE, groups, largest_fits, pool_label, usage, usage_dict
from kplan.planner.verdict import DEFAULT_FAIL_ON, judge

if TYPE_CHECKING:
    from kplan.planner.planner import Planner

PLACED, MOVED, EVICTED, PENDING = "+", "~", "-", "!"


@dataclass(frozen=True, slots=True)
class PodChange:
    """What becomes of one pod.

    Attributes
    ----------
    action : ``+`` placed, ``~`` evicted and placed elsewhere, ``-`` evicted for good, ``!`` pending at the end
    pod : NAMESPACE/NAME as before the plan
    from_node, to_node : node before and after; None for none
    by : the pod for which it was evicted, or None
    reason : kube-scheduler's message for a pod that stays pending
    """

    action: str
    pod: str
    from_node: str | None
    to_node: str | None
    by: str | None = None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "action": self.action,
            "pod": self.pod,
            "from": self.from_node,
            "to": self.to_node,
            "by": self.by,
            "reason": self.reason,
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
        last = {attempt.pod: placement for attempt, placement in zip(run.attempts, self.placements, strict=True)}
        latest: dict[int, int | None] = {queued.pod: queued.pod for queued in run.queue}
        by: dict[int, int] = {}
        for eviction in run.evictions:
            first = run.origin.get(eviction.pod, eviction.pod)
            latest[first] = eviction.successor
            by[first] = eviction.by
        return tuple(self._change(first, current, by.get(first), last) for first, current in latest.items())

    def _change(self, first: int, current: int | None, by: int | None, last: dict[int, Placement]) -> PodChange:
        infos, names = self.after.pods.infos, self.after.nodes.names
        source = self._node(self.before, first)
        target = None if current is None else self._node(self.after, current)
        if target is not None:
            action = PLACED if source is None else MOVED
        else:
            action = EVICTED if current is None else PENDING
        reason = last[current].message if target is None and current in last else ""
        return PodChange(
            action,
            infos[first].key,
            None if source is None else names[source],
            None if target is None else names[target],
            None if by is None else infos[by].key,
            reason,
        )

    @staticmethod
    def _node(cluster: Cluster, pod: int) -> int | None:
        if pod >= len(cluster.node_of) or cluster.node_of[pod] == NOWHERE:
            return None
        return cluster.node_of[pod]

    @property
    def final_placements(self) -> tuple[Placement, ...]:
        """The last decision about each pod; what a verdict and a summary speak of."""
        return tuple({placement.pod.key: placement for placement in self.placements}.values())

    def to_dict(self, *, fail_on: Sequence[str] | None = None, command: str = "plan") -> dict[str, Any]:
        """Return the PlanReport document."""
        verdict = judge(
            self.placements, self.planner.warnings, DEFAULT_FAIL_ON[command] if fail_on is None else fail_on
        )
        actions = Counter(change.action for change in self.changes)
        return {
            **header(self.planner, "PlanReport"),
            "verdict": verdict.to_dict(),
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
            "placements": [placement.to_dict(()) for placement in self.placements],
            "utilisation": self.utilisation(),
            "largestFit": [
                {"resource": fit.resource, "node": fit.node, "free": fit.free, "totalFree": fit.total_free}
                for fit in largest_fits(self.after)
            ],
        }

    def _endings(self) -> list[dict[str, str]]:
        infos = self.after.pods.infos
        found = [
            {
                "code": "EvictionCycle",
                "object": f"Pod {infos[pod].key}",
                "message": "keeps being evicted wherever its controller puts it; it is left pending here",
            }
            for pod in self.run.circling
        ]
        if self.run.hit_limit:
            message = f"the queue was still changing after {self.run.rounds} rounds; what is pending may yet be placed"
            found.append({"code": "RoundLimit", "object": "", "message": message})
        return found

    def queue(self) -> list[dict[str, Any]]:
        """Return the queue as it stood at first, in its JSON form."""
        infos = self.after.pods.infos
        return [
            {
                "position": position,
                "pod": infos[queued.pod].key,
                "priority": infos[queued.pod].priority,
                "place": queued.place.value,
                "reason": queued.reason,
            }
            for position, queued in enumerate(self.run.queue, start=1)
        ]

    def utilisation(self) -> dict[str, Any]:
        """Return how full the cluster, its zones, its pools and its nodes are, before and after."""
        nodes = self.after.nodes
        everything = np.arange(len(nodes))
        label = pool_label(nodes)
        return {
            "cluster": self._usage(everything),
            "zones": {zone: self._usage(rows) for zone, rows in groups(nodes, ZONE).items()},
            "poolLabel": label,
            "pools": {} if label is None else {pool: self._usage(rows) for pool, rows in groups(nodes, label).items()},
            "nodes": {name: self._usage(everything[row : row + 1]) for row, name in enumerate(nodes.names)},
        }

    def _usage(self, rows: Any) -> dict[str, Any]:
        return usage_dict(usage(self.before, rows), usage(self.after, rows))

    @property
    def unschedulable(self) -> tuple[Placement, ...]:
        """Last decisions about pods that stay pending."""
        return tuple(each for each in self.final_placements if each.outcome is not Outcome.SCHEDULED)
