"""VolumeZone: a pod runs only in the zones and regions that the labels of its volumes name.

Upstream: plugins/volumezone/volume_zone.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec
import numpy as np

from kplan.api.core import PersistentVolume, PersistentVolumeClaim
from kplan.api.field_errors import quoted
from kplan.api.labels import BETA_REGION, BETA_ZONE, CURRENT_LABEL, REGION, ZONE, Requirement
from kplan.engine.arrays import BoolArray
from kplan.engine.details import Detail, OtherVolumeZone
from kplan.engine.matching import match_requirement
from kplan.engine.node_table import NodeTable
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.framework import interface as fwk
from kplan.rules.pod_info import read_by_volume_plugins
from kplan.rules.volumes import WAIT_FOR_FIRST_CONSUMER, ZONE_DELIMITER, claim_class, not_found

REASON_CONFLICT = "node(s) had no available volume zone"

_TOPOLOGY_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)


class VolumeTopology(msgspec.Struct, frozen=True):
    """A topology label of a volume: nodes must have one of its values, under the same key or its current name."""

    volume: str
    key: str
    values: tuple[str, ...]

    def node_value(self, labels: dict[str, str]) -> str | None:
        """Return the value of a node's label, under the same key or its current name."""
        return labels.get(self.key, labels.get(CURRENT_LABEL.get(self.key, self.key)))


class _PreFilterState(msgspec.Struct, frozen=True):
    topologies: tuple[VolumeTopology, ...]


class VolumeZone:
    """Rejects nodes outside the zone or region of a bound volume; nodes without such labels are not rejected."""

    name: ClassVar[str] = "VolumeZone"
    scope: ClassVar[fwk.Scope] = fwk.Scope.CLUSTER
    reads = staticmethod(read_by_volume_plugins)
    queueing_hint = staticmethod(fwk.no_event_helps)  # it waits for volumes or nodes in other zones
    ignores_pods: ClassVar[bool] = True

    def __init__(self, args: None, handle: fwk.Handle) -> None:
        self.listers = handle.listers

    def pre_filter(self, cycle: fwk.CycleState) -> fwk.PreFilterResult | None:
        """Read the topology labels of the pod's bound volumes; reject a pod with a claim that can never be bound."""
        names = cycle.pod.pod.named_claims
        if not names:
            return fwk.SKIP_SHAPE
        topologies: list[VolumeTopology] = []
        for name in names:
            volume = self._bound_volume(cycle.pod.namespace, name)
            if isinstance(volume, fwk.Status):
                return fwk.PreFilterResult(status=volume)
            if volume is not None:
                topologies += volume_topologies(volume)
        if not topologies:
            return fwk.SKIP
        cycle.write(_PreFilterState(tuple(topologies)))
        return None

    def _bound_volume(self, namespace: str, name: str) -> PersistentVolume | fwk.Status | None:
        """Return the volume of a claim, None if it waits for its first consumer, or the status that rejects the pod."""
        if not name:
            return fwk.Status.unresolvable("PersistentVolumeClaim had no name")
        claim = self.listers.persistent_volume_claims.get((namespace, name))
        if claim is None:
            return fwk.Status.unresolvable(not_found("persistentvolumeclaim", name))
        volume_name = claim.spec.volume_name
        if not volume_name:
            return self._unbound_status(claim)
        volume = self.listers.persistent_volumes.get(volume_name)
        return fwk.Status.unresolvable(not_found("persistentvolume", volume_name)) if volume is None else volume

    def _unbound_status(self, claim: PersistentVolumeClaim) -> fwk.Status | None:
        class_name = claim_class(claim)
        if not class_name:
            return fwk.Status.unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
        storage_class = self.listers.storage_classes.get(class_name)
        if storage_class is None:
            return fwk.Status.unresolvable(not_found("storageclass.storage.k8s.io", class_name))
        if storage_class.volume_binding_mode is None:
            return fwk.Status.unresolvable(f"VolumeBindingMode not set for StorageClass {quoted(class_name)}")
        if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            return None
        return fwk.Status.unresolvable("PersistentVolume had no name")

    def filter(self, cycle: fwk.CycleState, nodes: NodeView) -> Verdicts:
        """Reject nodes that have topology labels, but not those of every volume."""
        state = cycle.find(_PreFilterState)
        if state is None:  # PreFilter is disabled in the profile
            result = self.pre_filter(cycle)
            if result is not None and result.status is not None:
                reason = Reason(result.status.message, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
                return Verdicts.where(np.ones(len(nodes), np.bool_), reason)
            if result is not None:
                return Verdicts.accepting(len(nodes))
            state = cycle.read(_PreFilterState)
        topologies = state.topologies
        table = cycle.cluster.nodes
        rejected = np.zeros(len(table), np.bool_)
        for topology in topologies:
            rejected |= ~_nodes_in(table, topology)
        rejected &= table.derived(
            "any volume topology", lambda: np.logical_or.reduce([table.label(key).present for key in _TOPOLOGY_LABELS])
        )

        def details(position: int) -> Iterator[Detail]:
            labels = table.nodes[nodes.row(position)].metadata.labels
            for one in topologies:
                if (node := one.node_value(labels)) not in one.values:
                    yield OtherVolumeZone(volume=one.volume, label=one.key, allowed=one.values, node=node)

        reason = Reason(REASON_CONFLICT, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, details)
        return Verdicts.where(nodes.take(rejected), reason)


def volume_topologies(volume: PersistentVolume) -> Iterator[VolumeTopology]:
    """Yield the topology labels of a volume; a label that is no list of zones is ignored."""
    for key in _TOPOLOGY_LABELS:
        if key in volume.metadata.labels:
            values = {part.strip() for part in volume.metadata.labels[key].split(ZONE_DELIMITER)}
            if "" not in values:
                yield VolumeTopology(volume.metadata.name, key, tuple(sorted(values)))


def _nodes_in(nodes: NodeTable, topology: VolumeTopology) -> BoolArray:
    """Return which nodes have one of the values, under the same key or, if they lack it, under its current name."""
    key, values = topology.key, topology.values

    def matches() -> BoolArray:
        current = CURRENT_LABEL.get(key)
        inside = match_requirement(nodes, Requirement(key, "In", values))
        if current is not None:
            inside |= match_requirement(nodes, Requirement(current, "In", values)) & ~nodes.label(key).present
        return inside

    return nodes.derived(("volume topology", key, values), matches)
