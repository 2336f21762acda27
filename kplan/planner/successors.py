"""Pods that controllers make in place of those that are evicted.

A replacement says what its predecessor said, as the controller's template does; it has a name and a time of its own.
"""

from __future__ import annotations

from msgspec.structs import replace

from kplan.api.core import Pod, PodStatus
from kplan.api.meta import controller_of
from kplan.engine.pod_info import PodInfo

_KEEPS_NAME = "StatefulSet"
_NOT_RECREATED = "Node"
"""A static pod's owner: nobody but the kubelet makes it again, on the same node."""


def is_recreated(info: PodInfo) -> bool:
    """Tell whether a controller makes a new pod when this one is gone."""
    owner = controller_of(info.pod.metadata)
    return owner is not None and owner.kind != _NOT_RECREATED


def successor(info: PodInfo, generation: int, created: str | None) -> PodInfo:
    """Return the pod that the controller makes next.

    Parameters
    ----------
    generation : how often the pod has been made again, from 1; part of the name where the controller draws a new one
    created : its creation time
    """
    pod = info.pod
    owner = controller_of(pod.metadata)
    name = pod.metadata.name
    if owner is None or owner.kind != _KEEPS_NAME:
        name = f"{name.removesuffix(f'-again{generation - 1}')}-again{generation}"
    metadata = replace(
        pod.metadata,
        name=name,
        uid=f"{pod.metadata.uid}-again{generation}",
        creation_timestamp=created,
        deletion_timestamp=None,
        deletion_grace_period_seconds=None,
    )
    status = PodStatus(phase="Pending", resource_claim_statuses=pod.status.resource_claim_statuses)
    fresh = Pod(metadata=metadata, spec=replace(pod.spec, node_name=""), status=status)
    return PodInfo(fresh)
