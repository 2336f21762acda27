"""Groups of pods that are scheduled together: which members are known, and how many have a node.

Upstream: pkg/scheduler/backend/cache/podgroupstate.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from kplan.api.scheduling import PodGroup
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.framework.listers import Key, Listers
from kplan.rules.pod_info import PodInfo

WORKLOAD_GATE: Final = "GenericWorkload"  #: the feature gate with which pods of a group are scheduled in one cycle
TOPOLOGY_GATE: Final = "TopologyAwareWorkloadScheduling"
"""The feature gate with which a group runs where a label of nodes has one value."""
PREEMPTION_GATE: Final = "WorkloadAwarePreemption"
"""The feature gate with which a group preempts as a whole, and whole groups are preempted."""
CLAIMS_GATE: Final = "DRAWorkloadResourceClaims"
"""The feature gate with which the pods of a group share claims that are reserved for the group."""


def group_of(info: PodInfo) -> Key | None:
    """Return the group that a pod names, as (namespace, name), or None."""
    group = info.pod.spec.scheduling_group
    return None if group is None or not group.pod_group_name else (info.namespace, group.pod_group_name)


class GroupCycle(msgspec.Struct):
    """The cycle of a group while it runs."""

    key: Key
    n_scheduled: int  #: members that had a node before
    #: claims (namespace, name) that members of this cycle were given, which nobody has written yet
    pending_claims: set[Key] = set()
    #: allocated claims that were first reserved for the group in this cycle, which nobody has written yet
    pending_reservations: set[Key] = set()


class PodGroups:
    """The groups of a session and their known pods, running or pending, in the order in which they arrived."""

    def __init__(self, cluster: Cluster, listers: Listers) -> None:
        self._cluster = cluster
        #: the groups that exist, by (namespace, name)
        self.groups: dict[Key, PodGroup] = listers.pod_groups.copy()
        self.cycle: GroupCycle | None = None  #: the cycle that runs now
        self._members: dict[Key, dict[int, None]] = {}
        self._own: set[Key] = set()  # groups whose members no other session shares
        self._n_read = 0  # pods are read when somebody asks: most sessions have no groups

    def begin_as(self, live: PodGroups) -> None:
        """Know the same groups and members as those of the session of which this one's is a fork."""
        live._read()
        self.groups, self._members, self._n_read = live.groups.copy(), live._members.copy(), live._n_read
        self._own, live._own = set(), set()  # from now on both copy the members of a group before they change

    def _changing(self, key: Key) -> dict[int, None]:
        if key not in self._own:
            self._own.add(key)
            self._members[key] = dict(self._members.get(key, ()))
        return self._members[key]

    def _read(self) -> None:
        infos = self._cluster.pods.infos
        for pod in range(self._n_read, len(infos)):
            self._note(pod)
        self._n_read = len(infos)

    def _note(self, pod: int) -> None:
        key = group_of(self._cluster.pods.infos[pod])
        if key is not None:
            self._changing(key)[pod] = None

    def add(self, pod: int) -> None:
        self._read()
        self._note(pod)

    def remove(self, pods: Iterable[int]) -> None:
        self._read()
        for pod in pods:
            key = group_of(self._cluster.pods.infos[pod])
            if key is not None:
                self._changing(key).pop(pod, None)

    def members(self, key: Key) -> list[int]:
        self._read()
        return list(self._members.get(key, ()))

    def scheduled(self, key: Key) -> list[int]:
        return [pod for pod in self.members(key) if self._cluster.node_of[pod] != NOWHERE]

    def unscheduled(self, key: Key) -> list[int]:
        return [pod for pod in self.members(key) if self._cluster.node_of[pod] == NOWHERE]

    def scheduled_before(self, key: Key) -> int:
        """Return how many pods of a group had a node before the cycle that runs now."""
        return self.cycle.n_scheduled if self.cycle is not None and self.cycle.key == key else len(self.scheduled(key))

    def min_count(self, key: Key) -> int | None:
        """Return how many pods of a gang must fit at the same time; None for a group that is no gang."""
        group = self.groups.get(key)
        gang = None if group is None else group.spec.scheduling_policy.gang
        return None if gang is None else gang.min_count
