"""The question which pods manifests create: as stored, what filled in their fields, or why they are refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec

from kplan.admission import Admission
from kplan.admission.gates import NEWEST
from kplan.admission.stored import FilledField, changes_between, created_pod, filled_in
from kplan.api.core import Pod
from kplan.api.quantity import grouped
from kplan.cluster.field_lines import placed_warnings
from kplan.cluster.incoming import Admitting, accepted_objects, with_objects, with_uid
from kplan.course.asking import PLAIN, Showing
from kplan.course.subject import Subject
from kplan.documents.files import PodsMade, PodSource, PodsReport, PodsSummary
from kplan.errors import ManifestError, Problem, UsageError
from kplan.facts import InputWarning
from kplan.questions.base import Question
from kplan.reading.arguments import Manifest, Number
from kplan.snapshot.model import Snapshot
from kplan.workloads import ManifestPod, Manifests, ManifestWorkload
from kplan.workloads.manifests import ReadOptions, load_manifests


class Pods(Question, frozen=True):
    """Asks which pods these manifests would create, as the API server would store them.

    Attributes
    ----------
    manifests : files, directories or objects
    namespace : for objects that name none
    replicas : the number of pods of each workload, in place of its own
    """

    manifests: tuple[Manifest, ...]
    namespace: str = ""
    replicas: Number | None = None

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> PodsReport:
        if not self.manifests:
            raise UsageError("no manifest given", hint="name manifests")
        snapshot, minor = subject.base.objects, subject.base.release.number
        options = ReadOptions(snapshot=snapshot, minor=minor, namespace=self.namespace, replicas=self.replicas)
        return pods_report(load_manifests(self.manifests, options), snapshot, minor=minor)


class StoredPod(msgspec.Struct, frozen=True):
    """Pods of one object that differ in their names only."""

    #: the pod of the object's template as the API server would store it; for a pod the pod itself
    object: dict[str, Any]
    #: the first pod with everything that its controller adds: labels, claims, tolerations, its node
    as_created: dict[str, Any]
    refusal: str  #: the message with which the API server refuses them; empty if it accepts them
    changes: tuple[FilledField, ...]  #: what of `as_created` is not in the manifest, and what filled it in
    origin: PodSource  #: the object of the pods
    count: int = 1  #: the number of these pods; 0 if the object creates none now


def stored_pods(
    manifests: Manifests, snapshot: Snapshot, *, refuse_objects: bool = True, minor: int = NEWEST
) -> tuple[list[StoredPod], list[InputWarning]]:
    """Return the pods of manifests, in reading order, and warnings; pods of one object that end alike are one entry.

    Raises ManifestError with every object that the API server would refuse; workloads only with `refuse_objects`.
    """
    admitting, objects = accepted_objects(manifests.objects, snapshot, minor)
    combined = with_objects(snapshot, objects)
    warnings = list(manifests.warnings)
    pods = grouped((id(pod.workload), pod) for pod in manifests.pods)
    stored: list[StoredPod] = []
    problems: list[Problem] = []
    for workload in manifests.workloads:
        refused = admitting.refusal_of(workload)
        if refused and refuse_objects:
            problems.append(workload.item.locate(Problem(refused, json_path="$.metadata.name")))
            continue
        stored += _of_workload(workload, pods.get(id(workload), []), admitting, combined, refused)
    warnings += [warning for warning in admitting.warnings if warning not in warnings]
    if problems or admitting.problems:
        raise ManifestError([*problems, *admitting.problems])
    return stored, warnings


def _of_workload(
    workload: ManifestWorkload, pods: Sequence[ManifestPod], admitting: Admitting, snapshot: Snapshot, refused: str
) -> Iterator[StoredPod]:
    item = workload.item
    origin = PodSource(
        file=item.path,
        document=item.document,
        line=item.line_of() or None,
        kind=workload.kind,
        namespace=workload.namespace,
        name=workload.name,
    )
    admitted = [(pod, admitting.admit(pod)) for pod in pods]
    groups = [[*alike] for _, alike in groupby(admitted, key=lambda one: _message(one[1]))]
    outcomes = [(alike[0][0].pod, alike[0][1], sum(1 + pod.more for pod, _ in alike)) for alike in groups]
    if not outcomes:
        alone = Admitting(snapshot, minor=admitting.minor).admit_pod(workload.created, workload)
        outcomes = [(workload.created, alone, 0)]
    for first, admission, number in outcomes:
        as_created, changes = _steps(workload, first, admission, admitting.minor)
        as_stored = as_created
        if workload.kind != "Pod":
            alone = Admitting(snapshot, minor=admitting.minor).admit_pod(workload.sample, workload)
            as_stored, _ = _steps(workload, workload.sample, alone, admitting.minor)
        yield StoredPod(as_stored, as_created, refused or admission.rejected or "", changes, origin, number)


def _message(admission: Admission) -> str:
    """Return why a pod is refused, without its name; empty for one that is accepted."""
    return (admission.rejected or "").replace(f'"{admission.pod.metadata.name}"', "")


def _steps(
    workload: ManifestWorkload, pod: Pod, admission: Admission, minor: int
) -> tuple[dict[str, Any], tuple[FilledField, ...]]:
    """Return the pod as the API server stores it, and its differences from the manifest, step by step."""
    spec = workload.item.value().get("spec", {}) if workload.kind == "StatefulSet" else {}
    after = created_pod(workload.template, pod, service_name=str(spec.get("serviceName") or ""))
    changes: list[FilledField] = []
    if workload.kind != "Pod":
        written = {key: workload.template.get(key, {}) for key in ("metadata", "spec")}
        source = f"{workload.kind} {workload.namespace}/{workload.name}"
        changes += changes_between({"apiVersion": "v1", "kind": "Pod", **written}, after, source)
    for source, step in filled_in(after, admission.stages, admission.account, minor):
        changes += changes_between(after, step, source)
        after = step
    after["metadata"]["uid"] = with_uid(pod).metadata.uid
    return after, tuple(changes)


def pods_report(manifests: Manifests, snapshot: Snapshot, *, minor: int = NEWEST) -> PodsReport:
    """Return the PodsReport; parameters and errors as `stored_pods`, but refused workloads are no error."""
    stored, warnings = stored_pods(manifests, snapshot, refuse_objects=False, minor=minor)
    groups = tuple(
        PodsMade(source=pod.origin, count=pod.count, refusal=pod.refusal, object=pod.as_created, changes=pod.changes)
        for pod in stored
    )
    n_refused = sum(group.count for group in groups if group.refusal)
    return PodsReport(
        cluster=snapshot.source,
        summary=PodsSummary(pods=sum(group.count for group in groups), refused=n_refused),
        pods=groups,
        skipped=manifests.skipped,
        warnings=placed_warnings(warnings, manifests),
    )
