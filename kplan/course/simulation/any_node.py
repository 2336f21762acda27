"""Nodes for pods of which it only matters whether they find one, not which.

A pod certainly finds a node where a node fits it that has room for all pods besides that were placed before it,
wherever those are: what it takes to say so is far less than to score nodes. Where that is not certain, or where it
matters on which nodes pods run, `Uncertain` is raised, and the scheduler has to decide.
"""

from __future__ import annotations

from collections.abc import Collection

from kplan.api.affinity import untolerated
from kplan.engine.arrays import BoolArray, Int64Array
from kplan.framework.results import CycleState, PluginError, Scope
from kplan.framework.runtime import Framework
from kplan.framework.session import Session
from kplan.plugins.node_resources_fit import NodeResourcesFit
from kplan.plugins.node_unschedulable import UNSCHEDULABLE_TAINT, NodeUnschedulable
from kplan.rules.pod_info import PodInfo
from kplan.rules.volumes import storage_kinds

MAX_SHAPES = 4096
"""For so many shapes it is remembered which nodes fit them: a byte a node each."""


class Uncertain(Exception):  # noqa: N818 - nothing is wrong: the scheduler decides instead
    """Whether a pod finds a node depends on where other pods are."""


class AnyNode:
    """What fits where in a cluster at rest, for many changes that begin with it.

    Parameters
    ----------
    session : of that cluster, and of nobody else
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._free: dict[str, Int64Array] = {}
        self._nodes: dict[bytes, BoolArray | None] = {}
        cluster = session.cluster
        self.free_places: Int64Array = cluster.nodes.allowed_pods - cluster.pod_count
        #: keys of the workloads with a pod for which nothing is certain
        self.uncertain: set[str] = set()

    def free(self, resource: str) -> Int64Array:
        """Return how much of a resource each node has left, int64 of shape (n_nodes,)."""
        free = self._free.get(resource)
        if free is None:
            cluster = self._session.cluster
            free = self._free[resource] = cluster.nodes.allocatable(resource) - cluster.requested(resource)
        return free

    def nodes_for(self, pod: PodInfo) -> BoolArray | None:
        """Return the nodes that fit a pod, bool of shape (n_nodes,); None where more than their room matters."""
        if pod.shape not in self._nodes and len(self._nodes) < MAX_SHAPES:
            self._nodes[pod.shape] = self._fitting(pod)
        return self._nodes.get(pod.shape)

    def _fitting(self, pod: PodInfo) -> BoolArray | None:
        session, framework = self._session, self._session.framework_for(pod)
        if framework is None or framework.has_foreign_plugins or session.extenders or session.nominator:
            return None
        if pod.is_terminating or pod.affinity_error or not framework.run_pre_enqueue(pod).is_success:
            return None
        # Pods with different claims have one shape; and a drain evicts pods again that go to a node that is next.
        if any(map(storage_kinds, pod.pod.spec.volumes)) or _goes_to_cordoned(pod, framework):
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
        framework.run_scores(cycle, fits.nonzero()[0][:1], None)
    return fits


def _goes_to_cordoned(pod: PodInfo, framework: Framework) -> bool:
    is_checked = any(plugin.name == NodeUnschedulable.name for plugin in framework.filter_plugins)
    return not is_checked or not untolerated(pod.pod.spec.tolerations, (UNSCHEDULABLE_TAINT,))


class AnyNodeTaker:
    """Takes nodes for the pods of one change, one after the other.

    Parameters
    ----------
    avoided : rows of nodes that take no pods in the course of the change
    """

    def __init__(self, any_node: AnyNode, avoided: Collection[int]) -> None:
        self._any_node = any_node
        self._avoided = list(avoided)
        self._taken: dict[str, int] = {}
        self._n_placed = 0

    def take(self, pod: PodInfo, workload: str) -> int:
        """Return the row of a node for a pod.

        Parameters
        ----------
        workload : key of what the pod belongs to

        Raises
        ------
        Uncertain
            When there may be none.
        """
        fits = self._any_node.nodes_for(pod)
        if fits is None:
            self._any_node.uncertain.add(workload)
            raise Uncertain
        self._n_placed += 1
        has_room = fits & (self._any_node.free_places >= self._n_placed)
        for name, amount in pod.resources.requests.items():
            self._taken[name] = self._taken.get(name, 0) + amount
        for name, amount in self._taken.items():
            if amount:
                has_room &= self._any_node.free(name) >= amount
        has_room[self._avoided] = False
        row = int(has_room.argmax())
        if not has_room[row]:
            raise Uncertain
        return row
