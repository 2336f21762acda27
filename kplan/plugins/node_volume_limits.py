"""NodeVolumeLimits: limits how many volumes of a CSI driver are attached to a node.

It compares attached volumes of each driver, with the pod's own, with the limit of the node's CSINode. The volumes of a
pod as attachable ones (a CSI driver and a handle) and the limits as columns are computed once for a snapshot.

Upstream: plugins/nodevolumelimits/csi.go. With the gate VolumeLimitScaling a CSIDriver may also keep pods off nodes on
which it is not installed; without it such a driver sets no limit there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import chain
from typing import ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from kplan.api.core import PersistentVolumeClaim, Pod
from kplan.api.storage import Volume, VolumeSources
from kplan.engine.arrays import BoolArray, Int64Array, RowArray, ranges
from kplan.engine.cluster import Cluster
from kplan.engine.details import Detail, MissingDriver, TooManyVolumes
from kplan.engine.node_table import NodeTable
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.facts import UnmodelledFeature
from kplan.framework.interface import SKIP_SHAPE, CycleState, Event, Handle, PodDeleted, PreFilterResult, Scope
from kplan.framework.listers import Listers
from kplan.rules import volumes as volume_rules
from kplan.rules.pod_info import PodInfo, read_by_volume_plugins
from kplan.snapshot.model import Snapshot

_UNBOUND = "\0"  #: prefix of the handle of a volume that does not exist yet; no real handle starts with it


class AttachableVolume(NamedTuple):
    """A volume as a CSI driver identifies it, by its claim until it exists; pods that share it count once."""

    driver: str
    handle: str

    @property
    def label(self) -> str:
        """The volume's name for people: the driver's handle, or the claim."""
        return self.handle.removeprefix(_UNBOUND)


class PodVolumes(msgspec.Struct, frozen=True):
    """The attachable volumes of a pod, or why they cannot be resolved."""

    volumes: tuple[AttachableVolume, ...] = ()  #: distinct volumes; empty when there is a problem
    problem: str = ""  #: why the volumes cannot be resolved on a node with a CSINode, or empty
    claim_problem: str = ""  #: the same on a node without a CSINode, where inline volumes do not count
    #: the problem is a missing claim, which rejects the pod instead of failing the plugin
    is_missing_claim: bool = False
    #: drivers of volumes that are no migrated in-tree ones, which count on nodes without a CSINode too
    own_drivers: frozenset[str] = frozenset()


class _Problem(Exception):  # noqa: N818 - a result of resolving rather than an error of the caller
    """The pod's volumes cannot be resolved; the message is upstream's."""


class _MissingClaim(_Problem):
    """A claim does not exist."""


class VolumeResolver:
    """Resolves the attachable volumes of pods.

    Claims are read from the snapshot: a volume that a plan binds or provisions later counts by its claim, which is a
    single volume as well. So the results are valid for all sessions of the snapshot.
    """

    def __init__(self, listers: Listers) -> None:
        self._claims = listers.persistent_volume_claims
        self._volumes = listers.persistent_volumes
        self._classes = listers.storage_classes
        self._running: WeakKeyDictionary[PodInfo, PodVolumes] = WeakKeyDictionary()

    def running(self, info: PodInfo) -> PodVolumes:
        """Return the attachable volumes of a pod that runs or counts as running; cached."""
        if not info.pod.spec.volumes:
            return _NO_VOLUMES
        volumes = self._running.get(info)
        if volumes is None:
            volumes = self._running[info] = self.resolve(info.pod, is_new=False)
        return volumes

    def resolve(self, pod: Pod, *, is_new: bool) -> PodVolumes:
        """Return the attachable volumes of a pod; for an incoming pod (`is_new`) a missing claim is a problem."""
        attachables: dict[AttachableVolume, None] = {}
        own_drivers: set[str] = set()
        problem = ""
        for volume in pod.spec.volumes:
            name = volume_rules.claim_name(pod, volume)
            if name is None and problem:
                continue
            try:
                if name is None:
                    attachable, is_own = _inline(volume), False
                else:
                    attachable, is_own = self._claimed(pod, volume, name, is_new=is_new)
            except _Problem as error:
                problem = problem or str(error)
                if name is not None:
                    return PodVolumes((), problem, str(error), is_missing_claim=isinstance(error, _MissingClaim))
                continue
            if attachable is not None:
                attachables[attachable] = None
                if is_own:
                    own_drivers.add(attachable.driver)
        return PodVolumes(() if problem else tuple(attachables), problem, own_drivers=frozenset(own_drivers))

    def _claimed(self, pod: Pod, volume: Volume, name: str, *, is_new: bool) -> tuple[AttachableVolume | None, bool]:
        """Return the volume of a claim, and whether it is one of CSI without a CSINode too: no migrated in-tree one."""
        namespace = pod.metadata.namespace
        if not name:
            raise _Problem("PersistentVolumeClaim had no name")
        claim = self._claims.get((namespace, name))
        if claim is None:
            if is_new:
                message = volume_rules.not_found("persistentvolumeclaim", name)
                raise _MissingClaim(f"looking up PVC {namespace}/{name}: {message}")
            return None, False
        if volume.persistent_volume_claim is None and (problem := volume_rules.ephemeral_problem(pod, claim)):
            raise _Problem(problem)
        bound = self._volumes.get(claim.spec.volume_name)
        if bound is None:
            attachable, is_own = self._by_class(claim)
        elif bound.spec.csi is not None:
            attachable, is_own = AttachableVolume(bound.spec.csi.driver, bound.spec.csi.volume_handle), True
        else:
            plugin, attachable, is_own = _migrated(bound.spec), None, False
            with suppress(volume_rules.TranslationError):
                attachable = (
                    None if plugin is None else AttachableVolume(plugin.driver, volume_rules.volume_handle(bound))
                )
        return (attachable if attachable is not None and all(attachable) else None), is_own

    def _by_class(self, claim: PersistentVolumeClaim) -> tuple[AttachableVolume | None, bool]:
        storage_class = self._classes.get(volume_rules.claim_class(claim))
        if storage_class is None:
            return None, True
        plugin = volume_rules.PLUGIN_BY_NAME.get(storage_class.provisioner)
        if plugin is not None and plugin.name not in volume_rules.MIGRATED:
            return None, False
        driver = storage_class.provisioner if plugin is None else plugin.driver
        return AttachableVolume(driver, f"{_UNBOUND}{claim.metadata.key}"), plugin is None


def _inline(volume: Volume) -> AttachableVolume | None:
    plugin = _migrated(volume)
    try:
        return None if plugin is None else AttachableVolume(plugin.driver, volume_rules.inline_handle(volume))
    except volume_rules.TranslationError as error:
        raise _Problem(f"converting volume({volume.name}) from inline to csi: {error}") from error


def _migrated(source: VolumeSources) -> volume_rules.InTreePlugin | None:
    """Return the in-tree type of a volume for which a CSI driver stands; None for another type."""
    plugin = volume_rules.in_tree_plugin(source)
    return None if plugin is None or plugin.name not in volume_rules.MIGRATED else plugin


NO_LIMIT = 2**62  # above what any CSINode can state, and far enough below int64 for sums


class LimitCatalogue:
    """The limits of all nodes, and the resolver of pods' volumes."""

    def __init__(self, nodes: NodeTable, listers: Listers) -> None:
        self.nodes = nodes
        self.resolver = VolumeResolver(listers)
        #: driver -> int64 array of shape (n_nodes,), NO_LIMIT where a node sets none
        self.limits: defaultdict[str, Int64Array] = defaultdict(lambda: np.full(len(nodes), NO_LIMIT, np.int64))
        #: bool array of shape (n_nodes,), nodes with any limit
        self.is_limited: BoolArray = np.zeros(len(nodes), np.bool_)
        self.has_csi_node: BoolArray = np.zeros(len(nodes), np.bool_)  #: bool array of shape (n_nodes,)
        #: driver -> bool array of shape (n_nodes,), nodes whose CSINode lists it, for drivers that any lists
        self.installed: defaultdict[str, BoolArray] = defaultdict(lambda: np.zeros(len(nodes), np.bool_))
        self._drivers = listers.csi_drivers
        for row, name in enumerate(nodes.names):
            csi_node = listers.csi_nodes.get(name)
            if csi_node is None:
                continue
            self.has_csi_node[row] = True
            for driver in csi_node.spec.drivers:
                self.installed[driver.name][row] = True
                if driver.allocatable is not None and driver.allocatable.count is not None:
                    self.limits[driver.name][row] = driver.allocatable.count
                    self.is_limited[row] = True

    def missing(self, driver: str, *, is_own: bool) -> BoolArray | None:
        """Return the nodes that a driver keeps pods off because it is not installed there; None for no nodes.

        With `is_own` some volume is one of CSI without a CSINode, too: no migrated in-tree one.
        """
        known = self._drivers.get(driver)
        if known is None or not known.spec.prevent_pod_scheduling_if_missing:
            return None
        missing = np.ones(len(self.nodes), np.bool_) if is_own else self.has_csi_node.copy()
        if driver in self.installed:
            missing &= ~self.installed[driver]
        return missing


