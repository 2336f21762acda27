"""Persistent volume claims (pkg/apis/core/validation ValidatePersistentVolumeClaimSpec)."""

from __future__ import annotations

from typing import Any

from kplan.admission.validation.errors import (
    Errors,
    enum_errors,
    forbidden,
    invalid,
    invalids,
    not_supported,
    required,
)
from kplan.admission.validation.metadata import selector_errors, template_metadata_errors
from kplan.admission.validation.texts import dns_label, dns_subdomain
from kplan.api.quantity import parse

Spec = dict[str, Any]
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")


def claim_template_errors(template: Spec, path: str) -> Errors:
    """Return what is wrong with a claim template."""
    errors = template_metadata_errors(template.get("metadata", {}), f"{path}.metadata")
    return errors + claim_spec_errors(template.get("spec", {}), f"{path}.spec")


def claim_spec_errors(spec: Spec, path: str) -> Errors:
    """Return what is wrong with a claim."""
    modes = spec.get("accessModes", [])
    errors: Errors = []
    if not modes:
        errors.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    errors += selector_errors(spec.get("selector"), f"{path}.selector")
    errors += [not_supported(f"{path}.accessModes", mode, _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES]
    if "ReadWriteOncePod" in modes and {*modes} & {*_ACCESS_MODES} - {"ReadWriteOncePod"}:
        errors.append(forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"))
    amount = spec.get("resources", {}).get("requests", {}).get("storage")
    if amount is None:
        errors.append(required(f"{path}.resources[storage]"))
    elif parse(amount).nanos <= 0:
        errors.append(invalid(f"{path}.resources[storage]", amount, "must be greater than zero"))
    errors += _name_errors(spec.get("storageClassName", ""), f"{path}.storageClassName")
    errors += enum_errors(spec.get("volumeMode"), _VOLUME_MODES, f"{path}.volumeMode")
    return (
        errors
        + _source_errors(spec, path)
        + _name_errors(spec.get("volumeAttributesClassName", ""), f"{path}.volumeAttributesClassName")
    )


def _name_errors(name: str, path: str) -> Errors:
    return invalids(path, name, dns_subdomain(name)) if name else []


def _source_errors(spec: Spec, path: str) -> Errors:
    errors: Errors = []
    for key in ("dataSource", "dataSourceRef"):
        if key in spec:
            errors += _reference_errors(spec[key], f"{path}.{key}")
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is None or reference is None:
        return errors
    if reference.get("namespace"):
        errors.append(invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified"))
    elif any(source.get(key) != reference.get(key) for key in ("apiGroup", "kind", "name")):
        errors.append(invalid(path, {}, "must match dataSourceRef"))
    return errors


def _reference_errors(source: Spec, path: str) -> Errors:
    errors = [required(f"{path}.{key}") for key in ("name", "kind") if not source.get(key)]
    group = source.get("apiGroup", "")
    if not group and source.get("kind", "") != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(invalid(path, source.get("kind", ""), detail))
    errors += _name_errors(group, f"{path}.apiGroup")
    namespace = source.get("namespace", "")
    return errors + (invalids(f"{path}.namespace", namespace, dns_label(namespace)) if namespace else [])
