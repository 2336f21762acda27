"""What the API server forbids to change in objects other than workloads.

Upstream: pkg/apis/scheduling/validation ValidatePriorityClassUpdate; pkg/apis/core/validation
ValidateResourceQuotaUpdate, ValidatePersistentVolumeClaimUpdate; pkg/apis/storage/validation
ValidateStorageClassUpdate, ValidateCSIDriverUpdate. Budgets, autoscalers and limit ranges may change in every field; of
services only fields that the snapshot does not hold may not: their addresses, and the class of a load balancer. Claims
for devices, whose spec may not change either, are not compared.
"""

from __future__ import annotations

from typing import Any

from kplan.admission.validation.errors import Errors, FieldError, forbidden, invalid
from kplan.api.core import PersistentVolumeClaim, ResourceQuota
from kplan.api.quantity import parse
from kplan.api.scheduling import PriorityClass
from kplan.api.storage import CSIDriver, StorageClass
from kplan.rules.volume_claims import STORAGE

_IMMUTABLE = "field is immutable"
_NEVER = "Never"
_BLOCK = "Block"
_CLAIM_FIELDS = ("selector", "volume_name", "storage_class_name", "data_source", "data_source_ref")
"""Fields of a claim's spec, besides lists and amounts, that stay as they are where a manifest does not name them."""


def update_errors(before: Any, after: Any) -> list[FieldError]:
    """Return what the API server says about the change of an object; empty where it accepts it.

    Defaults that were filled into `after` count as not named by the manifest, and so as unchanged.

    Parameters
    ----------
    before, after : objects of the same kind and name
    """
    return list(_errors(before, after))


def _errors(before: Any, after: Any) -> Errors:
    if isinstance(before, PriorityClass):
        if before.value != after.value:
            yield forbidden("value", "may not be changed in an update.")
        if after.preemption_policy == _NEVER != before.preemption_policy:
            yield invalid("preemptionPolicy", _NEVER, _IMMUTABLE)
    if isinstance(before, ResourceQuota) and set(before.spec.scopes) != set(after.spec.scopes):
        yield invalid("spec.scopes", list(after.spec.scopes), _IMMUTABLE)
    if isinstance(before, PersistentVolumeClaim):
        yield from _claim(before, after)
    if isinstance(before, StorageClass):
        yield from _storage_class(before, after)
    if isinstance(before, CSIDriver) and before.spec.attach_required and after.spec.attach_required is False:
        yield invalid("spec.attachedRequired", value=False, detail=_IMMUTABLE)


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
