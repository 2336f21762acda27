"""Pods that controllers create in place of evicted ones.

A replacement has the spec of its predecessor, in place of the controller's template; it has a name and a creation time
of its own, and new claims where each pod has its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from kplan.api.core import Pod, PodStatus
from kplan.api.kinds import type_of
from kplan.api.meta import controller_of
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.defaults import complete
from kplan.snapshot.model import Snapshot
from kplan.workloads.claims import generated_claims

_KEEPS_NAME = "StatefulSet"
MAX_EVICTIONS = 3
"""A pod whose replacements are evicted more often than this is left pending, because the evictions would never end."""

_ON_EACH_NODE = "DaemonSet"
_ENDED = ("Succeeded", "Failed")
_AGAIN = re.compile(r"-again([0-9]{1,9})$")

_NOT_RECREATED = "Node"
"""The owner of static pods, which only the kubelet recreates, on the same node."""


def is_recreated(info: PodInfo) -> bool:
    """Return whether a controller creates a new pod when this one is gone."""
    owner = controller_of(info.pod.metadata)
    return owner is not None and owner.kind != _NOT_RECREATED


def successor(info: PodInfo, generation: int, created: str | None, world: Snapshot) -> PodInfo:
    """Return the pod that the controller creates in place of this one.

    Parameters
    ----------
    generation : how often the pod is recreated, from 1; part of the name, unless the controller gives the same name
    created : its creation time
    world : the snapshot with the templates of its claims
    """
    return PodInfo(generated_claims(_next(info.pod, generation, created), world)[0])


def pending_again(lost: Iterable[Pod], world: Snapshot) -> list[msgspec.Struct]:
    """Return the pending pods and their claims that controllers create when pods are lost with their nodes.

    Daemon pods and pods that have ended are not recreated.
    """
    objects: list[msgspec.Struct] = []
    for pod in lost:
        owner = controller_of(pod.metadata)
        if owner is None or owner.kind in (_NOT_RECREATED, _ON_EACH_NODE) or pod.status.phase in _ENDED:
            continue
        earlier = _AGAIN.search(pod.metadata.name)
        generation = 1 if earlier is None or owner.kind == _KEEPS_NAME else int(earlier[1]) + 1
        replacement, claims = generated_claims(_next(pod, generation, world.taken_at), world)
        objects += [replacement, *(complete(claim, type_of(claim)) for claim in claims)]
    return objects


def claims_of_successors(infos: Iterable[PodInfo], world: Snapshot) -> list[msgspec.Struct]:
    """Return the claims of all replacements that these pods may get."""
    claims: list[msgspec.Struct] = []
    for info in infos:
        pod = info.pod
        if not is_recreated(info) or not _has_generated_claims(pod):
            continue
        for generation in range(1, MAX_EVICTIONS + 1):
            pod = _next(pod, generation, None)
            claims += (complete(claim, type_of(claim)) for claim in generated_claims(pod, world)[1])
    return claims


def _has_generated_claims(pod: Pod) -> bool:
    return any(volume.ephemeral is not None for volume in pod.spec.volumes) or any(
        entry.resource_claim_template_name for entry in pod.spec.resource_claims
    )


def _next(pod: Pod, generation: int, created: str | None) -> Pod:
    owner = controller_of(pod.metadata)
    name = pod.metadata.name
    if owner is None or owner.kind != _KEEPS_NAME:
        name = f"{name.removesuffix(f'-again{generation - 1}')}-again{generation}"
    metadata = replace(
        pod.metadata,
        name=name,
        uid=f"{pod.metadata.uid.removesuffix(f'-again{generation - 1}')}-again{generation}",
        creation_timestamp=created,
        deletion_timestamp=None,
    )
    own = {entry.name for entry in pod.spec.resource_claims if entry.resource_claim_template_name}
    shared = tuple(status for status in pod.status.resource_claim_statuses if status.name not in own)
    status = PodStatus(phase="Pending", resource_claim_statuses=shared)
    return Pod(metadata=metadata, spec=replace(pod.spec, node_name=""), status=status)
