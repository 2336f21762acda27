"""Upgrades of nodes: how many at a time, how long a drain is waited for, and what the clouds do by default."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

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
    max_unavailable: int = 0
    timeout: float = math.inf
    is_forced: bool = False
    surge_percent: int = 0  #: of the nodes, in place of `surge`, rounded up


_DEFAULTS: Mapping[Profile | None, _Defaults] = {
    None: _Defaults(),
    # Surge upgrades: maxSurge 1, maxUnavailable 0; budgets and grace periods are respected for up to an hour.
    "gke": _Defaults(1, timeout=3600.0, is_forced=True),
    # Managed node groups: maxUnavailable 1, new nodes first; after 15 minutes PodEvictionFailure ends the update.
    "eks": _Defaults(1, timeout=900.0),
    # maxSurge 10 % of a pool, at least one node; the drain timeout of 30 minutes ends the upgrade.
    "aks": _Defaults(1, timeout=1800.0, surge_percent=10),
}


def timeout_of(drain: Drain) -> float:
    """Return how many seconds a drain is waited for."""
    return _DEFAULTS[drain.profile].timeout if drain.timeout is None else drain.timeout or math.inf


def upgrade_of(drain: Drain, surge: Sequence[str]) -> Upgrade:
    """Return how the nodes are upgraded; `surge` names the further nodes."""
    from kplan.simulation.node_upgrade import Upgrade

    defaults = _DEFAULTS[drain.profile]
    starts = {} if drain.timeline is None else drain.timeline.node_start
    return Upgrade(
        is_replaced=drain.how == "replace",
        surge=surge,
        max_unavailable=defaults.max_unavailable if drain.max_unavailable is None else drain.max_unavailable,
        node_start=starts.get(EACH, ASSUMED_NODE_START.seconds),
        timeout=timeout_of(drain),
        is_forced=defaults.is_forced,
    )


def with_surge(drain: Drain, base: Base) -> tuple[Base, list[str]]:
    """Return the cluster with the further nodes, and their names."""
    defaults = _DEFAULTS[drain.profile]
    more = max(defaults.surge, -(-len(drain.nodes) * defaults.surge_percent // 100))
    more = more if drain.surge is None else drain.surge
    if not more:
        return base, []
    from kplan.effects.what_if import changed
    from kplan.whatif.edits import parse_add_nodes

    before = set(base.objects.node_by_name)
    larger = changed(base, [parse_add_nodes(f"{more}={drain.nodes[0]}")])
    larger.on_progress = base.on_progress
    return larger, [name for name in larger.objects.node_by_name if name not in before]