def off_gate_features(snapshot: Snapshot) -> Iterator[UnmodelledFeature]:
    """Yield the drivers that would keep pods off nodes on which they are not installed, if the gate were on."""
    text = "pods may be placed on nodes on which the driver is not installed"
    for driver in snapshot.csi_drivers:
        if driver.spec.prevent_pod_scheduling_if_missing:
            yield UnmodelledFeature(f"CSIDriver/{driver.metadata.name}", "VolumeLimitScaling", text)


class _Known(msgspec.Struct):
    """A volume, and the nodes on which it is."""

    volume: AttachableVolume
    holders: dict[int, int] = {}  #: node row -> number of its pods that use it
    attached: set[int] = set()  #: node rows with a VolumeAttachment


class _AttachedDelta(msgspec.Struct, frozen=True):
    """By how much the nodes of a view differ from the cluster's, int64 arrays of shape (n_view,)."""

    by_driver: dict[str, Int64Array]  #: the change of the number of attached volumes
    by_volume: dict[int, Int64Array]  #: +1 where its first pod is added, -1 where its last pod is removed


class AttachedVolumes:
    """Volumes by number, the pods and VolumeAttachments that put them on nodes, and counts per driver."""

    def __init__(self, cluster: Cluster, listers: Listers, resolver: VolumeResolver) -> None:
        self.cluster = cluster
        self.volumes: list[_Known] = []  #: the volumes, by number
        self.unresolved: dict[int, int] = {}  #: node row -> number of its pods whose volumes cannot be resolved
        self.resolver = resolver
        self._number_of: dict[str, int] = {}
        self._driver_code_of: dict[str, int] = {}
        self._driver_codes: Int64Array = np.zeros(0, np.int64)
        self.attached_to: dict[int, list[int]] = {}  #: node row -> volumes with a VolumeAttachment there
        #: driver -> int64 array of shape (n_nodes,), how many volumes each node has attached
        self.used: defaultdict[str, Int64Array] = defaultdict(lambda: np.zeros(len(cluster), np.int64))
        self._last_look_up: tuple[tuple[int, int, bytes, bytes], Int64Array, BoolArray] | None = None
        self._starts: Int64Array = np.zeros(1, np.int64)
        self._numbers: Int64Array = np.zeros(0, np.int64)
        self._is_unresolved: Int64Array = np.zeros(0, np.int64)
        # Of VolumeAttachments, unknown volumes and those without CSI do not count.
        for attachment in listers.snapshot.volume_attachments:
            spec = attachment.spec
            volume = listers.persistent_volumes.get(spec.source.persistent_volume_name or "")
            at = cluster.nodes.row_of.get(spec.node_name)
            if at is None or not spec.attacher or volume is None or volume.spec.csi is None:
                continue
            number = self.number(AttachableVolume(spec.attacher, volume.spec.csi.volume_handle))
            if at not in self.volumes[number].attached:
                self.volumes[number].attached.add(at)
                self.attached_to.setdefault(at, []).append(number)
                self.used[self.volumes[number].volume.driver][at] += 1
        for row, pods in enumerate(cluster.pods_on):
            for pod in pods:
                self._change(pod, row, 1)
        self._position = len(cluster.log)

    def update(self) -> None:
        log = self.cluster.log
        for change in log[self._position :]:
            self._change(change.pod, change.row, change.sign)
        self._position = len(log)

    def number(self, volume: AttachableVolume) -> int:
        """Return the number of a volume, known as upstream by driver and handle joined; a new one gets the next."""
        name = f"{volume.driver}/{volume.handle}"
        number = self._number_of.get(name)
        if number is None:
            number = self._number_of[name] = len(self.volumes)
            self.volumes.append(_Known(volume))
        return number

    def changes_unresolved(self, nodes: NodeView) -> bool:
        """Whether a view adds or removes pods whose volumes cannot be resolved."""
        if nodes.delta is None:
            return False
        self._index_pods()
        return bool(self._is_unresolved[nodes.delta.pods].any())

    def delta(self, nodes: NodeView, volumes: Sequence[int]) -> _AttachedDelta:
        """Return by how much the nodes of a view differ from the cluster's, for an incoming pod's volumes.

        Each changed (position, volume) is looked up once, after its changes are summed: a volume may leave with one pod
        and stay with another.
        """
        drivers = {self.volumes[number].volume.driver for number in volumes}
        by_driver: dict[str, Int64Array] = {driver: np.zeros(len(nodes), np.int64) for driver in drivers}
        by_volume: dict[int, Int64Array] = {number: np.zeros(len(nodes), np.int64) for number in volumes}
        if nodes.delta is None:
            return _AttachedDelta(by_driver, by_volume)
        self._index_pods()
        starts = self._starts[nodes.delta.pods]
        lengths = self._starts[nodes.delta.pods + 1] - starts
        numbers = self._numbers[ranges(starts, lengths)]
        code_of = {driver: self._driver_code_of.get(driver, -1) for driver in drivers}
        is_relevant = np.isin(self._driver_codes[numbers], list(code_of.values()))
        if not is_relevant.any():
            return _AttachedDelta(by_driver, by_volume)
        keys = np.repeat(nodes.delta.positions, lengths)[is_relevant] * len(self.volumes) + numbers[is_relevant]
        distinct, inverse = np.unique(keys, return_inverse=True)
        changes = np.zeros(len(distinct), np.int64)
        np.add.at(changes, inverse, np.repeat(nodes.delta.signs, lengths)[is_relevant])
        positions, numbers = np.divmod(distinct, len(self.volumes))
        rows = positions if nodes.rows is None else nodes.rows[positions]
        before, is_counted = self._look_up(rows, numbers)
        attached = (before + changes > 0).astype(np.int64) - (before > 0)
        for number, change in by_volume.items():
            is_volume = numbers == number
            change[positions[is_volume]] = attached[is_volume]
        for driver, change in by_driver.items():
            is_driver = is_counted & (self._driver_codes[numbers] == code_of[driver])
            np.add.at(change, positions[is_driver], attached[is_driver])
        return _AttachedDelta(by_driver, by_volume)

    def _look_up(self, rows: RowArray, numbers: Int64Array) -> tuple[Int64Array, BoolArray]:
        """Return how many pods use each volume on each node, and whether no VolumeAttachment counts it there anyway.

        The last result is cached: preemption looks up the same nodes and volumes at every step.
        """
        key = (len(self.cluster.log), len(self.volumes), rows.tobytes(), numbers.tobytes())
        if self._last_look_up is None or self._last_look_up[0] != key:
            pairs = [(self.volumes[number], row) for number, row in zip(numbers.tolist(), rows.tolist(), strict=True)]
            before = np.array([known.holders.get(row, 0) for known, row in pairs], np.int64)
            is_unattached = np.array([row not in known.attached for known, row in pairs], np.bool_)
            self._last_look_up = (key, before, is_unattached)
        return self._last_look_up[1:]

    def _index_pods(self) -> None:
        n_known, n_pods = len(self._starts) - 1, len(self.cluster.pods)
        if n_known == n_pods:
            return
        new_pods = [self.resolver.running(info) for info in self.cluster.pods.infos[n_known:]]
        numbers = [[self.number(volume) for volume in pod_volumes.volumes] for pod_volumes in new_pods]
        lengths = np.array([len(pod_numbers) for pod_numbers in numbers], np.int64)
        self._starts = np.concatenate((self._starts, self._starts[-1] + np.cumsum(lengths)))
        flat = [number for pod_numbers in numbers for number in pod_numbers]
        self._numbers = np.concatenate((self._numbers, np.asarray(flat, np.int64)))
        known, code_of = len(self._driver_codes), self._driver_code_of
        codes = [code_of.setdefault(one.volume.driver, len(code_of)) for one in self.volumes[known:]]
        self._driver_codes = np.concatenate((self._driver_codes, np.asarray(codes, np.int64)))
        is_unresolved = np.array([bool(pod_volumes.problem) for pod_volumes in new_pods], np.int64)
        self._is_unresolved = np.concatenate((self._is_unresolved, is_unresolved))

    def _change(self, pod: int, row: int, sign: int) -> None:
        resolved = self.resolver.running(self.cluster.pods.infos[pod])
        if resolved.problem:
            self.unresolved[row] = self.unresolved.get(row, 0) + sign
            if not self.unresolved[row]:
                del self.unresolved[row]
        for volume in resolved.volumes:
            known = self.volumes[self.number(volume)]
            before = known.holders.get(row, 0)
            known.holders[row] = before + sign
            if not known.holders[row]:
                del known.holders[row]
            if (before == 0 or before + sign == 0) and row not in known.attached:
                self.used[known.volume.driver][row] += sign


