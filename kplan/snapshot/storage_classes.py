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
    """Return the default class: the newest one with the annotation, then the first by name."""
    marked = [
        storage_class
        for storage_class in classes
        if any(storage_class.metadata.annotations.get(mark) == "true" for mark in _DEFAULT_MARKS)
    ]
    return min(marked, key=lambda storage_class: (-_created(storage_class), storage_class.metadata.name), default=None)


def _created(storage_class: StorageClass) -> int:
    when = storage_class.metadata.creation_timestamp
    return to_micros(when) if when else 0


def with_default_class(claim: PersistentVolumeClaim, classes: Sequence[StorageClass]) -> PersistentVolumeClaim:
    """Return the claim with the default class where it names none; an empty name means a volume without a class."""
    if claim.spec.storage_class_name is not None or ANNOTATION_CLASS in claim.metadata.annotations:
        return claim
    storage_class = default_class(classes)
    return (
        claim
        if storage_class is None
        else replace(claim, spec=replace(claim.spec, storage_class_name=storage_class.metadata.name))
    )
