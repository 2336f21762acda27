"""Volumes that one node at a time may have: a pod starts when its node has them.

Upstream: pkg/controller/volume/attachdetach/reconciler/reconciler.go reconcile, attachDesiredVolumes;
pkg/controller/volume/attachdetach/cache/actual_state_of_world.go SetDetachRequestTime, ResetDetachRequestTime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from kplan.api.labels import OUT_OF_SERVICE
from kplan.course.simulation.motion import Motion
from kplan.health.pods import HeldVolume
from kplan.rules.volumes import claim_class, claims_of, is_of_one_node

_DETACHMENT = "detachment of {}"  #: what a timer is about that takes a volume from a node on which nothing uses it

UNMOUNT_SECONDS: Final = 360.0
"""So long a volume stays with a node that does not answer when its pod is gone; upstream maxWaitForUnmountDuration."""


class Attachments:
    """Which node has each volume; `start` is called with the row of a pod whose last volume comes to its node."""

    def __init__(self, motion: Motion, start: Callable[[int], None]) -> None:
        self._motion, self._start = motion, start
        self._users: dict[str, dict[int, str]] = {}  # NAMESPACE/NAME of a claim -> rows of pods on nodes, with these
        self._node: dict[str, str] = {}  # the same -> the node that has its volume
        self._claims: dict[int, list[str]] = {}  # row -> such claims of the pod

    def take_over(self, other: Attachments) -> None:
        self._users = {key: users.copy() for key, users in other._users.items()}
        self._node, self._claims = other._node.copy(), other._claims.copy()

    def begin(self) -> None:
        """Note who has volumes: ready pods have theirs, and of others those that are older."""
        if self._motion.session.listers.persistent_volume_claims:
            for pod in sorted(self._motion.pods.values(), key=lambda pod: not pod.is_ready):
                if pod.node:
                    self.attach(pod.row, pod.node)

    def attach(self, row: int, node: str) -> bool:
        """Note that a pod comes to a node; tell whether its volumes are there at once."""
        info = self._motion.infos[row]
        names = claims_of(info.pod) if info.pod.spec.volumes else ()
        keys = [f"{info.namespace}/{name}" for name in names if self._is_of_one_node(info.namespace, name)]
        if keys:
            self._claims[row] = keys
        for key in keys:
            self._users.setdefault(key, {})[row] = node
            if self._node.setdefault(key, node) == node:
                self._motion.timers.cancel(_DETACHMENT.format(key))  # it is wanted there again
        return not self.waits(row)

    def _is_of_one_node(self, namespace: str, name: str) -> bool:
        listers = self._motion.session.listers
        claim = listers.persistent_volume_claims.get((namespace, name))
        if claim is None:
            return False
        volume = listers.persistent_volumes.get(claim.spec.volume_name)
        return is_of_one_node(claim, volume, listers.storage_classes.get(claim_class(claim)), listers.csi_drivers)

    def waits(self, row: int) -> bool:
        return row in self._claims and next(self._elsewhere(row), None) is not None

    def _elsewhere(self, row: int) -> Iterator[str]:
        return (key for key in self._claims.get(row, ()) if self._node[key] != self._users[key][row])

    def held(self, row: int) -> HeldVolume | None:
        """Return the first volume for which a pod waits."""
        key = next(self._elsewhere(row), None)
        if key is None:
            return None
        others = (self._motion.pods[other].key for other, node in self._users[key].items() if node == self._node[key])
        return HeldVolume(claim=key, pod=next(others, ""), node=self._node[key])

    def let_go(self, row: int) -> None:
        """Note that a pod is gone, or that its containers have ended."""
        for key in self._claims.pop(row, ()):
            node = self._users[key].pop(row)
            if node == self._node[key] and node not in self._users[key].values():
                delay, motion = self._seconds_to_detach(node), self._motion
                if delay:
                    motion.timers.post(motion.now + delay, partial(self._pass_on, key, node), _DETACHMENT.format(key))
                else:
                    self._pass_on(key, node)

    def _seconds_to_detach(self, name: str) -> float:
        nodes, row = self._motion.cluster.nodes.nodes, self._motion.cluster.nodes.row_of.get(name)
        if not self._motion.durations.is_timed or (row is not None and name not in self._motion.lost_nodes):
            return 0.0
        is_out = row is not None and any(taint.key == OUT_OF_SERVICE for taint in nodes[row].spec.taints)
        return 0.0 if is_out else UNMOUNT_SECONDS

    def look_at(self, node: str) -> None:
        """Detach what no pod uses on a node that is back, or out of service, and let it wait no longer."""
        if not self._seconds_to_detach(node):
            for key in [key for key, there in self._node.items() if there == node]:
                self._pass_on(key, node)

    def _pass_on(self, key: str, node: str) -> None:
        """Detach a volume from a node where no pod uses it, and attach it to that of the first pod that waits."""
        users = self._users[key]
        if self._node.get(key) != node or node in users.values():
            return
        self._motion.timers.cancel(_DETACHMENT.format(key))
        if not users:
            del self._node[key]
            return
        self._node[key] = next(iter(users.values()))
        for row in [row for row, there in users.items() if there == self._node[key]]:
            if not self.waits(row):
                self._start(row)
