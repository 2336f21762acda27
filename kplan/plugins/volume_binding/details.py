"""Details of rejections: why a pod's claims cannot be satisfied on a node, in names and numbers."""

from __future__ import annotations

from functools import cached_property

from msgspec.structs import replace

from kplan.api.affinity import TopologySelectorTerm, VolumeNodeAffinity
from kplan.api.core import PersistentVolume, PersistentVolumeClaim
from kplan.api.nodeselector import compile_node_selector
from kplan.api.quantity import Quantity
from kplan.documents.details import Detail, LostVolume, UnboundClaim, UnreachableVolume
from kplan.engine.arrays import BoolArray
from kplan.plugins.volume_binding.assumed import NO_VOLUME, Rejections
from kplan.plugins.volume_binding.finding import Finding, PodClaims, VolumeFinder
from kplan.plugins.volume_binding.provisioning import NO_SPACE, can_provision
from kplan.rules.volume_claims import STORAGE, claim_class

_NANOS = 10**9


class BindingDetails:
    """Explains a pod's finding; what is the same for all nodes is cached."""

    def __init__(self, finder: VolumeFinder, claims: PodClaims, finding: Finding) -> None:
        self._finder = finder
        self._claims = claims
        self._finding = finding

    def node_conflicts(self, row: int) -> list[Detail]:
        """Return the bound volumes that a node does not reach, with their node affinity."""
        details: list[Detail] = []
        for claim, volume, is_reachable in self._bound:
            if not is_reachable[row]:
                affinity = _affinity_terms(self._finder.affinity_on(volume, row))
                name = volume.metadata.name
                details.append(UnreachableVolume(claim=claim.metadata.key, volume=name, requires=affinity))
        return details

    def missing_volumes(self) -> list[Detail]:
        """Return the claims that are bound to volumes that do not exist."""
        known = self._finder.listers.persistent_volumes
        return [
            LostVolume(claim=claim.metadata.key, volume=claim.spec.volume_name)
            for claim in self._claims.bound
            if claim.spec.volume_name not in known
        ]

    def bind_conflicts(self, row: int) -> list[Detail]:
        """Return the claims that neither match a volume on a node nor can be provisioned there."""
        details: list[Detail] = []
        for claim in self._finding.selected:
            selected = self._finder.assumed.selected_node(claim)
            if selected != self._finder.nodes.names[row]:
                details.append(replace(_unbound(claim), selected_node=selected or ""))
            else:
                details += self._provision_conflicts(_unbound(claim), claim, row)
        for match, obstacle in zip(self._finding.matches, self._unmatched, strict=True):
            if match.indices[row] == NO_VOLUME:
                unbound = _unbound(match.claim)
                if isinstance(obstacle, str):
                    unbound = replace(unbound, promised_volume=obstacle)
                elif obstacle is not None:
                    unbound = replace(unbound, volumes_rejected={why: str(n) for why, n in obstacle.on(row).items()})
                details += self._provision_conflicts(unbound, match.claim, row)
        return details

    def space_shortages(self, row: int) -> list[Detail]:
        """Return the claims that are larger than the storage that a node reaches."""
        finding, provisioning = self._finding, self._finder.provisioning
        claims = [*finding.selected, *(match.claim for match in finding.matches if match.indices[row] == NO_VOLUME)]
        details: list[Detail] = []
        for claim in claims:
            storage_class = self._finder.listers.storage_classes[claim_class(claim)]
            has_space = provisioning.has_space(storage_class, claim)
            if has_space is not None and not has_space[row]:
                largest = int(provisioning.largest(storage_class.metadata.name)[row])
                free = None if largest == NO_SPACE else str(Quantity(largest * _NANOS, "BinarySI"))
                details.append(replace(_unbound(claim), largest_volume=free))
        return details

    @cached_property
    def _bound(self) -> list[tuple[PersistentVolumeClaim, PersistentVolume, BoolArray]]:
        """Bound claims with their volumes and the nodes that reach them."""
        known = self._finder.listers.persistent_volumes
        bound = [(claim, known.get(claim.spec.volume_name)) for claim in self._claims.bound]
        return [(claim, volume, self._finder.reach(volume)[0]) for claim, volume in bound if volume is not None]

    @cached_property
    def _unmatched(self) -> list[Rejections | str | None]:
        """For each claim without a volume: why existing volumes are rejected, or the volume promised to the claim."""
        obstacles: list[Rejections | str | None] = []
        for match in self._finding.matches:
            promised = match.volumes.promised_to(match.claim)
            if not match.volumes.volumes:
                obstacles.append(None)
            elif promised:
                obstacles.append(match.volumes.volumes[promised[0]].metadata.name)
            else:
                obstacles.append(match.volumes.rejections(match.claim))
        return obstacles

    def _provision_conflicts(self, unbound: UnboundClaim, claim: PersistentVolumeClaim, row: int) -> list[Detail]:
        storage_class = self._finder.listers.storage_classes[claim_class(claim)]
        if not can_provision(storage_class):
            return [replace(unbound, provisioner=storage_class.provisioner, provisions=False)]
        if not self._finder.provisioning.allowed(storage_class)[row]:
            topologies = tuple(_topology(term) for term in storage_class.allowed_topologies)
            return [replace(unbound, allowed_topologies=topologies)]
        return []


def _unbound(claim: PersistentVolumeClaim) -> UnboundClaim:
    requested = str(claim.spec.resources.requests.get(STORAGE, "0"))
    return UnboundClaim(claim=claim.metadata.key, storage_class=claim_class(claim) or "", requested=requested)


def _affinity_terms(affinity: VolumeNodeAffinity | None) -> tuple[str, ...]:
    if affinity is None or affinity.required is None:
        return ()
    terms = compile_node_selector(affinity.required).terms
    return tuple(str(term.labels) for term in terms if term.labels is not None)


def _topology(term: TopologySelectorTerm) -> str:
    return ",".join(
        f"{expression.key} in ({','.join(expression.values)})" for expression in term.match_label_expressions
    )
