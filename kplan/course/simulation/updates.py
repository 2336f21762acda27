"""Manifests compared with the cluster's objects: what they change, and which changes the API server refuses.

Upstream of what may not change: ValidateDeploymentUpdate, ValidateReplicaSetUpdate, ValidateDaemonSetSpecUpdate and
ValidateStatefulSetUpdate in pkg/apis/apps/validation; ValidateJobSpecUpdate in pkg/apis/batch/validation, with
validationOptionsForJob in pkg/registry/batch/job/strategy.go; ValidatePodUpdate in pkg/apis/core/validation.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kplan.admission.decoding import emptiness, kind_named
from kplan.admission.gates import NEWEST
from kplan.admission.judge import Judged, judge
from kplan.admission.updates import IMMUTABLE
from kplan.admission.validation.pods import FIRST_WITH_RECREATE
from kplan.api.affinity import REQUIRED
from kplan.api.core import GRACE_SECONDS, Pod
from kplan.api.decode import convert
from kplan.api.field_errors import FieldError, go_json, invalid_words
from kplan.api.kinds import CHANGED_IN_PLACE
from kplan.api.labels import NOT_READY, UNREACHABLE
from kplan.api.meta import LabelSelector, is_true
from kplan.api.names import object_name
from kplan.api.workloads import HorizontalPodAutoscaler, Job, JobStatus
from kplan.config.releases.model import Release
from kplan.course.simulation.controllers.observed import IsOn
from kplan.course.simulation.controllers.stateful_set import RECREATE_GATE
from kplan.course.simulation.templates import canonical
from kplan.facts import InputWarning
from kplan.framework.listers import key_of
from kplan.snapshot.defaults import DEFAULT_NAMESPACE
from kplan.snapshot.model import Snapshot
from kplan.snapshot.own_file import lean
from kplan.workloads.autoscalers import Autoscalers, autoscaler_warnings
from kplan.workloads.merging import last_applied, merged, removals, unseen_fields, whole_object, without_dropped
from kplan.workloads.new_pods import with_job_name

Plain = Mapping[str, Any]

RESOURCES_GATE = "MutablePodResourcesForSuspendedJobs"
DIRECTIVES_GATE = "MutableSchedulingDirectivesForSuspendedJobs"

_STATEFUL_SET_FORBIDDEN = (
    "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template',"
    " 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are"
    " forbidden"
)
_STATEFUL_SET_FIELDS = frozenset(re.findall(r"'(\w+)'", _STATEFUL_SET_FORBIDDEN))
POD_FORBIDDEN = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing"
    " tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_POD_FIELDS = frozenset({"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates"})
_JOB_FIELDS = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")


def forbidden_changes(kind: str, before: Plain, after: Plain, status: Any, is_on: IsOn) -> list[str]:
    """Return the API server's messages about changes that it refuses; empty when it accepts them.

    `before`, `after`: the present and the new ``spec``, plain values. `status`: the present status of the object.
    `is_on`: tells whether a feature gate is on.
    """
    changed = {key for key in before.keys() | after.keys() if not _are_equal(before.get(key), after.get(key))}
    if kind == "Job":
        return list(_job(before, after, changed, status, is_on))
    if kind in ("Deployment", "ReplicaSet", "DaemonSet") and "selector" in changed:
        return [_immutable("spec.selector", after.get("selector"))]
    if kind == "StatefulSet" and changed - _STATEFUL_SET_FIELDS:
        return [_STATEFUL_SET_FORBIDDEN]
    return list(_pod(before, after)) if kind == "Pod" else []


def _are_equal(before: Any, after: Any) -> bool:
    return bool(canonical(before) == canonical(after))


def _immutable(path: str, value: Any) -> str:
    is_selector = path == "spec.selector" and isinstance(value, Mapping)
    written = msgspec.to_builtins(convert(value, LabelSelector)) if is_selector else value
    return f"{path}: Invalid value: {msgspec.json.encode(_with_sorted_maps(written)).decode()}: {IMMUTABLE}"


def _with_sorted_maps(value: Any, name: str = "") -> Any:
    """Return plain values as Go's JSON encoder orders them: maps by key, but structs as they are."""
    if isinstance(value, Mapping):
        items = sorted(value.items()) if name in emptiness().maps else value.items()
        return {key: _with_sorted_maps(item, key) for key, item in items}
    return [_with_sorted_maps(item) for item in value] if isinstance(value, list) else value


