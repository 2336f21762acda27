"""Node groups: what the cloud knows of them, and the limits of what all nodes together may have.

Upstream: cluster-autoscaler resourcequotas/tracker.go, usage.go, cache.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kplan.api.core import Node
from kplan.api.quantity import value
from kplan.autoscaling.cluster_autoscaler.nodes import GPU_LABEL, GPU_RESOURCES, gpus
from kplan.autoscaling.cluster_autoscaler.options import Options
from kplan.rules.resources import CPU, MEMORY


class Instance(msgspec.Struct, frozen=True, rename="camel"):
    """A machine of the cloud that is no node yet; with an `error_code` it never will be."""

    id: str = msgspec.field(default="", name="name")
    error_class: str = ""
    error_code: str = ""
    error_message: str = ""


class NodeGroup(msgspec.Struct, kw_only=True):
    """A group of nodes that the cloud makes all alike; its target changes when it is scaled."""

    name: str
    least: int
    most: int
    target: int
    nodes: tuple[str, ...] = ()
    template: Node | None = None
    options: Options
    instances: tuple[Instance, ...] = ()
    requested: int = 0  #: nodes that the autoscaler itself asked for and waits for
    requested_ago: float = 0  #: seconds since it asked
    requested_at: int | None = None  #: the same as a moment, in microseconds since 1970; it goes before
    is_backed_off: bool = False  #: a scale-up failed a short time ago, as the autoscaler's status says
    price: float | None = None

    @property
    def room(self) -> int:
        """How many nodes may be added."""
        return max(self.most - self.target, 0)

    @property
    def is_atomic(self) -> bool:
        """Whether the group has either no node or all."""
        return self.options.zero_or_max_node_scaling


def groups_by_node(groups: Iterable[NodeGroup]) -> Mapping[str, NodeGroup]:
    """Return the group of each node, by the node's name."""
    return {node: group for group in groups for node in group.nodes}


_VIRTUAL = "virtual-kubelet"


class Allowed(msgspec.Struct, frozen=True):
    """How many nodes the limits allow, and which of them forbid more."""

    n_nodes: int
    exceeded: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """The autoscaler's words about a group that the limits forbid."""
        return f'exceeded quota: "cluster-wide", resources: {", ".join(self.exceeded)}'


class Quotas:
    """What may still be added, or with `is_min` taken away."""

    def __init__(
        self, options: Options, nodes: Iterable[Node], group_of: Mapping[str, NodeGroup], *, is_min: bool = False
    ) -> None:
        self._of_group: dict[str, dict[str, int]] = {}
        usage: dict[str, int] = {}
        for node in nodes:
            if node.metadata.labels.get("type") == _VIRTUAL:
                continue
            for resource, amount in self._resources(node, group_of.get(node.metadata.name)).items():
                usage[resource] = usage.get(resource, 0) + amount
        limits = (options.cores_total, options.memory_total, *options.gpu_total)
        self._left = {
            limit.resource: max(
                0,
                usage.get(limit.resource, 0) - limit.least if is_min else limit.most - usage.get(limit.resource, 0),
            )
            for limit in limits
        }

    def check(self, node: Node, group: NodeGroup, n_nodes: int) -> Allowed:
        """Return how many of some nodes the limits allow."""
        allowed = n_nodes
        exceeded = []
        for resource, amount in self._resources(node, group).items():
            left = self._left.get(resource)
            if left is not None and amount > 0 and left < amount * n_nodes:
                allowed = min(allowed, left // amount)
                exceeded.append(resource)
        return Allowed(allowed, tuple(exceeded))

    def consume(self, node: Node, group: NodeGroup, n_nodes: int) -> Allowed:
        """Return how many of some nodes the limits allow, and take them all if they do."""
        allowed = self.check(node, group, n_nodes)
        if allowed.n_nodes == n_nodes:
            for resource, amount in self._resources(node, group).items():
                if resource in self._left:
                    self._left[resource] = max(self._left[resource] - amount * n_nodes, 0)
        return allowed

    def _resources(self, node: Node, group: NodeGroup | None) -> dict[str, int]:
        """Return what a node has; of a group, the first node that is looked at stands for all."""
        if group is None:
            return _resources_of(node, None)
        if group.name not in self._of_group:
            self._of_group[group.name] = _resources_of(node, group)
        return self._of_group[group.name]


def _resources_of(node: Node, group: NodeGroup | None) -> dict[str, int]:
    capacity = node.status.capacity
    resources = {name: max(value(capacity.get(name, 0)), 0) for name in (CPU, MEMORY)}
    kind = node.metadata.labels.get(GPU_LABEL)
    if kind:
        n_gpus = gpus(node)
        if not n_gpus and group is not None and group.template is not None:
            template = group.template.status.capacity
            n_gpus = next((value(template[name]) for name in GPU_RESOURCES if name in template), 0)
        if n_gpus > 0:
            resources[kind] = n_gpus
    return resources
