"""Leaving out of objects what decides nothing, so that snapshots stay small and equal decisions have equal digests.

Structs hold only fields that scheduling reads; what goes here are contents of such fields that say nothing: annotations
of other programs, volumes without a source that storage knows, container statuses that repeat the spec, conditions that
nobody asks for.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec.structs import astuple, replace

from kplan.api import core
from kplan.api.base import ResourceList
from kplan.api.meta import ObjectMeta, PlainMeta
from kplan.api.volumes import Volume

S = TypeVar("S", bound=msgspec.Struct)

#: Annotations that decide; all others stay out of snapshots.
DECIDING_ANNOTATIONS = frozenset(
    {
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
        "pv.kubernetes.io/migrated-to",
        "pv.kubernetes.io/provisioned-by",
        "resource.kubernetes.io/extended-resource-claim",
        "resource.kubernetes.io/pod-claim-name",
        "storage.alpha.kubernetes.io/migrated-plugins",
        "storageclass.beta.kubernetes.io/is-default-class",
        "storageclass.kubernetes.io/is-default-class",
        "volume.alpha.kubernetes.io/node-affinity",
        "volume.beta.kubernetes.io/storage-class",
        "volume.beta.kubernetes.io/storage-provisioner",
        "volume.kubernetes.io/selected-node",
        "volume.kubernetes.io/storage-provisioner",
    }
)

#: Steps of a pod's start that say nothing about where it can be.
_IDLE_POD_CONDITIONS = frozenset({"ContainersReady", "Initialized", "PodReadyToStartContainers"})

_N_SOURCES = len(Volume.__struct_fields__) - 1


def lean(obj: S) -> S:
    """Return the object without what decides nothing; a lean object is returned as it is."""
    changes: dict[str, object] = {}
    metadata = getattr(obj, "metadata", None)
    if isinstance(metadata, PlainMeta) and (changed := _lean_metadata(metadata)):
        changes["metadata"] = replace(metadata, **changed)
    if isinstance(obj, core.Pod):
        if volumes := obj.spec.volumes:
            kept = tuple(filter(_has_source, volumes))
            if len(kept) < len(volumes):
                changes["spec"] = replace(obj.spec, volumes=kept)
        if changed := _lean_pod_status(obj):
            changes["status"] = replace(obj.status, **changed)
    elif isinstance(obj, core.Node) and (conditions := _lean_node_conditions(obj.status.conditions)) is not None:
        changes["status"] = replace(obj.status, conditions=conditions)
    return replace(obj, **changes) if changes else obj


def _lean_metadata(metadata: PlainMeta) -> dict[str, object]:
    changes: dict[str, object] = {}
    if metadata.resource_version:
        changes["resource_version"] = ""
    if metadata.generate_name and metadata.name:
        changes["generate_name"] = ""
    if metadata.owner_references and any(owner.block_owner_deletion for owner in metadata.owner_references):
        changes["owner_references"] = tuple(
            replace(owner, block_owner_deletion=False) for owner in metadata.owner_references
        )
    if isinstance(metadata, ObjectMeta) and not metadata.annotations.keys() <= DECIDING_ANNOTATIONS:
        changes["annotations"] = {
            key: text for key, text in metadata.annotations.items() if key in DECIDING_ANNOTATIONS
        }
    return changes


def _has_source(volume: Volume) -> bool:
    """Tell whether any source is known; projected volumes and the like come without."""
    return astuple(volume).count(None) < _N_SOURCES


def _lean_pod_status(pod: core.Pod) -> dict[str, object]:
    status = pod.status
    changes: dict[str, object] = {}
    if status.conditions:
        conditions = tuple(
            _lean_pod_condition(condition)
            for condition in status.conditions
            if condition.type not in _IDLE_POD_CONDITIONS
            and not (condition.type == "PodScheduled" and condition.status == "True")
        )
        if conditions != status.conditions:
            changes["conditions"] = conditions
    if not status.container_statuses and not status.init_container_statuses:
        return changes
    for field, containers in (
        ("container_statuses", pod.spec.containers),
        ("init_container_statuses", pod.spec.init_containers),
    ):
        found: tuple[core.ContainerStatus, ...] = getattr(status, field)
        if found:
            requests = {container.name: container.resources.requests for container in containers}
            telling = tuple(each for each in found if not _repeats_spec(each, requests.get(each.name)))
            if len(telling) < len(found):
                changes[field] = telling
    return changes


def _lean_pod_condition(condition: core.PodCondition) -> core.PodCondition:
    """Leave out when it changed, and what anybody but the scheduler has to say about it."""
    message = condition.message if condition.type == "PodScheduled" else ""
    if condition.last_transition_time is None and condition.message == message:
        return condition
    return replace(condition, last_transition_time=None, message=message)


def _repeats_spec(status: core.ContainerStatus, requests: ResourceList | None) -> bool:
    """Tell whether what runs is what is asked for, so that the larger of both is no news, and never restarted."""
    if status.restart_count:
        return False
    if status.resources is None:
        return True
    return status.resources.requests == requests and status.allocated_resources in ({}, requests)


def _lean_node_conditions(conditions: tuple[core.NodeCondition, ...]) -> tuple[core.NodeCondition, ...] | None:
    """Return the conditions that say something: Ready, and troubles that there are; None when these are all."""
    kept = tuple(
        replace(condition, reason="")
        if condition.reason and condition.status == "True" and condition.type == "Ready"
        else condition
        for condition in conditions
        if condition.type == "Ready" or condition.status != "False"
    )
    return kept if kept != conditions else None