def _fixed(spec: Plain) -> Any:
    fixed = canonical({key: item for key, item in spec.items() if key not in _POD_FIELDS})
    for group in ("containers", "initContainers"):
        for container in fixed.get(group, ()):
            container.pop("image", None)
    return fixed


def _pod(before: Plain, after: Plain) -> Iterator[str]:
    """Refuse new gates, and other changes than those that every pod, or a gated one, may see."""
    deadline, wanted = (spec.get("activeDeadlineSeconds") for spec in (before, after))
    if deadline is not None and wanted is None:
        yield "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value"
    elif deadline is not None and deadline < wanted:
        yield f"spec.activeDeadlineSeconds: Invalid value: {wanted}: must be less than or equal to previous value"
        return
    staying = [_lasting(toleration) for toleration in after.get("tolerations") or ()]
    # Admission adds the tolerations of five minutes anew where a manifest leaves them out.
    own = (_lasting(one) for one in before.get("tolerations") or () if one.get("key") not in (NOT_READY, UNREACHABLE))
    if any(toleration not in staying for toleration in own):
        yield "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    gates = [gate.get("name") for gate in before.get("schedulingGates") or ()]
    for index, gate in enumerate(after.get("schedulingGates") or ()):
        if gate.get("name") not in gates:
            words = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield f"spec.schedulingGates[{index}].name: Forbidden: {words}"
    old, new = _fixed(before), _fixed(after)
    grace, seconds = (spec.get("terminationGracePeriodSeconds", GRACE_SECONDS) for spec in (before, after))
    if grace != seconds and not (grace < 0 and seconds == 1):
        new["terminationGracePeriodSeconds"] = seconds
    if gates:
        yield from _loosened(old, new)
        for spec in (old, new):
            spec.pop("nodeSelector", None)
            spec["affinity"] = {**(spec.get("affinity") or {}), "nodeAffinity": None}
    if not _are_equal(old, new):
        yield POD_FORBIDDEN


def _lasting(toleration: Plain) -> Any:
    """Return what of a toleration may not change."""
    return canonical({key: item for key, item in toleration.items() if key != "tolerationSeconds"})


def _loosened(before: Plain, after: Plain) -> Iterator[str]:
    """Return where a gated pod may run on nodes on which it may not run now (upstream validateNodeAffinityMutation)."""
    selector = after.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in (before.get("nodeSelector") or {}).items()):
        words = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield f"spec.nodeSelector: Invalid value: {go_json(selector)}: {words}"
    old, new = _node_terms(before), _node_terms(after)
    at = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    if old and len(old) != len(new):
        yield f"{at}: Invalid value: no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return
    for index, (term, wanted) in enumerate(zip(old, new, strict=False)):
        parts = [(term.get(key) or [], wanted.get(key) or []) for key in ("matchExpressions", "matchFields")]
        is_longer = any(known for known, _ in parts) or not any(listed for _, listed in parts)
        if not is_longer or any(listed[: len(known)] != known for known, listed in parts):
            yield f"{at}[{index}]: Invalid value: only additions are allowed (no mutations or deletions)"


