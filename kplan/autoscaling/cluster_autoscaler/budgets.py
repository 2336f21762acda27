"""How many nodes go at once.

Upstream: cluster-autoscaler core/scaledown/budgets/budgets.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup
from kplan.autoscaling.cluster_autoscaler.options import Options
from kplan.autoscaling.cluster_autoscaler.scale_down import Removable


class _Budget:
    """What may still be deleted, and drained, at once."""

    def __init__(self, options: Options) -> None:
        self.nodes, self.drains = options.max_scale_down_parallelism, options.max_drain_parallelism
        self.may_overflow = True  #: one group that goes as a whole may exceed the budget


def cropped(
    empty: Sequence[Removable],
    full: Sequence[Removable],
    group_of: Mapping[str, NodeGroup],
    present: Iterable[str],
    options: Options,
) -> tuple[list[Removable], list[Removable]]:
    """Return the empty nodes that go, and those that are drained first; CropNodes.

    Parameters
    ----------
    present : names of the nodes that exist
    """
    empty_by_group, full_by_group = _by_group(empty, group_of), _by_group(full, group_of)
    budget, names = _Budget(options), frozenset(present)
    chosen_empty: list[Removable] = []
    chosen_full: list[Removable] = []
    for name, nodes in empty_by_group.items():
        group = group_of[nodes[0].node.metadata.name]
        if not group.is_atomic:
            continue
        drained = full_by_group.get(name, [])
        exceeds = budget.nodes < len(nodes) + len(drained) or budget.drains < len(drained)
        is_used_up = budget.nodes == 0 or (drained and budget.drains == 0)
        if exceeds and (is_used_up or not budget.may_overflow):
            break
        if not _is_whole(group, len(nodes) + len(drained), names):
            continue
        chosen_empty += nodes
        chosen_full += drained
        budget.nodes -= len(nodes) + len(drained)
        budget.drains -= len(drained)
        budget.may_overflow = False
    budget.drains = min(budget.nodes, budget.drains)
    for name, nodes in full_by_group.items():
        group = group_of[nodes[0].node.metadata.name]
        if not group.is_atomic or name in empty_by_group:
            continue
        if budget.drains < len(nodes) and (budget.drains == 0 or not budget.may_overflow):
            break
        if not _is_whole(group, len(nodes), names):
            continue
        chosen_full += nodes
        budget.nodes -= len(nodes)
        budget.drains -= len(nodes)
        budget.may_overflow = False
    single = _single(empty_by_group, group_of, budget.nodes)
    budget.nodes -= len(single)
    drained = _single(full_by_group, group_of, min(budget.nodes, budget.drains))
    return chosen_empty + single, chosen_full + drained


def _by_group(nodes: Iterable[Removable], group_of: Mapping[str, NodeGroup]) -> dict[str, list[Removable]]:
    groups: dict[str, list[Removable]] = {}
    for removable in nodes:
        groups.setdefault(group_of[removable.node.metadata.name].name, []).append(removable)
    return groups


def _is_whole(group: NodeGroup, n_nodes: int, present: frozenset[str]) -> bool:
    return n_nodes in (group.target, sum(name in present for name in group.nodes))


def _single(groups: Mapping[str, list[Removable]], group_of: Mapping[str, NodeGroup], budget: int) -> list[Removable]:
    """Return as many nodes as a budget allows, group by group."""
    nodes = [
        removable
        for members in groups.values()
        for removable in members
        if not group_of[removable.node.metadata.name].is_atomic
    ]
    return nodes[: max(budget, 0)]
