"""What a plan came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from kplan.documents.base import Condition, Context
from kplan.documents.placement import PlacementReport
from kplan.engine.cluster import Cluster
from kplan.framework.session import Session
from kplan.planner.cluster_map import cluster_map
from kplan.planner.placement import Placement
from kplan.planner.placement_report import NodesOf, placement_report


@dataclass(frozen=True)
class Plan:
    """Decisions in the order in which they were made.

    Attributes
    ----------
    placements : one a decision; a pod whose preemption was settled has two in a row
    before : the cluster before the plan; not to be changed
    session : the cluster as it stands after the plan; not to be changed
    tell_context : returns what reports say besides
    more : NAMESPACE/NAME -> further replicas like the pod that were not looked at, since they end as it does
    """

    placements: tuple[Placement, ...]
    before: Cluster = field(repr=False)
    session: Session = field(repr=False)
    tell_context: Callable[[], Context] = field(repr=False)
    more: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def context(self) -> Context:
        """What reports say besides: which cluster, which scheduler, what was odd about the question."""
        return self.tell_context()

    def report(
        self,
        *,
        fail_on: Sequence[Condition] | None = None,
        nodes_of: NodesOf | None = None,
        max_listed: int | None = None,
        with_map: bool = False,
    ) -> PlacementReport:
        """Return the PlacementReport; parameters as for `placement_report`.

        Parameters
        ----------
        with_map : tell about every node before and after
        """
        found = placement_report(
            self.context, self.placements, fail_on=fail_on, nodes_of=nodes_of, more=self.more, max_listed=max_listed
        )
        return replace(found, cluster=cluster_map(self.before, self.session.cluster)) if with_map else found

    def to_dict(self, *, fail_on: Sequence[Condition] | None = None) -> dict[str, Any]:
        """Return the PlacementReport as JSON values (contract, section 2), complete for all nodes."""
        return self.report(fail_on=fail_on).to_dict()
