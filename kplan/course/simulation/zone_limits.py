"""How many nodes at a time are tainted so that their pods go: less in a zone of which most nodes are not ready.

Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go ComputeZoneState, handleDisruption,
setLimiterInZone; scheduler/rate_limited_queue.go.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping

import msgspec

_RATE, _SLOW_RATE = 0.1, 0.01
"""Nodes a second: --node-eviction-rate and --secondary-node-eviction-rate."""

_LARGE_ZONE = 50
_MOST_OF_ZONE = 0.55
_FEW = 2
"""--large-cluster-size-threshold, --unhealthy-zone-threshold, and how many nodes are no disruption of their zone."""


class ZoneState(enum.Enum):
    """How many nodes of a zone are not ready."""

    NORMAL = enum.auto()
    PARTIAL = enum.auto()
    """Most of them."""
    FULL = enum.auto()
    """All of them."""


class ZoneCount(msgspec.Struct):
    """The nodes of a zone."""

    ready: int = 0
    not_ready: int = 0

    @property
    def state(self) -> ZoneState:
        if not self.ready and self.not_ready:
            return ZoneState.FULL
        is_partial = self.not_ready > _FEW and self.not_ready / (self.ready + self.not_ready) >= _MOST_OF_ZONE
        return ZoneState.PARTIAL if is_partial else ZoneState.NORMAL

    @property
    def rate(self) -> float:
        """How many nodes are tainted a second."""
        if self.state is not ZoneState.PARTIAL:
            return _RATE
        return _SLOW_RATE if self.ready + self.not_ready > _LARGE_ZONE else 0.0


class Zone(msgspec.Struct):
    """A zone's state, the nodes that are to be tainted, and when the next one may be."""

    state: ZoneState = ZoneState.NORMAL
    rate: float = _RATE
    next_at: float = -math.inf
    waiting: list[str] = []

    def accepts(self, now: float) -> bool:
        """Tell whether a node may be tainted now."""
        return self.rate > 0 and now >= self.next_at

    def take(self, now: float) -> str:
        """Return the node that is tainted now."""
        self.next_at = now + 1 / self.rate
        return self.waiting.pop(0)

    def swap(self, rate: float, now: float) -> None:
        """Change the rate; where no node could be tainted right now, the wait starts anew."""
        if rate != self.rate:
            if rate > 0:
                self.next_at = -math.inf if self.accepts(now) else now + 1 / rate
            self.rate = rate


def apply_states(zones: Mapping[str, Zone], counts: Mapping[str, ZoneCount], now: float) -> tuple[bool, bool]:
    """Change the rates of zones as their nodes are now; return whether all zones were down before, and are now.

    With all zones down something is wrong with the control plane's view, and nothing is tainted.
    """
    were_down = bool(counts) and all(zones[name].state is ZoneState.FULL for name in counts)
    are_down = bool(counts) and all(count.state is ZoneState.FULL for count in counts.values())
    for name, count in counts.items() if not (were_down and are_down) else ():
        zone = zones[name]
        if are_down:
            zone.swap(0.0, now)
            zone.waiting.clear()
        elif were_down or zone.state is not count.state:
            zone.swap(count.rate, now)
        zone.state = count.state
    return were_down, are_down
