"""Manifests compared with the cluster's objects: what they change, and which changes the API server refuses."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kplan.admission.fields import kind_named
from kplan.admission.judge import Judged, invalid_words, judge
from kplan.admission.validation.apps import recreate_errors
from kplan.admission.validation.errors import FieldError
from kplan.api.autoscaling import HorizontalPodAutoscaler
from kplan.api.batch import Job
from kplan.api.core import Pod
from kplan.api.decode import convert
from kplan.api.kinds import CHANGED_IN_PLACE
from kplan.api.references import object_name
from kplan.documents.base import InputWarning
from kplan.simulation.desired import RECREATE_GATE
from kplan.simulation.immutable import IsOn, forbidden_changes
from kplan.simulation.merging import merged, unseen_fields, without_dropped
from kplan.snapshot.defaults import DEFAULT_NAMESPACE
from kplan.snapshot.lean import lean
from kplan.snapshot.model import Snapshot
from kplan.workloads.autoscalers import Autoscalers, autoscaler_warnings
from kplan.workloads.expansion import labelled_job

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Update(msgspec.Struct, frozen=True):
    """A manifest as an update of the cluster's object, or as a new object."""

    key: str  #: KIND/NAMESPACE/NAME
    obj: Any  #: the object after the update
    live: Any  #: the object before the update; None for a new one
    spec: Mapping[str, Any]  #: ``spec`` after the update as plain values, whole where the snapshot has it whole
    is_whole: bool  #: all fields of the live object could be compared
    unseen: tuple[str, ...] = ()  #: paths of fields that could not be compared
    refused: str = ""  #: why the API server refuses it; empty when it accepts it
    content: Mapping[str, Any] = {}  #: the manifest
    names_replicas: bool = True  #: the manifest sets the number of replicas
    scaled_by: tuple[HorizontalPodAutoscaler, ...] = ()  #: its autoscalers
    warnings: tuple[InputWarning, ...] = ()  #: where an autoscaler sets another number of replicas

    @property
    def is_new(self) -> bool:
        """Whether the cluster has no such object."""
        return self.live is None


def update_of(
    target: type[Any],
    content: Mapping[str, Any],
    snapshot: Snapshot,
    autoscalers: Autoscalers | None = None,
    *,
    is_on: IsOn,
) -> Update:
    """Return the update that a manifest makes to the cluster.

    Where an autoscaler owns the number of replicas, the live number remains when the manifest sets none.

    Parameters
    ----------
    target : one of `CHANGED_IN_PLACE`
    content : the manifest, its namespace filled in
    autoscalers : those of the cluster and of the manifests; None for the cluster's
    is_on : tells whether a feature gate is on
    """
    metadata = content.get("metadata") or {}
    namespace, name = str(metadata.get("namespace") or DEFAULT_NAMESPACE), str(metadata.get("name", ""))
    kind = target.__name__
    key = object_name(kind, namespace, name)
    wanted = content.get("spec") or {}
    names_replicas = wanted.get("replicas") is not None
    scalers = Autoscalers(snapshot.horizontal_pod_autoscalers) if autoscalers is None else autoscalers
    scaled_by = scalers.of(CHANGED_IN_PLACE[target].api_version, kind, namespace, name)
    live = _find(snapshot, target, namespace, name)
    if live is None:
        obj = convert(dict(content), target)
        if isinstance(obj, Job):
            obj = _new_job(obj, wanted)
        warnings = autoscaler_warnings(scaled_by, (kind, namespace, name), wanted.get("replicas"), None)
        refused = _words(target, name, [*_errors(target, metadata, wanted), *_gated(target, {}, wanted, is_on)])
        return Update(
            key,
            obj,
            None,
            wanted,
            is_whole=True,
            refused=refused,
            content=content,
            names_replicas=names_replicas,
            scaled_by=scaled_by,
            warnings=warnings,
        )
    whole = whole_object(snapshot, key)
    last: Mapping[str, Any] = {} if whole is None else last_applied(whole)
    if whole is None:
        before, after, unseen = _lean_specs(target, content, live)
    else:
        before, unseen = whole.get("spec") or {}, ()
        dropped = {field: item for field, item in last.items() if field != "replicas" or not scaled_by}
        after = merged(without_dropped(before, dropped, wanted), wanted)
    obj = convert({"metadata": msgspec.to_builtins(live.metadata), "spec": after}, target)
    status = getattr(live, "status", None)  # nothing reads that of a daemon set
    obj = msgspec.structs.replace(obj, metadata=live.metadata, **({} if status is None else {"status": status}))
    live_metadata = msgspec.to_builtins(live.metadata)
    known = set(_errors(target, live_metadata, before))
    stored_before, stored_after = (_with_defaults(target, live_metadata, spec) for spec in (before, after))
    # The API server accepted the live object: errors in it come only from fields that the snapshot lacks.
    whole_after = after if whole is not None else merged(before, wanted)
    errors = [error for error in _errors(target, merged(live_metadata, metadata), whole_after) if error not in known]
    errors += _gated(target, before, whole_after, is_on)
    refused = _words(target, name, [*errors, *forbidden_changes(kind, stored_before, stored_after, status, is_on)])
    replicas = getattr(live.spec, "replicas", None)
    current, applied = 1 if replicas is None else replicas, _number(last, "replicas")
    warnings = autoscaler_warnings(scaled_by, (kind, namespace, name), wanted.get("replicas"), current, applied)
    return Update(
        key, obj, live, after, whole is not None, unseen, refused, content, names_replicas, scaled_by, warnings
    )


