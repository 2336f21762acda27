"""Manifests held against the objects that the cluster has: what is new about them, and what may not be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kplan.admission.fields import kind_named
from kplan.admission.judge import judge
from kplan.admission.validation.errors import FieldError
from kplan.api.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from kplan.api.batch import Job
from kplan.api.core import Pod, ReplicationController
from kplan.api.decode import convert
from kplan.api.kinds import split_api_version
from kplan.documents.base import InputWarning
from kplan.simulation.merging import merged, unseen_fields, without_dropped
from kplan.simulation.templates import canonical
from kplan.snapshot.defaults import DEFAULT_NAMESPACE
from kplan.snapshot.lean import lean
from kplan.snapshot.model import Snapshot, object_name
from kplan.workloads.autoscalers import Autoscalers, autoscaler_warnings
from kplan.workloads.expansion import labelled_job

ATTRIBUTES: Mapping[type, str] = {
    Deployment: "deployments",
    ReplicaSet: "replica_sets",
    StatefulSet: "stateful_sets",
    DaemonSet: "daemon_sets",
    Job: "jobs",
    ReplicationController: "replication_controllers",
    Pod: "pods",
}
"""Kinds that are changed in place, and where a snapshot has them."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_STATEFUL_SET_FIELDS = frozenset(
    {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    }
)
_STATEFUL_SET_FORBIDDEN = (
    "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template',"
    " 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are"
    " forbidden"
)
_IMMUTABLE = "field is immutable"


@dataclass(frozen=True)
class Update:
    """A manifest as an update."""

    key: str  #: KIND/NAMESPACE/NAME
    obj: Any  #: the object as it then is
    live: Any  #: the object as it was; None for a new one
    spec: Mapping[str, Any]  #: its ``spec`` as plain values, whole where the snapshot has it whole
    is_whole: bool  #: all fields of the live object could be compared
    unseen: tuple[str, ...] = ()  #: paths of fields that could not be
    refused: str = ""  #: why the API server would not take it; empty when it would
    content: Mapping[str, Any] = field(default_factory=dict)  #: the manifest
    names_replicas: bool = True  #: the manifest says how many replicas there shall be
    warnings: tuple[InputWarning, ...] = ()  #: what its autoscaler makes of that

    @property
    def is_new(self) -> bool:
        """Whether the cluster has no such object."""
        return self.live is None


def update_of(
    target: type[Any], content: Mapping[str, Any], snapshot: Snapshot, autoscalers: Autoscalers | None = None
) -> Update:
    """Hold a manifest against the cluster.

    Where an autoscaler owns the number of replicas, the live number stands when the manifest names none.

    Parameters
    ----------
    target : one of `ATTRIBUTES`
    content : the manifest, its namespace filled in
    autoscalers : those of the cluster and of the manifests; None for the cluster's
    """
    metadata = content.get("metadata") or {}
    namespace, name = str(metadata.get("namespace") or DEFAULT_NAMESPACE), str(metadata.get("name", ""))
    kind = target.__name__
    key = object_name(kind, namespace, name)
    wanted = content.get("spec") or {}
    names_replicas = wanted.get("replicas") is not None
    scalers = Autoscalers(snapshot.horizontal_pod_autoscalers) if autoscalers is None else autoscalers
    scaled_by = scalers.of(target.api_version, kind, namespace, name)
    live = _find(snapshot, target, namespace, name)
    if live is None:
        obj = convert(dict(content), target)
        if isinstance(obj, Job) and not wanted.get("manualSelector"):
            obj = labelled_job(obj)
        warnings = autoscaler_warnings(scaled_by, (kind, namespace, name), wanted.get("replicas"), None)
        refused = _words(kind, name, map(str, _errors(kind, metadata, wanted)))
        return Update(
            key,
            obj,
            None,
            wanted,
            is_whole=True,
            refused=refused,
            content=content,
            names_replicas=names_replicas,
            warnings=warnings,
        )
    whole = _whole(snapshot, key)
    is_whole = whole is not None
    last: Mapping[str, Any] = {} if whole is None else _last_applied(whole)
    if whole is None:
        seen = msgspec.to_builtins(lean(convert(dict(content), target))).get("spec") or {}
        unseen = tuple(f"spec.{path}" for path in unseen_fields(wanted, seen))
        before: Any = msgspec.to_builtins(live).get("spec") or {}
        after = merged(before, seen)
    else:
        unseen = ()
        before = whole.get("spec") or {}
        dropped = {field: item for field, item in last.items() if field != "replicas" or not scaled_by}
        after = merged(without_dropped(before, dropped, wanted), wanted)
    obj = convert({"metadata": msgspec.to_builtins(live.metadata), "spec": after}, target)
    obj = msgspec.structs.replace(obj, metadata=live.metadata, status=live.status)
    seen_metadata = msgspec.to_builtins(live.metadata)
    known = set(_errors(kind, seen_metadata, before))
    # The live object was taken as it is: what would be wrong with it is only what is not seen of it here.
    whole_after = after if whole is not None else merged(before, wanted)
    found = [each for each in _errors(kind, merged(seen_metadata, metadata), whole_after) if each not in known]
    refused = _words(kind, name, [*map(str, found), *_forbidden_changes(kind, before, after)])
    replicas = getattr(live.spec, "replicas", None)
    warnings = autoscaler_warnings(
        scaled_by,
        (kind, namespace, name),
        wanted.get("replicas"),
        1 if replicas is None else replicas,
        _number(last, "replicas"),
    )
    return Update(key, obj, live, after, is_whole, unseen, refused, content, names_replicas, warnings)


