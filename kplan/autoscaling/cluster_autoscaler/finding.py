"""The groups of a cluster, from its objects alone: Cluster API, labels of nodes, the status, the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.api.core import Node
from kplan.autoscaling.cluster_autoscaler.cluster_api import machine_groups
from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup, groups_by_node
from kplan.autoscaling.cluster_autoscaler.options import Options, options_of
from kplan.autoscaling.cluster_autoscaler.pools import (
    CONFIG_MAP,
    ListedGroup,
    Pool,
    cloud_of,
    matched,
    pools_of,
    sizes_by_flag,
    statuses_of,
)
from kplan.autoscaling.cluster_autoscaler.scale_up import Prices, Priorities
from kplan.facts import InputWarning
from kplan.snapshot.model import Snapshot

_IMAGE = "cluster-autoscaler"
_TUPLES = {field.replace("_", "-") for field, kind in Options.__annotations__.items() if kind.startswith("tuple")}
#: Flags that may be given several times.
_LISTS = _TUPLES - {"expander"} | {"nodes", "node-group-auto-discovery"}
_MOST_FLAGS = 1_000


class CommandLine(msgspec.Struct, frozen=True):
    """The flags of the autoscaler's Deployment."""

    source: str  #: the Deployment
    flags: Mapping[str, Any]  #: texts, or lists of them


class _Container(msgspec.Struct):
    image: str = ""
    command: list[str] = []
    args: list[str] = []


def command_line_of(snapshot: Snapshot) -> CommandLine | None:
    """Return the flags of the cluster's autoscaler; None where no Deployment of it is known with its command line."""
    for deployment in snapshot.deployments:
        if not any(_IMAGE in container.image for container in deployment.spec.template.spec.containers):
            continue
        name = f"Deployment/{deployment.metadata.key}"
        content = snapshot.whole.get(name)
        if content is None:
            continue
        for container in _containers(content):
            if _IMAGE in container.image:
                return CommandLine(name, _flags([*container.command, *container.args]))
    return None


def _containers(content: msgspec.Raw | Mapping[str, Any]) -> list[_Container]:
    try:
        whole = msgspec.json.decode(content) if isinstance(content, msgspec.Raw) else content
        return msgspec.convert(whole["spec"]["template"]["spec"]["containers"], list[_Container])
    except (msgspec.MsgspecError, RecursionError, KeyError, TypeError):
        return []


def _flags(words: Sequence[str]) -> dict[str, Any]:
    """Return the flags of a command line; those without a value are true."""
    flags: dict[str, Any] = {}
    for word, following in pairwise([*words[:_MOST_FLAGS], "-"]):
        if word.startswith("-"):
            name, equals, value = word.lstrip("-").partition("=")
            value = value.strip("\"'") if equals else "true" if following.startswith("-") else following
            if name in _LISTS:
                flags.setdefault(name, []).append(value)
            else:
                flags[name] = value
    return flags


UNKNOWN_MOST = 1_000  #: the maximum size of a group whose size is unknown

_NAME = "name the groups with --node-groups"
_GIVE = "give its sizes with --node-groups; kplan snapshot groups prints a file to begin with"


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

    The flags that are `settings` go before those of the command line.
    """
    command_line = command_line_of(snapshot)
    flags: dict[str, Any] = {} if command_line is None else dict(command_line.flags)
    flags |= settings
    if "cloud-provider" not in flags:
        flags["cloud-provider"] = next((cloud for node in snapshot.nodes if (cloud := cloud_of(node))), "")
    options, warnings = options_of(flags)
    statuses = statuses_of(snapshot, options, warnings)
    machines = list(machine_groups(snapshot, options, warnings))
    in_machines = {name for group in machines for name in group.nodes}
    pools = pools_of(node for node in snapshot.nodes if node.metadata.name not in in_machines)
    finder = _Finder(options, statuses, command_line)
    groups = [*finder.with_statuses(machines), *finder.of_pools(pools), *finder.without_nodes()]
    if not groups:
        message = f"no node has a label of a cloud's group, nothing else tells of groups, and no node is added; {_NAME}"
        warnings.append(InputWarning("NoNodeGroups", "cluster-autoscaler", message))
    if command_line is None:
        message = "no Deployment of it was found with its command line: its flags count with their defaults"
        warnings.append(InputWarning("AutoscalerOptions", "cluster-autoscaler", message))
    about_groups = ("nodes", "node-group-auto-discovery")
    sources = [
        "Cluster API" if machines else "",
        "the labels of nodes" if pools else "",
        f"ConfigMap {CONFIG_MAP}" if statuses else "",
        "" if command_line is None else command_line.source,
    ]
    return Setup(
        tuple(groups),
        options,
        ", ".join(filter(None, sources)) or "the cluster, which shows none",
        (*warnings, *finder.warnings),
        {key: value for key, value in flags.items() if value != "" and key not in about_groups},
    )


class _Finder:
    """Puts together what several objects tell of a group."""

    def __init__(self, options: Options, statuses: Sequence[ListedGroup], command_line: CommandLine | None) -> None:
        self._options = options
        self._left = list(statuses)
        self._sizes = {} if command_line is None else sizes_by_flag(command_line.flags.get("nodes", ()))
        self.warnings: list[InputWarning] = []

    def with_statuses(self, groups: Sequence[NodeGroup]) -> list[NodeGroup]:
        by_name, names = {status.name: status for status in self._left}, {group.name for group in groups}
        self._left = [status for status in self._left if status.name not in names]
        return [
            replace(by_name[group.name], nodes=group.nodes, template=group.template) if group.name in by_name else group
            for group in groups
        ]

    def of_pools(self, pools: Sequence[Pool]) -> list[NodeGroup]:
        group_of = matched(pools, self._left)
        groups: list[NodeGroup] = []
        for index, pool in enumerate(pools):
            group = group_of.get(index)
            if group is not None:
                self._left.remove(group)
            elif (group := matched([pool], self._by_flag(len(pool.nodes))).get(0)) is not None:
                del self._sizes[group.name]
            else:
                message = f"its sizes are unknown: taken as 0 to {UNKNOWN_MOST:,}; {_GIVE}"
                self.warnings.append(InputWarning("NodeGroupSize", f"NodeGroup/{pool.label}", message))
                group = self._group(pool.label, 0, UNKNOWN_MOST, len(pool.nodes))
            groups.append(replace(group, nodes=tuple(pool.nodes)))
        return groups

    def _by_flag(self, n_nodes: int) -> list[ListedGroup]:
        """Return the groups of ``--nodes``, with so many nodes."""
        return [self._group(name, least, most, n_nodes) for name, (least, most) in self._sizes.items()]

    def _group(self, name: str, least: int, most: int, n_nodes: int) -> ListedGroup:
        return ListedGroup(name=name, least=least, most=most, target=n_nodes, options=self._options, n_nodes=n_nodes)

    def without_nodes(self) -> list[NodeGroup]:
        """Return the groups that have no node now; without a template nobody knows what they would add."""
        known = {group.name for group in self._left}
        left: list[NodeGroup] = [*self._left, *(group for group in self._by_flag(0) if group.name not in known)]
        message = "it has no node to see what it adds, so it counts as not ready: give it a template, and its nodes"
        self.warnings += [
            InputWarning("NodeGroupTemplate", f"NodeGroup/{group.name}", f"{message}; {_GIVE}") for group in left
        ]
        return left
