"""Groups that are so alike that a scale-up is shared among them.

Upstream: cluster-autoscaler processors/nodegroupset/.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kplan.api.core import Node
from kplan.api.quantity import parse
from kplan.api.wellknown import BETA_REGION, BETA_ZONE, HOSTNAME, REGION, ZONE
from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup
from kplan.autoscaling.cluster_autoscaler.options import Options
from kplan.autoscaling.cluster_autoscaler.templates import Template
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import CPU, MEMORY, PODS

_BASIC = frozenset(
    {
        HOSTNAME,
        ZONE,
        REGION,
        BETA_ZONE,
        BETA_REGION,
        "beta.kubernetes.io/fluentd-ds-ready",
        "kops.k8s.io/instancegroup",
    }
)
_BY_CLOUD: Mapping[str, frozenset[str]] = {
    "aws": frozenset(
        {
            "alpha.eksctl.io/instance-id",
            "alpha.eksctl.io/nodegroup-name",
            "eks.amazonaws.com/nodegroup",
            "k8s.amazonaws.com/eniConfig",
            "lifecycle",
            "topology.ebs.csi.aws.com/zone",
            "topology.k8s.aws/zone-id",
        }
    ),
    "gce": frozenset({"topology.gke.io/zone"}),
    "azure": frozenset(
        {
            "agentpool",
            "kubernetes.azure.com/agentpool",
            "topology.disk.csi.azure.com/zone",
            "aksEngineVersion",
            "creationSource",
            "poolName",
            "resourceNameSuffix",
            "kubernetes.azure.com/node-image-version",
            "kubernetes.azure.com/consolidated-additional-properties",
        }
    ),
}
_AZURE_POOLS = ("kubernetes.azure.com/agentpool", "agentpool")


class Growth(msgspec.Struct):
    """By how much a group grows."""

    group: NodeGroup
    current: int
    wanted: int


def are_similar(one: Template, other: Template, options: Options) -> bool:
    """Return whether two groups make nodes that are nearly alike."""
    if options.balancing_label:
        labels, others = one.node.metadata.labels, other.node.metadata.labels
        return all(key in labels and key in others and labels[key] == others[key] for key in options.balancing_label)
    if options.cloud_provider == "azure" and any(_share_label(one.node, other.node, key) for key in _AZURE_POOLS):
        return True
    return (
        _have_equal_capacity(one.node, other.node, options)
        and _are_close(_allocatable(one), _allocatable(other), options.max_allocatable_difference_ratio)
        and _are_close(_free(one), _free(other), options.max_free_difference_ratio)
        and _have_equal_labels(one.node, other.node, options)
    )


def _share_label(node: Node, other: Node, key: str) -> bool:
    text = node.metadata.labels.get(key)
    return bool(text) and text == other.metadata.labels.get(key)


def _have_equal_capacity(node: Node, other: Node, options: Options) -> bool:
    one, two = _nanos(node.status.capacity), _nanos(other.status.capacity)
    if one.keys() != two.keys():
        return False
    return all(
        _is_close(amount, two[name], options.memory_difference_ratio) if name == MEMORY else amount == two[name]
        for name, amount in one.items()
    )


def _nanos(resources: Mapping[str, str | int | float]) -> dict[str, int]:
    return {name: parse(amount).nanos for name, amount in resources.items()}


def _allocatable(template: Template) -> dict[str, int]:
    return _nanos(template.node.status.allocatable)


def _free(template: Template) -> dict[str, int]:
    """Return what daemon pods leave free, in nanos, of the resources that upstream's list of requests holds."""
    allocatable = _allocatable(template)
    used = {CPU: 0, MEMORY: 0, PODS: 0, "ephemeral-storage": 0}
    for pod in template.pods:
        for name, amount in PodInfo(pod).resources.requests.items():
            used[name] = used.get(name, 0) + amount * (10**6 if name == CPU else 10**9)
    return {name: allocatable.get(name, 0) - amount for name, amount in used.items()}


def _are_close(one: Mapping[str, int], two: Mapping[str, int], ratio: float) -> bool:
    return one.keys() == two.keys() and all(_is_close(amount, two[name], ratio) for name, amount in one.items())


def _is_close(one: int, two: int, ratio: float) -> bool:
    """Compare two amounts in nanos, in the thousandths that upstream compares."""
    first, second = float(-(-one // 10**6)), float(-(-two // 10**6))
    larger, smaller = max(first, second), min(first, second)
    return larger - smaller <= larger * ratio


def _have_equal_labels(node: Node, other: Node, options: Options) -> bool:
    ignored = _BASIC | _BY_CLOUD.get(options.cloud_provider, frozenset()) | set(options.balancing_ignore_label)
    one, two = (
        {key: text for key, text in labels.items() if key not in ignored}
        for labels in (node.metadata.labels, other.metadata.labels)
    )
    return one == two


def balanced(groups: Sequence[NodeGroup], n_nodes: int) -> list[Growth]:
    """Share new nodes among groups, each node to the smallest group that has room; BalanceScaleUpBetweenGroups."""
    growths = [Growth(group, group.target, group.target) for group in groups if group.target != group.most]
    missing = min(n_nodes, sum(growth.group.room for growth in growths))
    growths.sort(key=lambda growth: growth.current)
    start = current = 0
    while missing > 0:
        growth = growths[current]
        if growth.wanted < growth.group.most:
            growth.wanted += 1
            missing -= 1
        else:
            growths[start], growths[current] = growths[current], growths[start]
            start += 1
        # As upstream, which holds a pointer to the place in the list: after the swap another group stands there.
        growth = growths[current]
        if current < len(growths) - 1 and growth.wanted > growths[current + 1].wanted:
            current += 1
        else:
            current = start
    return [growth for growth in growths if growth.wanted != growth.current]
