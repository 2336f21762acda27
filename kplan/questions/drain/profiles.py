"""What clouds do by default when they upgrade node pools: how many nodes at a time, how long a drain is waited for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

Profile = Literal["gke", "eks", "aks"]
"""The cloud whose node pools are upgraded."""

MOST_SURGE = 1000


class UpgradeDefaults(msgspec.Struct, frozen=True):
    """How a cloud upgrades the nodes of a pool unless it is told otherwise."""

    surge: int = 0
    surge_percent: int = 0  #: of the nodes, rounded up; the larger of both counts
    surge_per_zone: int = 0  #: in place of both
    max_unavailable: int = 0
    timeout: float = math.inf
    more: Mapping[str, Any] = {}  #: further fields of the upgrade


UPGRADE_DEFAULTS: Mapping[Profile | None, UpgradeDefaults] = {
    None: UpgradeDefaults(),
    # Surge upgrades: maxSurge 1, maxUnavailable 0. Budgets and grace periods are respected for up to an hour, then pods
    # are deleted. A surge node takes the place of the node that was drained.
    # https://cloud.google.com/kubernetes-engine/docs/concepts/node-pool-upgrade-strategies
    "gke": UpgradeDefaults(surge=1, timeout=3600.0, more={"is_forced": True, "keeps_surge": True}),
    # Managed node groups, by default: up to two new nodes in each zone come first, and all old ones are tainted. Then
    # maxUnavailable nodes at a time are drained, 1 by default; after 15 minutes PodEvictionFailure ends the update. An
    # empty node is terminated after 60 seconds, and the next one follows.
    # https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
    "eks": UpgradeDefaults(
        surge_per_zone=2,
        max_unavailable=1,
        timeout=900.0,
        more={"cordons_all": True, "pause": 60.0, "waits_for_nodes": False},
    ),
    # maxSurge 10 %, rounded up, maxUnavailable 0, no soak time. A node that is not drained within 30 minutes takes pods
    # again (undrainableNodeBehavior Schedule), and the upgrade fails. The surge nodes are removed in the end.
    # https://learn.microsoft.com/azure/aks/upgrade-aks-node-pools-rolling
    "aks": UpgradeDefaults(surge=1, surge_percent=10, timeout=1800.0, more={"uncordons_failed": True}),
}
