"""Node groups that would help if they could grow further."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from kplan.api.core import Node
from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup
from kplan.autoscaling.cluster_autoscaler.pools import cloud_of, pool_names
from kplan.autoscaling.seam import Advice, LargerGroup

MOST_TRIED = 24
"""So many groups are tried, those that have no room first."""


def larger_groups(
    groups: Sequence[NodeGroup], nodes: Iterable[Node], now: Advice, ask: Callable[[Sequence[NodeGroup]], Advice]
) -> Iterator[LargerGroup]:
    """Yield groups with the most size with which more pods are helped.

    Parameters
    ----------
    now : what is decided with the groups as they are
    ask : returns what is decided with other groups
    """
    n_waiting = len(now.unhelped)
    tried = sorted((group for group in groups if group.room < n_waiting), key=lambda group: group.room)
    by_name = {node.metadata.name: node for node in nodes}
    for group in tried[:MOST_TRIED]:
        larger = replace(group, most=group.target + n_waiting)
        advice = ask([larger if other is group else other for other in groups])
        added = sum(new.group == group.name for new in advice.adds)
        if len(advice.unhelped) < n_waiting and group.target + added > group.most:
            cloud = _cloud(group, [by_name[name] for name in group.nodes if name in by_name])
            yield LargerGroup(group.name, group.most, group.target + added, cloud)


def _cloud(group: NodeGroup, nodes: Sequence[Node]) -> str:
    """Return whose group it is, where its name is the cloud's own and not that of a pool's label."""
    if group.name.startswith(("MachineDeployment/", "MachineSet/", "MachinePool/")) and group.name.count("/") == 2:
        return "clusterapi"
    if any(group.name in pool_names(node) for node in nodes):
        return ""
    return next(("aws" for node in nodes if cloud_of(node) == "aws"), "")
