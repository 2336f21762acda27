"""What must not change in an object that exists.

Budgets, autoscalers and limit ranges may change in every field; for services see `kplan.admission.validation.services`.
Upstream: pkg/apis/{core,scheduling,storage,node,resource}/validation Validate…Update.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec

from kplan.api.core import PersistentVolume, PersistentVolumeClaim, ResourceQuota
from kplan.api.field_errors import OMITTED, Errors, FieldError, forbidden, invalid
from kplan.api.quantity import nanos_of, parse
from kplan.api.resource import MODE_EXACT_COUNT, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from kplan.api.scheduling import PriorityClass, RuntimeClass
from kplan.api.storage import CSIDriver, CSIStorageCapacity, StorageClass, VolumeSources
from kplan.rules.volumes import STORAGE

IMMUTABLE = "field is immutable"
_NEVER = "Never"
_BLOCK = "Block"
_VOLUME_SOURCES = (*VolumeSources.__struct_fields__, "csi", "local")
_CLAIM_FIELDS = ("selector", "volume_name", "storage_class_name", "data_source", "data_source_ref")
"""Fields of a claim's spec, besides lists and amounts, that stay as they are where a manifest does not name them."""

_FIXED: dict[type, tuple[str, ...]] = {
    RuntimeClass: ("handler",),
    CSIStorageCapacity: ("storageClassName",),
    ResourceSlice: ("spec.pool.name", "spec.driver", "spec.nodeName"),
}
"""Fields that stay as they are."""


def update_errors(before: Any, after: Any) -> list[FieldError]:
    """Return what the API server says about the change of an object; empty where it accepts it.

    Defaults that were filled into `after` count as not named by the manifest, and so as unchanged.
    """
    check = _UPDATE_CHECKS.get(type(before))
    errors = [] if check is None else list(check(before, after))
    for path in _FIXED.get(type(before), ()):
        read = attrgetter(re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", path))
        old, new = read(before), read(after)
        if new not in (None, "", old) and old not in (None, ""):
            errors.append(invalid(path, new, IMMUTABLE))
    return errors


def _priority_class(before: PriorityClass, after: PriorityClass) -> Errors:
    if before.value != after.value:
        yield forbidden("value", "may not be changed in an update.")
    if after.preemption_policy == _NEVER != before.preemption_policy:
        yield invalid("preemptionPolicy", _NEVER, IMMUTABLE)


def _quota(before: ResourceQuota, after: ResourceQuota) -> Errors:
    if set(before.spec.scopes) != set(after.spec.scopes):
        yield invalid("spec.scopes", list(after.spec.scopes) or None, IMMUTABLE)


def _driver(before: CSIDriver, after: CSIDriver) -> Errors:
    if before.spec.attach_required and after.spec.attach_required is False:
        yield invalid("spec.attachedRequired", value=False, detail=IMMUTABLE)


def _devices(before: Any, after: Any) -> Errors:
    """Check a claim for devices, or a template; the words leave out the spec, which the API server shows as in Go."""
    specs = [msgspec.to_builtins(obj.spec) for obj in (before, after)]
    old, new = ({**spec.get("metadata", {}), **spec.get("spec", spec).get("devices", {})} for spec in specs)
    requests = [*old.get("requests", ()), *new.get("requests", ())]
    # With the defaults (pkg/apis/resource/v1 defaults.go), and amounts that are written alike.
    for wanted in (one for request in requests for one in (request.get("exactly"), *request.get("firstAvailable", ()))):
        if wanted is None:
            continue
        if wanted.setdefault("allocationMode", MODE_EXACT_COUNT) == MODE_EXACT_COUNT:
            wanted.setdefault("count", 1)
        for toleration in wanted.get("tolerations", ()):
            toleration.setdefault("operator", "Equal")
        amounts = (wanted.get("capacity") or {}).get("requests", {})
        amounts.update(nanos_of(amounts))
    if any(value and value != old.get(name) for name, value in new.items()):
        yield invalid("spec", OMITTED, IMMUTABLE)


def _capacity(before: CSIStorageCapacity, after: CSIStorageCapacity) -> Errors:
    if before.node_topology != after.node_topology is not None:
        yield invalid("nodeTopology", OMITTED, IMMUTABLE)


def _volume_update(before: PersistentVolume, after: PersistentVolume) -> Errors:
    """Check a volume; the words leave out the difference that the API server appends."""
    old, new = before.spec, after.spec
    if any(_names_another(getattr(old, field), getattr(new, field)) for field in _VOLUME_SOURCES):
        yield forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
    if new.volume_mode == _BLOCK != old.volume_mode:
        yield invalid("volumeMode", _BLOCK, IMMUTABLE)
    if old.node_affinity is not None and new.node_affinity not in (None, old.node_affinity):
        yield invalid("nodeAffinity", OMITTED, f"{IMMUTABLE}, except for updating from beta label to GA")


def _names_another(old: Any, new: Any) -> bool:
    """Tell whether a source of a volume names other values; what it leaves out, the API server keeps or fills in."""
    known, wanted = ({} if source is None else msgspec.to_builtins(source) for source in (old, new))
    return (new is not None and old is None) or any(known.get(key) != value for key, value in wanted.items())


def _storage_class(before: StorageClass, after: StorageClass) -> Errors:
    for name, old, new, default in (
        ("provisioner", before.provisioner, after.provisioner, ""),
        ("reclaimPolicy", before.reclaim_policy, after.reclaim_policy, "Delete"),
        ("volumeBindingMode", before.volume_binding_mode, after.volume_binding_mode, "Immediate"),
    ):
        if new not in (old, default, None):
            yield invalid(name, new, IMMUTABLE)


def _claim(before: PersistentVolumeClaim, after: PersistentVolumeClaim) -> Errors:
    """Check a claim; the words leave out the difference that the API server appends."""
    old, new = before.spec, after.spec
    is_bound = before.status.phase == "Bound"
    sizes = [parse(spec.resources.requests.get(STORAGE, 0)).nanos for spec in (old, new)]
    named = [field for field in _CLAIM_FIELDS if getattr(new, field) and (field != "volume_name" or old.volume_name)]
    is_block = new.volume_mode == _BLOCK != old.volume_mode
    is_other = is_block or any(getattr(new, field) != getattr(old, field) for field in named)
    is_other |= not nanos_of(new.resources.limits).items() <= nanos_of(old.resources.limits).items()
    is_other |= bool(new.access_modes) and new.access_modes != old.access_modes
    if is_other or (not is_bound and sizes[0] != sizes[1]):
        exceptions = "resources.requests and volumeAttributesClassName for bound claims"
        yield forbidden("spec", f"spec is immutable after creation except {exceptions}")
    if sizes[1] < sizes[0] and sizes[1] <= parse(before.status.capacity.get(STORAGE, 0)).nanos:
        yield forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
    if is_block:
        yield invalid("volumeMode", _BLOCK, IMMUTABLE)


_UPDATE_CHECKS: dict[type, Callable[[Any, Any], Errors]] = {
    PriorityClass: _priority_class,
    ResourceQuota: _quota,
    PersistentVolumeClaim: _claim,
    PersistentVolume: _volume_update,
    StorageClass: _storage_class,
    CSIDriver: _driver,
    CSIStorageCapacity: _capacity,
    ResourceClaim: _devices,
    ResourceClaimTemplate: _devices,
}