def _lean_specs(
    target: type[Any], content: Mapping[str, Any], live: Any
) -> tuple[Mapping[str, Any], Mapping[str, Any], tuple[str, ...]]:
    """Return the specs before and after the update of an object that the snapshot does not have whole.

    The last item has the paths of fields that could not be compared.
    """
    decoded = msgspec.to_builtins(lean(convert(dict(content), target))).get("spec") or {}
    before = msgspec.to_builtins(live).get("spec") or {}
    unseen = unseen_fields(content.get("spec") or {}, decoded)
    return before, merged(before, decoded), tuple(f"spec.{path}" for path in unseen)


def _new_job(job: Job, wanted: Mapping[str, Any]) -> Job:
    """Return a job with the API server's defaults for its pod labels and its pod replacement policy."""
    if not wanted.get("manualSelector"):
        job = labelled_job(job)
    if job.spec.pod_replacement_policy is None and wanted.get("podFailurePolicy"):
        return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, pod_replacement_policy="Failed"))
    return job


def _number(spec: Mapping[str, Any], field: str) -> int | None:
    number = spec.get(field)
    return number if isinstance(number, int) else None


def _find(snapshot: Snapshot, target: type[Any], namespace: str, name: str) -> Any:
    if target is Pod:
        return snapshot.pod_by_key.get(f"{namespace}/{name}")
    return next(
        (
            obj
            for obj in getattr(snapshot, CHANGED_IN_PLACE[target].attribute)
            if obj.metadata.name == name and obj.metadata.namespace == namespace
        ),
        None,
    )


def whole_object(snapshot: Snapshot, key: str) -> Mapping[str, Any] | None:
    """Return a workload with all its fields; None where the snapshot does not have it whole."""
    whole = snapshot.whole.get(key)
    if isinstance(whole, msgspec.Raw):
        decoded: Mapping[str, Any] = msgspec.json.decode(whole)
        return decoded
    return whole


def whole_specs(snapshot: Snapshot) -> dict[str, Mapping[str, Any]]:
    """Return the whole ``spec`` of the workloads that the snapshot has whole, by KIND/NAMESPACE/NAME."""
    specs: dict[str, Mapping[str, Any]] = {}
    for key in snapshot.whole:
        if key.startswith("ControllerRevision/"):
            continue
        whole = whole_object(snapshot, key)
        spec = whole.get("spec") if whole is not None else None
        if isinstance(spec, Mapping):
            specs[key] = spec
    return specs


def last_applied(whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the ``spec`` that kubectl applied last, as it notes it on the object; empty where it does not."""
    annotations = (whole.get("metadata") or {}).get("annotations") or {}
    text = annotations.get(LAST_APPLIED)
    if not isinstance(text, str):
        return {}
    try:
        applied = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    spec = applied.get("spec") if isinstance(applied, dict) else None
    return spec if isinstance(spec, dict) else {}


def _judged(target: type[Any], metadata: Any, spec: Any) -> Judged | None:
    kind = target.__name__
    api_kind = kind_named(CHANGED_IN_PLACE[target].api_version, kind)
    return None if api_kind is None else judge({"metadata": metadata, "spec": spec}, api_kind, kind, DEFAULT_NAMESPACE)


def _errors(target: type[Any], metadata: Any, spec: Any) -> tuple[FieldError, ...]:
    """Return what is invalid in an object; empty for pods, which admission changes before they are validated."""
    judged = _judged(target, metadata, spec)
    return () if judged is None else judged.errors


def _gated(target: type[Any], before: Mapping[str, Any], after: Mapping[str, Any], is_on: IsOn) -> list[FieldError]:
    """Return what is invalid in a spec because a feature gate is off; what was stored before stays."""
    if target.__name__ != "StatefulSet" or is_on(RECREATE_GATE):
        return []
    known = set(recreate_errors({"spec": before}))
    return [error for error in recreate_errors({"spec": after}) if error not in known]


def _with_defaults(target: type[Any], metadata: Any, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the spec of a workload with the API server's defaults, which a live object from a file may lack."""
    judged = None if target is Pod else _judged(target, copy.deepcopy(metadata), copy.deepcopy(spec))
    return judged.content.get("spec", {}) if judged is not None and judged.is_readable else spec


def _words(target: type[Any], name: str, errors: Sequence[FieldError | str]) -> str:
    """Return the API server's answer to an object with errors; empty where there are none."""
    return invalid_words(target.__name__, CHANGED_IN_PLACE[target].group, name, errors) if errors else ""
