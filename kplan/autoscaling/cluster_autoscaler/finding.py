"""The groups of a cluster, from its objects alone: Cluster API, labels of nodes, the status, the command line.

Cluster API has deployments, sets and pools of machines, with annotations for their sizes.

Upstream: cluster-autoscaler cloudprovider/clusterapi, clusterstate/api/types.go, clusterstate/utils/status.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.api.affinity import Taint
from kplan.api.core import Node, NodeMeta, NodeSpec, NodeStatus
from kplan.api.labels import ARCH, BETA_ZONE, NODEPOOL, OS, ZONE
from kplan.api.meta import controller_of
from kplan.api.provisioning import Machine, MachineSet, Scalable
from kplan.api.quantity import InvalidQuantity, grouped, natural, parse
from kplan.api.time import to_micros
from kplan.autoscaling.cluster_autoscaler.expanders import Prices, Priorities
from kplan.autoscaling.cluster_autoscaler.groups import ListedGroup, NodeGroup, groups_by_node
from kplan.autoscaling.cluster_autoscaler.options import Options, options_of, yaml_of
from kplan.facts import InputWarning
from kplan.snapshot.model import Snapshot

_MOST_SIZE = 2**31  #: of a group, in nodes


def machine_groups(snapshot: Snapshot, options: Options, warnings: list[InputWarning]) -> Iterator[NodeGroup]:
    """Yield the groups of machines that have sizes; what is wrong with them is added to `warnings`."""
    sets = {(one.metadata.namespace, one.metadata.name): one for one in snapshot.machine_sets}
    by_name = {machine.metadata.name: machine for machine in snapshot.machines}
    by_node = {
        machine.status.node_ref.name: machine for machine in snapshot.machines if machine.status.node_ref is not None
    }
    named = ((node.metadata.name, node.metadata.annotations.machine) for node in snapshot.nodes)
    machines = ((name, by_name.get(annotated) or by_node.get(name)) for name, annotated in named)
    nodes_of = grouped((owner, name) for name, one in machines if one is not None for owner in _owners(one, sets))
    for scalable in (*snapshot.machine_deployments, *snapshot.machine_sets, *snapshot.machine_pools):
        annotations = scalable.metadata.annotations
        if not (annotations.min_size and annotations.max_size):
            continue
        name = f"{scalable.kind}/{scalable.metadata.namespace}/{scalable.metadata.name}"
        least, most = (natural(size, _MOST_SIZE) for size in (annotations.min_size, annotations.max_size))
        if least is None or most is None:
            message = f"sizes {annotations.min_size!r} and {annotations.max_size!r} are no numbers"
            warnings.append(InputWarning("NodeGroup", name, message[:300]))
            continue
        nodes = tuple(nodes_of.get((scalable.kind, scalable.metadata.namespace, scalable.metadata.name), ()))
        target = len(nodes) if scalable.spec.replicas is None else max(scalable.spec.replicas, 0)
        template = _template(scalable, name, warnings)
        yield NodeGroup(
            name=name, least=least, most=most, target=target, nodes=nodes, template=template, options=options
        )


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
    amounts: dict[str, str | int | float] = {"cpu": held.cpu, "memory": held.memory, "pods": held.max_pods or "110"}
    if held.ephemeral_disk:
        amounts["ephemeral-storage"] = held.ephemeral_disk
    if held.gpu_count:
        amounts[held.gpu_type or "nvidia.com/gpu"] = held.gpu_count
    try:
        for amount in amounts.values():
            parse(amount)
    except InvalidQuantity as error:
        message = f"the annotations about its capacity cannot be read: {error}"[:300]
        warnings.append(InputWarning("NodeGroup", name, message))
        return None
    labels = {
        ARCH: "amd64",
        OS: "linux",
        **scalable.spec.template.metadata.labels,
        **dict(text.strip().split("=", 1) for text in held.labels.split(",") if "=" in text),
    }
    return Node(
        metadata=NodeMeta(name=scalable.metadata.name, labels=labels),
        spec=NodeSpec(taints=tuple(_taints(held.taints))),
        status=NodeStatus(capacity=amounts, allocatable=amounts),
    )


def _taints(text: str) -> Iterator[Taint]:
    for entry in filter(None, map(str.strip, text.split(","))):
        pair, _, effect = entry.rpartition(":")
        key, _, value = pair.partition("=")
        if key and effect:
            yield Taint(key=key, value=value, effect=effect)


POOL_LABELS = (
    ("cloud.google.com/gke-nodepool", "gce"),
    ("eks.amazonaws.com/nodegroup", "aws"),
    ("alpha.eksctl.io/nodegroup-name", "aws"),
    ("kubernetes.azure.com/agentpool", "azure"),
    ("agentpool", "azure"),
    ("kops.k8s.io/instancegroup", ""),
)
"""Label -> the cloud whose pools it names; the first that a node has counts."""

_CLOUDS = {"aws": "EKS", "gce": "GKE", "azure": "AKS"}


class CloudPool(msgspec.Struct):
    """Nodes that are scaled together, as far as labels tell."""

    name: str
    zone: str  #: empty where the group spans zones
    cloud: str
    nodes: list[str] = []

    @property
    def label(self) -> str:
        return f"{self.name}-{self.zone}" if self.zone else self.name


def pools_of(nodes: Iterable[Node]) -> list[CloudPool]:
    """Return the pools that the labels of nodes name, in the order of their first nodes."""
    pools: dict[tuple[str, str], CloudPool] = {}
    for node in nodes:
        labels = node.metadata.labels
        if NODEPOOL in labels:
            continue
        for label, cloud in POOL_LABELS:
            name = labels.get(label)
            if name:
                # A pool of GKE has a group a zone.
                zone = labels.get(ZONE) or labels.get(BETA_ZONE, "") if cloud == "gce" else ""
                pool = pools.setdefault((name, zone), CloudPool(name, zone, cloud or cloud_of(node)))
                pool.nodes.append(node.metadata.name)
                break
    return list(pools.values())


def cloud_of(node: Node) -> str:
    """Return the cloud-provider flag that goes with a node; empty if unknown."""
    scheme = node.spec.provider_id.partition("://")[0]
    return scheme if scheme in _CLOUDS else ""


def matched(pools: Sequence[CloudPool], groups: Sequence[ListedGroup]) -> dict[int, ListedGroup]:
    """Return which of some groups each pool is, by the pool's index.

    These have the cloud's names, such as ``…/zones/europe-west1-b/instanceGroups/gke-prod-general-1a2b-grp`` or
    ``eks-general-0ac3…``, which hold that of the pool. Where several fit, the number of nodes decides.
    """
    result: dict[int, ListedGroup] = {}
    left = list(groups)
    by_length = sorted(range(len(pools)), key=lambda index: -len(pools[index].name))
    for index in by_length:
        pool = pools[index]
        fitting = [group for group in left if group.name == pool.name]
        fitting = fitting or [group for group in left if _names(group.name, pool)]
        if len(fitting) > 1:
            fitting = [group for group in fitting if group.n_nodes == len(pool.nodes)] or fitting
        if len(fitting) == 1:
            result[index] = fitting[0]
            left.remove(fitting[0])
    return result


def _names(name: str, pool: CloudPool) -> bool:
    """Return whether the cloud's name of a group holds that of a pool, and its zone, as whole words."""
    zone, _, group = name.rpartition("/instanceGroups/") if "/instanceGroups/" in name else ("", "", name)
    if pool.zone and zone and not zone.endswith(f"/{pool.zone}"):
        return False
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(pool.name)}(?![A-Za-z0-9])", group.rpartition("/")[2]) is not None


