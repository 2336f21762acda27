"""What tells of groups: the clouds' labels of nodes, the cluster-autoscaler's status, and its command line.

Upstream: cluster-autoscaler clusterstate/api/types.go, clusterstate/utils/status.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kplan.api.core import Node
from kplan.api.labels import BETA_ZONE, ZONE
from kplan.api.time import to_micros
from kplan.facts import InputWarning
from kplan.reading.yaml import YamlProblem, read_yaml
from kplan.snapshot.model import Snapshot

CONFIG_MAP = "cluster-autoscaler-status"

_MOST = 2**31


class GroupStatus(msgspec.Struct, frozen=True):
    """A group as the autoscaler's status has it."""

    name: str  #: the cloud's own
    least: int
    most: int
    target: int
    n_registered: int
    n_missing: int  #: nodes that will come, as far as the status tells
    is_backed_off: bool
    scales_up_since: int | None  #: microseconds since 1970, while a scale-up is in progress


def statuses_of(snapshot: Snapshot, warnings: list[InputWarning]) -> list[GroupStatus]:
    """Return the groups of the status; what is wrong with it is added to `warnings`."""
    for config_map in snapshot.config_maps:
        if config_map.metadata.name == CONFIG_MAP:
            try:
                return list(_parsed(config_map.data.status))
            except (ValueError, TypeError) as error:
                message = f"the status of the cluster-autoscaler cannot be read: {error}"[:500]
                warnings.append(InputWarning("AutoscalerStatus", f"ConfigMap/{config_map.metadata.key}", message))
    return []


def yaml_of(text: str, name: str) -> Any:
    """Return the YAML that a ConfigMap of a name holds; raises ValueError for anything else."""
    try:
        documents = list(read_yaml(text.encode(), name))
    except YamlProblem as error:
        raise ValueError(str(error)) from None
    return documents[0].value() if documents else None


def _parsed(text: str) -> Iterator[GroupStatus]:
    content = yaml_of(text, CONFIG_MAP)
    groups = content.get("nodeGroups") if isinstance(content, Mapping) else None
    if not isinstance(groups, list):
        raise TypeError("it lists no nodeGroups")
    for group in groups:
        if isinstance(group, Mapping) and isinstance(group.get("name"), str):
            yield _group(group)


def _group(group: Mapping[str, Any]) -> GroupStatus:
    health, scale_up = _part(group, "health"), _part(group, "scaleUp")
    registered = _part(_part(health, "nodeCounts"), "registered")
    target, n_registered = _number(health, "cloudProviderTarget"), _number(registered, "total")
    since = scale_up.get("lastTransitionTime")
    is_growing = scale_up.get("status") == "InProgress"
    return GroupStatus(
        name=str(group["name"])[:500],
        least=_number(health, "minSize"),
        most=_number(health, "maxSize"),
        target=target,
        n_registered=n_registered,
        n_missing=max(target - _number(registered, "ready") - _number(_part(registered, "unready"), "total"), 0),
        is_backed_off=scale_up.get("status") == "Backoff",
        scales_up_since=_moment(since) if is_growing else None,
    )


