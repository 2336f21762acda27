"""Attached volumes of all nodes: who holds what, and how many of each driver, kept up to date change by change."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.view import NodeView
from kplan.framework.listers import Listers
from kplan.plugins.node_volume_limits.resolving import AttachableVolume, PodVolumes, VolumeResolver


class AttachedDelta(msgspec.Struct):
    """By how much the nodes of a view differ from the cluster's, for the volumes of one incoming pod."""

    #: driver -> int64 array of shape (n_view,), change of the number of attached volumes
    used: dict[str, Int64Array] = {}
    #: volume -> int64 array of shape (n_view,), +1 where its first pod came, -1 where its last pod left
    held: dict[int, Int64Array] = {}


class AttachedVolumes:
    """Volumes by number, the pods and VolumeAttachments that put them on nodes, and counts per driver."""

    def __init__(self, cluster: Cluster, listers: Listers, resolver: VolumeResolver) -> None:
        self.cluster = cluster
        self.volumes: list[AttachableVolume] = []  #: list of AttachableVolume, by number
        self.troubled: dict[int, int] = {}  #: node row -> number of pods there whose volumes cannot be told
        self._resolver = resolver
        self._number_of: dict[str, int] = {}
        self._driver_code_of: dict[str, int] = {}
        self._driver_codes: Int64Array = np.zeros(_FIRST_CAPACITY, np.int64)
        self._holders: list[dict[int, int]] = []
        self._attached: list[frozenset[int] | set[int]] = []
        self._attached_to: dict[int, list[int]] = {}
        self._used: dict[str, Int64Array] = {}
        self._looked_up: tuple[tuple[int, int, bytes, bytes], Int64Array, BoolArray] | None = None
        self._starts: Int64Array = np.zeros(1, np.int64)
        self._numbers: Int64Array = np.zeros(0, np.int64)
        self._has_trouble: Int64Array = np.zeros(0, np.int64)
        self._take_attachments(listers)
        for row, pods in enumerate(cluster.pods_on):
            for pod in pods:
                self._change(pod, row, 1)
        self._position = len(cluster.log)

    def follow(self) -> None:
        """Take in what happened to the cluster since it was last looked at."""
        log = self.cluster.log
        for change in log[self._position :]:
            self._change(change.pod, change.row, change.sign)
        self._position = len(log)

    def number(self, volume: AttachableVolume) -> int:
        """Return the number of a volume, given when it is first seen.

        As upstream, volumes are told apart by driver and handle joined.
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
        """Return how many volumes of a driver each node holds, int64 of shape (n_nodes,); do not write to it."""
        column = self._used.get(driver)
        if column is None:
            column = self._used[driver] = np.zeros(len(self.cluster), np.int64)
        return column

    def holder_rows(self, volume: int) -> RowArray:
        """Return the nodes whose pods use a volume."""
        holders = self._holders[volume]
        return np.fromiter(holders, np.intp, len(holders))

    def attached_only(self, driver: str, row: int) -> int:
        """Count the volumes of a driver that are on a node by a VolumeAttachment alone (for explanations)."""
        return sum(
            self.volumes[number].driver == driver and row not in self._holders[number]
            for number in self._attached_to.get(row, ())
        )

    def pod_problem(self, pod: int) -> str:
        """Say why the volumes of a running pod cannot be told; empty when they can."""
        return self._resolve(pod).problem

    def changes_trouble(self, nodes: NodeView) -> bool:
        """Tell whether pods whose volumes cannot be told come or go in a view."""
        if nodes.delta is None:
            return False
        self._index_pods()
        return bool(self._has_trouble[nodes.delta.pods].any())

    def delta(self, nodes: NodeView, volumes: Sequence[int]) -> AttachedDelta:
        """Return by how much the nodes of a view differ from the cluster's, as far as an incoming pod's volumes care.

        Notes
        -----
        Each (position, volume) that changes is looked up once; its changes are added up first, since a volume may
        leave with one pod and stay with another.
        """
        found = AttachedDelta()
        drivers = {self.volumes[number].driver for number in volumes}
        for driver in drivers:
            found.used[driver] = np.zeros(len(nodes), np.int64)
        for number in volumes:
            found.held[number] = np.zeros(len(nodes), np.int64)
        if nodes.delta is None:
            return found
        self._index_pods()
        starts = self._starts[nodes.delta.pods]
        lengths = self._starts[nodes.delta.pods + 1] - starts
        numbers = self._numbers[_ranges(starts, lengths)]
        driver_codes = self._driver_codes[: len(self.volumes)]
        wanted = np.isin(driver_codes[numbers], [self._driver_code_of[driver] for driver in drivers])
        if not wanted.any():
            return found
        keys = np.repeat(nodes.delta.positions, lengths)[wanted] * len(self.volumes) + numbers[wanted]
        distinct, which = np.unique(keys, return_inverse=True)
        changes = np.zeros(len(distinct), np.int64)
        np.add.at(changes, which, np.repeat(nodes.delta.signs, lengths)[wanted])
        positions, numbers = np.divmod(distinct, len(self.volumes))
        rows = positions if nodes.rows is None else nodes.rows[positions]
        before, is_counted = self._look_up(rows, numbers)
        came = (before + changes > 0).astype(np.int64) - (before > 0)
        for number, held in found.held.items():
            here = numbers == number
            held[positions[here]] = came[here]
        for driver, used in found.used.items():
            mine = is_counted & (driver_codes[numbers] == self._driver_code_of[driver])
            np.add.at(used, positions[mine], came[mine])
        return found

    def _look_up(self, rows: RowArray, numbers: Int64Array) -> tuple[Int64Array, BoolArray]:
        """Return how many pods hold each (node, volume), and whether no VolumeAttachment counts it there anyway.

        The last answer is kept: a preemption asks about the same places at every step.
        """
        key = (len(self.cluster.log), len(self.volumes), rows.tobytes(), numbers.tobytes())
        if self._looked_up is None or self._looked_up[0] != key:
            places = list(zip(numbers.tolist(), rows.tolist(), strict=True))
            before = np.fromiter((self._holders[number].get(row, 0) for number, row in places), np.int64, len(places))
            lone = np.fromiter((row not in self._attached[number] for number, row in places), np.bool_, len(places))
            self._looked_up = (key, before, lone)
        return self._looked_up[1:]

    def _take_attachments(self, listers: Listers) -> None:
        """Count volumes of VolumeAttachments; those of volumes that are not CSI's, or unknown, do not count."""
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
        """Bring the volumes of all pods into one array, pod by pod."""
        n_known, n_pods = len(self._starts) - 1, len(self.cluster.pods)
        if n_known == n_pods:
            return
        fresh = [self._resolve(pod) for pod in range(n_known, n_pods)]
        numbers = [[self.number(volume) for volume in each.volumes] for each in fresh]
        lengths = np.fromiter(map(len, numbers), np.int64, len(numbers))
        self._starts = np.concatenate((self._starts, self._starts[-1] + np.cumsum(lengths)))
        flat = [number for each in numbers for number in each]
        self._numbers = np.concatenate((self._numbers, np.asarray(flat, np.int64)))
        trouble = np.fromiter((bool(each.problem) for each in fresh), np.int64, len(fresh))
        self._has_trouble = np.concatenate((self._has_trouble, trouble))

    def _change(self, pod: int, row: int, sign: int) -> None:
        resolved = self._resolve(pod)
        if resolved.problem:
            count = self.troubled.get(row, 0) + sign
            self.troubled[row] = count
            if not count:
                del self.troubled[row]
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
    """Return all integers from each start on, `lengths` of them, one range after the other."""
    total = int(lengths.sum())
    firsts = np.repeat(starts - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    ranges: Int64Array = firsts + np.arange(total)
    return ranges
