"""What Karpenter writes about nodes while it looks for some to disrupt.

Upstream: controllers/disruption/events/events.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kplan.autoscaling.karpenter.cluster import StateNode

BLOCKED = "DisruptionBlocked"
UNCONSOLIDATABLE = "Unconsolidatable"
CANDIDATE = "ConsolidationCandidate"
REJECTED = "ConsolidationRejected"


class Event(NamedTuple):
    """One event."""

    target: str  #: node/NAME, nodeclaim/NAME or nodepool/NAME
    reason: str
    message: str
    pod: str = ""  #: the pod that it names
    particulars: str = ""  #: about that pod: Karpenter writes them, too, but about pods in any order


class Events:
    """The events of one method, without repetitions."""

    def __init__(self) -> None:
        self.list: list[Event] = []

    def add(self, event: Event) -> None:
        """Note an event."""
        if event not in self.list:
            self.list.append(event)

    def block(self, state: StateNode, message: str, *, pod: str = "", particulars: str = "") -> None:
        """Note that a node may not be disrupted."""
        self.add(Event(_target(state), BLOCKED, message, pod, particulars))

    def block_pool(self, pool: str, reason: str) -> None:
        """Note that no node of a pool may be disrupted."""
        message = f"No allowed disruptions for disruption reason {reason} due to blocking budget"
        self.add(Event(f"nodepool/{pool}", BLOCKED, message))

    def keep(self, state: StateNode, message: str, *, pod: str = "", particulars: str = "") -> None:
        """Note that a node cannot be consolidated."""
        self.add(Event(_target(state), UNCONSOLIDATABLE, message, pod, particulars))

    def propose(self, state: StateNode, command: str, savings: float) -> None:
        """Note that a node is part of a command that is considered."""
        self.add(Event(_target(state), CANDIDATE, f"Consolidation candidate: {command} (savings: ${savings:.2f})"))

    def reject(self, state: StateNode, command: str, reason: str, savings: float) -> None:
        """Note that a command was not valid any more."""
        message = f"Consolidation rejected: {command}, reason: {reason} (savings: ${savings:.2f})"
        self.add(Event(_target(state), REJECTED, message))

    def by_target(self) -> dict[str, list[str]]:
        """Return the events as texts, by target."""
        texts: dict[str, list[str]] = {}
        for event in self.list:
            texts.setdefault(event.target, []).append(f"{event.reason}: {event.message}")
        return texts

    def about(self, node: str) -> Sequence[Event]:
        """Return the events of a node."""
        return [event for event in self.list if event.target == f"node/{node}"]


def _target(state: StateNode) -> str:
    return f"nodeclaim/{state.name}" if state.node is None else f"node/{state.node.metadata.name}"
