"""Persistent volume claims (pkg/apis/core/validation ValidatePersistentVolumeClaimSpec)."""

from __future__ import annotations

from kplan.admission.validation.checks import Object, field, filled, must, needed, not_negative, one_of, rules
from kplan.admission.validation.errors import Errors, forbidden, invalid, not_supported, required
from kplan.admission.validation.metadata import metadata, selector_errors, template_metadata
from kplan.admission.validation.texts import LABEL, SUBDOMAIN
from kplan.api.quantity import parse

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
positive = must(lambda amount: parse(amount).nanos > 0, "must be greater than zero")


def _access_errors(spec: Object, path: str) -> Errors:
    modes, at = spec.get("accessModes", []), f"{path}.accessModes"
    if not modes:
        yield required(at, "at least 1 access mode is required")
    yield from field("selector", selector_errors)(spec, path)
    yield from (not_supported(at, mode, _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and {*modes} & {*_ACCESS_MODES} - {"ReadWriteOncePod"}:
        yield forbidden(at, "may not use ReadWriteOncePod with other access modes")


def _storage_errors(spec: Object, path: str) -> Errors:
    amount, at = spec.get("resources", {}).get("requests", {}).get("storage"), f"{path}.resources[storage]"
    yield from [required(at)] if amount is None else positive(amount, at)


def _kind_errors(source: Object, path: str) -> Errors:
    kind = source.get("kind", "")
    if not source.get("apiGroup", "") and kind != "PersistentVolumeClaim":
        yield invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")


def _equality_errors(spec: Object, path: str) -> Errors:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is None or reference is None:
        return
    if reference.get("namespace"):
        yield invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified")
    elif any(source.get(key) != reference.get(key) for key in ("apiGroup", "kind", "name")):
        yield invalid(path, {}, "must match dataSourceRef")


claim_spec_errors = rules(
    _access_errors,
    _storage_errors,
    filled("storageClassName", SUBDOMAIN),
    field("volumeMode", one_of("Block", "Filesystem")),
    field(
        "dataSource dataSourceRef",
        needed("name kind"),
        _kind_errors,
        filled("apiGroup", SUBDOMAIN),
        filled("namespace", LABEL),
    ),
    _equality_errors,
    filled("volumeAttributesClassName", SUBDOMAIN),
)
_spec = field("spec", claim_spec_errors, absent={})
claim_template_errors = rules(field("metadata", template_metadata), _spec)
claim_errors = rules(metadata(), field("metadata", field("generation", not_negative)), _spec)
"""The check of a PersistentVolumeClaim."""
