"""Nodes that are there already, as places for pending pods.

Upstream: provisioning/scheduling/existingnode.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from kplan.autoscaling.karpenter.amounts import Amounts, fits, less
from kplan.autoscaling.karpenter.cluster import StateNode, joined
from kplan.autoscaling.karpenter.entrants import Entrant
from kplan.autoscaling.karpenter.ports import conflict
from kplan.autoscaling.karpenter.requirements import Requirements, Vocabulary
from kplan.autoscaling.karpenter.taints import tolerates_all
from kplan.autoscaling.karpenter.topology import Topology, Unsatisfiable
from kplan.autoscaling.karpenter.topology_group import TopologyGroup


class ExistingNode:
    """A node of the cluster during a pass.

    Parameters
    ----------
    daemon_requests : of the daemons that it should have
    """

    def __init__(self, state: StateNode, daemon_requests: Amounts, vocabulary: Vocabulary) -> None:
        self.state = state
        self.pods: list[Entrant] = []
        self.hostname = state.hostname
        self.requirements = vocabulary.hostless(vocabulary.of_labels(state.labels))
        self.taints = state.taints
        present = state.usage.daemon_requests
        missing = {name: max(0, amount - present.get(name, 0)) for name, amount in daemon_requests.items()}
        self.room = less(state.available, missing)
        self.is_overcommitted = any(amount < 0 for amount in self.room.values())
        self.ports = dict(state.usage.ports)
        self.volumes = dict(state.usage.volumes)

    def can_take(
        self, entrant: Entrant, groups: Sequence[TopologyGroup], topology: Topology, vocabulary: Vocabulary
    ) -> Requirements | None:
        """Return the requirements of the node with the pod; None where it does not take it."""
        if not fits(entrant.requests, self.room) or not tolerates_all(entrant.wishes.tolerations, self.taints):
            return None
        if self._exceeds_volumes(entrant) or conflict(entrant.key, entrant.ports, self.ports):
            return None
        base = self._with(self.requirements, entrant.requirements, vocabulary)
        for volumes in () if base is None else entrant.alternatives or (vocabulary.nothing,):
            node = self._with(base, volumes, vocabulary)
            narrowed = node if node is None or not groups else topology.narrowed(entrant, groups, node, self.hostname)
            if node is None or narrowed is None or isinstance(narrowed, Unsatisfiable):
                continue
            if not vocabulary.misfits(node, narrowed, allows_well_known=False):
                return vocabulary.join(node, narrowed)
        return None

    def _with(self, node: Requirements | None, wanted: Requirements, vocabulary: Vocabulary) -> Requirements | None:
        """Return the requirements of the node with those of a pod or volume; None where it cannot meet them."""
        own = vocabulary.hostless(wanted)
        if node is None or vocabulary.host_misfits(self.hostname, wanted):
            return None
        return None if vocabulary.misfits(node, own, allows_well_known=False) else vocabulary.join(node, own)

    def _exceeds_volumes(self, entrant: Entrant) -> bool:
        limits = self.state.limits
        if not limits:
            return False
        used = joined(self.volumes, entrant.volumes) if entrant.volumes else self.volumes
        return any(driver in limits and len(claims) > limits[driver] for driver, claims in used.items())

    def take(self, entrant: Entrant, node: Requirements, topology: Topology) -> None:
        """Add the pod."""
        self.pods.append(entrant)
        for name, amount in entrant.requests.items():
            self.room[name] = self.room.get(name, 0) - amount
        self.requirements = node
        topology.record(entrant, self.taints, node, self.hostname)
        self.ports[entrant.key] = entrant.ports
        if entrant.volumes:
            self.volumes = joined(self.volumes, entrant.volumes)