_NO_VOLUMES = PodVolumes()


REASON_MAX_VOLUME_COUNT_EXCEEDED = "node(s) exceed max volume count"
REASON_NOT_INSTALLED = "{} CSI driver is not installed on the node"
SCALING_GATE = "VolumeLimitScaling"
"""The feature gate with which CSIDriver objects may keep pods off nodes that lack the driver."""


class _PreFilterState(msgspec.Struct, frozen=True):
    """The volumes of the incoming pod, by number and by driver."""

    resolved: PodVolumes
    by_driver: dict[str, list[int]]


class _Counts(msgspec.Struct, frozen=True):
    """Volumes of a driver on the nodes of a view, int64 arrays of shape (n_view,), and whether they are too many."""

    limit: Int64Array
    used: Int64Array
    new: Int64Array
    is_over: BoolArray


def _shortfall(counts: dict[str, _Counts], positions: RowArray) -> Int64Array:
    """Return how many volumes at each position are too many, of all drivers together."""
    missing = np.zeros(len(positions), np.int64)
    for count in counts.values():
        missing += np.where(count.is_over, count.used + count.new - count.limit, 0)[positions]
    return missing


def _not_installed(driver: str) -> Reason:
    detail = MissingDriver(driver=driver)
    return Reason(REASON_NOT_INSTALLED.format(driver), Code.UNSCHEDULABLE, lambda _position: [detail])


