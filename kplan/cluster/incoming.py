"""New pods, validated and admitted as by an API server, and the other objects of their manifests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from kplan.admission import Admission, Admitter, Named
from kplan.admission.gates import NEWEST
from kplan.admission.limits import Rejection
from kplan.admission.stored import WholeTemplate
from kplan.api.core import PersistentVolume, PersistentVolumeClaim, Pod, ResourceQuota, ResourceQuotaStatus, Service
from kplan.api.field_errors import FieldError, invalid_words
from kplan.api.kinds import POD_MAKERS, by_kind_and_name, metadata_of, type_of
from kplan.api.names import generated_uid, object_name
from kplan.api.scheduling import PodGroup, PriorityClass
from kplan.api.storage import StorageClass
from kplan.documents.placement import Origin
from kplan.errors import ManifestError, Problem
from kplan.facts import InputWarning
from kplan.framework.listers import by_key, key_of
from kplan.snapshot.defaults import complete, global_default, resolve_priority, with_default_class
from kplan.snapshot.model import Snapshot
from kplan.workloads import ManifestPod, Manifests, ManifestWorkload
from kplan.workloads.new_pods import generated_claims

if TYPE_CHECKING:
    from kplan.cluster.services import Services

_WORKLOADS = frozenset({"Pod", *POD_MAKERS})  #: kinds that are admitted as workloads, not as other objects

_MAKERS = {"Deployment": ("apps", "replicasets"), "CronJob": ("batch", "jobs")}
"""Kinds whose controller creates pods through another object: group and resource of that object."""


class Admitting:
    """Admits pods in the given order, as an API server of a minor version; each counts in the quotas of the following.

    The pods of a workload differ in their names only, so only the first one is validated. What exists already counts in
    quotas; None for the whole snapshot.
    """

    def __init__(self, snapshot: Snapshot, existing: Snapshot | None = None, *, minor: int = NEWEST) -> None:
        self.minor = minor
        self.problems: list[Problem] = []  #: validation errors of pods in manifests, not of workloads' pods
        self.uncountable: list[Problem] = []  #: resource amounts of accepted pods that overflow int64
        self.warnings: list[InputWarning] = []  #: without duplicates
        self._admitter = Admitter(snapshot, existing, minor=minor)
        self._snapshot = existing or snapshot
        self._existing: dict[str, set[tuple[str, str]]] = {}
        self._templates: dict[int, WholeTemplate] = {}
        self._refused: dict[tuple[int, Named], str] = {}

    def admit(self, pod: ManifestPod) -> Admission:
        workload = pod.workload
        refused = self.refusal_of(workload)
        if not refused and workload.kind in _MAKERS:
            owner = next(iter(workload.created.metadata.owner_references), workload)
            refused = self._refusal(workload, Named(*_MAKERS[workload.kind], workload.namespace, owner.name))
        return Admission(pod.pod, (), refused) if refused else self.admit_pod(pod.pod, workload)

    def refusal_of(self, workload: ManifestWorkload) -> str:
        """Return why the API server refuses the workload itself, so that it has no pods; empty if it accepts it."""
        if workload.kind == "Pod":
            return ""
        return self._refusal(workload, Named(workload.group, workload.resource, workload.namespace, workload.name))

    def _refusal(self, workload: ManifestWorkload, named: Named) -> str:
        key = (id(workload), named)
        if key not in self._refused:
            self._refused[key] = self._admitter.refusal_of_object(named, self.warnings)
        return self._refused[key]

    def accepts(self, obj: msgspec.Struct) -> bool:
        """Return whether the API server accepts an object other than a workload, and count it; warn if it does not."""
        kind = type_of(obj)
        metadata = metadata_of(obj)
        if not kind.is_namespaced or kind.name in _WORKLOADS:
            return True
        if kind.attribute not in self._existing:
            self._existing[kind.attribute] = {key_of(one) for one in self._snapshot.objects(kind.attribute)}
        if (metadata.namespace, metadata.name) in self._existing[kind.attribute]:
            return True
        named = Named(kind.group, kind.resource, metadata.namespace, metadata.name)
        if words := self._admitter.refusal_of_object(named, self.warnings, obj):
            self.warnings.append(_refused(obj, words))
        return not words

    def admit_pod(self, pod: Pod, workload: ManifestWorkload) -> Admission:
        if id(workload) not in self._templates:
            self._templates[id(workload)] = WholeTemplate(workload.template)
        whole = self._templates[id(workload)]
        is_first = whole.errors is None
        admission = self._admitter.admit(pod, whole)
        if is_first and workload.kind == "Pod":
            self.problems += dict.fromkeys(map(workload.locate, whole.errors or ()))
        if is_first and not admission.rejected:
            self.uncountable += workload.uncountable()
        self.warnings += [warning for warning in admission.warnings if warning not in self.warnings]
        return admission


class IncomingPod(msgspec.Struct, frozen=True):
    """A new pod to place."""

    pod: Pod
    origin: Origin
    refused: str = ""  #: why the API server refuses it; empty if it accepts it
    more: int = 0  #: number of further replicas, which are only counted: they have the same outcome


class Incoming(msgspec.Struct, frozen=True):
    """The new pods and objects of manifests."""

    pods: tuple[IncomingPod, ...]  #: in reading order
    #: other objects that scheduling reads: services, claims, budgets, replica sets, …
    objects: tuple[msgspec.Struct, ...]
    warnings: tuple[InputWarning, ...]


def admit_manifests(
    manifests: Manifests, snapshot: Snapshot, *, minor: int = NEWEST, keeps_groups: bool = False
) -> Incoming:
    """Put the pods of manifests through admission and validation.

    Pods that admission forbids, and invalid pods of workloads, are in the result as refused pods. The API server drops
    the name of a pod's group while the gate GenericWorkload is off, unless it `keeps_groups`. Raises ManifestError with
    every pod manifest that is invalid, with file, document, line and JSON path.
    """
    admitting, objects = accepted_objects(manifests.objects, snapshot, minor)
    combined = with_objects(snapshot, objects)
    pods = []
    workloads = {id(one.workload): one.workload for one in manifests.pods}
    origins = {key: origin_of(workload) for key, workload in workloads.items()}
    for manifest_pod in manifests.pods:
        admitted = admitting.admit(manifest_pod)
        pod = with_uid(admitted.pod)
        if pod.spec.scheduling_group is not None and not keeps_groups:
            pod = replace(pod, spec=replace(pod.spec, scheduling_group=None))
        pod, claims = generated_claims(pod, combined)
        objects += [complete(claim, type_of(claim)) for claim in claims]
        origin = origins[id(manifest_pod.workload)]
        pods.append(IncomingPod(pod, origin, admitted.rejected or "", manifest_pod.more))
    if wrong := [*admitting.problems, *admitting.uncountable]:
        raise ManifestError(wrong)
    warnings = list(manifests.warnings)
    warnings += [warning for warning in admitting.warnings if warning not in warnings]
    return Incoming(tuple(pods), tuple(objects), tuple(warnings))


def origin_of(workload: ManifestWorkload) -> Origin:
    item = workload.item
    return Origin(item.path, item.document, workload.kind, workload.name, item.line_of() or UNSET)


def accepted_objects(
    objects: Iterable[msgspec.Struct], snapshot: Snapshot, minor: int = NEWEST
) -> tuple[Admitting, list[msgspec.Struct]]:
    """Return the objects that the API server accepts, and the admission for the pods of the same manifests."""
    applied, refused = _applied(objects, snapshot, minor)
    admitting = Admitting(with_objects(snapshot, applied), snapshot, minor=minor)
    admitting.warnings += refused
    return admitting, [obj for obj in applied if admitting.accepts(obj)]


def _applied(
    objects: Iterable[msgspec.Struct], snapshot: Snapshot, minor: int
) -> tuple[list[msgspec.Struct], list[InputWarning]]:
    """Return objects as the API server stores them, and warnings about changes that it refuses."""
    completed: Sequence[Any] = [complete(obj, type_of(obj)) for obj in objects]
    there = with_objects(snapshot, completed)
    known: dict[str, dict[tuple[str, str], Any]] = {}
    services: Services | None = None
    applied: list[msgspec.Struct] = []
    refused: list[InputWarning] = []
    for obj in _with_priorities(completed, there, snapshot, refused):
        attribute = type_of(obj).attribute
        if attribute not in known:
            held = getattr(snapshot, attribute)
            known[attribute] = by_key(held)
        metadata = obj.metadata
        older, errors = known[attribute].get((metadata.namespace, metadata.name)), list[FieldError]()
        if isinstance(obj, Service):
            from kplan.cluster.services import Services

            services = services or Services(snapshot, minor)
            obj, errors = services.apply(older, obj)  # noqa: PLW2901 - what is stored
        elif older is not None:
            from kplan.admission.updates import update_errors

            errors = update_errors(older, obj)
        if errors:
            words = invalid_words(type_of(obj).name, type_of(obj).group, metadata.name, errors)
            refused.append(_refused(obj, words))
        else:
            applied.append(_as_stored(obj, older, there.storage_classes))
    return applied, refused


def _as_stored(obj: Any, older: Any, classes: Sequence[StorageClass]) -> Any:
    """Return an applied object with what the API server keeps of an older one; a new claim gets the default class.

    Existing objects keep their status, and existing claims and volumes their bindings.
    """
    if isinstance(obj, ResourceQuota) and (older is None or obj.spec != older.spec):
        return replace(obj, status=ResourceQuotaStatus())  # its controller counts anew
    if older is None:
        return with_default_class(obj, classes) if isinstance(obj, PersistentVolumeClaim) else obj
    if isinstance(obj, PersistentVolumeClaim | PersistentVolume):
        return older
    if isinstance(obj, PriorityClass):
        return replace(obj, preemption_policy=older.preemption_policy)
    return replace(obj, status=older.status) if "status" in obj.__struct_fields__ else obj


def _with_priorities(
    objects: Iterable[Any], snapshot: Snapshot, before: Snapshot, refused: list[InputWarning]
) -> Iterator[Any]:
    """Yield objects, pod groups with the priority of their class; note a warning where the API server refuses one.

    Upstream: plugin/pkg/admission/priority admitPodGroup, validatePriorityClass.
    """
    classes = {one.metadata.name: one for one in before.priority_classes}
    for obj in objects:
        if isinstance(obj, PriorityClass):
            name, first = obj.metadata.name, global_default(classes.values())
            if obj.global_default and first is not None and first.metadata.name != name:
                words = f"PriorityClass {first.metadata.name} is already marked as default. Only one default can exist"
                refused.append(_forbidden(obj, words))
                continue
            classes[name] = obj
        if not isinstance(obj, PodGroup):
            yield obj
            continue
        spec, words = obj.spec, ""
        resolved = resolve_priority(spec.priority_class_name, snapshot.priority_classes)
        if resolved is None and snapshot.knows_all("priority_classes"):
            words = f"no PriorityClass with name {spec.priority_class_name} was found"
        elif resolved is not None and spec.priority not in (None, resolved.priority):
            computed = f"the priority computed ({resolved.priority}) based on the priority class set in the spec"
            words = f"priority set in the pod group ({spec.priority}) must match {computed}"
        if words:
            refused.append(_forbidden(obj, words))
        elif resolved is None:
            yield obj
        else:
            named = replace(spec, priority=resolved.priority, priority_class_name=resolved.class_name)
            yield replace(obj, spec=named)


def _forbidden(obj: PriorityClass | PodGroup, words: str) -> InputWarning:
    kind = type_of(obj)
    return _refused(obj, Rejection(words).answer(kind.group, kind.resource, obj.metadata.name))


def _refused(obj: msgspec.Struct, words: str) -> InputWarning:
    kind, metadata = type_of(obj), metadata_of(obj)
    return InputWarning("Refused", object_name(kind.name, metadata.namespace, metadata.name), words)


def with_uid(pod: Pod) -> Pod:
    """Return the pod with a uid; one that has none gets it from its name."""
    metadata = pod.metadata
    if metadata.uid:
        return pod
    uid = generated_uid(metadata.namespace, metadata.name)
    return replace(pod, metadata=replace(metadata, uid=uid))


def with_objects(snapshot: Snapshot, objects: Iterable[msgspec.Struct]) -> Snapshot:
    """Return the snapshot with further objects, which replace older ones of the same kind and name."""
    added = by_kind_and_name(objects)
    if not added:
        return snapshot
    changes: dict[str, Any] = {}
    for attribute, newer in added.items():
        others = (obj for obj in getattr(snapshot, attribute) if key_of(obj) not in newer)
        changes[attribute] = (*others, *newer.values())
    return replace(snapshot, **changes)