def unfollowed_pools(snapshot: Snapshot) -> tuple[str, tuple[str, ...]]:
    """Return the cloud whose pools the labels of nodes name, and these pools, for a cluster that shows no autoscaler.

    The cloud is empty where it is unknown; both are empty where no label names a pool.
    """
    pools = pools_of(snapshot.nodes)
    names = tuple(dict.fromkeys(pool.name for pool in pools))
    return next((_CLOUDS[pool.cloud] for pool in pools if pool.cloud in _CLOUDS), ""), names


CONFIG_MAP = "cluster-autoscaler-status"


def statuses_of(snapshot: Snapshot, options: Options, warnings: list[InputWarning]) -> list[ListedGroup]:
    """Return the groups of the status; what is wrong with it is added to `warnings`."""
    for config_map in snapshot.config_maps:
        if config_map.metadata.name == CONFIG_MAP:
            try:
                return list(_listed_in(config_map.data.status, options))
            except (ValueError, TypeError) as error:
                message = f"the status of the cluster-autoscaler cannot be read: {error}"[:500]
                warnings.append(InputWarning("AutoscalerStatus", f"ConfigMap/{config_map.metadata.key}", message))
    return []


def _listed_in(text: str, options: Options) -> Iterator[ListedGroup]:
    content = yaml_of(text, CONFIG_MAP)
    groups = content.get("nodeGroups") if isinstance(content, Mapping) else None
    if not isinstance(groups, list):
        raise TypeError("it lists no nodeGroups")
    for group in groups:
        if not isinstance(group, Mapping) or not isinstance(group.get("name"), str):
            continue
        health, scale_up = _part(group, "health"), _part(group, "scaleUp")
        registered, target = _part(_part(health, "nodeCounts"), "registered"), _number(health, "cloudProviderTarget")
        why = _part(scale_up, "backoffInfo")
        since, n_coming = None, target - _number(registered, "ready") - _number(_part(registered, "unready"), "total")
        if scale_up.get("status") == "InProgress":
            with suppress(ValueError):
                since = to_micros(str(scale_up.get("lastTransitionTime")))
        yield ListedGroup(
            name=str(group["name"])[:500],
            least=_number(health, "minSize"),
            most=_number(health, "maxSize"),
            target=target,
            options=options,
            requested=0 if since is None else max(n_coming, 0),
            requested_at=since,
            is_backed_off=scale_up.get("status") == "Backoff",
            backoff=": ".join(str(why[part]) for part in ("errorCode", "errorMessage") if why.get(part))[:_LONGEST_WHY],
            n_nodes=_number(registered, "total"),
        )