def _node_terms(spec: Plain) -> list[Plain]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms: list[Plain] = (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    return terms


def _job(before: Plain, after: Plain, changed: set[str], status: JobStatus, is_on: IsOn) -> Iterator[str]:
    if "completions" in changed:
        # Only an indexed job may grow or shrink, with its parallelism.
        completions = after.get("completions")
        if after.get("completionMode") != "Indexed":
            yield _immutable("spec.completions", completions)
        elif completions is not None and completions != after.get("parallelism", 1):
            words = "can only be modified in tandem with spec.parallelism"
            yield f"spec.completions: Invalid value: {completions}: {words}"
    if "selector" in changed:
        yield _immutable("spec.selector", after.get("selector"))
    if "template" in changed:
        yield from _job_template(before, after, status, is_on)
    for field in _JOB_FIELDS:
        if field in changed:
            yield _immutable(f"spec.{field}", after.get(field))


def _job_template(before: Plain, after: Plain, status: JobStatus, is_on: IsOn) -> Iterator[str]:
    """Refuse another template, but for scheduling directives and resources while the job is suspended."""
    old, new = copy.deepcopy(before.get("template") or {}), after.get("template") or {}
    is_suspended = bool(before.get("suspend"))
    has_not_started = status.start_time is None
    is_idle = is_true(status.conditions, "Suspended")
    is_open = is_suspended and (has_not_started or is_idle) and status.active == 0
    if is_open if is_on(DIRECTIVES_GATE) else is_suspended and has_not_started:
        _take_directives(old, new)
    if is_open and is_on(RESOURCES_GATE):
        _take_resources(old.get("spec") or {}, new.get("spec") or {})
        if not _are_equal(old.get("spec"), new.get("spec")):
            yield _immutable("spec.template.spec", new.get("spec"))
    elif not _are_equal(old, new):
        yield _immutable("spec.template", new)


def _take_directives(old: dict[str, Any], new: Plain) -> None:
    """Copy the scheduling directives of the new template to the old one."""
    old_spec, new_spec = old.setdefault("spec", {}), new.get("spec") or {}
    for field in ("nodeSelector", "tolerations", "schedulingGates"):
        old_spec[field] = new_spec.get(field)
    old_metadata, new_metadata = old.setdefault("metadata", {}), new.get("metadata") or {}
    for field in ("labels", "annotations"):
        old_metadata[field] = new_metadata.get(field)
    wanted = new_spec.get("affinity")
    affinity = {**(old_spec.get("affinity") or {}), "nodeAffinity": (wanted or {}).get("nodeAffinity")}
    # An affinity of which nothing is left may go with its directives.
    old_spec["affinity"] = None if wanted is None and not canonical(affinity) else affinity


def _take_resources(old: Plain, new: Plain) -> None:
    """Copy the resources of containers of the new template to those of the same name in the old one."""
    for group in ("containers", "initContainers"):
        old_containers, new_containers = old.get(group) or (), new.get(group) or ()
        if len(old_containers) == len(new_containers):
            for container, new_container in zip(old_containers, new_containers, strict=True):
                if container.get("name") == new_container.get("name"):
                    container["resources"] = new_container.get("resources")


class Update(msgspec.Struct, frozen=True):
    """A manifest as an update of the cluster's object, or as a new object."""

    key: str  #: KIND/NAMESPACE/NAME
    obj: Any  #: the object after the update
    live: Any  #: the object before the update; None for a new one
    spec: Plain  #: ``spec`` after the update as plain values, whole where the snapshot has it whole
    is_whole: bool = True  #: all fields of the live object could be compared
    unseen: tuple[str, ...] = ()  #: paths of fields that could not be compared
    refused: str = ""  #: why the API server refuses it; empty when it accepts it
    content: Plain = {}  #: the manifest
    scaled_by: tuple[HorizontalPodAutoscaler, ...] = ()  #: its autoscalers
    warnings: tuple[InputWarning, ...] = ()  #: where an autoscaler sets another number of replicas

    @property
    def is_new(self) -> bool:
        return self.live is None


def update_of(
    target: type[Any],
    content: Plain,
    snapshot: Snapshot,
    autoscalers: Autoscalers | None = None,
    *,
    release: Release,
    is_valid: bool = False,
) -> Update:
    """Return the update that a manifest makes to the cluster.

    Where an autoscaler owns the number of replicas, the live number remains when the manifest sets none.

    `target`: one of `CHANGED_IN_PLACE`. `content`: the manifest, its namespace filled in. `autoscalers`: those of the
    cluster and of the manifests; None for the cluster's. `release`: of the API server. `is_valid`: the manifest was
    validated when it was read.
    """
    metadata = content.get("metadata") or {}
    namespace, name = str(metadata.get("namespace") or DEFAULT_NAMESPACE), str(metadata.get("name", ""))
    kind = target.__name__
    key = object_name(kind, namespace, name)
    wanted = content.get("spec") or {}
    scalers = Autoscalers(snapshot.horizontal_pod_autoscalers) if autoscalers is None else autoscalers
    scaled_by = scalers.of(CHANGED_IN_PLACE[target].api_version, kind, namespace, name)
    live = _find(snapshot, target, namespace, name)
    if live is None:
        obj = convert(dict(content), target)
        if isinstance(obj, Job):
            obj = _new_job(obj, wanted)
        warnings = autoscaler_warnings(scaled_by, (kind, namespace, name), wanted.get("replicas"), None)
        # The minor alone does not say whether the strategy of a stateful set is allowed.
        is_known = is_valid and (kind != "StatefulSet" or release.is_on(RECREATE_GATE))
        refused = _words(target, name, () if is_known else _errors(target, metadata, wanted, release))
        return Update(key, obj, None, wanted, refused=refused, content=content, scaled_by=scaled_by, warnings=warnings)
    whole = whole_object(snapshot, key)
    last: Plain = {} if whole is None else last_applied(whole)
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
    known = set(_errors(target, live_metadata, before, release))
    stored_before, stored_after = (_with_defaults(target, live_metadata, spec) for spec in (before, after))
    # The API server accepted the live object: errors in it come only from fields that the snapshot lacks.
    whole_after = after if whole is not None else merged(before, wanted)
    stated = _errors(target, merged(live_metadata, metadata), whole_after, release)
    errors = [error for error in stated if error not in known]
    refused = _words(
        target, name, [*errors, *forbidden_changes(kind, stored_before, stored_after, status, release.is_on)]
    )
    replicas = getattr(live.spec, "replicas", None)
    current, applied = 1 if replicas is None else replicas, last.get("replicas")
    applied = applied if isinstance(applied, int) else None
    warnings = autoscaler_warnings(scaled_by, (kind, namespace, name), wanted.get("replicas"), current, applied)
    return Update(key, obj, live, after, whole is not None, unseen, refused, content, scaled_by, warnings)


def _lean_specs(target: type[Any], content: Plain, live: Any) -> tuple[Plain, Plain, tuple[str, ...]]:
    """Return the specs before and after the update of an object that the snapshot does not have whole.

    The last item has the paths of fields that could not be compared.
    """
    decoded = _plain(lean(convert(dict(content), target))).get("spec") or {}
    before = _plain(live).get("spec") or {}
    unseen = unseen_fields(content.get("spec") or {}, decoded)
    after = merged(merged(before, decoded), removals(content.get("spec") or {}))  # decoding loses what is null
    return before, after, tuple(f"spec.{path}" for path in unseen)


def _plain(obj: Any) -> dict[str, Any]:
    """Return an object as JSON has it, with lists where structs hold tuples, as the whole objects of files are."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(obj))
    return plain


def _new_job(job: Job, wanted: Plain) -> Job:
    """Return a job with the API server's defaults for its pod labels and its pod replacement policy."""
    spec = job.spec
    if not wanted.get("manualSelector"):
        spec = msgspec.structs.replace(spec, template=with_job_name(spec.template, job.metadata.name))
    if spec.pod_replacement_policy is None and wanted.get("podFailurePolicy"):
        spec = msgspec.structs.replace(spec, pod_replacement_policy="Failed")
    return msgspec.structs.replace(job, spec=spec)


def _find(snapshot: Snapshot, target: type[Any], namespace: str, name: str) -> Any:
    if target is Pod:
        return snapshot.pod_by_key.get(f"{namespace}/{name}")
    held = getattr(snapshot, CHANGED_IN_PLACE[target].attribute)
    return next((obj for obj in held if key_of(obj) == (namespace, name)), None)


def _judged(target: type[Any], metadata: Any, spec: Any, minor: int = NEWEST) -> Judged | None:
    kind = target.__name__
    api_kind = kind_named(CHANGED_IN_PLACE[target].api_version, kind)
    whole = {"metadata": metadata, "spec": spec}
    return None if api_kind is None else judge(whole, api_kind, kind, DEFAULT_NAMESPACE, minor)


def _errors(target: type[Any], metadata: Any, spec: Any, release: Release) -> tuple[FieldError, ...]:
    """Return what is invalid in an object; empty for pods, which admission changes before they are validated."""
    minor = FIRST_WITH_RECREATE if release.is_on(RECREATE_GATE) else min(release.number, NEWEST)
    judged = _judged(target, metadata, spec, minor)
    return () if judged is None else judged.errors


def _with_defaults(target: type[Any], metadata: Any, spec: Plain) -> Plain:
    """Return the spec of a workload with the API server's defaults, which a live object from a file may lack."""
    judged = None if target is Pod else _judged(target, copy.deepcopy(metadata), copy.deepcopy(spec))
    return judged.content.get("spec", {}) if judged is not None and judged.is_readable else spec


def _words(target: type[Any], name: str, errors: Sequence[FieldError | str]) -> str:
    """Return the API server's answer to an object with errors; empty where there are none."""
    return invalid_words(target.__name__, CHANGED_IN_PLACE[target].group, name, errors) if errors else ""
