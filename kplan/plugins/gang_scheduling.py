"""GangScheduling: keeps the pods of a gang waiting until enough of them are known, and until enough of them fit.

Upstream: plugins/gangscheduling/gangscheduling.go.
"""

from __future__ import annotations

from typing import ClassVar

from kplan.framework.interface import SUCCESS, CycleState, Handle, Scope, Status, StatusCode
from kplan.framework.pod_groups import PodGroups, group_of
from kplan.rules.pod_info import PodInfo

REASON_WAITING_FOR_GROUP = 'waiting for pods\'s pod group "{}" to appear in scheduling queue'
REASON_WAITING_FOR_PODS = "waiting for minCount pods from a gang to appear in scheduling queue"
REASON_WAITING_FOR_ROOM = "waiting for minCount pods from a gang to be scheduled"


class GangScheduling:
    """Reads the minCount of gangs; groups of another policy never wait."""

    name: ClassVar[str] = "GangScheduling"
    scope: ClassVar[Scope] = Scope.CLUSTER

    def __init__(self, args: None, handle: Handle) -> None:
        self._groups = handle.session_state(PodGroups, handle.cluster, handle.listers)

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Keep a pod out of the queue until its group exists and minCount pods of a gang are known."""
        key = group_of(pod)
        if key is None:
            return SUCCESS
        if key not in self._groups.groups:
            return Status.unresolvable(REASON_WAITING_FOR_GROUP.format(key[1]))
        min_count = self._groups.min_count(key)
        if min_count is not None and len(self._groups.members(key)) < min_count:
            return Status.unresolvable(REASON_WAITING_FOR_PODS)
        return SUCCESS

    def permit(self, cycle: CycleState, row: int) -> Status:
        """Let a pod of a gang wait until minCount pods have a node; the pod itself has its node by then."""
        key = group_of(cycle.pod)
        if key is None:
            return SUCCESS
        if key not in self._groups.groups:
            namespace, name = key
            missing = f'podgroup.scheduling.k8s.io "{name}" not found'
            return Status.error(f"failed to get podGroup {namespace}/{name}: {missing}")
        min_count = self._groups.min_count(key)
        if min_count is not None and len(self._groups.scheduled(key)) < min_count:
            return Status(StatusCode.WAIT, (REASON_WAITING_FOR_ROOM,))
        return SUCCESS