_LONGEST_WHY = 240


def _part(whole: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = whole.get(name)
    return part if isinstance(part, Mapping) else {}


def _number(part: Mapping[str, Any], name: str) -> int:
    number = part.get(name, 0)
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < _MOST_SIZE else 0


def sizes_by_flag(values: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return the minimum and maximum size of each group of ``--nodes=MIN:MAX:NAME``."""
    sizes: dict[str, tuple[int, int]] = {}
    for value in values:
        least, _, rest = value.partition(":")
        most, _, name = rest.partition(":")
        at_least, at_most = natural(least, _MOST_SIZE), natural(most, _MOST_SIZE)
        if at_least is not None and at_most is not None and name:
            sizes[name] = at_least, at_most
    return sizes


_IMAGE = "cluster-autoscaler"
_TUPLES = {field.replace("_", "-") for field, kind in Options.__annotations__.items() if kind.startswith("tuple")}
#: Flags that may be given several times.
_LISTS = _TUPLES - {"expander"} | {"nodes", "node-group-auto-discovery"}
_MOST_FLAGS = 1_000


class CommandLine(msgspec.Struct, frozen=True):
    """The flags of the autoscaler's Deployment."""

    source: str = ""  #: the Deployment; empty where none is known with its command line
    flags: Mapping[str, Any] = {}  #: texts, or lists of them


class _Container(msgspec.Struct):
    image: str = ""
    command: list[str] = []
    args: list[str] = []


def command_line_of(snapshot: Snapshot) -> CommandLine:
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
    return CommandLine()


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
    flags: dict[str, Any] = {**command_line.flags, **settings}
    if "cloud-provider" not in flags:
        flags["cloud-provider"] = next((cloud for node in snapshot.nodes if (cloud := cloud_of(node))), "")
    options, warnings = options_of(flags)
    statuses = statuses_of(snapshot, options, warnings)
    machines = list(machine_groups(snapshot, options, warnings))
    in_machines = {name for group in machines for name in group.nodes}
    pools = pools_of(node for node in snapshot.nodes if node.metadata.name not in in_machines)
    finder = _Finder(options, statuses, sizes_by_flag(command_line.flags.get("nodes", ())))
    groups = [*finder.with_statuses(machines), *finder.of_pools(pools), *finder.without_nodes()]
    if not groups:
        message = f"no node has a label of a cloud's group, nothing else tells of groups, and no node is added; {_NAME}"
        warnings.append(InputWarning("NoNodeGroups", "cluster-autoscaler", message))
    if not command_line.source:
        message = "no Deployment of it was found with its command line: its flags count with their defaults"
        warnings.append(InputWarning("AutoscalerOptions", "cluster-autoscaler", message))
    about_groups = ("nodes", "node-group-auto-discovery")
    sources = [
        "Cluster API" if machines else "",
        "the labels of nodes" if pools else "",
        f"ConfigMap {CONFIG_MAP}" if statuses else "",
        command_line.source,
    ]
    return Setup(
        tuple(groups),
        options,
        ", ".join(filter(None, sources)) or "the cluster, which shows none",
        (*warnings, *finder.warnings),
        {key: value for key, value in flags.items() if value != "" and key not in about_groups},
    )


_OF_STATUS = ("least", "most", "target", "requested", "requested_at", "is_backed_off", "backoff")


class _Finder:
    """Puts together what several objects tell of a group; `sizes` are those by ``--nodes``."""

    def __init__(self, options: Options, statuses: Sequence[ListedGroup], sizes: dict[str, tuple[int, int]]) -> None:
        self._options, self._left, self._sizes = options, list(statuses), sizes
        self.warnings: list[InputWarning] = []

    def with_statuses(self, groups: Sequence[NodeGroup]) -> list[NodeGroup]:
        """Return groups with what the autoscaler's status says of them; it does not know what their nodes are like."""
        statuses, names = {status.name: status for status in self._left}, {group.name for group in groups}
        self._left = [status for status in self._left if status.name not in names]
        known = ((group, statuses.get(group.name)) for group in groups)
        return [
            group if status is None else replace(group, **{field: getattr(status, field) for field in _OF_STATUS})
            for group, status in known
        ]

    def of_pools(self, pools: Sequence[CloudPool]) -> list[NodeGroup]:
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
