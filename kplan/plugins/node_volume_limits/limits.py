"""The volumes of a pod as attachable ones, a CSI driver and a handle, and the limits of CSINodes as columns.

Both are computed once for a snapshot.

Upstream: plugins/nodevolumelimits/csi.go filterAttachableVolumes, getVolumeLimits.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from kplan.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kplan.api.volumes import Volume
from kplan.engine.arrays import BoolArray, Int64Array
from kplan.engine.node_table import NodeTable
from kplan.framework.features import UnmodelledFeature
from kplan.framework.listers import Listers
from kplan.rules.csi_translation import (
    MIGRATED,
    PLUGIN_BY_NAME,
    TranslationError,
    in_tree_plugin,
    inline_handle,
    volume_handle,
)
from kplan.rules.pod_info import PodInfo
from kplan.rules.volume_claims import claim_class, claim_name, ephemeral_problem, not_found
from kplan.snapshot.model import Snapshot

_UNBOUND = "\0"
"""Prefix of the handle of a volume that does not exist yet; no real handle starts with it."""


class AttachableVolume(NamedTuple):
    """A volume as a CSI driver identifies it; pods that share it count once.

    A volume that does not exist yet is identified by its claim.
    """

    driver: str
    handle: str

    @property
    def label(self) -> str:
        """The volume's name for people: the driver's handle, or the claim."""
        return self.handle.removeprefix(_UNBOUND)


class PodVolumes(msgspec.Struct, frozen=True):
    """The attachable volumes of a pod, or why they cannot be resolved."""

    #: distinct volumes; empty when there is a problem
    volumes: tuple[AttachableVolume, ...] = ()
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


def concerns_limits(pod: Pod) -> bool:
    """Whether a pod has volumes that may count against a limit."""
    return any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None or in_tree_plugin(volume) is not None
        for volume in pod.spec.volumes
    )


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
            is_inline = claim_name(pod, volume) is None
            if is_inline and problem:
                continue
            try:
                attachable = self._inline(volume) if is_inline else self._claimed(pod, volume, is_new=is_new)
            except _Problem as error:
                problem = problem or str(error)
                if not is_inline:
                    return PodVolumes((), problem, str(error), is_missing_claim=isinstance(error, _MissingClaim))
                continue
            if attachable is not None:
                attachables[attachable] = None
                if not is_inline and not self._is_migrated(pod, volume):
                    own_drivers.add(attachable.driver)
        return PodVolumes(() if problem else tuple(attachables), problem, own_drivers=frozenset(own_drivers))

    def _is_migrated(self, pod: Pod, volume: Volume) -> bool:
        """Tell whether the volume of a claim is of an in-tree type, so that only a CSINode makes it one of CSI."""
        claim = self._claims[pod.metadata.namespace, claim_name(pod, volume) or ""]
        bound = self._volumes.get(claim.spec.volume_name)
        if bound is not None:
            return bound.spec.csi is None
        storage_class = self._classes.get(claim_class(claim))
        return storage_class is not None and storage_class.provisioner in PLUGIN_BY_NAME

    def _inline(self, volume: Volume) -> AttachableVolume | None:
        plugin = in_tree_plugin(volume)
        if plugin is None or plugin.name not in MIGRATED:
            return None
        try:
            return AttachableVolume(plugin.driver, inline_handle(volume))
        except TranslationError as error:
            raise _Problem(f"converting volume({volume.name}) from inline to csi: {error}") from error

    def _claimed(self, pod: Pod, volume: Volume, *, is_new: bool) -> AttachableVolume | None:
        name = claim_name(pod, volume)
        namespace = pod.metadata.namespace
        if not name:
            raise _Problem("PersistentVolumeClaim had no name")
        claim = self._claims.get((namespace, name))
        if claim is None:
            if is_new:
                message = not_found("persistentvolumeclaim", name)
                raise _MissingClaim(f"looking up PVC {namespace}/{name}: {message}")
            return None
        if volume.persistent_volume_claim is None and (problem := ephemeral_problem(pod, claim)):
            raise _Problem(problem)
        volume_of_claim = self._volumes.get(claim.spec.volume_name)
        attachable = self._by_class(claim) if volume_of_claim is None else self._by_volume(volume_of_claim)
        return attachable if attachable is not None and attachable.driver and attachable.handle else None

    def _by_volume(self, volume: PersistentVolume) -> AttachableVolume | None:
        if volume.spec.csi is not None:
            return AttachableVolume(volume.spec.csi.driver, volume.spec.csi.volume_handle)
        plugin = in_tree_plugin(volume.spec)
        if plugin is None or plugin.name not in MIGRATED:
            return None
        try:
            return AttachableVolume(plugin.driver, volume_handle(volume))
        except TranslationError:
            return None

    def _by_class(self, claim: PersistentVolumeClaim) -> AttachableVolume | None:
        """Return the future volume of an unbound claim, with the driver of its storage class."""
        storage_class = self._classes.get(claim_class(claim))
        if storage_class is None:
            return None
        driver = storage_class.provisioner
        plugin = PLUGIN_BY_NAME.get(driver)
        if plugin is not None:
            if plugin.name not in MIGRATED:
                return None
            driver = plugin.driver
        return AttachableVolume(driver, f"{_UNBOUND}{claim.metadata.key}")


NO_LIMIT = 2**62


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

        Parameters
        ----------
        is_own : some volume is the driver's own, not a migrated in-tree one, and so one of CSI without a CSINode too
        """
        known = self._drivers.get(driver)
        if known is None or not known.spec.prevent_pod_scheduling_if_missing:
            return None
        missing = np.ones(len(self.nodes), np.bool_) if is_own else self.has_csi_node.copy()
        if driver in self.installed:
            missing &= ~self.installed[driver]
        return missing


def off_gate_features(snapshot: Snapshot) -> list[UnmodelledFeature]:
    """Return the drivers that would keep pods off nodes on which they are not installed, if the gate were on."""
    text = "pods may be placed on nodes on which the driver is not installed"
    return [
        UnmodelledFeature(f"CSIDriver/{driver.metadata.name}", "VolumeLimitScaling", text)
        for driver in snapshot.csi_drivers
        if driver.spec.prevent_pod_scheduling_if_missing
    ]
