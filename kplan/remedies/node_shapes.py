"""Nodes to add that are like nodes of the cluster, with the daemon pods that run on those."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count, islice
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from kplan.api.core import Node, NodeMeta, Pod
from kplan.api.labels import HOSTNAME
from kplan.api.quantity import grouped
from kplan.api.resource import ResourceSlice
from kplan.api.storage import CSINode
from kplan.diagnosis.intended import states_condition
from kplan.documents import capacity as documents
from kplan.rules.pod_info import daemon_set_of
from kplan.snapshot.model import Snapshot

_OWN_LABELS = (HOSTNAME, "topology.ebs.csi.aws.com/zone", "csi.volume.kubernetes.io/nodeid")


class NodeShape(msgspec.Struct, frozen=True):
    """Nodes that are equal except for their names."""

    like: Node  #: the first of these nodes by name
    count: int  #: number of these nodes in the cluster

    def to_document(self) -> documents.NodeShape:
        """Return the shape as part of a report."""
        allocatable = self.like.status.allocatable
        labels = {key: value for key, value in self.like.metadata.labels.items() if key != HOSTNAME}
        return documents.NodeShape(
            like=self.like.metadata.name,
            existing=self.count,
            allocatable={name: str(allocatable[name]) for name in sorted(allocatable)},
            labels=dict(sorted(labels.items())),
            taints=tuple(f"{taint.key}={taint.value}:{taint.effect}" for taint in self.like.spec.taints),
        )


def node_shapes(snapshot: Snapshot) -> list[NodeShape]:
    """List the shapes of the nodes that accept new pods, the most common first, then by name."""
    by_shape = grouped(
        (_shape(node), node)
        for node in sorted(snapshot.nodes, key=lambda node: node.metadata.name)
        if not (node.spec.unschedulable or any(states_condition(taint.key) for taint in node.spec.taints))
    )
    shapes = [NodeShape(nodes[0], len(nodes)) for nodes in by_shape.values()]
    return sorted(shapes, key=lambda shape: (-shape.count, shape.like.metadata.name))


def differing(node: Node, labels: Sequence[str], room: Sequence[str]) -> Node:
    """Return a node with other labels and other room, as `kplan.changes.values.AddNodes` has them.

    A label without a value has the node's name, so that each of its copies has a value of its own.
    """
    metadata, status = node.metadata, node.status
    halves = (text.partition("=") for text in labels)
    pairs = ((key, value or metadata.name) for key, _, value in halves)
    more = {resource: amount for resource, _, amount in (text.partition("=") for text in room)}
    return replace(
        node,
        metadata=replace(metadata, labels={**metadata.labels, **dict(pairs)}),
        status=replace(status, allocatable={**status.allocatable, **more}, capacity={**status.capacity, **more}),
    )


def _shape(node: Node) -> bytes:
    name = node.metadata.name
    labels = {key: value for key, value in node.metadata.labels.items() if value != name and key not in _OWN_LABELS}
    encoder = msgspec.json.Encoder(order="deterministic")
    return encoder.encode((labels, node.status.allocatable, node.spec.taints))


class AddedNodes(NamedTuple):
    """New nodes, with what is there as soon as they are."""

    nodes: list[Node]
    daemons: list[Pod]
    published: tuple[CSINode | ResourceSlice, ...] = ()  #: by what runs there

    @property
    def objects(self) -> tuple[msgspec.Struct, ...]:
        return *self.nodes, *self.daemons, *self.published


def added_nodes(shape: NodeShape, n: int, snapshot: Snapshot, *, mark: str = "added") -> AddedNodes:
    """Return new nodes of a shape, named NODE-MARK-NUMBER, with what the node that they are like has."""
    model = shape.like.metadata.name
    daemons = [pod for pod in snapshot.pods if pod.spec.node_name == model and daemon_set_of(pod)]
    added = copies(shape.like, f"{model}-{mark}", n, snapshot.node_by_name, daemons)
    own: list[CSINode | ResourceSlice] = [one for one in snapshot.csi_nodes if one.metadata.name == model]
    own += [one for one in snapshot.resource_slices if one.spec.node_name == model]
    return added._replace(published=tuple(_copied(obj, model, node.metadata) for node in added.nodes for obj in own))


def _copied(obj: CSINode | ResourceSlice, old: str, node: NodeMeta) -> CSINode | ResourceSlice:
    """Return what is published of a node as it would be of another one, with the same drivers and devices."""
    if isinstance(obj, CSINode):
        return replace(obj, metadata=replace(obj.metadata, name=node.name, uid=node.uid))
    pool, metadata, name = obj.spec.pool, obj.metadata, node.name
    moved = replace(pool, name=name if pool.name == old else f"{pool.name}-{name}")
    metadata = replace(metadata, name=f"{metadata.name}-{name}", uid=f"added-{metadata.name}-{name}")
    return replace(obj, metadata=metadata, spec=replace(obj.spec, node_name=name, pool=moved))


def copies(
    model: Node, prefix: str, n: int, used_names: Collection[str], daemons: Sequence[Pod], *, own: str = ""
) -> AddedNodes:
    """Return nodes like a model, named PREFIX-NUMBER, and a copy of each daemon pod on each of them.

    `own`: labels with this value have the name of a new node; empty for the name of the model.
    """
    own = own or model.metadata.name
    free = (name for number in count(1) if (name := f"{prefix}-{number}") not in used_names)
    names = list(islice(free, n))
    nodes = []
    for name in names:
        labels = {key: name if value == own else value for key, value in model.metadata.labels.items()}
        metadata = replace(model.metadata, name=name, uid=f"added-{name}", labels=labels)
        nodes.append(replace(model, metadata=metadata))
    return AddedNodes(nodes, [_moved(pod, name) for name in names for pod in daemons])


def _moved(pod: Pod, node_name: str) -> Pod:
    name = f"{pod.metadata.name}-{node_name}"
    metadata = replace(pod.metadata, name=name, uid=f"added-{pod.metadata.namespace}-{name}")
    return replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=node_name))
