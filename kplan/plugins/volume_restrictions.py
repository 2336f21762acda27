"""VolumeRestrictions: disks that a node can mount only once, and claims that only one pod at a time may use.

Upstream: plugins/volumerestrictions/volume_restrictions.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import cache, cached_property, partial
from typing import ClassVar

import msgspec
import numpy as np

from kplan.api.core import Pod
from kplan.engine.arrays import Int64Array
from kplan.engine.cluster import Cluster
from kplan.engine.details import ClaimInUse, Detail, MountedDisk
from kplan.engine.pod_table import STORAGE
from kplan.engine.verdicts import Code, Reason, Verdicts, first_names
from kplan.engine.view import NodeView
from kplan.framework import interface as fwk
from kplan.rules.pod_info import PodInfo, read_by_volume_plugins
from kplan.rules.volumes import ClaimKey, not_found

REASON_DISK_CONFLICT = "node(s) had no available disk"
REASON_NO_STATE = 'cannot read "PreFilterVolumeRestrictions" from cycleState'
READ_WRITE_ONCE_POD = "ReadWriteOncePod"

_DISK_SOURCES = ("gce_persistent_disk", "aws_elastic_block_store", "iscsi", "rbd")

Disk = tuple[str, ...]  #: the identity of a disk: its type, and the names that identify it within the type


class DiskUse(msgspec.Struct, frozen=True):
    """A disk that a pod mounts; two pods may share it on a node when both mounts are shareable."""

    disk: Disk
    is_shareable: bool


class _Users(msgspec.Struct):
    """How many volumes of a node's pods mount a disk: all, and those that are not shareable."""

    all: int = 0
    unsharing: int = 0


class _PreFilterState:
    """The incoming pod's disks and ReadWriteOncePod claims, and how other pods use them."""

    def __init__(
        self, disks: tuple[DiskUse, ...], once_claims: frozenset[str], n_conflicts: int, uses: VolumeUses
    ) -> None:
        self.disks = disks
        self.once_claims = once_claims
        self.n_conflicts = n_conflicts  #: how many of `once_claims` are in use in the cluster
        #: how many volumes of each pod refer to a claim with the name of one of `once_claims`
        self.references = _PodCounts(lambda: uses.references(once_claims))
        #: disk -> how many mounts of each pod conflict with it
        self.mounts = {use: _PodCounts(partial(uses.mounts, use)) for use in disks}


class _PodCounts:
    """A count for each pod, computed when first read: only views with changed pods need it."""

    def __init__(self, count: Callable[[], Int64Array]) -> None:
        self._count = count

    @cached_property
    def column(self) -> Int64Array:
        """One element per pod, int64 of shape (n_pods,)."""
        return self._count()


