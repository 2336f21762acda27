"""Fields that an API server drops, so that its scheduler never sees them, because their feature gate is off.

Of stored objects by the gates that are set, and of the pods of manifests by the minor that turned a gate on.
Upstream: pkg/api/pod/util.go dropDisabledFields, the strategies of pkg/registry/resource, pkg/api/persistentvolume;
pkg/features/kube_features.go for the minors.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from kplan.admission.validation.checks import Object, reached
from kplan.api import affinity, core, pod, resource, storage
from kplan.api.kinds import KINDS
from kplan.api.meta import structs_in, types_of
from kplan.snapshot.model import Snapshot

S = TypeVar("S", bound=msgspec.Struct)
Field = tuple[type[msgspec.Struct], str]

_DEVICE_CONDITIONS: Final = ("binds_to_node", "binding_conditions", "binding_failure_conditions")
_NODE_FIELDS: Final = ("node_name", "node_selector", "all_nodes")

CLAIM_STATUSES: Final[Field] = (pod.PodStatus, "node_allocatable_resource_claim_statuses")
"""What claims take of the node of a pod; without its gate, which few clusters turn on, the scheduler ignores it."""

#: Feature gate -> fields that are dropped while it is off.
FIELDS: Final[Mapping[str, tuple[Field, ...]]] = MappingProxyType(
    {
        "DRAAdminAccess": ((resource.ExactDeviceRequest, "admin_access"),),
        "DRAConsumableCapacity": (
            (resource.ExactDeviceRequest, "capacity"),
            (resource.DeviceSubRequest, "capacity"),
            (resource.DeviceConstraint, "distinct_attribute"),
            (resource.DeviceCapacity, "request_policy"),
            (resource.Device, "allow_multiple_allocations"),
            (resource.DeviceRequestAllocationResult, "share_id"),
            (resource.DeviceRequestAllocationResult, "consumed_capacity"),
        ),
        "DRADeviceBindingConditions": (
            *((resource.Device, name) for name in _DEVICE_CONDITIONS),
            *((resource.DeviceRequestAllocationResult, name) for name in _DEVICE_CONDITIONS[1:]),
        ),
        "DRADeviceTaints": (
            (resource.Device, "taints"),
            (resource.ExactDeviceRequest, "tolerations"),
            (resource.DeviceSubRequest, "tolerations"),
        ),
        "DRAExtendedResource": (
            (resource.DeviceClassSpec, "extended_resource_name"),
            (pod.PodStatus, "extended_resource_claim_status"),
        ),
        "DRANodeAllocatableResources": (CLAIM_STATUSES,),
        "DRAPartitionableDevices": (
            (resource.ResourceSliceSpec, "shared_counters"),
            (resource.ResourceSliceSpec, "per_device_node_selection"),
            (resource.Device, "consumes_counters"),
            *((resource.Device, name) for name in _NODE_FIELDS),
        ),
        "DRAPrioritizedList": ((resource.DeviceRequest, "first_available"),),
        "InPlacePodLevelResourcesVerticalScaling": (
            (pod.PodStatus, "resources"),
            (pod.PodStatus, "allocated_resources"),
        ),
        "InPlacePodVerticalScaling": ((pod.ContainerStatus, "resources"), (pod.ContainerStatus, "allocated_resources")),
        "MatchLabelKeysInPodTopologySpread": ((affinity.TopologySpreadConstraint, "match_label_keys"),),
        "PodLevelResources": ((pod.PodSpec, "resources"),),
        "VolumeAttributesClass": (
            (core.PersistentVolumeSpec, "volume_attributes_class_name"),
            (storage.PersistentVolumeClaimSpec, "volume_attributes_class_name"),
        ),
    }
)


class _Step(NamedTuple):
    """A field of a struct to empty, or to search for disabled fields."""

    name: str
    default: object
    is_emptied: bool


SIDECAR_PORTS: Final[Field] = (pod.Container, "ports")
"""Ports of restartable init containers, which schedulers before 1.33.6 ignore; ports of other containers stay."""


def without_disabled_fields(
    snapshot: Snapshot, is_on: Callable[[str], bool], *, counts_ports_of_sidecars: bool = True
) -> Snapshot:
    """Return a cluster as a scheduler with these feature gates sees it; `snapshot` itself where nothing is dropped."""
    disabled = disabled_fields(is_on, counts_ports_of_sidecars=counts_ports_of_sidecars)
    if not any(map(operator.attrgetter(f"status.{CLAIM_STATUSES[1]}"), snapshot.pods)):
        disabled -= {CLAIM_STATUSES}  # so that no pod is searched for what none has
    changes: dict[str, Any] = {}
    for kind in KINDS:
        objects = snapshot.objects(kind.attribute)
        if objects and _steps(kind.type, disabled) and (reduced := drop(objects, disabled)) is not objects:
            changes[kind.attribute] = reduced
    return dataclasses.replace(snapshot, **changes) if changes else snapshot


def disabled_fields(is_on: Callable[[str], bool], *, counts_ports_of_sidecars: bool = True) -> frozenset[Field]:
    """Return the fields whose gates are off, and those that the scheduler ignores."""
    fields = {field for gate, behind in FIELDS.items() if not is_on(gate) for field in behind}
    return frozenset(fields if counts_ports_of_sidecars else fields | {SIDECAR_PORTS})


def drop(objects: tuple[S, ...], disabled: frozenset[Field]) -> tuple[S, ...]:
    """Return objects without disabled fields; `objects` itself where none has any."""
    reduced = tuple([_without(obj, disabled) for obj in objects])
    return objects if all(map(operator.is_, reduced, objects)) else reduced


def _without(value: Any, disabled: frozenset[Field]) -> Any:
    if isinstance(value, tuple):
        return drop(value, disabled)
    if isinstance(value, dict):
        entries = {key: _without(item, disabled) for key, item in value.items()}
        return entries if any(entries[key] is not value[key] for key in value) else value
    if not isinstance(value, msgspec.Struct):
        return value
    changes: dict[str, Any] = {}
    for name, default, is_emptied in _steps(type(value), disabled):
        if isinstance(value, pod.Container) and name == SIDECAR_PORTS[1] and value.restart_policy != "Always":
            continue
        inner = getattr(value, name)
        reduced = default if is_emptied else _without(inner, disabled)
        if reduced is not inner and reduced != inner:
            changes[name] = reduced
    return msgspec.structs.replace(value, **changes) if changes else value


@lru_cache(maxsize=1024)
def _steps(cls: type[msgspec.Struct], disabled: frozenset[Field]) -> tuple[_Step, ...]:
    names = {name for struct, name in disabled if struct is cls}
    emptied = [field for field in msgspec.structs.fields(cls) if field.name in names] if names else []
    looked_into = [
        name
        for name in cls.__struct_fields__
        if name not in names and any(_steps(inner, disabled) for inner in structs_in(types_of(cls, name)))
    ]
    return (
        *(_Step(field.name, field.default, is_emptied=True) for field in emptied),
        *(_Step(name, None, is_emptied=False) for name in looked_into),
    )


NEWEST = 36
"""The newest minor whose gates are known."""

_NEVER = 1_000_000


class _Gate(NamedTuple):
    """A feature gate: `since` is the first minor that has it on by default; `drop` removes its fields from a spec.

    A gate without fields concerns what the API server adds.
    """

    name: str
    since: int
    drop: Callable[[Object], None]


def drop_disabled(spec: Object, minor: int = NEWEST, *, keeps: str = "") -> Object:
    """Remove the fields of features that are off by default in a minor such as 36; those of the gate `keeps` stay."""
    for gate in _GATES:
        if minor < gate.since and gate.name != keeps:
            gate.drop(spec)
    return spec


def is_on(name: str, minor: int) -> bool:
    return next(gate.since for gate in _GATES if gate.name == name) <= minor


def _drop(*paths: str) -> Callable[[Object], None]:
    """Return what removes fields, by their paths as in `reached`."""

    def drop(spec: Object) -> None:
        for path in paths:
            outer, _, name = path.rpartition(".")
            for holder in list(reached(spec, outer)) if outer else [spec]:
                holder.pop(name, None)

    return drop


def _drop_stop_signals(spec: Object) -> None:
    for container in reached(spec, "*"):
        lifecycle = container.get("lifecycle", {})
        if "stopSignal" in lifecycle:
            del lifecycle["stopSignal"]
            if not lifecycle:
                del container["lifecycle"]


def _drop_restart_rules(spec: Object) -> None:
    for container in reached(spec, "*"):
        container.pop("restartPolicyRules", None)
    for container in (*spec.get("containers", []), *spec.get("ephemeralContainers", [])):
        container.pop("restartPolicy", None)
    for container in spec.get("initContainers", []):
        if container.get("restartPolicy") != "Always":
            container.pop("restartPolicy", None)


def _drop_images(spec: Object) -> None:
    names = {volume.get("name", "") for volume in spec.get("volumes", []) if "image" in volume}
    if not names:
        return
    spec["volumes"] = [volume for volume in spec["volumes"] if "image" not in volume]
    for container in reached(spec, "*"):
        if mounts := container.get("volumeMounts"):
            container["volumeMounts"] = [mount for mount in mounts if mount.get("name", "") not in names]


_GATES = (
    _Gate("ClusterTrustBundleProjection", _NEVER, _drop("volumes.projected.sources.clusterTrustBundle")),
    _Gate("ContainerRestartRules", 35, _drop_restart_rules),
    _Gate("ContainerStopSignals", _NEVER, _drop_stop_signals),
    _Gate("DynamicResourceAllocation", 34, _drop("resourceClaims", "*.resources.claims")),
    _Gate("EnvFiles", 35, _drop("*.env.valueFrom.fileKeyRef")),
    _Gate("GenericWorkload", _NEVER, _drop("schedulingGroup")),
    _Gate("HostnameOverride", 35, _drop("hostnameOverride")),
    _Gate("ImageVolume", 35, _drop_images),
    _Gate("MatchLabelKeysInPodTopologySpreadSelectorMerge", 34, _drop()),
    _Gate("PodCertificateRequest", _NEVER, _drop("volumes.projected.sources.podCertificate")),
    _Gate("PodLevelResources", 34, _drop("resources")),
    _Gate("PodTopologyLabelsAdmission", 35, _drop()),
)
