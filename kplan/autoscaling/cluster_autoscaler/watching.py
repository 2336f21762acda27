"""The cluster-autoscaler in a cluster in motion: loop after loop, with what it remembers from one to the next."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator

from msgspec.structs import replace

from kplan.api.core import Node
from kplan.api.tolerations import NO_SCHEDULE, Taint
from kplan.autoscaling.cluster_autoscaler.advice import NOT_AGAIN, advice_of
from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup
from kplan.autoscaling.cluster_autoscaler.loop import Loops
from kplan.autoscaling.cluster_autoscaler.nodes import TO_BE_DELETED, has_taint
from kplan.autoscaling.cluster_autoscaler.setup import Setup
from kplan.autoscaling.cluster_autoscaler.templates import Remembered
from kplan.autoscaling.seam import PreparedCluster, Round, Stay
from kplan.snapshot.model import Snapshot


class ClusterAutoscalerWatch:
    """A running cluster-autoscaler.

    Parameters
    ----------
    cluster : when it looks first
    remembered : templates of its groups
    """

    def __init__(self, setup: Setup, cluster: PreparedCluster, remembered: Remembered) -> None:
        self._groups = [group.copy() for group in setup.groups]
        self._setup = setup
        self._start = cluster.now
        self._home: dict[str, NodeGroup] = {name: group for group in self._groups for name in group.nodes}
        self._stays: dict[str, Stay] = {}
        self._loops = Loops(
            cluster.snapshot,
            self._groups,
            setup.options,
            release=cluster.session.config.release,
            now=cluster.now,
            prices=setup.prices,
            priorities=setup.priorities,
            remembered=remembered,
        )
        self._loops.trust_marks()

    def look(self, cluster: PreparedCluster, leaving: Collection[str], *, removes: bool, has_changed: bool) -> Round:
        """Run one loop."""
        snapshot = _with_marks(cluster.snapshot, leaving, cluster.now)
        present = snapshot.node_by_name
        for group in self._groups:
            there = (name for name in self._home_of(group) if name in present and name not in leaving)
            group.nodes = tuple(there)
        loops = self._loops
        loops.see(snapshot)
        if has_changed:
            loops.note_change(cluster.now)
        result = loops.run((cluster.now - self._start) / 1_000_000, removes=removes)
        groups = [replace(group, nodes=tuple(self._home_of(group))) for group in self._groups]
        advice = advice_of(
            snapshot, replace(self._setup, groups=tuple(groups)), [result], full=False, used_names=self._home
        )
        by_name = {group.name: group for group in self._groups}
        for new in advice.adds:
            self._home[new.node.metadata.name] = by_name[new.group]
        gone = {name for removal in advice.removes for name in removal.nodes}
        again = loops.next_change(cluster.now) if removes else math.inf
        return Round(
            advice=replace(advice, stays=tuple(map(self._as_found, advice.stays))),
            unneeded=frozenset(loops.unneeded) - gone,
            again=(again - cluster.now) / 1_000_000,
        )

    def _home_of(self, group: NodeGroup) -> Iterator[str]:
        """Yield the nodes that the group has or had."""
        return (name for name, home in self._home.items() if home is group)

    def _as_found(self, stay: Stay) -> Stay:
        """Return why a node stays, also where that was found out in an earlier loop."""
        if stay.reason != NOT_AGAIN:
            self._stays[stay.node] = stay
        return self._stays.get(stay.node, stay)

    def keep(self, node: str, now: int) -> None:
        """Take note that a node could not be emptied, and stays."""
        self._home[node].target += 1
        self._loops.note_failed_removal(now)


def _with_marks(snapshot: Snapshot, leaving: Collection[str], now: int) -> Snapshot:
    """Return a cluster in which the nodes that go are marked so."""
    if not leaving:
        return snapshot
    taint = Taint(key=TO_BE_DELETED, value=str(now // 1_000_000), effect=NO_SCHEDULE)

    def marked(node: Node) -> Node:
        if node.metadata.name not in leaving or has_taint(node, TO_BE_DELETED):
            return node
        return replace(node, spec=replace(node.spec, taints=(*node.spec.taints, taint)))

    return dataclasses.replace(snapshot, nodes=tuple(map(marked, snapshot.nodes)))