class VolumeRestrictions:
    """Rejects nodes where a disk of the pod is mounted already, and all nodes while another pod uses a claim."""

    name: ClassVar[str] = "VolumeRestrictions"
    scope: ClassVar[fwk.Scope] = fwk.Scope.CLUSTER
    reads = staticmethod(read_by_volume_plugins)

    def __init__(self, args: None, handle: fwk.Handle) -> None:
        self.listers = handle.listers
        self._conflict = handle.release.texts.read_write_once_pod
        self.uses = VolumeUses(handle.cluster)

    def queueing_hint(self, pod: PodInfo, event: fwk.Event) -> bool:
        """Wait for pods of the namespace to leave that use the same claims, or disks in a way that conflicts."""
        if not isinstance(event, fwk.PodDeleted) or event.info.namespace != pod.namespace:
            return False
        gone = event.info.pod
        if not set(pod.pod.named_claims).isdisjoint(gone.named_claims):
            return True
        return any(conflicts(use, other) for use in disk_uses(pod.pod) for other in disk_uses(gone))

    def pre_filter(self, cycle: fwk.CycleState) -> fwk.PreFilterResult | None:
        """Count the pod's ReadWriteOncePod claims that are in use; skip without any and without disks."""
        pod = cycle.pod.pod
        disks = tuple(disk_uses(pod))
        names = pod.named_claims
        if not names and not _has_disks(pod):
            return fwk.SKIP_SHAPE
        once_claims = set()
        for name in names:
            claim = self.listers.persistent_volume_claims.get((cycle.pod.namespace, name))
            if claim is None:
                return fwk.PreFilterResult(status=fwk.Status.unresolvable(not_found("persistentvolumeclaim", name)))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                once_claims.add(name)
        n_conflicts = 0
        if once_claims:
            self.uses.update()
            n_conflicts = sum((cycle.pod.namespace, name) in self.uses.claims for name in once_claims)
        if not _has_disks(pod) and n_conflicts == 0:
            return fwk.SKIP
        cycle.write(_PreFilterState(disks, frozenset(once_claims), n_conflicts, self.uses))
        return None

    def filter(self, cycle: fwk.CycleState, nodes: NodeView) -> Verdicts:
        """Reject nodes with a conflicting disk, then nodes for which a claim is still in use."""
        known = cycle.find(_PreFilterState)
        state = known or _PreFilterState(tuple(disk_uses(cycle.pod.pod)), frozenset(), 0, self.uses)
        self.uses.update()
        has_disk = np.zeros(len(nodes), np.bool_)
        for use in state.disks:
            count = nodes.take(self.uses.disk_column(use))
            if nodes.is_changed:
                count = count + nodes.delta_count(state.mounts[use])
            has_disk |= count > 0
        # As in upstream's AddPod and RemovePod, a changed pod counts with every volume whose claim has the name of one
        # of the incoming pod's claims, in any namespace, while the cluster counts each claim once.
        conflicts_left = np.full(len(nodes), state.n_conflicts, np.int64)
        if nodes.is_changed and state.once_claims:
            conflicts_left += nodes.delta_count(state.references)
        users = cache(partial(self._claim_details, state, cycle.pod.namespace))
        disk_details = partial(self._disk_details, state, nodes)
        verdicts = Verdicts.first_of(
            (has_disk, Reason(REASON_DISK_CONFLICT, Code.UNSCHEDULABLE, disk_details)),
            (conflicts_left > 0, Reason(self._conflict, Code.UNSCHEDULABLE, lambda _position: users())),
        )
        return verdicts if known is not None else verdicts.then(Verdicts.error(len(nodes), REASON_NO_STATE))

    def _disk_details(self, state: _PreFilterState, nodes: NodeView, position: int) -> Iterator[Detail]:
        infos = nodes.cluster.pods.infos
        for use in state.disks:
            keys = [
                infos[pod].key
                for pod in nodes.pods_at(position)
                if any(conflicts(use, other) for other in disk_uses(infos[pod].pod))
            ]
            if keys:
                kind, *names = use.disk
                pods, more = first_names(keys)
                disk, is_shared = "/".join(names), use.is_shareable
                yield MountedDisk(type=kind, disk=disk, read_only=is_shared, pods=pods, and_more=more)

    def _claim_details(self, state: _PreFilterState, namespace: str) -> list[Detail]:
        infos, names, node_of = self.uses.cluster.pods.infos, self.uses.cluster.nodes.names, self.uses.cluster.node_of
        details: list[Detail] = []
        for claim in sorted(state.once_claims):
            users = [
                f"{info.key} on {names[row]}"
                for info, row in zip(infos, node_of, strict=True)
                if row >= 0 and info.namespace == namespace and claim in info.pod.named_claims
            ]
            if users:
                used_by, more = first_names(users)
                details.append(ClaimInUse(claim=f"{namespace}/{claim}", used_by=used_by, and_more=more))
        return details


