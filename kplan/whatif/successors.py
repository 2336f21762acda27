"""Pods that controllers create in place of those that a change on paper removes.

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
from kplan.snapshot.defaults import complete
from kplan.snapshot.model import Snapshot
from kplan.workloads.claims import generated_claims

_KEEPS_NAME = "StatefulSet"
_ON_EACH_NODE = "DaemonSet"
_ENDED = ("Succeeded", "Failed")
_AGAIN = re.compile(r"-again([0-9]{1,9})$")

_NOT_RECREATED = "Node"
"""The owner of static pods, which only the kubelet recreates, on the same node."""


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