def _part(whole: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = whole.get(name)
    return part if isinstance(part, Mapping) else {}


def _number(part: Mapping[str, Any], name: str) -> int:
    number = part.get(name, 0)
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < _MOST else 0


def _moment(text: object) -> int | None:
    try:
        return to_micros(str(text))
    except ValueError:
        return None


_KARPENTER = "karpenter.sh/nodepool"
_POOL_LABELS = (
    ("cloud.google.com/gke-nodepool", "gce"),
    ("eks.amazonaws.com/nodegroup", "aws"),
    ("alpha.eksctl.io/nodegroup-name", "aws"),
    ("kubernetes.azure.com/agentpool", "azure"),
    ("agentpool", "azure"),
    ("kops.k8s.io/instancegroup", ""),
)
"""Label -> the cloud whose pools it names; the first that a node has counts."""

_BY_ZONE = "gce"
"""A pool of this cloud has a group a zone."""

_PROVIDERS = {"aws": "aws", "gce": "gce", "azure": "azure"}


class Pool(msgspec.Struct):
    """Nodes that are scaled together, as far as labels tell."""

    name: str
    zone: str  #: empty where the group spans zones
    cloud: str
    nodes: list[str] = []

    @property
    def label(self) -> str:
        """The pool's name, with the zone of its group."""
        return f"{self.name}-{self.zone}" if self.zone else self.name


def pools_of(nodes: Iterable[Node]) -> list[Pool]:
    """Return the pools that the labels of nodes name, in the order of their first nodes."""
    pools: dict[tuple[str, str], Pool] = {}
    for node in nodes:
        labels = node.metadata.labels
        if _KARPENTER in labels:
            continue
        for label, cloud in _POOL_LABELS:
            name = labels.get(label)
            if name:
                zone = labels.get(ZONE) or labels.get(BETA_ZONE, "") if cloud == _BY_ZONE else ""
                pool = pools.setdefault((name, zone), Pool(name, zone, cloud or cloud_of(node)))
                pool.nodes.append(node.metadata.name)
                break
    return list(pools.values())


def pool_names(node: Node) -> set[str]:
    return {node.metadata.labels[label] for label, _ in _POOL_LABELS if label in node.metadata.labels}


def cloud_of(node: Node) -> str:
    """Return the cloud-provider flag that goes with a node; empty if unknown."""
    scheme = node.spec.provider_id.partition("://")[0]
    return _PROVIDERS.get(scheme, "")


def matched(pools: Sequence[Pool], statuses: Sequence[GroupStatus]) -> dict[int, GroupStatus]:
    """Return which group of the status each pool is, by the pool's index.

    The status has the cloud's names, such as ``…/zones/europe-west1-b/instanceGroups/gke-prod-general-1a2b-grp`` or
    ``eks-general-0ac3…``, which hold that of the pool. Where several fit, the number of nodes decides.
    """
    result: dict[int, GroupStatus] = {}
    left = list(statuses)
    by_length = sorted(range(len(pools)), key=lambda index: -len(pools[index].name))
    for index in by_length:
        pool = pools[index]
        fitting = [status for status in left if status.name == pool.name]
        fitting = fitting or [status for status in left if _names(status.name, pool)]
        if len(fitting) > 1:
            fitting = [status for status in fitting if status.n_registered == len(pool.nodes)] or fitting
        if len(fitting) == 1:
            result[index] = fitting[0]
            left.remove(fitting[0])
    return result


def _names(name: str, pool: Pool) -> bool:
    """Return whether the cloud's name of a group holds that of a pool, and its zone, as whole words."""
    zone, _, group = name.rpartition("/instanceGroups/") if "/instanceGroups/" in name else ("", "", name)
    if pool.zone and zone and not zone.endswith(f"/{pool.zone}"):
        return False
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(pool.name)}(?![A-Za-z0-9])", group.rpartition("/")[2]) is not None


def sizes_by_flag(values: Iterable[str]) -> Mapping[str, tuple[int, int]]:
    """Return the minimum and maximum size of each group of ``--nodes=MIN:MAX:NAME``."""
    sizes: dict[str, tuple[int, int]] = {}
    for value in values:
        least, _, rest = value.partition(":")
        most, _, name = rest.partition(":")
        if least.isdecimal() and most.isdecimal() and name and len(least) + len(most) <= 12:
            sizes[name] = int(least), int(most)
    return sizes


_IMAGE = "cluster-autoscaler"
_LISTS = frozenset(
    {
        "nodes",
        "gpu-total",
        "node-group-auto-discovery",
        "balancing-ignore-label",
        "balancing-label",
        "startup-taint",
        "status-taint",
        "ignore-taint",
        "startup-taint-prefix",
        "bypassed-scheduler-names",
        "allowed-scheduler-names",
    }
)
"""Flags that may be given several times."""

_MOST_FLAGS = 1_000


class CommandLine(msgspec.Struct, frozen=True):
    """The flags of the autoscaler's Deployment."""

    source: str  #: the Deployment
    flags: Mapping[str, Any]

    def listed(self, flag: str) -> list[str]:
        """Return the values of a flag that may be given several times."""
        values = self.flags.get(flag, [])
        return [str(value) for value in values] if isinstance(values, list) else [str(values)]


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


def _flags(words: Iterable[str]) -> dict[str, Any]:
    """Return the flags of a command line; those without a value are true."""
    flags: dict[str, Any] = {}
    for name, value in _pairs(list(words)[:_MOST_FLAGS]):
        if name in _LISTS:
            flags.setdefault(name, []).append(value)
        else:
            flags[name] = value
    return flags


def _pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    for position, word in enumerate(words):
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        following = words[position + 1] if position + 1 < len(words) else "-"
        if equals:
            yield name, value.strip("\"'")
        elif following.startswith("-"):
            yield name, "true"
        else:
            yield name, following
