"""The groups of a cluster, from its objects alone: labels of nodes, Cluster API, the status, the command line.

Groups of Cluster API are deployments, sets and pools of machines with annotations for their sizes.

Upstream: cluster-autoscaler cloudprovider/clusterapi.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from kplan.api.affinity import Taint
from kplan.api.core import Node, NodeMeta, NodeSpec, NodeStatus
from kplan.api.meta import controller_of
from kplan.api.provisioning import Machine, MachineSet, Scalable
from kplan.api.quantity import InvalidQuantity, parse
from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup, groups_by_node
from kplan.autoscaling.cluster_autoscaler.options import (
    CONFIG_MAP,
    CommandLine,
    GroupStatus,
    Options,
    Pool,
    cloud_of,
    command_line_of,
    matched,
    options_of,
    pools_of,
    sizes_by_flag,
    statuses_of,
)
from kplan.autoscaling.cluster_autoscaler.scale_up import Prices, Priorities
from kplan.facts import InputWarning
from kplan.snapshot.model import Snapshot

_DEFAULT_PODS = "110"
_MOST_DIGITS = 6
_NVIDIA = "nvidia.com/gpu"


def machine_groups(snapshot: Snapshot, options: Options, warnings: list[InputWarning]) -> list[NodeGroup]:
    """Return the groups of machines that have sizes; what is wrong with them is added to `warnings`."""
    nodes_of = _nodes_by_owner(snapshot)
    groups = []
    for scalable in (*snapshot.machine_deployments, *snapshot.machine_sets, *snapshot.machine_pools):
        annotations = scalable.metadata.annotations
        if not (annotations.min_size and annotations.max_size):
            continue
        name = f"{scalable.kind}/{scalable.metadata.namespace}/{scalable.metadata.name}"
        least, most = _size(annotations.min_size), _size(annotations.max_size)
        if least is None or most is None:
            message = f"sizes {annotations.min_size!r} and {annotations.max_size!r} are no numbers"
            warnings.append(InputWarning("NodeGroup", name, message[:300]))
            continue
        nodes = tuple(nodes_of.get((scalable.kind, scalable.metadata.namespace, scalable.metadata.name), ()))
        target = len(nodes) if scalable.spec.replicas is None else max(scalable.spec.replicas, 0)
        groups.append(
            NodeGroup(
                name=name,
                least=least,
                most=most,
                target=target,
                nodes=nodes,
                template=_template(scalable, name, warnings),
                options=options,
            )
        )
    return groups


def _size(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _nodes_by_owner(snapshot: Snapshot) -> Mapping[tuple[str, str, str], list[str]]:
    sets = {(one.metadata.namespace, one.metadata.name): one for one in snapshot.machine_sets}
    by_name = {machine.metadata.name: machine for machine in snapshot.machines}
    by_node = {
        machine.status.node_ref.name: machine for machine in snapshot.machines if machine.status.node_ref is not None
    }
    nodes: dict[tuple[str, str, str], list[str]] = {}
    for node in snapshot.nodes:
        annotated = node.metadata.annotations.machine
        machine = by_name.get(annotated) or by_node.get(node.metadata.name)
        for owner in _owners(machine, sets) if machine is not None else ():
            nodes.setdefault(owner, []).append(node.metadata.name)
    return nodes


def _owners(machine: Machine, sets: Mapping[tuple[str, str], MachineSet]) -> Iterator[tuple[str, str, str]]:
    """Yield the set or pool that a machine belongs to, and the deployment that the set belongs to."""
    namespace = machine.metadata.namespace
    owner = controller_of(machine.metadata) or next(iter(machine.metadata.owner_references), None)
    if owner is None:
        return
    yield owner.kind, namespace, owner.name
    machine_set = sets.get((namespace, owner.name)) if owner.kind == "MachineSet" else None
    above = None if machine_set is None else controller_of(machine_set.metadata)
    if above is not None:
        yield above.kind, namespace, above.name


def _template(scalable: Scalable, name: str, warnings: list[InputWarning]) -> Node | None:
    """Return a node as the annotations about capacity describe it; None without them."""
    held = scalable.metadata.annotations
    if not (held.cpu and held.memory):
        return None
    amounts: dict[str, str | int | float] = {
        "cpu": held.cpu,
        "memory": held.memory,
        "pods": held.max_pods or _DEFAULT_PODS,
    }
    if held.ephemeral_disk:
        amounts["ephemeral-storage"] = held.ephemeral_disk
    if held.gpu_count:
        amounts[held.gpu_type or _NVIDIA] = held.gpu_count
    try:
        for amount in amounts.values():
            parse(amount)
    except InvalidQuantity as error:
        message = f"the annotations about its capacity cannot be read: {error}"[:300]
        warnings.append(InputWarning("NodeGroup", name, message))
        return None
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        **scalable.spec.template.metadata.labels,
        **dict(_pair(text) for text in held.labels.split(",") if "=" in text),
    }
    return Node(
        metadata=NodeMeta(name=scalable.metadata.name, labels=labels),
        spec=NodeSpec(taints=tuple(_taints(held.taints))),
        status=NodeStatus(capacity=amounts, allocatable=amounts),
    )


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.strip().partition("=")
    return key, value


def _taints(text: str) -> Iterator[Taint]:
    for entry in filter(None, map(str.strip, text.split(","))):
        pair, _, effect = entry.rpartition(":")
        key, _, value = pair.partition("=")
        if key and effect:
            yield Taint(key=key, value=value, effect=effect)


UNKNOWN_MOST = 1_000
"""The maximum size of a group whose size is unknown."""

_NAME = "name the groups with --node-groups"
_GIVE = "give its sizes with --node-groups; kplan snapshot groups prints a file to begin with"


_CLOUDS = {"aws": "EKS", "gce": "GKE", "azure": "AKS"}


def unfollowed_pools(snapshot: Snapshot) -> tuple[str, tuple[str, ...]]:
    """Return the cloud whose pools the labels of nodes name, and these pools, for a cluster that shows no autoscaler.

    The cloud is empty where it is unknown; both are empty where no label names a pool.
    """
    pools = pools_of(snapshot.nodes)
    names = tuple(dict.fromkeys(pool.name for pool in pools))
    return next((_CLOUDS[pool.cloud] for pool in pools if pool.cloud in _CLOUDS), ""), names


class Setup(msgspec.Struct, frozen=True, dict=True):
    """How the cluster-autoscaler is set up."""

    groups: tuple[NodeGroup, ...]
    options: Options
    source: str  #: where the groups come from
    warnings: tuple[InputWarning, ...]
    flags: Mapping[str, Any]  #: those that were given, or found on the command line
    prices: Prices | None = None
    priorities: Priorities | None = None

    @cached_property
    def group_of(self) -> Mapping[str, NodeGroup]:
        return groups_by_node(self.groups)

    def price(self, node: Node, group: NodeGroup | None) -> float | None:
        """Return the price of a node of a group, that of the group or else by the node's type; None if unknown."""
        if group is not None and group.price is not None:
            return group.price
        return None if self.prices is None else self.prices.of_node(node)

    def prices_of(self, nodes: Iterable[Node]) -> dict[str, float]:
        prices = {node.metadata.name: self.price(node, self.group_of.get(node.metadata.name)) for node in nodes}
        return {name: price for name, price in prices.items() if price is not None}


