"""Why a node does not suit a pod's claims, in names and numbers, for explanations."""

from __future__ import annotations

from kplan.api.affinity import TopologySelectorTerm, VolumeNodeAffinity
from kplan.api.core import PersistentVolumeClaim
from kplan.api.nodeselector import compile_node_selector
from kplan.api.quantity import Quantity
from kplan.engine.verdicts import Detail
from kplan.engine.volumes import STORAGE, claim_class
from kplan.plugins.volume_binding.finding import (
    REASON_BIND_CONFLICT,
    REASON_NODE_CONFLICT,
    REASON_NOT_ENOUGH_SPACE,
    REASON_PV_NOT_EXIST,
    Finding,
    PodClaims,
    StaticMatch,
    VolumeFinder,
)
from kplan.plugins.volume_binding.provisioning import NO_SPACE, can_provision
from kplan.plugins.volume_binding.static_matching import NO_VOLUME

_NANOS = 10**9


def node_conflicts(finder: VolumeFinder, claims: PodClaims, row: int) -> list[Detail]:
    """List bound volumes that a node does not reach, with what they ask of nodes."""
    found: list[Detail] = []
    for claim in claims.bound:
        volume = finder.listers.persistent_volumes.get(claim.spec.volume_name)
        if volume is None or finder.reach(volume)[0][row]:
            continue
        affinity = finder.affinity_on(volume, row)
        found.append(
            {
                "reason": REASON_NODE_CONFLICT,
                "claim": _name(claim),
                "volume": volume.metadata.name,
                "requires": _affinity_terms(affinity),
            }
        )
    return found


def missing_volumes(finder: VolumeFinder, claims: PodClaims) -> list[Detail]:
    """List claims that are bound to volumes that do not exist."""
    known = finder.listers.persistent_volumes
    return [
        {"reason": REASON_PV_NOT_EXIST, "claim": _name(claim), "volume": claim.spec.volume_name}
        for claim in claims.bound
        if claim.spec.volume_name not in known
    ]


def bind_conflicts(finder: VolumeFinder, finding: Finding, row: int) -> list[Detail]:
    """List claims that neither find a volume for a node nor can be provisioned there."""
    found: list[Detail] = []
    for claim in finding.selected:
        selected = finder.assumed.selected_node(claim)
        if selected != finder.nodes.names[row]:
            found.append({**_claim_facts(REASON_BIND_CONFLICT, claim), "selectedNode": selected})
        else:
            found += _provision_conflicts(finder, claim, row, None)
    for match in finding.matches:
        if match.indices[row] == NO_VOLUME:
            found += _provision_conflicts(finder, match.claim, row, match)
    return found


def space_shortages(finder: VolumeFinder, finding: Finding, row: int) -> list[Detail]:
    """List claims for which the storage that a node reaches does not suffice."""
    claims = [*finding.selected, *(match.claim for match in finding.matches if match.indices[row] == NO_VOLUME)]
    found: list[Detail] = []
    for claim in claims:
        storage_class = finder.listers.storage_classes[claim_class(claim)]
        enough = finder.provisioning.has_space(storage_class, claim)
        if enough is not None and not enough[row]:
            largest = int(finder.provisioning.largest(storage_class.metadata.name)[row])
            free = None if largest == NO_SPACE else str(Quantity(largest * _NANOS, "BinarySI"))
            found.append({**_claim_facts(REASON_NOT_ENOUGH_SPACE, claim), "largestVolume": free})
    return found


def _provision_conflicts(
    finder: VolumeFinder, claim: PersistentVolumeClaim, row: int, match: StaticMatch | None
) -> list[Detail]:
    storage_class = finder.listers.storage_classes[claim_class(claim)]
    facts = _claim_facts(REASON_BIND_CONFLICT, claim)
    if match is not None and match.volumes.volumes:
        promised = match.volumes.promised_to(claim)
        if promised:
            facts["promisedVolume"] = match.volumes.volumes[promised[0]].metadata.name
        else:
            facts["volumesRejected"] = {why: str(count) for why, count in match.volumes.rejections(claim, row).items()}
    if not can_provision(storage_class):
        return [{**facts, "provisioner": storage_class.provisioner, "provisions": False}]
    if not finder.provisioning.allowed(storage_class)[row]:
        return [{**facts, "allowedTopologies": [_topology(term) for term in storage_class.allowed_topologies]}]
    return []


def _claim_facts(reason: str, claim: PersistentVolumeClaim) -> dict[str, object]:
    return {
        "reason": reason,
        "claim": _name(claim),
        "storageClass": claim_class(claim),
        "requested": str(claim.spec.resources.requests.get(STORAGE, "0")),
    }


def _name(claim: PersistentVolumeClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def _affinity_terms(affinity: VolumeNodeAffinity | None) -> list[str]:
    if affinity is None or affinity.required is None:
        return []
    return [str(term.labels) for term in compile_node_selector(affinity.required).terms if term.labels is not None]


def _topology(term: TopologySelectorTerm) -> str:
    return ",".join(f"{each.key} in ({','.join(each.values)})" for each in term.match_label_expressions)
