"""Where the victims go: pods that controllers make again after a preemption, placed in their turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kplan.planner.placement import Placement

if TYPE_CHECKING:
    from kplan.planner.planner import Planner, PodLike

FOLLOW_ROUNDS = 1
"""Followed once through the queue: a replacement that fits nowhere is told as pending, not tried for ever."""


@dataclass(frozen=True)
class Aftermath:
    """What becomes of one victim.

    Attributes
    ----------
    victim, by : NAMESPACE/NAME: who is evicted, and for whom
    from_node : the node that it leaves
    recreated_as : the pod that its controller makes; None when nobody does, or when it goes round in circles
    placement : the last decision about that pod
    is_circling : its replacements kept being evicted, and the chase was given up
    """

    victim: str
    by: str
    from_node: str
    recreated_as: str | None
    placement: Placement | None
    is_circling: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; its placement tells about no single nodes."""
        return {
            "victim": self.victim,
            "by": self.by,
            "from": self.from_node,
            "recreatedAs": self.recreated_as,
            "circling": self.is_circling,
            "placement": None if self.placement is None else self.placement.to_dict(()),
        }


def follow(planner: Planner, pods: Sequence[PodLike]) -> tuple[Aftermath, ...]:
    """Let pods preempt, in queue order, and say where each victim goes; nothing changes in the planner.

    A victim's replacement may evict others in turn: those are followed too, in the order of eviction.
    """
    plan = planner.plan_queue(pods, max_rounds=FOLLOW_ROUNDS)
    run = plan.run
    infos, names = plan.after.pods.infos, plan.after.nodes.names
    last = {attempt.pod: placement for attempt, placement in zip(run.attempts, plan.placements, strict=True)}
    return tuple(
        Aftermath(
            infos[eviction.pod].key,
            infos[eviction.by].key,
            names[eviction.row],
            None if eviction.successor is None else infos[eviction.successor].key,
            None if eviction.successor is None else last.get(eviction.successor),
            run.origin.get(eviction.pod, eviction.pod) in run.circling,
        )
        for eviction in run.evictions
    )
