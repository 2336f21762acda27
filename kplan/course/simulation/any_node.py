"""Nodes for pods of which it only matters whether they find one, not which.

A pod certainly finds a node where the pods that were placed before it cannot fill all nodes that fit it, wherever they
are: what it takes to say so is far less than to score nodes. Where that is not certain, or where it matters on which
nodes pods run, `Uncertain` is raised, and the scheduler has to decide.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
import numpy as np

from kplan.api.affinity import NO_SCHEDULE, Taint, untolerated
from kplan.api.labels import UNREACHABLE
from kplan.engine.arrays import BoolArray, FloatArray
from kplan.framework.results import CycleState, PluginError, Scope
from kplan.framework.runtime import Framework
from kplan.framework.session import Session
from kplan.plugins.node_resources_fit import NodeResourcesFit
from kplan.plugins.node_unschedulable import NodeUnschedulable
from kplan.plugins.taint_toleration import TaintToleration
from kplan.rules.nodes import UNSCHEDULABLE_TAINT
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import PODS
from kplan.rules.volumes import storage_kinds

MAX_SHAPES = 4096  #: for so many shapes it is remembered which nodes fit them: a byte a node each
AHEAD = 32  #: for so many more pods it is tried at first to be certain at once

_ROUNDING = 1e-6


class Uncertain(Exception):  # noqa: N818 - nothing is wrong: the scheduler decides instead
    """Whether a pod finds a node depends on where other pods are."""


class Room(msgspec.Struct, eq=False):
    """The room for pods that fit the same nodes and request the same."""

    #: resource -> how much others have to take of it on each node until one finds no room there; float64 of shape
    #: (n_nodes,), 0 where the node does not fit
    spare: dict[str, FloatArray]

    def certain_row(self, usage: Mapping[str, float], allowed: FloatArray) -> int | None:
        """Return the row of a node; None where others may leave no room on any.

        A node is full when others take all that it has to spare of one resource. As a share of what they take of this
        resource in all, that is at least the smallest such share of its resources. The shares of all nodes that they
        fill add up to 1 at most for each resource.

        `usage`: resource -> what others take of it together. `allowed`: float64 of shape (n_nodes,), 1 for the nodes
        that take pods, 0 for others.
        """
        shares = [spare * (allowed / usage[name]) for name, spare in self.spare.items() if usage.get(name)]
        least = np.minimum.reduce(shares)
        if not len(least):
            return None
        row = int(least.argmax())
        return row if least[row] > 1 or least.sum() > len(shares) + _ROUNDING else None


class AnyNode:
    """What fits where in a cluster at rest, for many changes that begin with it; nobody else has its `session`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._rooms: dict[bytes, Room | None] = {}
        self._alike: dict[tuple[bytes, frozenset[tuple[str, int]]], Room] = {}
        self.uncertain: set[str] = set()  #: keys of the workloads with a pod for which nothing is certain

    def room_for(self, pod: PodInfo) -> Room | None:
        """Return the room for pods like this one; None where more than their room matters."""
        if pod.shape in self._rooms or len(self._rooms) >= MAX_SHAPES:
            return self._rooms.get(pod.shape)
        fits, room = self._fitting(pod), None
        if fits is not None:
            requests = pod.resources.requests
            key = fits.tobytes(), frozenset(requests.items())
            if key not in self._alike:
                cluster = self.session.cluster
                spare = {PODS: np.where(fits, cluster.nodes.allowed_pods - cluster.pod_count, 0.0)}
                for name, amount in requests.items():
                    free = cluster.nodes.allocatable(name) - cluster.requested(name)
                    spare |= {name: np.where(fits, free - amount + 1, 0.0)} if amount else {}
                self._alike[key] = Room(spare)
            room = self._alike[key]
        self._rooms[pod.shape] = room
        return room

    def _fitting(self, pod: PodInfo) -> BoolArray | None:
        session, framework = self.session, self.session.framework_for(pod)
        if framework is None or framework.foreign_plugins or session.extenders or session.nominator:
            return None
        if pod.is_terminating or pod.affinity_error or not framework.run_pre_enqueue(pod).is_success:
            return None
        # Pods with different claims have one shape; and pods leave again that go to a node that is next.
        if any(map(storage_kinds, pod.pod.spec.volumes)) or _goes_to_avoided(pod, framework):
            return None
        cycle = CycleState(pod, session.cluster.add_pod(pod), session.cluster)
        try:
            return _fitting_alone(framework, cycle)
        except PluginError:
            return None


def _fitting_alone(framework: Framework, cycle: CycleState) -> BoolArray | None:
    """Return the nodes that fit a pod, or None where more than their room matters; raises PluginError."""
    entry = framework.shape(cycle.pod)
    outcome = framework.run_pre_filter(cycle, entry)
    if outcome.status is not None or outcome.nodes is not None:
        return None
    without_say = {*outcome.skipped, NodeResourcesFit.name}
    if any(
        plugin.name not in without_say and plugin.scope is not Scope.NODE_OBJECT for plugin in framework.filter_plugins
    ):
        return None
    fits = framework.filter_all(cycle, entry, outcome.skipped)[1].copy()
    if fits.any():
        # A score that fails leaves the pod without a node; it fails for any of them.
        framework.run_scores(cycle, fits.nonzero()[0][:1], framework.unshared)
    return fits


_KEPT_AWAY_BY = {
    NodeUnschedulable.name: UNSCHEDULABLE_TAINT,
    TaintToleration.name: Taint(key=UNREACHABLE, effect=NO_SCHEDULE),
}
"""Filter -> the taint for which it keeps pods away from nodes that are drained, or lost."""


def _goes_to_avoided(pod: PodInfo, framework: Framework) -> bool:
    """Tell whether a pod may go to nodes that are drained, or lost."""
    filters = {plugin.name for plugin in framework.filter_plugins}
    tolerations = pod.pod.spec.tolerations
    return any(name not in filters or not untolerated(tolerations, (taint,)) for name, taint in _KEPT_AWAY_BY.items())


class AnyNodeTaker:
    """Takes nodes for the pods of one change, one after the other; none of those with the names `avoided`."""

    def __init__(self, any_node: AnyNode, avoided: Collection[str]) -> None:
        self._any_node = any_node
        nodes = any_node.session.cluster.nodes
        self._allowed = np.ones(len(nodes))
        self._allowed[[nodes.row_of[name] for name in avoided]] = 0
        self._usage: dict[str, float] = {PODS: 0.5}  # with half a place besides, so that it is never 0
        self._certain: dict[Room, tuple[int, Mapping[str, float]]] = {}  #: a node, and up to which usage it is certain

    def take(self, pod: PodInfo, workload: str) -> int:
        """Return the row of a node for a pod of a workload with this key; raises Uncertain when there may be none."""
        room = self._any_node.room_for(pod)
        if room is None:
            self._any_node.uncertain.add(workload)
            raise Uncertain
        usage, requests = self._usage, pod.resources.requests
        row, known = self._certain.get(room, (None, {}))
        if row is None or any(usage.get(name, 0) > known.get(name, 0) for name in room.spare):
            known = {name: 2 * usage.get(name, 0) + AHEAD * requests.get(name, 1) for name in room.spare}
            row = room.certain_row(known, self._allowed)
            if row is None:
                row, known = room.certain_row(usage, self._allowed), usage.copy()
            if row is None:
                raise Uncertain
            self._certain[room] = row, known
        usage[PODS] += 1
        for name, amount in requests.items():
            usage[name] = usage.get(name, 0) + amount
        return row
