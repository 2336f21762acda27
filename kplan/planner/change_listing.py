"""The pods that the report of a change lists one by one, and counts of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kplan.documents.placement import Outcome, PodPlacement, Unlisted
from kplan.documents.plan import Action, PodChange

_OUTCOMES: Mapping[str, Outcome] = {"Gated": Outcome.GATED, "Error": Outcome.ERROR}


class Listed(NamedTuple):
    """The pods of a change that the report lists, and groups of pods that it only counts."""

    changes: tuple[PodChange, ...]
    placements: tuple[PodPlacement, ...]
    unlisted: tuple[Unlisted, ...] = ()


def listed(changes: Sequence[PodChange], placements: Sequence[PodPlacement], most: int | None) -> Listed:
    """Return the first pods with their placements, and the counts of the others; pods that are gone are all listed.

    Parameters
    ----------
    most : the number of pods to list, apart from pods that are gone; None for all
    """
    if most is None or len(changes) <= most:
        return Listed(tuple(changes), tuple(placements))
    ends = [index for index, change in enumerate(changes) if change.action is not Action.EVICTED]
    others = set(ends[most:])
    listed_changes = [change for index, change in enumerate(changes) if index not in others]
    attempts = sorted({change.attempt for change in listed_changes if change.attempt is not None})
    place_of = {index: place for place, index in enumerate(attempts)}
    renumbered = (
        change if change.attempt is None else replace(change, attempt=place_of[change.attempt])
        for change in listed_changes
    )
    return Listed(
        tuple(renumbered),
        tuple(placements[index] for index in attempts),
        _counted([changes[index] for index in sorted(others)]),
    )


def _counted(changes: Sequence[PodChange]) -> tuple[Unlisted, ...]:
    """Count pods by workload, outcome and message."""
    pods: Counter[tuple[str, Outcome, str]] = Counter()
    nodes: dict[tuple[str, Outcome, str], Counter[str]] = {}
    for change in changes:
        is_pending = change.action is Action.PENDING
        outcome = _OUTCOMES.get(change.outcome, Outcome.UNSCHEDULABLE) if is_pending else Outcome.SCHEDULED
        group = (_workload(change), outcome, change.reason)
        pods[group] += 1
        if change.to_node is not None:
            nodes.setdefault(group, Counter())[change.to_node] += 1
    return tuple(
        Unlisted(workload=group[0], pods=n, outcome=group[1], nodes=dict(nodes.get(group, {})), message=group[2])
        for group, n in pods.items()
    )


def _workload(change: PodChange) -> str:
    if not change.workload:
        return f"Pod/{change.pod}"
    kind, _, name = change.workload.partition("/")
    return f"{kind}/{change.pod.partition('/')[0]}/{name}"