def find_groups(snapshot: Snapshot, settings: Mapping[str, Any]) -> Setup:
    """Return the groups of a cluster; raises UsageError for flags that cannot be read.

    Parameters
    ----------
    settings : flags that go before those of the command line
    """
    command_line = command_line_of(snapshot)
    flags: dict[str, Any] = {} if command_line is None else dict(command_line.flags)
    flags |= settings
    if "cloud-provider" not in flags:
        flags["cloud-provider"] = next((cloud for node in snapshot.nodes if (cloud := cloud_of(node))), "")
    options, warnings = options_of(flags)
    statuses = statuses_of(snapshot, warnings)
    machines = machine_groups(snapshot, options, warnings)
    in_machines = {name for group in machines for name in group.nodes}
    pools = pools_of(node for node in snapshot.nodes if node.metadata.name not in in_machines)
    finder = _Finder(snapshot, options, statuses, command_line)
    groups = [*finder.with_statuses(machines), *finder.of_pools(pools), *finder.without_nodes()]
    if not groups:
        message = f"no node has a label of a cloud's group, nothing else tells of groups, and no node is added; {_NAME}"
        warnings.append(InputWarning("NoNodeGroups", "cluster-autoscaler", message))
    if command_line is None:
        message = "no Deployment of it was found with its command line: its flags count with their defaults"
        warnings.append(InputWarning("AutoscalerOptions", "cluster-autoscaler", message))
    return Setup(
        tuple(groups),
        options,
        _source(machines, pools, statuses, command_line),
        (*warnings, *finder.warnings),
        {key: value for key, value in flags.items() if value != "" and key not in _ABOUT_GROUPS},
    )


