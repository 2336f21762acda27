"""Pods that are not in the cluster yet, validated and admitted as by an API server, with all that comes with them."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.admission.admit import Admitter
from kplan.admission.unknown_fields import unknown_fields
from kplan.admission.validation import validate_pod
from kplan.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kplan.api.kinds import type_of
from kplan.errors import ManifestError, Problem
from kplan.planner.placement import Origin
from kplan.snapshot.defaults import complete
from kplan.snapshot.model import Snapshot, object_name
from kplan.snapshot.model import Warning as InputWarning
from kplan.snapshot.storage_classes import with_default_class
from kplan.workloads.manifests import ManifestPod, Manifests
from kplan.workloads.volumes import generated_claims

_UID_SPACE = uuid.UUID("6b706c61-6e00-5000-8000-000000000000")
"""Name space of the uids that new pods get here: the same pod, the same uid."""


@dataclass(frozen=True, slots=True)
class IncomingPod:
    """A pod to place that the snapshot does not hold.

    Attributes
    ----------
    refused : why the API server would not take it; empty when it would
    """

    pod: Pod
    origin: Origin
    refused: str = ""


@dataclass(frozen=True)
class Incoming:
    """What manifests bring into the cluster.

    Attributes
    ----------
    pods : in reading order
    objects : other objects that scheduling reads: services, claims, budgets, replica sets, …
    """

    pods: tuple[IncomingPod, ...]
    objects: tuple[msgspec.Struct, ...]
    warnings: tuple[InputWarning, ...]


def admit_manifests(manifests: Manifests, snapshot: Snapshot) -> Incoming:
    """Put the pods of manifests through validation and admission.

    Raises
    ------
    ManifestError
        With everything that an API server would not accept as an object, each with file, document and JSON path.
    """
    if problems := pod_problems(manifests.pods):
        raise ManifestError(problems)
    objects = _applied([complete(obj, type_of(obj)) for obj in manifests.objects], snapshot)
    world = with_objects(snapshot, objects)
    admitter = Admitter(world)
    warnings = [*manifests.warnings, *_misspelt(manifests)]
    pods = []
    for each in manifests.pods:
        admitted = admitter.admit(each.pod)
        warnings += [warning for warning in admitted.warnings if warning not in warnings]
        pod = with_uid(admitted.pod)
        pod, claims = generated_claims(pod, world)
        objects += [complete(claim, type_of(claim)) for claim in claims]
        origin = Origin(each.file, each.document, each.kind, each.name)
        pods.append(IncomingPod(pod, origin, admitted.rejected or ""))
    return Incoming(tuple(pods), tuple(objects), tuple(warnings))


def _applied(objects: Sequence[msgspec.Struct], snapshot: Snapshot) -> list[msgspec.Struct]:
    """Return objects as the API server would then hold them.

    What exists keeps its status, and claims and volumes keep what they are bound to. Claims that are new get the
    default storage class if they name none.
    """
    classes = with_objects(snapshot, objects).storage_classes
    known: dict[str, dict[tuple[str, str], Any]] = {}
    applied: list[msgspec.Struct] = []
    for obj in objects:
        attribute = type_of(obj).attribute
        if attribute not in known:
            held = getattr(snapshot, attribute)
            known[attribute] = {(each.metadata.namespace, each.metadata.name): each for each in held}
        metadata = obj.metadata  # type: ignore[attr-defined] # every kind has it
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


def _misspelt(manifests: Manifests) -> Iterator[InputWarning]:
    """Warn of fields that no object of the kind has: an API server drops them, or refuses them when strict."""
    for item, struct in manifests.read:
        content = item.value()
        for problem in unknown_fields(content, struct):
            metadata = content.get("metadata") or {}
            name = object_name(item.kind, str(metadata.get("namespace", "")), str(metadata.get("name", "")))
            hint = f"; {problem.hint}" if problem.hint else ""
            yield InputWarning("UnknownField", name, f"{problem.json_path}: {problem.message}{hint}")


def pod_problems(pods: Sequence[ManifestPod]) -> list[Problem]:
    """List what an API server would not accept; the replicas of a workload say the same, so one speaks for all."""
    problems: list[Problem] = []
    seen: set[tuple[str, int | None, str, str]] = set()
    for each in pods:
        workload = (each.file, each.document, each.json_path, each.name)
        if workload in seen:
            continue
        seen.add(workload)
        problems += [
            Problem(
                problem.message,
                path=each.file,
                document=each.document,
                json_path=each.json_path + problem.json_path.removeprefix("$"),
                hint=problem.hint,
            )
            for problem in validate_pod(each.pod)
        ]
    return [*problems, *_twins(pods)]


def _twins(pods: Sequence[ManifestPod]) -> Iterator[Problem]:
    """Find pods that have the name of an earlier one, told once a workload."""
    first: dict[tuple[str, str], ManifestPod] = {}
    told: set[tuple[str, int | None, str]] = set()
    for each in pods:
        metadata = each.pod.metadata
        earlier = first.setdefault((metadata.namespace, metadata.name), each)
        workload = (each.file, each.document, each.json_path)
        if earlier is each or workload in told:
            continue
        told.add(workload)
        place = earlier.file + ("" if earlier.document is None else f" (document {earlier.document})")
        yield Problem(
            f"a second pod {metadata.namespace}/{metadata.name}; the first is in {place}",
            path=each.file,
            document=each.document,
            json_path=each.json_path,
            hint="give one of them another name or namespace",
        )


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
