"""Which attachable volumes a pod has: a CSI driver and a handle each.

Upstream: plugins/nodevolumelimits/csi.go filterAttachableVolumes.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from kplan.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kplan.api.volumes import Volume
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

_UNBOUND = "\0"
"""Starts the handle of a volume that does not exist yet; no real handle does."""


class AttachableVolume(NamedTuple):
    """A volume as a CSI driver knows it; pods that share it take one place together.

    A volume that does not exist yet goes by its claim.
    """

    driver: str
    handle: str

    @property
    def label(self) -> str:
        """What to call it: the driver's handle, or the claim."""
        return self.handle.removeprefix(_UNBOUND)


class PodVolumes(msgspec.Struct, frozen=True):
    """The attachable volumes of a pod, or why they cannot be told."""

    #: distinct volumes; what is found up to the first problem does not count
    volumes: tuple[AttachableVolume, ...] = ()
    problem: str = ""  #: why the pod's volumes cannot be told on a node with a CSINode, or empty
    claim_problem: str = ""  #: likewise on a node without one, where inline volumes are not looked at
    #: the problem is a claim that does not exist, so it is the pod's and not the scheduler's
    is_missing_claim: bool = False


class _Problem(Exception):  # noqa: N818 - it ends a search, and is no mistake of the caller
    """The pod's volumes cannot be told; the message is upstream's."""


class _MissingClaim(_Problem):
    """A claim does not exist."""


def concerns_limits(pod: Pod) -> bool:
    """Tell whether a pod has volumes that may count against a limit."""
    return any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None or in_tree_plugin(volume) is not None
        for volume in pod.spec.volumes
    )


class VolumeResolver:
    """Finds the attachable volumes of pods.

    Claims are seen as the snapshot has them: what a plan binds or provisions later counts by its claim, which is one
    volume as well. So what is found holds for all clusters that start from the snapshot.
    """

    def __init__(self, listers: Listers) -> None:
        self._claims = listers.persistent_volume_claims
        self._volumes = listers.persistent_volumes
        self._classes = listers.storage_classes
        self._running: WeakKeyDictionary[PodInfo, PodVolumes] = WeakKeyDictionary()

    def running(self, info: PodInfo) -> PodVolumes:
        """Return the attachable volumes of a pod that runs or is to count as running."""
        found = self._running.get(info)
        if found is None:
            found = self._running[info] = self.resolve(info.pod, is_new=False)
        return found

    def resolve(self, pod: Pod, *, is_new: bool) -> PodVolumes:
        """Find the attachable volumes of a pod; one that is to be placed (`is_new`) needs all of its claims."""
        found: dict[AttachableVolume, None] = {}
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
                found[attachable] = None
        return PodVolumes(() if problem else tuple(found), problem)

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
                missing = not_found("persistentvolumeclaim", name)
                raise _MissingClaim(f"looking up PVC {namespace}/{name}: {missing}")
            return None
        if volume.persistent_volume_claim is None and (problem := ephemeral_problem(pod, claim)):
            raise _Problem(problem)
        bound = self._volumes.get(claim.spec.volume_name)
        attachable = self._by_class(claim) if bound is None else self._by_volume(bound)
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
        """Count a claim without a volume for the driver that its class names."""
        storage_class = self._classes.get(claim_class(claim))
        if storage_class is None:
            return None
        driver = storage_class.provisioner
        plugin = PLUGIN_BY_NAME.get(driver)
        if plugin is not None:
            if plugin.name not in MIGRATED:
                return None
            driver = plugin.driver
        return AttachableVolume(driver, f"{_UNBOUND}{claim.metadata.namespace}/{claim.metadata.name}")
