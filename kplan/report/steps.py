"""Everything that happens in the course of an answer, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import UnsetType

from kplan.documents.change import Step, StepEvent
from kplan.report.blocks import Block, Cell, Heading, Span, Style, Table
from kplan.report.words import count

_MOST_STEPS = 200
_STYLES: Mapping[StepEvent, Style] = {
    StepEvent.BOUND: "good",
    StepEvent.EVICTED: "warn",
    StepEvent.BLOCKED: "bad",
    StepEvent.STUCK: "bad",
    StepEvent.REFUSED: "bad",
}


def step_blocks(steps: Sequence[Step]) -> Iterator[Block]:
    """Yield a table of everything that happens, in order."""
    if not steps:
        return
    yield Heading(("Steps",))
    has_times = not isinstance(steps[-1].at, UnsetType)
    rows: list[tuple[Cell, ...]] = [
        (
            str(step.step) if isinstance(step.at, UnsetType) else f"{step.at:.2f}",
            Span(step.event, _STYLES.get(step.event, "")),
            step.pod or step.workload,
            step.node or "-",
            step.because,
        )
        for step in steps[:_MOST_STEPS]
    ]
    note = f"and {count(len(steps) - _MOST_STEPS, 'more step')} (JSON has all)" if len(steps) > _MOST_STEPS else ""
    first = "SECOND" if has_times else "STEP"
    yield Table((first, "EVENT", "WHAT", "NODE", "BECAUSE"), tuple(rows), "><<<<", note=note)
