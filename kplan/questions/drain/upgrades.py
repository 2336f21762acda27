"""Upgrades of nodes: how many at a time, how long a drain is waited for, and what the clouds do by default."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from kplan.api.wellknown import ZONE
from kplan.simulation.durations import ASSUMED_NODE_START, EACH

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.questions.drain.question import Drain
    from kplan.simulation.node_upgrade import Upgrade

Profile = Literal["gke", "eks", "aks"]
"""The cloud whose node pools are upgraded."""

MOST_SURGE = 1000


class _Defaults(msgspec.Struct, frozen=True):
    surge: int = 0
    surge_percent: int = 0  #: of the nodes, rounded up; the larger of both counts
    surge_per_zone: int = 0  #: in place of both
    max_unavailable: int = 0
    timeout: float = math.inf
    more: Mapping[str, Any] = {}  #: further fields of the upgrade


_DEFAULTS: Mapping[Profile | None, _Defaults] = {
    None: _Defaults(),
    # Surge upgrades: maxSurge 1, maxUnavailable 0. Budgets and grace periods are respected for up to an hour, then pods
    # are deleted. A surge node takes the place of the node that was drained.
    # https://cloud.google.com/kubernetes-engine/docs/concepts/node-pool-upgrade-strategies
    "gke": _Defaults(surge=1, timeout=3600.0, more={"is_forced": True, "keeps_surge": True}),
    # Managed node groups, by default: up to two new nodes in each zone come first, and all old ones are tainted. Then
    # maxUnavailable nodes at a time are drained, 1 by default; after 15 minutes PodEvictionFailure ends the update. An
    # empty node is terminated after 60 seconds, and the next one follows.
    # https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
    "eks": _Defaults(
        surge_per_zone=2,
        max_unavailable=1,
        timeout=900.0,
        more={"cordons_all": True, "pause": 60.0, "waits_for_nodes": False},
    ),
    # maxSurge 10 %, rounded up, maxUnavailable 0, no soak time. A node that is not drained within 30 minutes takes pods
    # again (undrainableNodeBehavior Schedule), and the upgrade fails. The surge nodes are removed in the end.
    # https://learn.microsoft.com/azure/aks/upgrade-aks-node-pools-rolling
    "aks": _Defaults(surge=1, surge_percent=10, timeout=1800.0, more={"uncordons_failed": True}),
}


def timeout_of(drain: Drain) -> float:
    """Return how many seconds a drain is waited for."""
    return _DEFAULTS[drain.profile].timeout if drain.timeout is None else drain.timeout or math.inf


def upgrade_of(drain: Drain, surge: Sequence[str]) -> Upgrade:
    """Return how the nodes are upgraded; `surge` names the further nodes."""
    from kplan.simulation.node_upgrade import Upgrade

    defaults = _DEFAULTS[drain.profile]
    starts = {} if drain.timeline is None else drain.timeline.node_start
    unavailable = defaults.max_unavailable if drain.max_unavailable is None else drain.max_unavailable
    return Upgrade(
        is_replaced=drain.how == "replace",
        surge=surge,
        parallel=max(unavailable if defaults.surge_per_zone else len(surge) + unavailable, 1),
        node_start=starts.get(EACH, ASSUMED_NODE_START.seconds),
        timeout=timeout_of(drain),
        **defaults.more,
    )


def with_surge(drain: Drain, base: Base) -> tuple[Base, list[str]]:
    """Return the cluster with the further nodes, and their names."""
    like = _surge_of(drain, base)
    if not like:
        return base, []
    from kplan.effects.what_if import changed
    from kplan.whatif.edits import parse_add_nodes

    before = set(base.objects.node_by_name)
    larger = changed(base, [parse_add_nodes(f"{n}={name}") for name, n in like.items()])
    larger.on_progress = base.on_progress
    return larger, [name for name in larger.objects.node_by_name if name not in before]


def _surge_of(drain: Drain, base: Base) -> dict[str, int]:
    """Return how many further nodes come that are like which one."""
    defaults = _DEFAULTS[drain.profile]
    first = drain.nodes[0]
    if drain.surge is not None:
        return {first: drain.surge} if drain.surge else {}
    if defaults.surge_per_zone:
        by_zone: dict[str, str] = {}
        for name in drain.nodes:
            by_zone.setdefault(base.objects.node_by_name[name].metadata.labels.get(ZONE, ""), name)
        fewest = -(-(drain.max_unavailable or 0) // len(by_zone))
        return dict.fromkeys(by_zone.values(), max(defaults.surge_per_zone, fewest))
    more = max(defaults.surge, -(-len(drain.nodes) * defaults.surge_percent // 100))
    return {first: more} if more else {}
