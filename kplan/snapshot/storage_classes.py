"""The default storage class of claims that name none (plugin/pkg/admission/storage/storageclass/setdefault)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kplan.api.core import PersistentVolumeClaim
from kplan.api.storage import StorageClass
from kplan.api.time import to_micros
from kplan.api.wellknown import ANNOTATION_CLASS

_DEFAULT_MARKS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def default_class(classes: Sequence[StorageClass]) -> StorageClass | None:
    """Return the class that claims without one get: the newest of those marked so, then the first by name."""
    marked = [
        storage_class
        for storage_class in classes
        if any(storage_class.metadata.annotations.get(mark) == "true" for mark in _DEFAULT_MARKS)
    ]
    return min(marked, key=lambda each: (-_created(each), each.metadata.name), default=None)


def _created(found: StorageClass) -> int:
    when = found.metadata.creation_timestamp
    return to_micros(when) if when else 0


def with_default_class(claim: PersistentVolumeClaim, classes: Sequence[StorageClass]) -> PersistentVolumeClaim:
    """Return the claim with the default class, if it names none; an empty name asks for a volume without a class."""
    if claim.spec.storage_class_name is not None or ANNOTATION_CLASS in claim.metadata.annotations:
        return claim
    found = default_class(classes)
    return claim if found is None else replace(claim, spec=replace(claim.spec, storage_class_name=found.metadata.name))
