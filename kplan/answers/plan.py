"""Decisions about pods in order, and their report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from msgspec import UnsetType
from msgspec.structs import replace

from kplan.answers.answer import Answer
from kplan.answers.cluster_map import cluster_map
from kplan.answers.new_nodes import before_growth, with_new_nodes
from kplan.answers.placement import Placement
from kplan.answers.placement_report import NodesOf, placement_report
from kplan.answers.room import is_roomy
from kplan.autoscaling.seam import NewNode
from kplan.documents.base import Condition
from kplan.documents.luck import Luck
from kplan.documents.nodes import NodeChanges
from kplan.documents.placement import PlacementReport
from kplan.documents.pod_groups import GroupPlan
from kplan.engine.cluster import Cluster
from kplan.framework.session import Session


@dataclass(frozen=True)
class Plan(Answer):
    """Decisions in order.

    Attributes
    ----------
    placements : the decisions; a pod that is tried again after its preemption has two in a row
    before : the cluster before the plan; not to be changed
    session : the cluster after the plan; not to be changed
    more : NAMESPACE/NAME -> number of further replicas that are not tried, because they end as this pod does
    adds : the nodes that an autoscaler adds for them
    nodes : the document about these; None where no autoscaler is followed
    make_groups : called when somebody reads `groups`
    """

    placements: tuple[Placement, ...]
    before: Cluster = field(repr=False)
    session: Session = field(repr=False)
    more: Mapping[str, int] = field(default_factory=dict)
    adds: Sequence[NewNode] = field(default=(), repr=False)
    nodes: NodeChanges | None = field(default=None, repr=False)
    make_groups: Callable[[], tuple[GroupPlan, ...]] = field(default=tuple, repr=False, compare=False)
    #: the least number of nodes that fitted a pod when it was tried; 0 if one was not scheduled
    fewest_nodes: int = field(default=0, repr=False)
    #: tells what differs between draws of the same decisions; None if nobody asks
    luck: Callable[[Sequence[Condition]], Luck | UnsetType] | None = field(default=None, repr=False, compare=False)

    @property
    def is_roomy(self) -> bool:
        """Whether every pod gets a node, whichever of equal nodes are drawn; then nothing that counts is luck."""
        rows = {self.session.find(placement.pod.key) for placement in self.placements}
        infos = self.session.cluster.pods.infos
        return is_roomy(self.fewest_nodes, [infos[row] for row in rows if row is not None])

    @cached_property
    def groups(self) -> tuple[GroupPlan, ...]:
        """What becomes of the groups of the pods, and what would help those that wait."""
        return self.make_groups()

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
        with_map : list every node before and after
        """
        report = placement_report(
            self.context,
            self.placements,
            fail_on=fail_on,
            nodes_of=nodes_of,
            more=self.more,
            max_listed=max_listed,
            nodes=self.nodes,
            groups=self.groups,
        )
        if self.luck is not None:
            report = replace(report, luck=self.luck(report.verdict.fail_on))
        if self.adds:
            report = replace(report, placements=with_new_nodes(report.placements, self.adds))
        if not with_map:
            return report
        after = self.session.cluster
        return replace(report, cluster=cluster_map(before_growth(self.before, after), after))
