"""Node groups: what the cloud knows of them, and the limits of what all nodes together may have.

Upstream: cluster-autoscaler resourcequotas/tracker.go, usage.go, cache.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec

from kplan.api.core import Node
from kplan.api.labels import InvalidSelector, Selector, selector_from
from kplan.api.meta import is_true
from kplan.api.provisioning import CapacityQuota
from kplan.api.quantity import listing, value
from kplan.api.resource import ResourceSlice
from kplan.api.storage import CSINode
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
    slices: tuple[ResourceSlice, ...] = ()  #: what drivers publish of a new node's devices
    csi_node: CSINode | None = None  #: the volumes that a new node can have
    options: Options
    instances: tuple[Instance, ...] = ()
    requested: int = 0  #: nodes that the autoscaler itself asked for and waits for
    requested_ago: float = 0  #: seconds since it asked
    requested_at: int | None = None  #: the same as a moment, in microseconds since 1970; it goes before
    is_backed_off: bool = False  #: a scale-up failed a short time ago, as the autoscaler's status says
    backoff: str = ""  #: why it failed, as far as that says it: the cloud's code and words
    price: float | None = None

    @property
    def room(self) -> int:
        return max(self.most - self.target, 0)

    @property
    def is_atomic(self) -> bool:
        return self.options.zero_or_max_node_scaling


class ListedGroup(NodeGroup, kw_only=True):
    """A group as the autoscaler's status or its flags have it, under the cloud's own name.

    Without nodes and a template, only the cloud knows what its nodes will be like; the autoscaler asks it.
    """

    n_nodes: int  #: how many it has


def groups_by_node(groups: Iterable[NodeGroup]) -> Mapping[str, NodeGroup]:
    return {node: group for group in groups for node in group.nodes}


_CLUSTER_WIDE = "cluster-wide"


class Skipped(msgspec.Struct, frozen=True):
    """Why a group does not grow."""

    reasons: tuple[str, ...]  #: as the autoscaler writes them
    words: str


class Allowed(msgspec.Struct, frozen=True):
    """How many nodes the quotas allow, and what each of those that forbid more has too little of."""

    n_nodes: int
    exceeded: Mapping[str, tuple[str, ...]] = {}

    @property
    def skipped(self) -> Skipped | None:
        """Why a group does not grow that quotas forbid; None if they do not."""
        reasons, words = [], []
        for name, resources in self.exceeded.items():
            reasons.append(f'exceeded quota: "{name}", resources: {", ".join(resources)}')
            limits = "the limits of the cluster leave" if name == _CLUSTER_WIDE else f"{name} leaves"
            words.append(f"{limits} too little {listing(resources)}")
        return Skipped(tuple(reasons), "; ".join(words)) if reasons else None


class _Quota(msgspec.Struct):
    name: str
    left: dict[str, int]  #: resource -> how much may still be added or taken away
    selector: Selector | None = None  #: of the nodes that it is about; None for all

    def applies_to(self, node: Node) -> bool:
        return self.selector is None or self.selector.matches(node.metadata.labels)


class Quotas:
    """What may still be added, or with `is_min` taken away.

    Upstream: resourcequotas/{tracker,factory,usage}.go, capacityquota/provider.go.
    """

    def __init__(
        self,
        options: Options,
        nodes: Iterable[Node],
        group_of: Mapping[str, NodeGroup],
        custom: Iterable[CapacityQuota] = (),
        *,
        is_min: bool = False,
    ) -> None:
        self._of_group: dict[str, dict[str, int]] = {}
        limits = (options.cores_total, options.memory_total, *options.gpu_total)
        whole = {limit.resource: limit.least if is_min else limit.most for limit in limits}
        self._quotas = [_Quota(_CLUSTER_WIDE, whole)]
        for own in custom if options.capacity_quotas_enabled else ():
            with suppress(InvalidSelector):
                selector = None if own.spec.selector is None else selector_from(own.spec.selector)
                if is_true(own.status.conditions, "Valid"):
                    left = {name: value(amount) for name, amount in own.spec.limits.resources.items()}
                    self._quotas.append(_Quota(f"CapacityQuota/{own.metadata.name}", left, selector))
        usages: list[Counter[str]] = [Counter() for _ in self._quotas]
        for node in nodes:
            if node.metadata.labels.get("type") != "virtual-kubelet":
                resources = self._resources(node, group_of.get(node.metadata.name))
                for quota, usage in zip(self._quotas, usages, strict=True):
                    if quota.applies_to(node):
                        usage.update(resources)
        for quota, usage in zip(self._quotas, usages, strict=True):
            sign = -1 if is_min else 1
            quota.left = {name: max(sign * (limit - usage[name]), 0) for name, limit in quota.left.items()}

    def check(self, node: Node, group: NodeGroup, n_nodes: int) -> Allowed:
        allowed = n_nodes
        exceeded: dict[str, tuple[str, ...]] = {}
        for quota in self._quotas:
            if quota.applies_to(node):
                short = {
                    name: quota.left[name] // amount
                    for name, amount in self._resources(node, group).items()
                    if amount > 0 and name in quota.left and quota.left[name] < amount * n_nodes
                }
                if short:
                    allowed, exceeded[quota.name] = min(allowed, *short.values()), tuple(short)
        return Allowed(allowed, exceeded)

    def consume(self, node: Node, group: NodeGroup, n_nodes: int) -> Allowed:
        """Return how many of some nodes the quotas allow, and take these."""
        allowed = self.check(node, group, n_nodes)
        for quota in self._quotas:
            if quota.applies_to(node):
                for name, amount in self._resources(node, group).items():
                    if name in quota.left:
                        quota.left[name] = max(quota.left[name] - amount * allowed.n_nodes, 0)
        return allowed

    def _resources(self, node: Node, group: NodeGroup | None) -> dict[str, int]:
        """Return what a node has; of a group, the first node that is looked at stands for all."""
        if group is not None and group.name in self._of_group:
            return self._of_group[group.name]
        capacity, kind = node.status.capacity, node.metadata.labels.get(GPU_LABEL)
        resources = {name: max(value(capacity.get(name, 0)), 0) for name in (CPU, MEMORY)} | {"nodes": 1}
        if kind:
            n_gpus = gpus(node)
            if not n_gpus and group is not None and group.template is not None:
                template = group.template.status.capacity
                n_gpus = next((value(template[name]) for name in GPU_RESOURCES if name in template), 0)
            if n_gpus > 0:
                resources[kind] = n_gpus
        if group is not None:
            self._of_group[group.name] = resources
        return resources