def _number(spec: Mapping[str, Any], field: str) -> int | None:
    found = spec.get(field)
    return found if isinstance(found, int) else None


def _find(snapshot: Snapshot, target: type[Any], namespace: str, name: str) -> Any:
    if target is Pod:
        return snapshot.pod_by_key.get(f"{namespace}/{name}")
    return next(
        (
            obj
            for obj in getattr(snapshot, ATTRIBUTES[target])
            if obj.metadata.name == name and obj.metadata.namespace == namespace
        ),
        None,
    )


def _whole(snapshot: Snapshot, key: str) -> Mapping[str, Any] | None:
    found = snapshot.whole.get(key)
    if isinstance(found, msgspec.Raw):
        decoded: Mapping[str, Any] = msgspec.json.decode(found)
        return decoded
    return found


def whole_specs(snapshot: Snapshot) -> dict[str, Mapping[str, Any]]:
    """Return the whole ``spec`` of the workloads that the snapshot has whole, by KIND/NAMESPACE/NAME."""
    found: dict[str, Mapping[str, Any]] = {}
    for key in snapshot.whole:
        whole = _whole(snapshot, key)
        spec = whole.get("spec") if whole is not None else None
        if isinstance(spec, Mapping):
            found[key] = spec
    return found


def _last_applied(whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the ``spec`` that kubectl applied last, as it notes it on the object."""
    annotations = (whole.get("metadata") or {}).get("annotations") or {}
    text = annotations.get(LAST_APPLIED)
    if not isinstance(text, str):
        return {}
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    spec = found.get("spec") if isinstance(found, dict) else None
    return spec if isinstance(spec, dict) else {}


def _errors(kind: str, metadata: Any, spec: Any) -> tuple[FieldError, ...]:
    """Return what is invalid in an object; nothing for pods, which admission changes before that is looked at."""
    api_kind = kind_named(_VERSIONS[kind], kind)
    if api_kind is None:
        return ()
    return judge({"metadata": metadata, "spec": spec}, api_kind, kind, DEFAULT_NAMESPACE).errors


def _words(kind: str, name: str, errors: Iterable[str]) -> str:
    """Return the API server's answer to an object with errors (422); empty where there are none."""
    texts = list(dict.fromkeys(errors))
    if not texts:
        return ""
    group = split_api_version(_VERSIONS[kind])[0]
    said = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return f'{kind}{"." if group else ""}{group} "{name}" is invalid: {said}'


def _forbidden_changes(kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the API server's words for what may not change; empty when it takes the change."""
    changed = {key for key in before.keys() | after.keys() if canonical(before.get(key)) != canonical(after.get(key))}
    errors: list[str] = []
    if kind in ("Deployment", "ReplicaSet", "DaemonSet") and "selector" in changed:
        errors.append(f"spec.selector: Invalid value: {_json(after.get('selector'))}: {_IMMUTABLE}")
    if kind == "StatefulSet" and changed - _STATEFUL_SET_FIELDS:
        errors.append(_STATEFUL_SET_FORBIDDEN)
    if kind == "Job":
        errors += [
            f"spec.{field}: Invalid value: {_json(after.get(field))}: {_IMMUTABLE}"
            for field in ("completions", "selector", "template", "completionMode", "podFailurePolicy")
            if field in changed and not _may_change(field, before, after)
        ]
    if kind == "Pod" and _pod_changes(before, after):
        errors.append(
            "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing"
            " tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
        )
    return errors


_VERSIONS = {
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "Job": "batch/v1",
    "ReplicationController": "v1",
    "Pod": "v1",
}


def _may_change(field: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Tell whether a job may have a field changed after all.

    The number of an indexed job may grow and shrink with its parallelism; where a suspended job runs may be changed
    before it has started. Upstream: validateCompletions, validatePodTemplateUpdate.
    """
    if field == "completions":
        return before.get("completionMode") == "Indexed" and after.get("completions") == after.get("parallelism")
    return field == "template" and bool(before.get("suspend"))


def _pod_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    def fixed(spec: Mapping[str, Any]) -> Any:
        found = canonical({key: item for key, item in spec.items() if key not in _POD_FIELDS})
        for group in ("containers", "initContainers"):
            for container in found.get(group, ()):
                container.pop("image", None)
        return found

    return bool(fixed(before) != fixed(after))


_POD_FIELDS = frozenset({"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates"})


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