class NodeVolumeLimits:
    """Rejects nodes that would have more attached volumes of a driver than their limit."""

    name: ClassVar[str] = "NodeVolumeLimits"
    scope: ClassVar[Scope] = Scope.CLUSTER
    reads = staticmethod(read_by_volume_plugins)

    def __init__(self, args: None, handle: Handle) -> None:
        self.listers = handle.listers
        self.cluster = handle.cluster
        self._checks_drivers = handle.release.is_on(SCALING_GATE)

    @cached_property
    def catalogue(self) -> LimitCatalogue:
        """Limits of the nodes; read when the first pod with volumes comes."""
        return self.listers.catalogue(LimitCatalogue, self.cluster.nodes)

    @cached_property
    def attached(self) -> AttachedVolumes:
        """Attached volumes of all nodes; counted when the first pod with volumes comes."""
        return AttachedVolumes(self.cluster, self.listers, self.catalogue.resolver)

    def queueing_hint(self, pod: PodInfo, event: Event) -> bool:
        return isinstance(event, PodDeleted) and _may_be_attached(event.info.pod)

    def pre_filter(self, cycle: CycleState) -> PreFilterResult | None:
        """Skip pods without claims and without inline volumes of migrated types."""
        pod = cycle.pod.pod
        if not _may_be_attached(pod):
            return SKIP_SHAPE
        resolved = self.catalogue.resolver.resolve(pod, is_new=True)
        by_driver: dict[str, list[int]] = {}
        for volume in resolved.volumes:
            number = self.attached.number(volume)
            by_driver.setdefault(self.attached.volumes[number].volume.driver, []).append(number)
        cycle.write(_PreFilterState(resolved, by_driver))
        return None

    def filter(self, cycle: CycleState, nodes: NodeView) -> Verdicts:
        """Reject nodes over a limit; fail on nodes with limits and a pod whose volumes cannot be resolved."""
        if cycle.find(_PreFilterState) is None and self.pre_filter(cycle) is not None:
            return Verdicts.accepting(len(nodes))  # PreFilter is disabled in the profile
        state = cycle.read(_PreFilterState)
        if state.resolved.problem:
            return self._problem_verdicts(state.resolved, nodes)
        verdicts = self._limit_verdicts(state, nodes)
        missing = []
        # Of several drivers that a node lacks it is the first by volume; upstream names any of them.
        for driver in state.by_driver if self._checks_drivers else ():
            rows = self.catalogue.missing(driver, is_own=driver in state.resolved.own_drivers)
            if rows is not None and rows.any():
                missing.append((nodes.take(rows), _not_installed(driver)))
        return Verdicts.first_of(*missing).then(verdicts) if missing else verdicts

    def _limit_verdicts(self, state: _PreFilterState, nodes: NodeView) -> Verdicts:
        if not state.by_driver or not self.catalogue.limits:
            return Verdicts.accepting(len(nodes))
        self.attached.update()
        delta = self.attached.delta(nodes, list(chain.from_iterable(state.by_driver.values())))
        counts = {
            driver: self._counts(driver, numbers, nodes, delta)
            for driver, numbers in state.by_driver.items()
            if driver in self.catalogue.limits
        }
        exceeded = np.zeros(len(nodes), np.bool_)
        for count in counts.values():
            exceeded |= count.is_over
        details, shortfall = partial(self._details, state, counts, nodes), partial(_shortfall, counts)
        reason = Reason(REASON_MAX_VOLUME_COUNT_EXCEEDED, Code.UNSCHEDULABLE, details, shortfall)
        problems = self._pod_problems(nodes)
        texts = list(dict.fromkeys(problems.values()))
        indices: RowArray = np.where(exceeded, 0, -1)
        for position, text in problems.items():  # an error replaces the reason
            indices[position] = 1 + texts.index(text)
        return Verdicts.by_index(indices, [reason, *(Reason(text, Code.ERROR) for text in texts)])

    def _counts(self, driver: str, numbers: list[int], nodes: NodeView, delta: _AttachedDelta) -> _Counts:
        """Count a driver's volumes on each node.

        A volume that a pod on the node uses already is not new. A volume with nothing but a VolumeAttachment there is:
        upstream counts it twice.
        """
        new = np.full(len(self.cluster), len(numbers), np.int64)
        for number in numbers:
            new[list(self.attached.volumes[number].holders)] -= 1
        new = nodes.take(new)
        if nodes.delta is not None:
            new = new - np.add.reduce([delta.by_volume[number] for number in numbers])
        limit = nodes.take(self.catalogue.limits[driver])
        used = nodes.take(self.attached.used[driver]) + delta.by_driver[driver]
        return _Counts(limit, used, new, (new > 0) & (used + new > limit))

    def _problem_verdicts(self, resolved: PodVolumes, nodes: NodeView) -> Verdicts:
        """Return verdicts for a pod whose own volumes cannot be resolved; inline volumes count only with a CSINode."""
        code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if resolved.is_missing_claim else Code.ERROR
        with_csi = nodes.take(self.catalogue.has_csi_node)
        if resolved.problem == resolved.claim_problem:
            return Verdicts.where(np.ones(len(nodes), np.bool_), Reason(resolved.problem, code))
        inline = (with_csi, Reason(resolved.problem, Code.ERROR))
        if not resolved.claim_problem:
            return Verdicts.first_of(inline)
        return Verdicts.first_of(inline, (~with_csi, Reason(resolved.claim_problem, code)))

    def _pod_problems(self, nodes: NodeView) -> dict[int, str]:
        if not self.attached.unresolved and not self.attached.changes_unresolved(nodes):
            return {}
        infos, running = self.cluster.pods.infos, self.attached.resolver.running
        has_unresolved = np.zeros(len(self.cluster), np.bool_)
        has_unresolved[list(self.attached.unresolved)] = True
        positions = set(np.flatnonzero(nodes.take(has_unresolved)).tolist())
        if nodes.delta is not None:
            positions.update(nodes.delta.positions.tolist())
        is_limited = nodes.take(self.catalogue.is_limited)
        return {
            position: problem
            for position in sorted(positions)
            if is_limited[position]
            and (problem := next(filter(None, (running(infos[pod]).problem for pod in nodes.pods_at(position))), ""))
        }

    def _details(
        self, state: _PreFilterState, counts: dict[str, _Counts], nodes: NodeView, position: int
    ) -> Iterator[Detail]:
        for driver, count in counts.items():
            if count.is_over[position]:
                yield TooManyVolumes(
                    driver=driver,
                    limit=str(count.limit[position]),
                    used=str(count.used[position]),
                    attached_without_pod=str(self._attached_without_pod(driver, nodes.row(position))),
                    new=str(count.new[position]),
                    short=str(count.used[position] + count.new[position] - count.limit[position]),
                    volumes=tuple(self.attached.volumes[number].volume.label for number in state.by_driver[driver]),
                )

    def _attached_without_pod(self, driver: str, row: int) -> int:
        there = (self.attached.volumes[number] for number in self.attached.attached_to.get(row, ()))
        return sum(known.volume.driver == driver and row not in known.holders for known in there)


def _may_be_attached(pod: Pod) -> bool:
    """Tell whether a pod has volumes that count: those with claims, and inline volumes of migrated types."""
    return any(
        volume_rules.claim_name(pod, volume) is not None or volume_rules.in_tree_plugin(volume)
        for volume in pod.spec.volumes
    )
