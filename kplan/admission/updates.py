"""What the API server forbids to change in objects other than workloads.

Upstream: pkg/apis/scheduling/validation ValidatePriorityClassUpdate; pkg/apis/core/validation
ValidateResourceQuotaUpdate, ValidatePersistentVolumeClaimUpdate, ValidatePersistentVolumeUpdate;
pkg/apis/storage/validation ValidateStorageClassUpdate, ValidateCSIDriverUpdate, ValidateCSIStorageCapacityUpdate;
pkg/apis/node/validation ValidateRuntimeClassUpdate; pkg/apis/resource/validation ValidateResourceClaimUpdate,
ValidateResourceClaimTemplateUpdate, ValidateResourceSliceUpdate. Budgets, autoscalers and limit ranges may change in
every field; services are in `kplan.admission.validation.services`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from kplan.admission.validation.checks import OMITTED, Errors, FieldError, forbidden, invalid
from kplan.api.core import PersistentVolume, PersistentVolumeClaim, ResourceQuota
from kplan.api.quantity import parse
from kplan.api.resource import MODE_EXACT_COUNT, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from kplan.api.scheduling import PriorityClass, RuntimeClass
from kplan.api.storage import CSIDriver, CSIStorageCapacity, StorageClass, VolumeSources
from kplan.rules.volumes import STORAGE

_IMMUTABLE = "field is immutable"
_NEVER = "Never"
_BLOCK, _FILESYSTEM = "Block", "Filesystem"
_VOLUME_SOURCES = (*VolumeSources.__struct_fields__, "csi", "local")
_CLAIM_FIELDS = ("selector", "volume_name", "storage_class_name", "data_source", "data_source_ref")
"""Fields of a claim's spec, besides lists and amounts, that stay as they are where a manifest does not name them."""


def update_errors(before: Any, after: Any) -> list[FieldError]:
    """Return what the API server says about the change of an object; empty where it accepts it.

    Defaults that were filled into `after` count as not named by the manifest, and so as unchanged.

    Parameters
    ----------
    before, after : objects of the same kind and name
    """
    check = _CHECKS.get(type(before))
    fixed = (
        invalid(field, new, _IMMUTABLE)
        for field, old, new in _fixed(before, after)
        if new not in (None, "", old) and old not in (None, "")
    )
    return [*(check(before, after) if check is not None else ()), *fixed]


def _priority_class(before: PriorityClass, after: PriorityClass) -> Errors:
    if before.value != after.value:
        yield forbidden("value", "may not be changed in an update.")
    if after.preemption_policy == _NEVER != before.preemption_policy:
        yield invalid("preemptionPolicy", _NEVER, _IMMUTABLE)


def _quota(before: ResourceQuota, after: ResourceQuota) -> Errors:
    if set(before.spec.scopes) != set(after.spec.scopes):
        yield invalid("spec.scopes", list(after.spec.scopes), _IMMUTABLE)


def _driver(before: CSIDriver, after: CSIDriver) -> Errors:
    if before.spec.attach_required and after.spec.attach_required is False:
        yield invalid("spec.attachedRequired", value=False, detail=_IMMUTABLE)


def _devices(before: Any, after: Any) -> Errors:
    """Check a claim for devices, or a template; the words leave out the spec, which the API server shows as in Go."""
    old, new = (msgspec.to_builtins(obj.spec) for obj in (before, after))
    claims = [spec.get("spec", spec).get("devices", {}) for spec in (old, new)]
    for request in (request for devices in claims for request in devices.get("requests", ())):
        _settle_request(request)
    if old != new:
        yield invalid("spec", OMITTED, _IMMUTABLE)


def _settle_request(request: dict[str, Any]) -> None:
    """Fill in defaults (pkg/apis/resource/v1 defaults.go), and write amounts alike."""
    for wanted in filter(None, (request.get("exactly"), *request.get("firstAvailable", ()))):
        if wanted.setdefault("allocationMode", MODE_EXACT_COUNT) == MODE_EXACT_COUNT:
            wanted.setdefault("count", 1)
        for toleration in wanted.get("tolerations", ()):
            toleration.setdefault("operator", "Equal")
        amounts = (wanted.get("capacity") or {}).get("requests", {})
        amounts.update({name: parse(amount).nanos for name, amount in amounts.items()})


