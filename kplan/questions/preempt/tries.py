"""A row for each pod that finds no room: which pods it evicts, and on which node."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

import msgspec

from kplan.api.readable import listing
from kplan.documents.placement import PodPlacement
from kplan.framework.post_filter import Preemption
from kplan.report.blocks import Block, Cell, Span, Table, line
from kplan.report.options import ReportOptions
from kplan.report.overview import STATES
from kplan.report.words import grouped

_MOST_VICTIMS = 2
_TELLS_MORE = "--explain, or kplan preempt NS/POD, shows why these victims are chosen"


class Tries(msgspec.Struct, frozen=True):
    """How the scheduler decided about a pod that was tried once, or again after its victims had gone."""

    placement: PodPlacement
    evicts: Preemption | None  #: None where it evicts no pod
    node: str | None  #: where it is placed, after evictions or without; None for nowhere


def tries_of(placements: Sequence[PodPlacement]) -> list[Tries]:
    """Return one item for each pod, however often it was tried."""
    by_pod = grouped((placement.pod.key, placement) for placement in placements)
    return [_of(tries) for tries in by_pod.values()]


def _of(tries: Sequence[PodPlacement]) -> Tries:
    preemption = next(
        (placement.preemption for placement in tries if placement.preemption and placement.preemption.nominated_node),
        None,
    )
    last = tries[-1]
    return Tries(last, preemption, last.node or (preemption.nominated_node if preemption is not None else None))


def tries_blocks(tries: Sequence[Tries], options: ReportOptions, preempting: Container[str] = ()) -> Iterator[Block]:
    """Yield a table of the pods, those without any node first; `preempting` are pods whose group evicts as a whole."""
    ordered = sorted(tries, key=lambda pod: pod.node is not None)
    yield Table(("POD", "EVICTS", "ON NODE", "STATE"), tuple(_row(pod, options, preempting) for pod in ordered), "<<<<")
    if not options.in_full and any(pod.evicts for pod in tries):
        yield line(Span(_TELLS_MORE, "hint"))


def _row(pod: Tries, options: ReportOptions, preempting: Container[str]) -> tuple[Cell, ...]:
    key = pod.placement.pod.key
    if key in preempting:
        return (key, "-", "-", Span("fits once its group has evicted others", "warn"))
    if pod.evicts is None:
        state = (
            Span("fits without preemption", "good") if pod.node is not None else Span(_nowhere(pod.placement), "bad")
        )
        return (key, "-", pod.node or "-", state)
    victims = [victim.key for victim in pod.evicts.victims]
    broken = sum(victim.pdb_violation for victim in pod.evicts.victims)
    state = Span("violates a disruption budget", "bad") if broken else Span("fits after eviction", "warn")
    return (key, listing(victims, most=len(victims) if options.is_wide else _MOST_VICTIMS), pod.node or "-", state)


def _nowhere(placement: PodPlacement) -> str:
    if placement.held_back_by:
        return "waits for its group"
    return "no eviction helps" if placement.preemption is not None else STATES[placement.outcome]
