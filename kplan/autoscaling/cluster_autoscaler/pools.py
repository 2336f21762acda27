"""The groups that the autoscaler's status and flags list, the pools that labels of nodes name, and which are the same.

Upstream: cluster-autoscaler clusterstate/api/types.go, clusterstate/utils/status.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from kplan.api.core import Node
from kplan.api.labels import BETA_ZONE, ZONE
from kplan.api.time import to_micros
from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup
from kplan.autoscaling.cluster_autoscaler.options import Options, yaml_of
from kplan.facts import InputWarning
from kplan.snapshot.model import Snapshot

CONFIG_MAP = "cluster-autoscaler-status"

_MOST_SIZE = 2**31


class ListedGroup(NodeGroup, kw_only=True):
    """A group as the autoscaler's status or its flags have it, under the cloud's own name, without its nodes."""

    n_nodes: int  #: how many it has


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


_POOL_LABELS = (
    ("cloud.google.com/gke-nodepool", "gce"),
    ("eks.amazonaws.com/nodegroup", "aws"),
    ("alpha.eksctl.io/nodegroup-name", "aws"),
    ("kubernetes.azure.com/agentpool", "azure"),
    ("agentpool", "azure"),
    ("kops.k8s.io/instancegroup", ""),
)
"""Label -> the cloud whose pools it names; the first that a node has counts."""


class Pool(msgspec.Struct):
    """Nodes that are scaled together, as far as labels tell."""

    name: str
    zone: str  #: empty where the group spans zones
    cloud: str
    nodes: list[str] = []

    @property
    def label(self) -> str:
        return f"{self.name}-{self.zone}" if self.zone else self.name


def pools_of(nodes: Iterable[Node]) -> list[Pool]:
    """Return the pools that the labels of nodes name, in the order of their first nodes."""
    pools: dict[tuple[str, str], Pool] = {}
    for node in nodes:
        labels = node.metadata.labels
        if "karpenter.sh/nodepool" in labels:
            continue
        for label, cloud in _POOL_LABELS:
            name = labels.get(label)
            if name:
                # A pool of GKE has a group a zone.
                zone = labels.get(ZONE) or labels.get(BETA_ZONE, "") if cloud == "gce" else ""
                pool = pools.setdefault((name, zone), Pool(name, zone, cloud or cloud_of(node)))
                pool.nodes.append(node.metadata.name)
                break
    return list(pools.values())


def pool_names(node: Node) -> set[str]:
    return {node.metadata.labels[label] for label, _ in _POOL_LABELS if label in node.metadata.labels}


def cloud_of(node: Node) -> str:
    """Return the cloud-provider flag that goes with a node; empty if unknown."""
    scheme = node.spec.provider_id.partition("://")[0]
    return scheme if scheme in _CLOUDS else ""


def matched(pools: Sequence[Pool], groups: Sequence[ListedGroup]) -> dict[int, ListedGroup]:
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


def _names(name: str, pool: Pool) -> bool:
    """Return whether the cloud's name of a group holds that of a pool, and its zone, as whole words."""
    zone, _, group = name.rpartition("/instanceGroups/") if "/instanceGroups/" in name else ("", "", name)
    if pool.zone and zone and not zone.endswith(f"/{pool.zone}"):
        return False
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(pool.name)}(?![A-Za-z0-9])", group.rpartition("/")[2]) is not None


def sizes_by_flag(values: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return the minimum and maximum size of each group of ``--nodes=MIN:MAX:NAME``."""
    sizes: dict[str, tuple[int, int]] = {}
    for value in values:
        least, _, rest = value.partition(":")
        most, _, name = rest.partition(":")
        if least.isdecimal() and most.isdecimal() and name and len(least) + len(most) <= 12:
            sizes[name] = int(least), int(most)
    return sizes


_CLOUDS = {"aws": "EKS", "gce": "GKE", "azure": "AKS"}


def unfollowed_pools(snapshot: Snapshot) -> tuple[str, tuple[str, ...]]:
    """Return the cloud whose pools the labels of nodes name, and these pools, for a cluster that shows no autoscaler.

    The cloud is empty where it is unknown; both are empty where no label names a pool.
    """
    pools = pools_of(snapshot.nodes)
    names = tuple(dict.fromkeys(pool.name for pool in pools))
    return next((_CLOUDS[pool.cloud] for pool in pools if pool.cloud in _CLOUDS), ""), names
