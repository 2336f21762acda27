"""The pools of clouds that labels of nodes name, and which group of the autoscaler each of these is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from kplan.api.core import Node
from kplan.api.labels import BETA_ZONE, NODEPOOL, ZONE
from kplan.autoscaling.cluster_autoscaler.groups import ListedGroup
from kplan.snapshot.model import Snapshot

_POOL_LABELS = (
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
        for label, cloud in _POOL_LABELS:
            name = labels.get(label)
            if name:
                # A pool of GKE has a group a zone.
                zone = labels.get(ZONE) or labels.get(BETA_ZONE, "") if cloud == "gce" else ""
                pool = pools.setdefault((name, zone), CloudPool(name, zone, cloud or cloud_of(node)))
                pool.nodes.append(node.metadata.name)
                break
    return list(pools.values())


def pool_names(node: Node) -> set[str]:
    return {node.metadata.labels[label] for label, _ in _POOL_LABELS if label in node.metadata.labels}


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
