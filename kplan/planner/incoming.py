"""Pods that are not in the cluster yet, validated and admitted as by an API server, with all that comes with them."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from kplan.admission.podsecurity import NEWEST
from kplan.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kplan.api.kinds import type_of
from kplan.documents.placement import Origin
from kplan.errors import ManifestError
from kplan.planner.admitting import Admitting
from kplan.snapshot.defaults import complete
from kplan.snapshot.model import Snapshot
from kplan.snapshot.model import Warning as InputWarning
from kplan.snapshot.storage_classes import with_default_class
from kplan.workloads.claims import generated_claims
from kplan.workloads.manifests import Manifests, ManifestWorkload

_UID_SPACE = uuid.UUID("6b706c61-6e00-5000-8000-000000000000")
"""Name space of the uids that new pods get here: the same pod, the same uid."""


class IncomingPod(msgspec.Struct, frozen=True):
    """A pod to place that the snapshot does not hold."""

    pod: Pod
    origin: Origin
    refused: str = ""  #: why the API server would not take it; empty when it would
    more: int = 0  #: further replicas like it that are not looked at one by one, since they end as it does


class Incoming(msgspec.Struct, frozen=True):
    """What manifests bring into the cluster."""

    pods: tuple[IncomingPod, ...]  #: in reading order
    #: other objects that scheduling reads: services, claims, budgets, replica sets, …
    objects: tuple[msgspec.Struct, ...]
    warnings: tuple[InputWarning, ...]


def admit_manifests(manifests: Manifests, snapshot: Snapshot, *, minor: int = NEWEST) -> Incoming:
    """Put the pods of manifests through admission and validation, as an API server of a minor such as 36 does.

    Raises ManifestError with every pod that an API server finds invalid as it is written, with file, document, line and
    JSON path. Pods that are refused otherwise, or that workloads make, become refused pods.
    """
    admitting, objects = accepted_objects(manifests.objects, snapshot, minor)
    world = with_objects(snapshot, objects)
    pods = []
    for each in manifests.pods:
        admitted = admitting.admit(each)
        pod = with_uid(admitted.pod)
        pod, claims = generated_claims(pod, world)
        objects += [complete(claim, type_of(claim)) for claim in claims]
        pods.append(IncomingPod(pod, origin_of(each.workload), admitted.rejected or "", each.more))
    if wrong := [*admitting.problems, *admitting.uncountable]:
        raise ManifestError(wrong)
    warnings = list(manifests.warnings)
    warnings += [warning for warning in admitting.warnings if warning not in warnings]
    return Incoming(tuple(pods), tuple(objects), tuple(warnings))


def origin_of(workload: ManifestWorkload) -> Origin:
    """Return where an object stands that makes pods, or is one."""
    item = workload.item
    return Origin(item.path, item.document, workload.kind, workload.name, item.source().line or UNSET)


def accepted_objects(
    objects: Iterable[msgspec.Struct], snapshot: Snapshot, minor: int = NEWEST
) -> tuple[Admitting, list[msgspec.Struct]]:
    """Return the objects beside pods that the API server takes, and what admits the pods that come with them."""
    applied = _applied(objects, snapshot)
    admitting = Admitting(with_objects(snapshot, applied), snapshot, minor=minor)
    return admitting, [obj for obj in applied if admitting.takes(obj)]


def _applied(given: Iterable[msgspec.Struct], snapshot: Snapshot) -> list[msgspec.Struct]:
    """Return objects as the API server would then hold them.

    What exists keeps its status, and claims and volumes keep what they are bound to. Claims that are new get the
    default storage class if they name none.
    """
    objects: Sequence[Any] = [complete(obj, type_of(obj)) for obj in given]
    classes = with_objects(snapshot, objects).storage_classes
    known: dict[str, dict[tuple[str, str], Any]] = {}
    applied: list[msgspec.Struct] = []
    for obj in objects:
        attribute = type_of(obj).attribute
        if attribute not in known:
            held = getattr(snapshot, attribute)
            known[attribute] = {(each.metadata.namespace, each.metadata.name): each for each in held}
        metadata = obj.metadata
        older = known[attribute].get((metadata.namespace, metadata.name))
        if older is not None and isinstance(obj, PersistentVolumeClaim | PersistentVolume):
            applied.append(older)
        elif older is not None and "status" in obj.__struct_fields__:
            applied.append(replace(obj, status=older.status))
        elif isinstance(obj, PersistentVolumeClaim):
            applied.append(with_default_class(obj, classes))
        else:
            applied.append(obj)
    return applied


def with_uid(pod: Pod) -> Pod:
    """Return the pod with a uid, drawn from its name when it has none."""
    metadata = pod.metadata
    if metadata.uid:
        return pod
    uid = str(uuid.uuid5(_UID_SPACE, f"{metadata.namespace}/{metadata.name}"))
    return replace(pod, metadata=replace(metadata, uid=uid))


def with_objects(snapshot: Snapshot, objects: Iterable[msgspec.Struct]) -> Snapshot:
    """Return the snapshot with further objects; one of the same kind and name takes the place of the older."""
    added: dict[str, dict[tuple[str, str], Any]] = {}
    for obj in objects:
        metadata = obj.metadata  # type: ignore[attr-defined] # every kind has it
        added.setdefault(type_of(obj).attribute, {})[metadata.namespace, metadata.name] = obj
    if not added:
        return snapshot
    changes: dict[str, Any] = {}
    for attribute, newer in added.items():
        kept = tuple(
            obj for obj in getattr(snapshot, attribute) if (obj.metadata.namespace, obj.metadata.name) not in newer
        )
        changes[attribute] = (*kept, *newer.values())
    return dataclasses.replace(snapshot, **changes)