_ABOUT_GROUPS = frozenset({"nodes", "node-group-auto-discovery"})


def _source(
    machines: Sequence[NodeGroup],
    pools: Sequence[Pool],
    statuses: Sequence[GroupStatus],
    command_line: CommandLine | None,
) -> str:
    parts = []
    if machines:
        parts.append("Cluster API")
    if pools:
        parts.append("the labels of nodes")
    if statuses:
        parts.append(f"ConfigMap {CONFIG_MAP}")
    if command_line is not None:
        parts.append(command_line.source)
    return ", ".join(parts) or "the cluster, which shows none"


class _Finder:
    """Puts together what several objects tell of a group."""

    def __init__(
        self,
        snapshot: Snapshot,
        options: Options,
        statuses: Sequence[GroupStatus],
        command_line: CommandLine | None,
    ) -> None:
        self._nodes: Mapping[str, Node] = snapshot.node_by_name
        self._options = options
        self._left = list(statuses)
        self._sizes = dict(sizes_by_flag(command_line.listed("nodes") if command_line is not None else ()))
        self.warnings: list[InputWarning] = []

    def with_statuses(self, groups: Sequence[NodeGroup]) -> list[NodeGroup]:
        by_name = {status.name: status for status in self._left}
        result = []
        for group in groups:
            status = by_name.get(group.name)
            if status is not None:
                self._left.remove(status)
            result.append(group if status is None else self._with_status(group, status))
        return result

    def of_pools(self, pools: Sequence[Pool]) -> list[NodeGroup]:
        status_of = matched(pools, self._left)
        groups = []
        for index, pool in enumerate(pools):
            status = status_of.get(index)
            if status is not None:
                self._left.remove(status)
                groups.append(self._with_status(self._group(pool, status.name, status.least, status.most), status))
                continue
            name, sizes = self._by_flag(pool)
            if sizes is None:
                sizes = (0, UNKNOWN_MOST)
                message = f"its sizes are unknown: taken as 0 to {UNKNOWN_MOST:,}; {_GIVE}"
                self.warnings.append(InputWarning("NodeGroupSize", f"NodeGroup/{pool.label}", message))
            groups.append(self._group(pool, name, *sizes))
        return groups

    def _by_flag(self, pool: Pool) -> tuple[str, tuple[int, int] | None]:
        """Return name and sizes of a pool as ``--nodes`` has them."""
        fitting = matched([pool], self._by_sizes(len(pool.nodes))).get(0)
        if fitting is None:
            return pool.label, None
        return fitting.name, self._sizes.pop(fitting.name)

    def _by_sizes(self, n_nodes: int) -> list[GroupStatus]:
        """Return the groups of ``--nodes`` with so many nodes, as a status would have them."""
        return [
            GroupStatus(name, least, most, 0, n_nodes, 0, is_backed_off=False, scales_up_since=None)
            for name, (least, most) in self._sizes.items()
        ]

    def _group(self, pool: Pool, name: str, least: int, most: int) -> NodeGroup:
        nodes = tuple(pool.nodes)
        return NodeGroup(name=name, least=least, most=most, target=len(nodes), nodes=nodes, options=self._options)

    def _with_status(self, group: NodeGroup, status: GroupStatus) -> NodeGroup:
        since = status.scales_up_since
        is_growing = since is not None and status.n_missing > 0
        return msgspec.structs.replace(
            group,
            least=status.least,
            most=status.most,
            target=status.target,
            requested=status.n_missing if is_growing else 0,
            requested_at=since,
            is_backed_off=status.is_backed_off,
        )

    def without_nodes(self) -> list[NodeGroup]:
        """Return the groups that have no node now; without a template nobody knows what they would add."""
        known = {status.name for status in self._left}
        others = [status for status in self._by_sizes(0) if status.name not in known]
        groups = []
        for status in (*self._left, *others):
            message = "it has no node to see what it adds, so it counts as not ready: give it a template, and its nodes"
            self.warnings.append(InputWarning("NodeGroupTemplate", f"NodeGroup/{status.name}", f"{message}; {_GIVE}"))
            group = NodeGroup(
                name=status.name, least=status.least, most=status.most, target=status.target, options=self._options
            )
            groups.append(self._with_status(group, status))
        return groups
