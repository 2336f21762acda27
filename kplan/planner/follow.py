"""Where the victims go: pods that controllers recreate after a preemption, placed in their turn."""

from __future__ import annotations

from collections.abc import Iterable

from kplan.documents.preemption_report import Aftermath
from kplan.planner.base import Base, PodLike
from kplan.planner.queue_plan import plan_queue

FOLLOW_ROUNDS = 1
"""Followed once through the queue: a replacement that fits nowhere is told as pending, not tried for ever."""


def follow(base: Base, pods: Iterable[PodLike]) -> tuple[Aftermath, ...]:
    """Let pods preempt, in queue order, and say where each victim goes, without telling about single nodes.

    A victim's replacement may evict others in turn: those are followed too, in the order of eviction.
    """
    plan = plan_queue(base, base.queue_of(pods), recreate=True, max_rounds=FOLLOW_ROUNDS)
    run = plan.run
    infos, names = plan.after.pods.infos, plan.after.nodes.names
    last = {attempt.pod: placement for attempt, placement in zip(run.attempts, plan.placements, strict=True)}
    found = []
    for eviction in run.evictions:
        heir = eviction.successor
        placement = None if heir is None else last.get(heir)
        found.append(
            Aftermath(
                victim=infos[eviction.pod].key,
                by=infos[eviction.by].key,
                from_node=names[eviction.row],
                recreated_as=None if heir is None else infos[heir].key,
                circling=run.origin.get(eviction.pod, eviction.pod) in run.circling,
                placement=None if placement is None else placement.to_document(()),
            )
        )
    return tuple(found)
