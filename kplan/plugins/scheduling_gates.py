"""SchedulingGates: keeps pods with scheduling gates out of the queue.

Upstream: plugins/schedulinggates/scheduling_gates.go.
"""

from __future__ import annotations

from typing import ClassVar

from kplan.framework.interface import SUCCESS, Handle, Scope, Status, no_event_helps
from kplan.rules.pod_info import PodInfo


class SchedulingGates:
    """Rejects a pod before it enters the queue while ``spec.schedulingGates`` has an entry."""

    name: ClassVar[str] = "SchedulingGates"
    scope: ClassVar[Scope] = Scope.NODE_OBJECT
    queueing_hint = staticmethod(no_event_helps)  # it waits for the gates to be removed

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Reject a pod with gates; the message lists them all, in their order."""
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return SUCCESS
        return Status.unresolvable(f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]")