class VolumeUses:
    """Claims and disks that bound pods use, updated change by change."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.claims: Counter[ClaimKey] = Counter()  #: claim -> number of volumes of bound pods that refer to it
        self._disks: dict[Disk, dict[int, _Users]] = {}
        self._position: int | None = None
        self._naming: dict[str, list[int]] = {}
        self._mounting: dict[Disk, list[tuple[int, DiskUse]]] = {}
        self._n_indexed = 0

    def update(self) -> None:
        log = self.cluster.log
        if self._position is None:
            for row, pods in enumerate(self.cluster.pods_on):
                for pod in pods:
                    self._change(pod, row, 1)
        else:
            for change in log[self._position :]:
                self._change(change.pod, change.row, change.sign)
        self._position = len(log)

    def _change(self, pod: int, row: int, sign: int) -> None:
        info = self.cluster.pods.infos[pod]
        if not info.pod.spec.volumes:
            return
        for name in info.pod.named_claims:
            key = (info.namespace, name)
            self.claims[key] += sign
            if self.claims[key] <= 0:
                del self.claims[key]
        for use in disk_uses(info.pod):
            users = self._disks.setdefault(use.disk, {}).setdefault(row, _Users())
            users.all += sign
            users.unsharing += 0 if use.is_shareable else sign

    def references(self, names: Collection[str]) -> Int64Array:
        """Return how many volumes of each pod have a claim of one of the names, int64 of shape (n_pods,)."""
        self._index_pods()
        column = np.zeros(self._n_indexed, np.int64)
        for name in names:
            for pod in self._naming.get(name, ()):
                column[pod] += 1
        return column

    def mounts(self, use: DiskUse) -> Int64Array:
        """Return how many mounts of each pod conflict with a mount, int64 of shape (n_pods,)."""
        self._index_pods()
        column = np.zeros(self._n_indexed, np.int64)
        for pod, other in self._mounting.get(use.disk, ()):
            column[pod] += conflicts(use, other)
        return column

    def _index_pods(self) -> None:
        """Index new pods, running or not, by the claims that they name and the disks that they mount."""
        pods = self.cluster.pods
        fresh = np.flatnonzero(pods.derived(STORAGE)[self._n_indexed :]) + self._n_indexed
        for pod in fresh.tolist():
            for name in pods.infos[pod].pod.named_claims:
                self._naming.setdefault(name, []).append(pod)
            for use in disk_uses(pods.infos[pod].pod):
                self._mounting.setdefault(use.disk, []).append((pod, use))
        self._n_indexed = len(pods)

    def disk_column(self, use: DiskUse) -> Int64Array:
        """Return how many mounts on each node conflict with a mount, int64 of shape (n_nodes,)."""
        column = np.zeros(len(self.cluster), np.int64)
        for row, users in self._disks.get(use.disk, {}).items():
            column[row] = users.unsharing if use.is_shareable else users.all
        return column


def conflicts(use: DiskUse, other: DiskUse) -> bool:
    """Whether two mounts cannot be on the same node."""
    return use.disk == other.disk and not (use.is_shareable and other.is_shareable)


def disk_uses(pod: Pod) -> Iterator[DiskUse]:
    """Yield the disks that a pod mounts directly and that a node can mount only once; an RBD image once per monitor."""
    for volume in pod.spec.volumes:
        gce, ebs, iscsi, rbd = volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.iscsi, volume.rbd
        if gce is not None:
            yield DiskUse(("gcePersistentDisk", gce.pd_name), gce.read_only)
        if ebs is not None:
            yield DiskUse(("awsElasticBlockStore", ebs.volume_id), is_shareable=False)
        if iscsi is not None:
            yield DiskUse(("iscsi", iscsi.iqn), iscsi.read_only)
        if rbd is not None:
            for monitor in dict.fromkeys(rbd.monitors):
                yield DiskUse(("rbd", monitor, rbd.pool, rbd.image), rbd.read_only)


def _has_disks(pod: Pod) -> bool:
    return any(getattr(volume, source) is not None for volume in pod.spec.volumes for source in _DISK_SOURCES)