def _capacity(before: CSIStorageCapacity, after: CSIStorageCapacity) -> Errors:
    if before.node_topology != after.node_topology is not None:
        yield invalid("nodeTopology", OMITTED, _IMMUTABLE)


def _fixed(before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, RuntimeClass):
        yield "handler", before.handler, after.handler
    if isinstance(before, CSIStorageCapacity):
        yield "storageClassName", before.storage_class_name, after.storage_class_name
    if isinstance(before, ResourceSlice):
        yield "spec.pool.name", before.spec.pool.name, after.spec.pool.name
        yield "spec.driver", before.spec.driver, after.spec.driver
        yield "spec.nodeName", before.spec.node_name, after.spec.node_name


def _volume(before: PersistentVolume, after: PersistentVolume) -> Errors:
    """Check a volume; the words leave out the difference that the API server appends."""
    old, new = before.spec, after.spec
    if any(_names_another(getattr(old, field), getattr(new, field)) for field in _VOLUME_SOURCES):
        yield forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
    if new.volume_mode and new.volume_mode != (old.volume_mode or _FILESYSTEM):
        yield invalid("volumeMode", new.volume_mode, _IMMUTABLE)
    if old.node_affinity is not None and new.node_affinity not in (None, old.node_affinity):
        yield invalid("nodeAffinity", OMITTED, f"{_IMMUTABLE}, except for updating from beta label to GA")


def _names_another(old: Any, new: Any) -> bool:
    """Tell whether a source of a volume names other values; what it leaves out, the API server keeps or fills in."""
    known, wanted = ({} if source is None else msgspec.to_builtins(source) for source in (old, new))
    return (new is not None and old is None) or any(known.get(key) != value for key, value in wanted.items())


def _storage_class(before: StorageClass, after: StorageClass) -> Errors:
    named = (
        ("provisioner", before.provisioner, after.provisioner, ""),
        ("reclaimPolicy", before.reclaim_policy, after.reclaim_policy, "Delete"),
        ("volumeBindingMode", before.volume_binding_mode, after.volume_binding_mode, "Immediate"),
    )
    for field, old, new, default in named:
        if new not in (old, default, None):
            yield invalid(field, new, _IMMUTABLE)


def _claim(before: PersistentVolumeClaim, after: PersistentVolumeClaim) -> Errors:
    """Check a claim; the words leave out the difference that the API server appends."""
    old, new = before.spec, after.spec
    is_bound = before.status.phase == "Bound"
    sizes = [parse(spec.resources.requests.get(STORAGE, 0)).nanos for spec in (old, new)]
    named = [field for field in _CLAIM_FIELDS if getattr(new, field) and (field != "volume_name" or old.volume_name)]
    is_block = new.volume_mode == _BLOCK != old.volume_mode
    is_other = is_block or any(getattr(new, field) != getattr(old, field) for field in named)
    is_other |= bool(new.access_modes) and new.access_modes != old.access_modes
    if is_other or (not is_bound and sizes[0] != sizes[1]):
        words = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield forbidden("spec", words)
    if sizes[1] < sizes[0] and sizes[1] <= parse(before.status.capacity.get(STORAGE, 0)).nanos:
        yield forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
    if is_block:
        yield invalid("volumeMode", _BLOCK, _IMMUTABLE)


_CHECKS: dict[type, Callable[[Any, Any], Errors]] = {
    PriorityClass: _priority_class,
    ResourceQuota: _quota,
    PersistentVolumeClaim: _claim,
    PersistentVolume: _volume,
    StorageClass: _storage_class,
    CSIDriver: _driver,
    CSIStorageCapacity: _capacity,
    ResourceClaim: _devices,
    ResourceClaimTemplate: _devices,
}
