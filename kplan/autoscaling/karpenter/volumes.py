"""Volumes of pods: whether they can be provisioned for, where they can be, and how many a node takes.

Upstream: provisioning/scheduling/volumetopology.go, scheduling/volumeusage.go, utils/volume/volume.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kplan.api.affinity import NodeSelectorRequirement
from kplan.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kplan.api.labels import HOSTNAME
from kplan.api.storage import StorageClass
from kplan.autoscaling.karpenter.options import Options
from kplan.autoscaling.karpenter.requirements import Requirements, Vocabulary
from kplan.rules.volumes import ANNOTATION_BIND_COMPLETED, PLUGIN_BY_NAME, not_found
from kplan.snapshot.model import Snapshot

Volumes = Mapping[str, frozenset[str]]
"""Driver -> claims, NAMESPACE/NAME."""

_EBS = "kubernetes.io/aws-ebs"


class Storage:
    """The claims, volumes and classes of a cluster."""

    def __init__(self, snapshot: Snapshot, vocabulary: Vocabulary, options: Options) -> None:
        self._vocabulary = vocabulary
        self._options = options
        self._claims = {claim.metadata.key: claim for claim in snapshot.persistent_volume_claims}
        self._volumes = {volume.metadata.name: volume for volume in snapshot.persistent_volumes}
        self._classes = {entry.metadata.name: entry for entry in snapshot.storage_classes}

    def problems(self, pod: Pod) -> list[str]:
        """Return why a pod's claims keep it from being provisioned for, in Karpenter's words; the first one only."""
        for name, claim in self._claims_of(pod):
            if claim is None:
                missing = not_found("persistentvolumeclaims", name)
                return [f"getting persistent volume claim, {missing} (PersistentVolumeClaim={name})"]
            for problem in (*self._claim_problems(claim), *self._provisioner_problems(claim)):
                return [problem]
        return []

    def _claims_of(self, pod: Pod) -> Iterator[tuple[str, PersistentVolumeClaim | None]]:
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
                source = volume.persistent_volume_claim
                name = f"{pod.metadata.name}-{volume.name}" if source is None else source.claim_name
                yield name, self._claims.get(f"{pod.metadata.namespace}/{name}")

    def _claim_problems(self, claim: PersistentVolumeClaim) -> Iterator[str]:
        key, volume = claim.metadata.key, claim.spec.volume_name
        if claim.metadata.deletion_timestamp is not None:
            yield f"persistentvolumeclaim is being deleted (PersistentVolumeClaim={key})"
        if claim.status.phase == "Lost":
            named = f"(PersistentVolume={volume}, PersistentVolumeClaim={key})"
            yield f"persistentvolumeclaim bound to non-existent persistentvolume {named}"
        yield from self._problems_of_bound(claim) if volume else self._problems_of_unbound(claim)

    def _problems_of_bound(self, claim: PersistentVolumeClaim) -> Iterator[str]:
        key, volume = claim.metadata.key, claim.spec.volume_name
        storage_class = claim.spec.storage_class_name or ""
        named = f"(PersistentVolume={volume}, PersistentVolumeClaim={key}, StorageClass={storage_class})"
        present = self._volumes.get(volume)
        if present is None:
            yield f"failed to validate pvc, {not_found('persistentvolumes', volume)} {named}"
        elif present.metadata.deletion_timestamp is not None:
            yield f"failed to validate pvc, persistentvolume is being deleted {named}"
        if ANNOTATION_BIND_COMPLETED not in claim.metadata.annotations:
            named = f"(PersistentVolume={volume}, PersistentVolumeClaim={claim.metadata.name}"
            why = "pvc is considered unbound because it does not contain annotation"
            yield f"{why} {named}, annotation={ANNOTATION_BIND_COMPLETED})"

    def _problems_of_unbound(self, claim: PersistentVolumeClaim) -> Iterator[str]:
        name = claim.spec.storage_class_name or ""
        storage_class = self._classes.get(name)
        named = f"PersistentVolumeClaim={claim.metadata.key}, StorageClass={name}"
        if not name:
            yield f"unbound pvc must define a storage class ({named})"
        elif storage_class is None:
            missing = not_found("storageclasses.storage.k8s.io", name)
            yield f"failed to validate pvc, failed to get storage class, {missing} ({named})"
        elif storage_class.volume_binding_mode == "Immediate":
            yield f"failed to validate pvc, pvc with immediate volume binding mode must be bound ({named})"
        else:
            for term in storage_class.allowed_topologies:
                for wanted in term.match_label_expressions:
                    if wanted.key in self._options.unsupported_topology_keys:
                        why = "failed to validate pvc, storage class uses unsupported topology key"
                        yield f"{why} ({named}, TopologyKey={wanted.key})"

    def _provisioner_problems(self, claim: PersistentVolumeClaim) -> Iterator[str]:
        driver = self._driver(claim)
        if driver and driver in self._options.unsupported_provisioners:
            named = f"Provisioner={driver}, StorageClass={claim.spec.storage_class_name or ''}"
            why = "failed to validate pvc, provisioner is not supported"
            yield f"{why} (PersistentVolumeClaim={claim.metadata.key}, {named})"

    def alternatives(self, pod: Pod) -> tuple[Requirements, ...] | None:
        """Return the requirements of a pod's volumes, of which one must be met; none where all nodes reach them.

        None stands for claims, volumes or classes that do not exist: such a pod is left out.
        """
        joined: list[Requirements] | None = None
        for _, claim in self._claims_of(pod):
            own = None if claim is None else self._of_claim(claim)
            if own is None:
                return None
            if own:
                joined = self._merged(joined, own)
        return tuple(joined or ())

    def _of_claim(self, claim: PersistentVolumeClaim) -> list[Requirements] | None:
        if claim.spec.volume_name:
            volume = self._volumes.get(claim.spec.volume_name)
            return None if volume is None else self._of_volume(volume)
        if claim.spec.storage_class_name:
            storage_class = self._classes.get(claim.spec.storage_class_name)
            return None if storage_class is None else self._of_class(storage_class)
        return []

    def _of_volume(self, volume: PersistentVolume) -> list[Requirements]:
        affinity = volume.spec.node_affinity
        if affinity is None or affinity.required is None:
            return []
        is_local = volume.spec.local is not None or volume.spec.host_path is not None
        alternatives = []
        for term in affinity.required.node_selector_terms:
            wanted: tuple[NodeSelectorRequirement, ...] = term.match_expressions
            if is_local:
                wanted = tuple(entry for entry in wanted if entry.key != HOSTNAME)
            if wanted or (is_local and term.match_expressions):
                alternatives.append(self._vocabulary.of_expressions(wanted))
        return alternatives

    def _of_class(self, storage_class: StorageClass) -> list[Requirements]:
        require = self._vocabulary.requirement
        return [
            self._vocabulary.of(require(wanted.key, "In", wanted.values) for wanted in term.match_label_expressions)
            for term in storage_class.allowed_topologies
            if term.match_label_expressions
        ]

    def _merged(self, known: list[Requirements] | None, own: list[Requirements]) -> list[Requirements]:
        """Combine alternatives of two volumes; those that exclude each other only where all others do, too."""
        if known is None:
            return own
        join, overlap = self._vocabulary.join, self._vocabulary.overlap
        pairs = [(one, other) for one in known for other in own]
        return [join(one, other) for one, other in pairs if overlap(one, other)] or [
            join(one, other) for one, other in pairs
        ]

    def usage(self, pod: Pod) -> Volumes:
        """Return the claims of a pod by the driver that counts them (upstream GetVolumes)."""
        usage: dict[str, frozenset[str]] = {}
        for _, claim in self._claims_of(pod):
            driver = "" if claim is None else self._driver(claim)
            if claim is not None and driver:
                usage[driver] = usage.get(driver, frozenset()) | {claim.metadata.key}
        return usage

    def _driver(self, claim: PersistentVolumeClaim) -> str:
        if claim.spec.volume_name:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                return ""
            if volume.spec.csi is not None:
                return volume.spec.csi.driver
            return "" if volume.spec.aws_elastic_block_store is None else PLUGIN_BY_NAME[_EBS].driver
        storage_class = self._classes.get(claim.spec.storage_class_name or "")
        if storage_class is None:
            return ""
        plugin = PLUGIN_BY_NAME.get(storage_class.provisioner)
        return storage_class.provisioner if plugin is None else plugin.driver
