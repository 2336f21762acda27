"""Fields whose feature gate is off: they are dropped, so that the scheduler never sees them.

Of stored objects by the gates that are set, and of the pods of manifests by the minor that turned a gate on. Upstream:
pkg/api/pod/util.go dropDisabledFields, the strategies of pkg/registry/resource, pkg/api/persistentvolume;
pkg/features/kube_features.go for the minors.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from kplan.admission.validation.checks import Object, reached
from kplan.api import affinity, core, pod, resource, storage
from kplan.api.kinds import KINDS
from kplan.api.meta import structs_in, types_of
from kplan.snapshot.model import Snapshot

S = TypeVar("S", bound=msgspec.Struct)
GatedField = tuple[type[msgspec.Struct], str]

_DEVICE_CONDITIONS: Final = "binding_conditions binding_failure_conditions"

CLAIM_STATUSES: Final[GatedField] = (pod.PodStatus, "node_allocatable_resource_claim_statuses")
"""What claims take of the node of a pod; without its gate, which few clusters turn on, the scheduler ignores it."""

_SEARCHED = object()
NEWEST = 36  #: the newest minor whose gates and pod security standards are known
_NEVER = 1_000_000


def _fields(*of: tuple[type[msgspec.Struct], str]) -> tuple[GatedField, ...]:
    """Return fields of structs, from their names in one text for each struct."""
    return tuple((struct, name) for struct, names in of for name in names.split())


#: Feature gate -> fields that are dropped while it is off.
FIELDS: Final[Mapping[str, tuple[GatedField, ...]]] = MappingProxyType(
    {
        "DRAAdminAccess": ((resource.ExactDeviceRequest, "admin_access"),),
        "DRAConsumableCapacity": _fields(
            (resource.ExactDeviceRequest, "capacity"),
            (resource.DeviceSubRequest, "capacity"),
            (resource.DeviceConstraint, "distinct_attribute"),
            (resource.DeviceCapacity, "request_policy"),
            (resource.Device, "allow_multiple_allocations"),
            (resource.DeviceRequestAllocationResult, "share_id consumed_capacity"),
        ),
        "DRADeviceBindingConditions": _fields(
            (resource.Device, f"binds_to_node {_DEVICE_CONDITIONS}"),
            (resource.DeviceRequestAllocationResult, _DEVICE_CONDITIONS),
        ),
        "DRADeviceTaints": _fields(
            (resource.Device, "taints"),
            (resource.ExactDeviceRequest, "tolerations"),
            (resource.DeviceSubRequest, "tolerations"),
        ),
        "DRAExtendedResource": (
            (resource.DeviceClassSpec, "extended_resource_name"),
            (pod.PodStatus, "extended_resource_claim_status"),
        ),
        "DRANodeAllocatableResources": (CLAIM_STATUSES,),
        "DRAPartitionableDevices": _fields(
            (resource.ResourceSliceSpec, "shared_counters per_device_node_selection"),
            (resource.Device, "consumes_counters node_name node_selector all_nodes"),
        ),
        "DRAPrioritizedList": ((resource.DeviceRequest, "first_available"),),
        "InPlacePodLevelResourcesVerticalScaling": _fields((pod.PodStatus, "resources allocated_resources")),
        "InPlacePodVerticalScaling": _fields((pod.ContainerStatus, "resources allocated_resources")),
        "MatchLabelKeysInPodTopologySpread": ((affinity.TopologySpreadConstraint, "match_label_keys"),),
        "PodLevelResources": ((pod.PodSpec, "resources"),),
        "VolumeAttributesClass": tuple(
            (spec, "volume_attributes_class_name")
            for spec in (core.PersistentVolumeSpec, storage.PersistentVolumeClaimSpec)
        ),
    }
)

SIDECAR_PORTS: Final[GatedField] = (pod.Container, "ports")
"""Ports of restartable init containers, which schedulers before 1.33.6 ignore; ports of other containers stay."""


def without_disabled_fields(snapshot: Snapshot, disabled: frozenset[GatedField]) -> Snapshot:
    """Return a cluster as a scheduler without some fields sees it; `snapshot` itself where nothing is dropped."""
    changes: dict[str, Any] = {}
    for kind in KINDS:
        objects = snapshot.objects(kind.attribute)
        if objects and (reduced := drop(objects, disabled)) is not objects:
            changes[kind.attribute] = reduced
    return replace(snapshot, **changes) if changes else snapshot


def disabled_fields(is_on: Callable[[str], bool], *, counts_ports_of_sidecars: bool = True) -> frozenset[GatedField]:
    """Return the fields whose gates are off, and those that the scheduler ignores."""
    fields = {field for gate, behind in FIELDS.items() if not is_on(gate) for field in behind}
    return frozenset(fields if counts_ports_of_sidecars else fields | {SIDECAR_PORTS})


def drop(objects: tuple[S, ...], disabled: frozenset[GatedField]) -> tuple[S, ...]:
    """Return objects of one kind without disabled fields; `objects` itself where none has any."""
    pods: tuple[Any, ...] = objects if isinstance(objects[0], pod.Pod) else ()
    if not any(one.status.node_allocatable_resource_claim_statuses for one in pods):
        disabled -= {CLAIM_STATUSES}  # so that no pod is searched for what none has
    return _drop(objects, disabled) if disabled and _steps(type(objects[0]), disabled) else objects


def _drop(objects: tuple[S, ...], disabled: frozenset[GatedField]) -> tuple[S, ...]:
    reduced = tuple([_without(obj, disabled) for obj in objects])
    return objects if all(map(operator.is_, reduced, objects)) else reduced


def _without(value: Any, disabled: frozenset[GatedField]) -> Any:
    if isinstance(value, tuple):
        return _drop(value, disabled)
    if isinstance(value, dict):
        entries = {key: _without(item, disabled) for key, item in value.items()}
        return entries if any(entries[key] is not value[key] for key in value) else value
    if not isinstance(value, msgspec.Struct):
        return value
    changes: dict[str, Any] = {}
    for name, default in _steps(type(value), disabled):
        if isinstance(value, pod.Container) and name == SIDECAR_PORTS[1] and value.restart_policy != "Always":
            continue
        inner = getattr(value, name)
        reduced = _without(inner, disabled) if default is _SEARCHED else default
        if reduced is not inner and reduced != inner:
            changes[name] = reduced
    return msgspec.structs.replace(value, **changes) if changes else value


@lru_cache(maxsize=1024)
def _steps(cls: type[msgspec.Struct], disabled: frozenset[GatedField]) -> tuple[tuple[str, object], ...]:
    """Return the fields of a struct to empty, with their defaults, and those to search for others, with `_SEARCHED`."""
    names = {name for struct, name in disabled if struct is cls}
    emptied = [(one.name, one.default) for one in msgspec.structs.fields(cls) if one.name in names] if names else []
    searched = [
        (name, _SEARCHED)
        for name in cls.__struct_fields__
        if name not in names and any(_steps(inner, disabled) for inner in structs_in(types_of(cls)[name]))
    ]
    return (*emptied, *searched)


def drop_disabled(spec: Object, minor: int = NEWEST, *, keeps: str = "") -> Object:
    """Remove the fields of features that are off by default in a minor such as 36; those of the gate `keeps` stay."""
    for gate, (since, fields) in _GATES.items():
        if minor >= since or gate == keeps:
            continue
        if callable(fields):
            fields(spec)
            continue
        for path in fields:
            outer, _, name = path.rpartition(".")
            for holder in list(reached(spec, outer)) if outer else [spec]:
                holder.pop(name, None)
    return spec


def is_on(name: str, minor: int) -> bool:
    return _GATES[name][0] <= minor


def _drop_stop_signals(spec: Object) -> None:
    for container in reached(spec, "*"):
        if container.get("lifecycle", {}).pop("stopSignal", None) is not None and not container["lifecycle"]:
            del container["lifecycle"]


def _drop_restart_rules(spec: Object) -> None:
    for container in reached(spec, "*"):
        container.pop("restartPolicyRules", None)
    # Init containers with another policy are no sidecars.
    plain = [one for one in spec.get("initContainers", []) if one.get("restartPolicy") != "Always"]
    for container in (*spec.get("containers", []), *spec.get("ephemeralContainers", []), *plain):
        container.pop("restartPolicy", None)


def _drop_images(spec: Object) -> None:
    names = {volume.get("name") for volume in spec.get("volumes", []) if "image" in volume}
    if not names:
        return
    spec["volumes"] = [volume for volume in spec["volumes"] if "image" not in volume]
    for container in reached(spec, "*"):
        if mounts := container.get("volumeMounts"):
            container["volumeMounts"] = [mount for mount in mounts if mount.get("name") not in names]


#: Gate -> the first minor that has it on by default, and the paths of its fields in a spec, as in `reached`, or what
#: removes them. A gate without fields concerns what the API server adds.
_GATES: dict[str, tuple[int, tuple[str, ...] | Callable[[Object], None]]] = {
    "ClusterTrustBundleProjection": (_NEVER, ("volumes.projected.sources.clusterTrustBundle",)),
    "ContainerRestartRules": (35, _drop_restart_rules),
    "ContainerStopSignals": (_NEVER, _drop_stop_signals),
    "DRAExtendedResource": (36, ()),
    "DynamicResourceAllocation": (34, ("resourceClaims", "*.resources.claims")),
    "EnvFiles": (35, ("*.env.valueFrom.fileKeyRef",)),
    "GenericWorkload": (_NEVER, ("schedulingGroup",)),
    "HostnameOverride": (35, ("hostnameOverride",)),
    "ImageVolume": (35, _drop_images),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": (34, ()),
    "PodCertificateRequest": (_NEVER, ("volumes.projected.sources.podCertificate",)),
    "PodLevelResources": (34, ("resources",)),
    "PodTopologyLabelsAdmission": (35, ()),
}
