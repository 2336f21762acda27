"""What of an object may not change once it is there, in the API server's words.

Upstream: ValidateDeploymentUpdate, ValidateReplicaSetUpdate, ValidateDaemonSetSpecUpdate and ValidateStatefulSetUpdate
in pkg/apis/apps/validation; ValidateJobSpecUpdate in pkg/apis/batch/validation, with validationOptionsForJob in
pkg/registry/batch/job/strategy.go; ValidatePodUpdate in pkg/apis/core/validation.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from kplan.api.batch import JobStatus
from kplan.simulation.templates import canonical

Plain = Mapping[str, Any]
IsOn = Callable[[str], bool]

RESOURCES_GATE = "MutablePodResourcesForSuspendedJobs"
DIRECTIVES_GATE = "MutableSchedulingDirectivesForSuspendedJobs"

_IMMUTABLE = "field is immutable"
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
_POD_FORBIDDEN = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing"
    " tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_POD_FIELDS = frozenset({"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates"})
_JOB_FIELDS = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")


def forbidden_changes(kind: str, before: Plain, after: Plain, status: Any, is_on: IsOn) -> list[str]:
    """Return what the API server says of changes that it does not take; nothing when it takes them.

    Parameters
    ----------
    before, after : ``spec`` as it is and as it would be, plain values
    status : that of the object as it is
    is_on : tells whether a feature gate is on
    """
    changed = {key for key in before.keys() | after.keys() if not _are_equal(before.get(key), after.get(key))}
    if kind == "Job":
        return list(_job(before, after, changed, status, is_on))
    if kind in ("Deployment", "ReplicaSet", "DaemonSet") and "selector" in changed:
        return [_immutable("spec.selector", after.get("selector"))]
    if kind == "StatefulSet" and changed - _STATEFUL_SET_FIELDS:
        return [_STATEFUL_SET_FORBIDDEN]
    if kind == "Pod" and not _are_equal(_fixed(before), _fixed(after)):
        return [_POD_FORBIDDEN]
    return []


def _are_equal(one: Any, other: Any) -> bool:
    return bool(canonical(one) == canonical(other))


def _immutable(path: str, value: Any) -> str:
    return f"{path}: Invalid value: {_json(value)}: {_IMMUTABLE}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _fixed(spec: Plain) -> Any:
    """Return what of a pod stays as it was created."""
    found = canonical({key: item for key, item in spec.items() if key not in _POD_FIELDS})
    for group in ("containers", "initContainers"):
        for container in found.get(group, ()):
            container.pop("image", None)
    return found


def _job(before: Plain, after: Plain, changed: set[str], status: JobStatus, is_on: IsOn) -> Iterator[str]:
    if "completions" in changed:
        yield from _completions(after)
    if "selector" in changed:
        yield _immutable("spec.selector", after.get("selector"))
    if "template" in changed:
        yield from _job_template(before, after, status, is_on)
    for field in _JOB_FIELDS:
        if field in changed:
            yield _immutable(f"spec.{field}", after.get(field))


def _completions(after: Plain) -> Iterator[str]:
    """Say what stands against another number of completions: an indexed job may grow and shrink as a whole."""
    completions = after.get("completions")
    if after.get("completionMode") != "Indexed":
        yield _immutable("spec.completions", completions)
    elif completions is not None and completions != after.get("parallelism", 1):
        yield f"spec.completions: Invalid value: {completions}: can only be modified in tandem with spec.parallelism"


def _job_template(before: Plain, after: Plain, status: JobStatus, is_on: IsOn) -> Iterator[str]:
    """Say what stands against another template: where a job is suspended its pods may be given other places."""
    old, new = copy.deepcopy(before.get("template") or {}), after.get("template") or {}
    is_suspended = bool(before.get("suspend"))
    has_not_started = status.start_time is None
    stands_still = any(condition.type == "Suspended" and condition.status == "True" for condition in status.conditions)
    is_open = is_suspended and (has_not_started or stands_still) and status.active == 0
    if is_open if is_on(DIRECTIVES_GATE) else is_suspended and has_not_started:
        _take_directives(old, new)
    if is_open and is_on(RESOURCES_GATE):
        _take_resources(old.get("spec") or {}, new.get("spec") or {})
        if not _are_equal(old.get("spec"), new.get("spec")):
            yield _immutable("spec.template.spec", new.get("spec"))
    elif not _are_equal(old, new):
        yield _immutable("spec.template", new)


def _take_directives(old: dict[str, Any], new: Plain) -> None:
    """Let the old template say what the new one says about where pods may go."""
    mine, its = old.setdefault("spec", {}), new.get("spec") or {}
    for field in ("nodeSelector", "tolerations", "schedulingGates"):
        mine[field] = its.get(field)
    metadata, its_metadata = old.setdefault("metadata", {}), new.get("metadata") or {}
    for field in ("labels", "annotations"):
        metadata[field] = its_metadata.get(field)
    affinity = mine["affinity"] = dict(mine.get("affinity") or {})
    affinity["nodeAffinity"] = (its.get("affinity") or {}).get("nodeAffinity")


def _take_resources(old: Plain, new: Plain) -> None:
    """Let containers that are still the same ask for what the new ones ask for."""
    for group in ("containers", "initContainers"):
        mine, its = old.get(group) or (), new.get(group) or ()
        if len(mine) == len(its):
            for one, other in zip(mine, its, strict=True):
                if one.get("name") == other.get("name"):
                    one["resources"] = other.get("resources")
