"""Attached volumes of all nodes: which pods use them, and how many each driver has, updated change by change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec
import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.view import NodeView
from kplan.framework.listers import Listers
from kplan.plugins.node_volume_limits.limits import AttachableVolume, PodVolumes, VolumeResolver


class AttachedDelta(msgspec.Struct):
    """By how much the nodes of a view differ from the cluster's, for the volumes of an incoming pod."""

    #: driver -> int64 array of shape (n_view,), change of the number of attached volumes
    by_driver: dict[str, Int64Array] = {}
    #: volume -> int64 array of shape (n_view,), +1 where its first pod is added, -1 where its last pod is removed
    by_volume: dict[int, Int64Array] = {}


class AttachedVolumes:
    """Volumes by number, the pods and VolumeAttachments that put them on nodes, and counts per driver."""

    def __init__(self, cluster: Cluster, listers: Listers, resolver: VolumeResolver) -> None:
        self.cluster = cluster
        self.volumes: list[AttachableVolume] = []  #: the volumes, by number
        self.unresolved: dict[int, int] = {}  #: node row -> number of its pods whose volumes cannot be resolved
        self._resolver = resolver
        self._number_of: dict[str, int] = {}
        self._driver_code_of: dict[str, int] = {}
        self._driver_codes: Int64Array = np.zeros(_FIRST_CAPACITY, np.int64)
        self._holders: list[dict[int, int]] = []
        self._attached: list[frozenset[int] | set[int]] = []
        self._attached_to: dict[int, list[int]] = {}
        self._used: defaultdict[str, Int64Array] = defaultdict(lambda: np.zeros(len(cluster), np.int64))
        self._last_look_up: tuple[tuple[int, int, bytes, bytes], Int64Array, BoolArray] | None = None
        self._starts: Int64Array = np.zeros(1, np.int64)
        self._numbers: Int64Array = np.zeros(0, np.int64)
        self._is_unresolved: Int64Array = np.zeros(0, np.int64)
        self._read_attachments(listers)
        for row, pods in enumerate(cluster.pods_on):
            for pod in pods:
                self._change(pod, row, 1)
        self._position = len(cluster.log)

    def update(self) -> None:
        """Apply the changes to the cluster since the last call."""
        log = self.cluster.log
        for change in log[self._position :]:
            self._change(change.pod, change.row, change.sign)
        self._position = len(log)

    def number(self, volume: AttachableVolume) -> int:
        """Return the number of a volume; a new volume gets the next one.

        As upstream, the identity of a volume is its driver and handle joined.
        """
        name = f"{volume.driver}/{volume.handle}"
        number = self._number_of.get(name)
        if number is None:
            number = self._number_of[name] = len(self.volumes)
            self.volumes.append(volume)
            if number == len(self._driver_codes):
                self._driver_codes = np.concatenate((self._driver_codes, np.zeros_like(self._driver_codes)))
            self._driver_codes[number] = self._driver_code_of.setdefault(volume.driver, len(self._driver_code_of))
            self._holders.append({})
            self._attached.append(_NONE)
        return number

    def used(self, driver: str) -> Int64Array:
        """Return how many volumes of a driver each node has attached, int64 of shape (n_nodes,); do not write to it."""
        return self._used[driver]

    def holder_rows(self, volume: int) -> RowArray:
        """Return the nodes whose pods use a volume."""
        holders = self._holders[volume]
        return np.fromiter(holders, np.intp, len(holders))

    def attached_only(self, driver: str, row: int) -> int:
        """Return how many volumes of a driver are attached to a node that no pod there uses (for explanations)."""
        return sum(
            self.volumes[number].driver == driver and row not in self._holders[number]
            for number in self._attached_to.get(row, ())
        )

    def pod_problem(self, pod: int) -> str:
        """Return why the volumes of a running pod cannot be resolved; empty when they can."""
        return self._resolve(pod).problem

    def changes_unresolved(self, nodes: NodeView) -> bool:
        """Whether a view adds or removes pods whose volumes cannot be resolved."""
        if nodes.delta is None:
            return False
        self._index_pods()
        return bool(self._is_unresolved[nodes.delta.pods].any())

    def delta(self, nodes: NodeView, volumes: Sequence[int]) -> AttachedDelta:
        """Return by how much the nodes of a view differ from the cluster's, for an incoming pod's volumes.

        Notes
        -----
        Each changed (position, volume) is looked up once, after its changes are summed: a volume may leave with one pod
        and stay with another.
        """
        delta = AttachedDelta()
        drivers = {self.volumes[number].driver for number in volumes}
        for driver in drivers:
            delta.by_driver[driver] = np.zeros(len(nodes), np.int64)
        for number in volumes:
            delta.by_volume[number] = np.zeros(len(nodes), np.int64)
        if nodes.delta is None:
            return delta
        self._index_pods()
        starts = self._starts[nodes.delta.pods]
        lengths = self._starts[nodes.delta.pods + 1] - starts
        numbers = self._numbers[_ranges(starts, lengths)]
        driver_codes = self._driver_codes[: len(self.volumes)]
        is_relevant = np.isin(driver_codes[numbers], [self._driver_code_of[driver] for driver in drivers])
        if not is_relevant.any():
            return delta
        keys = np.repeat(nodes.delta.positions, lengths)[is_relevant] * len(self.volumes) + numbers[is_relevant]
        distinct, inverse = np.unique(keys, return_inverse=True)
        changes = np.zeros(len(distinct), np.int64)
        np.add.at(changes, inverse, np.repeat(nodes.delta.signs, lengths)[is_relevant])
        positions, numbers = np.divmod(distinct, len(self.volumes))
        rows = positions if nodes.rows is None else nodes.rows[positions]
        before, is_counted = self._look_up(rows, numbers)
        attached = (before + changes > 0).astype(np.int64) - (before > 0)
        for number, change in delta.by_volume.items():
            is_volume = numbers == number
            change[positions[is_volume]] = attached[is_volume]
        for driver, change in delta.by_driver.items():
            is_driver = is_counted & (driver_codes[numbers] == self._driver_code_of[driver])
            np.add.at(change, positions[is_driver], attached[is_driver])
        return delta

    def _look_up(self, rows: RowArray, numbers: Int64Array) -> tuple[Int64Array, BoolArray]:
        """Return how many pods use each volume on each node, and whether no VolumeAttachment counts it there anyway.

        The last result is cached: preemption looks up the same nodes and volumes at every step.
        """
        key = (len(self.cluster.log), len(self.volumes), rows.tobytes(), numbers.tobytes())
        if self._last_look_up is None or self._last_look_up[0] != key:
            pairs = list(zip(numbers.tolist(), rows.tolist(), strict=True))
            before = np.fromiter((self._holders[number].get(row, 0) for number, row in pairs), np.int64, len(pairs))
            is_unattached = np.fromiter(
                (row not in self._attached[number] for number, row in pairs), np.bool_, len(pairs)
            )
            self._last_look_up = (key, before, is_unattached)
        return self._last_look_up[1:]

    def _read_attachments(self, listers: Listers) -> None:
        """Count the volumes of VolumeAttachments; unknown volumes and those without CSI do not count."""
        for attachment in listers.volume_attachments:
            spec = attachment.spec
            row = self.cluster.nodes.row_of.get(spec.node_name)
            volume = listers.persistent_volumes.get(spec.source.persistent_volume_name or "")
            if row is None or not spec.attacher or volume is None or volume.spec.csi is None:
                continue
            number = self.number(AttachableVolume(spec.attacher, volume.spec.csi.volume_handle))
            if row not in self._attached[number]:
                self._attached[number] = {row, *self._attached[number]}
                self._attached_to.setdefault(row, []).append(number)
                self.used(self.volumes[number].driver)[row] += 1

    def _resolve(self, pod: int) -> PodVolumes:
        info = self.cluster.pods.infos[pod]
        return self._resolver.running(info) if info.pod.spec.volumes else _NO_VOLUMES

    def _index_pods(self) -> None:
        """Append the volumes of new pods to the array of all pods' volumes."""
        n_known, n_pods = len(self._starts) - 1, len(self.cluster.pods)
        if n_known == n_pods:
            return
        new_pods = [self._resolve(pod) for pod in range(n_known, n_pods)]
        numbers = [[self.number(volume) for volume in pod_volumes.volumes] for pod_volumes in new_pods]
        lengths = np.fromiter(map(len, numbers), np.int64, len(numbers))
        self._starts = np.concatenate((self._starts, self._starts[-1] + np.cumsum(lengths)))
        flat = [number for pod_numbers in numbers for number in pod_numbers]
        self._numbers = np.concatenate((self._numbers, np.asarray(flat, np.int64)))
        is_unresolved = np.fromiter((bool(pod_volumes.problem) for pod_volumes in new_pods), np.int64, len(new_pods))
        self._is_unresolved = np.concatenate((self._is_unresolved, is_unresolved))

    def _change(self, pod: int, row: int, sign: int) -> None:
        resolved = self._resolve(pod)
        if resolved.problem:
            count = self.unresolved.get(row, 0) + sign
            self.unresolved[row] = count
            if not count:
                del self.unresolved[row]
        for volume in resolved.volumes:
            number = self.number(volume)
            holders = self._holders[number]
            before = holders.get(row, 0)
            holders[row] = before + sign
            if not holders[row]:
                del holders[row]
            if (before == 0 or before + sign == 0) and row not in self._attached[number]:
                self.used(self.volumes[number].driver)[row] += sign


_FIRST_CAPACITY = 64
_NONE: frozenset[int] = frozenset()
_NO_VOLUMES = PodVolumes()


def _ranges(starts: Int64Array, lengths: Int64Array) -> Int64Array:
    """Return the concatenated ranges that begin at `starts` and have these lengths."""
    total = int(lengths.sum())
    firsts = np.repeat(starts - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    ranges: Int64Array = firsts + np.arange(total)
    return ranges
