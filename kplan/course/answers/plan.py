"""What all answers share; pods decided in order, their report with new nodes, and whether pods compete."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kplan.course.answers.placement import Placement
from kplan.course.answers.placement_report import NodesOf, placement_report
from kplan.course.answers.pod_groups import plans_in_order
from kplan.documents.base import Condition, Context, Report
from kplan.documents.nodes import AddedNode, NewNodeRef, NodeChanges
from kplan.documents.placement import GroupPlan, Luck, PlacementReport, PodPlacement
from kplan.engine.cluster import Cluster
from kplan.framework.group_cycle import GroupTry
from kplan.framework.listers import Key
from kplan.framework.pod_groups import group_of
from kplan.framework.session import Session
from kplan.rules.pod_info import PodInfo

if TYPE_CHECKING:
    from kplan.autoscaling.seam import NewNode


class Reported(ABC):
    """An answer of the planner, from which a report is made."""

    @abstractmethod
    def report(self, *, fail_on: Sequence[Condition] | None = None) -> Report:
        """Return the report, complete for all nodes; `fail_on`: what fails, None for the command's defaults."""

    def rows(self, of: str = "") -> list[dict[str, Any]]:
        """Return the rows of `report`: see `kplan.documents.base.Report.rows`."""
        return self.report().rows(of)

    def __str__(self) -> str:
        return str(self.report())

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()

    def to_dict(self, *, fail_on: Sequence[Condition] | None = None) -> dict[str, Any]:
        """Return the JSON form of `report`, the document that the command prints with ``-o json``."""
        return self.report(fail_on=fail_on).to_dict()


@dataclass(frozen=True, kw_only=True)
class Answer(Reported):
    """An answer whose report states the cluster, the scheduler and the warnings besides.

    Its pickle is its question: the copy answers it anew, with the same result.
    """

    make_context: Callable[[], Context] = field(repr=False, compare=False)  #: called once, for the first report
    question: Callable[[], Answer] = field(repr=False, compare=False)  #: answers the same anew

    def __reduce__(self) -> tuple[Any, ...]:
        return self.question, ()

    @cached_property
    def context(self) -> Context:
        return self.make_context()


def added_node(new: NewNode) -> AddedNode:
    """Return the document about a node that an autoscaler adds."""
    return AddedNode(
        name=new.node.metadata.name,
        pool=new.pool or UNSET,
        group=new.group or UNSET,
        instance_type=new.instance_type,
        zone=new.zone,
        capacity_type=new.capacity_type,
        price=new.price,
        pods=new.pods,
        options=new.options,
    )


def with_new_nodes(placements: Iterable[PodPlacement], adds: Iterable[NewNode]) -> tuple[PodPlacement, ...]:
    names, nodes = NewNodeRef.__struct_fields__, map(added_node, adds)
    refs = {node.name: NewNodeRef(**{name: getattr(node, name) for name in names}) for node in nodes}
    return tuple(
        replace(placement, new_node=refs[placement.node]) if placement.node in refs else placement
        for placement in placements
    )


def before_growth(before: Cluster, after: Cluster) -> Cluster:
    more = len(after) - len(before)
    if not more:
        return before
    absent = np.zeros(len(after), np.bool_)
    absent[len(before) :] = True
    return before.copy().grown(after.nodes.with_absent(absent))


@dataclass(frozen=True)
class Plan(Answer):
    """Decisions in order."""

    placements: tuple[Placement, ...]  #: a pod that is tried again after its preemption has two in a row
    before: Cluster = field(repr=False)  #: the cluster before the plan; not to be changed
    session: Session = field(repr=False)  #: the cluster after the plan; not to be changed
    #: NAMESPACE/NAME -> number of further replicas that are not tried, because they end as this pod does
    more: Mapping[str, int] = field(default_factory=dict)
    adds: Sequence[NewNode] = field(default=(), repr=False)  #: the nodes that an autoscaler adds for them
    nodes: NodeChanges | None = field(default=None, repr=False)  #: about these; None where no autoscaler is followed
    #: how the last cycle of each group has ended
    tries: Mapping[Key, GroupTry] = field(default_factory=dict, repr=False, compare=False)
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
        return plans_in_order(self.session, self.tries, self.placements)

    def report(
        self,
        *,
        fail_on: Sequence[Condition] | None = None,
        nodes_of: NodesOf | None = None,
        max_listed: int | None = None,
        with_map: bool = False,
    ) -> PlacementReport:
        """Return the PlacementReport; parameters as for `placement_report`; `with_map`: all nodes before and after."""
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
        from kplan.course.answers.utilisation import cluster_map

        after = self.session.cluster
        return replace(report, cluster=cluster_map(before_growth(self.before, after), after))


def is_roomy(fewest_nodes: int, infos: Sequence[PodInfo]) -> bool:
    """Return whether every pod gets a node, whichever of equal nodes the scheduler draws for them.

    Each of the other pods can take one node away from a pod, so it gets one if at least as many nodes fit it as there
    are pods. That does not hold for pods of which one decides about many nodes, such as a zone.

    `fewest_nodes`: the least number of nodes that fitted one of the pods when it was tried. `infos`: the pods.
    """
    return len(infos) < 2 or (fewest_nodes >= len(infos) and not any(map(_looks_beyond_a_node, infos)))


def _looks_beyond_a_node(info: PodInfo) -> bool:
    spec = info.pod.spec
    return bool(
        info.affinity.required_affinity
        or info.affinity.required_anti_affinity
        or spec.resource_claims
        or any(spread.when_unsatisfiable == "DoNotSchedule" for spread in spec.topology_spread_constraints)
        or any(volume.persistent_volume_claim or volume.ephemeral for volume in spec.volumes)
        or group_of(info) is not None
    )
