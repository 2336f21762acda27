"""Which fields of an object may not change once it exists, in the API server's words.

Upstream: ValidateDeploymentUpdate, ValidateReplicaSetUpdate, ValidateDaemonSetSpecUpdate and ValidateStatefulSetUpdate
in pkg/apis/apps/validation; ValidateJobSpecUpdate in pkg/apis/batch/validation, with validationOptionsForJob in
pkg/registry/batch/job/strategy.go; ValidatePodUpdate in pkg/apis/core/validation.
"""

from __future__ import annotations

import copy
import re
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

    Parameters
    ----------
    before, after : the present and the new ``spec``, plain values
    status : the present status of the object
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
        return [POD_FORBIDDEN]
    return []


def _are_equal(before: Any, after: Any) -> bool:
    return bool(canonical(before) == canonical(after))


def _immutable(path: str, value: Any) -> str:
    return f"{path}: Invalid value: {_json(value)}: {_IMMUTABLE}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _fixed(spec: Plain) -> Any:
    """Return the fields of a pod's spec that may not change."""
    fixed = canonical({key: item for key, item in spec.items() if key not in _POD_FIELDS})
    for group in ("containers", "initContainers"):
        for container in fixed.get(group, ()):
            container.pop("image", None)
    return fixed


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
    """Refuse another number of completions, unless an indexed job grows or shrinks with its parallelism."""
    completions = after.get("completions")
    if after.get("completionMode") != "Indexed":
        yield _immutable("spec.completions", completions)
    elif completions is not None and completions != after.get("parallelism", 1):
        yield f"spec.completions: Invalid value: {completions}: can only be modified in tandem with spec.parallelism"


def _job_template(before: Plain, after: Plain, status: JobStatus, is_on: IsOn) -> Iterator[str]:
    """Refuse another template, but for scheduling directives and resources while the job is suspended."""
    old, new = copy.deepcopy(before.get("template") or {}), after.get("template") or {}
    is_suspended = bool(before.get("suspend"))
    has_not_started = status.start_time is None
    is_idle = any(condition.type == "Suspended" and condition.status == "True" for condition in status.conditions)
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
    affinity = old_spec["affinity"] = dict(old_spec.get("affinity") or {})
    affinity["nodeAffinity"] = (new_spec.get("affinity") or {}).get("nodeAffinity")


def _take_resources(old: Plain, new: Plain) -> None:
    """Copy the resources of containers of the new template to those of the same name in the old one."""
    for group in ("containers", "initContainers"):
        old_containers, new_containers = old.get(group) or (), new.get(group) or ()
        if len(old_containers) == len(new_containers):
            for container, new_container in zip(old_containers, new_containers, strict=True):
                if container.get("name") == new_container.get("name"):
                    container["resources"] = new_container.get("resources")
