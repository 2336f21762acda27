"""The answer of `kplan plan --queue`: in which order pending pods would be tried, and why in this one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kplan.documents.queue import QueuePlace
from kplan.framework.queue import QueuedPod, enqueue
from kplan.framework.session import Session
from kplan.planner.document import header, warnings_of
from kplan.planner.verdict import DEFAULT_FAIL_ON, GATED, WARNING, Verdict

if TYPE_CHECKING:
    from kplan.planner.planner import Planner

__all__ = ["queue_entries", "queue_report"]


def queue_entries(session: Session, queue: Iterable[QueuedPod]) -> list[dict[str, Any]]:
    """Return a queue in its JSON form, first in turn first."""
    infos = session.cluster.pods.infos
    return [
        {
            "position": position,
            "pod": infos[queued.pod].key,
            "priority": infos[queued.pod].priority,
            "place": queued.place.value,
            "reason": queued.reason,
        }
        for position, queued in enumerate(queue, start=1)
    ]


def queue_report(
    planner: Planner, pods: Sequence[int], *, fail_on: Sequence[str] | None = None, exit_zero: bool = False
) -> dict[str, Any]:
    """Return the QueueReport document about pending pods (rows of the planner's session); nothing is tried."""
    queue = enqueue(planner.session, pods)
    chosen = tuple(DEFAULT_FAIL_ON["plan"] if fail_on is None else fail_on)
    places = Counter(queued.place for queued in queue)
    infos = planner.session.cluster.pods.infos
    because: list[str] = []
    if GATED in chosen:
        because += [f"{infos[each.pod].key}: Gated" for each in queue if each.place is QueuePlace.GATED]
    if WARNING in chosen:
        because += [f"{warning.object}: {warning.code}" for warning in planner.warnings]
    return {
        **header(planner, "QueueReport"),
        "verdict": Verdict(chosen, tuple(because)).to_dict(exit_zero=exit_zero),
        "summary": {"pods": len(queue), **{place.value.lower(): places[place] for place in QueuePlace}},
        "warnings": warnings_of(planner.warnings),
        "queue": queue_entries(planner.session, queue),
    }
