"""What a plan came to: its placements, and the document about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kplan.framework.session import Session
from kplan.planner.document import placement_report
from kplan.planner.placement import Placement

if TYPE_CHECKING:
    from kplan.planner.planner import Planner


@dataclass(frozen=True)
class Plan:
    """Decisions in the order in which they were made.

    Attributes
    ----------
    placements : one a decision; a pod whose preemption was settled has two in a row
    session : the cluster as it stands after the plan; not to be changed
    """

    planner: Planner = field(repr=False)
    placements: tuple[Placement, ...]
    session: Session = field(repr=False)

    def to_dict(self, *, fail_on: Sequence[str] | None = None) -> dict[str, Any]:
        """Return the PlacementReport document (contract, section 2), complete for all nodes."""
        return placement_report(self.planner, self.placements, fail_on=fail_on)
