"""Preemption by a whole pod group: which pods and groups leave so that all of it fits.

Upstream: pkg/scheduler/framework/preemption/{podgrouppreemption,types}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cmp_to_key
from typing import Final

import msgspec

from kplan.api.scheduling import PodGroup
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.framework.interface import GroupVictims
from kplan.framework.listers import Key, group_of
from kplan.framework.results import Status
from kplan.preemption.dry_run import Budgets

NO_VICTIMS: Final = "No preemption victims found for incoming preemptor"


class Unit(msgspec.Struct):
    """Pods that leave together: one pod, or a group whose disruption mode is PodGroup."""

    pods: list[int]
    priority: int
    is_group: bool  #: the pods belong to a group, whatever its mode
    start: int  #: in microseconds; of a group that of its first pod by node, as upstream
    name: str  #: decides between units that are equal otherwise; upstream does not

    def is_more_important(self, other: Unit) -> bool:
        """Whether this unit is spared rather than another."""
        if self.priority != other.priority:
            return self.priority > other.priority
        if self.is_group != other.is_group:
            return self.is_group
        if self.is_group and len(self.pods) != len(other.pods):
            return len(self.pods) > len(other.pods)
        # A pod that has not started counts as started now.
        return (self.start, self.name) < (other.start, other.name)


def units_of(cluster: Cluster, groups: Mapping[Key, PodGroup]) -> list[Unit]:
    """Return all running pods as the units in which they leave, node by node."""
    units: dict[Key | int, Unit] = {}
    infos, starts = cluster.pods.infos, cluster.pods.start_micros
    for row in range(len(cluster)):
        for pod in cluster.pods_on[row]:
            info = infos[pod]
            key = group_of(info)
            group = None if key is None else groups.get(key)
            if key is None or group is None or not group.spec.is_disrupted_as_a_whole:
                units[pod] = Unit([pod], info.priority, key is not None, int(starts[pod]), info.key)
            elif key in units:
                units[key].pods.append(pod)
            else:
                units[key] = Unit(
                    [pod], group.spec.priority or 0, is_group=True, start=int(starts[pod]), name="/".join(key)
                )
    return list(units.values())


class _Trial:
    """The running pods of lower priority, which leave and come back one unit after the other."""

    def __init__(self, cluster: Cluster, units: Sequence[Unit]) -> None:
        self._cluster = cluster
        self._row_of = {pod: cluster.node_of[pod] for unit in units for pod in unit.pods}
        self._order = {row: cluster.pods_on[row].copy() for row in set(self._row_of.values())}
        for unit in units:
            self.leave(unit)

    def leave(self, unit: Unit) -> None:
        for pod in unit.pods:
            self._cluster.unbind(pod, is_trial=True)

    def come_back(self, unit: Unit) -> None:
        for pod in unit.pods:
            self._cluster.bind(pod, self._row_of[pod])

    def end(self) -> None:
        """Leave the cluster as it was."""
        for pod, row in self._row_of.items():
            if self._cluster.node_of[pod] == NOWHERE:
                self._cluster.bind(pod, row)
        for row, pods in self._order.items():
            self._cluster.reorder(row, pods)


def victims_of_group(
    cluster: Cluster, budgets: Budgets, groups: Mapping[Key, PodGroup], priority: int, fits: Callable[[], Status]
) -> tuple[Status, GroupVictims]:
    """Return whether a group of some priority fits once some pods of lower priority leave, and these pods.

    All of them leave on trial; then they come back one unit after the other, those first whose eviction would break a
    budget, the most important first, and a unit without which the group no longer fits leaves. The cluster is the same
    afterwards.
    """
    units = [unit for unit in units_of(cluster, groups) if unit.priority < priority]
    if not units:
        return Status.unresolvable(NO_VICTIMS), GroupVictims()
    trial = _Trial(cluster, units)
    victims: list[Unit] = []
    violating: list[Unit] = []
    status = fits()
    if status.is_success:
        units = _by_importance(units)
        are_violating = budgets.violating_units(cluster.pods, [unit.pods for unit in units])
        violating = [unit for unit, is_violating in zip(units, are_violating, strict=True) if is_violating]
        for unit in (*violating, *(unit for unit in units if unit not in violating)):
            trial.come_back(unit)
            if not fits().is_success:
                trial.leave(unit)
                victims.append(unit)
    trial.end()
    broken = [unit for unit in victims if unit in violating]
    return status, GroupVictims(
        [pod for unit in _by_importance(victims) for pod in unit.pods],
        [pod for unit in broken for pod in unit.pods],
        len(broken),
    )


def _by_importance(units: Sequence[Unit]) -> list[Unit]:
    def compare(one: Unit, other: Unit) -> int:
        return -1 if one.is_more_important(other) else 1

    return sorted(units, key=cmp_to_key(compare))
