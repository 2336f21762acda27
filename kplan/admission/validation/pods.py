"""Pods and pod templates (core ValidatePodCreate, ValidatePodSpec, ValidatePodTemplateSpec)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kplan.admission.validation.annotations import pod_annotation_errors, profile_match_errors
from kplan.admission.validation.containers import (
    Surroundings,
    container_errors,
    ephemeral_container_errors,
    image_errors,
    init_container_errors,
)
from kplan.admission.validation.dns import dns_config_errors
from kplan.admission.validation.errors import (
    Errors,
    GoStruct,
    duplicate,
    enum_errors,
    forbidden,
    invalid,
    not_found,
    range_errors,
    required,
    required_enum_errors,
    size_errors,
)
from kplan.admission.validation.metadata import annotation_errors, label_errors, metadata_errors
from kplan.admission.validation.placement import affinity_errors, gate_errors, spread_errors, toleration_errors
from kplan.admission.validation.resources import container_resource_errors, pod_resource_errors
from kplan.admission.validation.security import pod_security_errors
from kplan.admission.validation.texts import (
    dns_label_error,
    dns_subdomain,
    dns_subdomain_error,
    ip_errors,
    label_key_errors,
)
from kplan.admission.validation.volumes import volume_errors
from kplan.admission.validation.windows import containers_with_path, host_process_errors, os_errors

Object = dict[str, Any]
Check = Callable[[Object, str], Errors]
"""What is wrong with a pod spec at a path."""

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_MIRROR = "kubernetes.io/config.mirror"
_MOST_DEADLINE = 2**31 - 1
_MOST_HOSTNAME = 64


def pod_errors(pod: Object) -> Errors:
    """Return what is wrong with a new pod."""
    metadata, spec = pod.get("metadata", {}), pod.get("spec", {})
    annotations = metadata.get("annotations", {})
    errors = metadata_errors(metadata, dns_subdomain)
    errors += pod_annotation_errors(annotations, spec, "metadata.annotations")
    errors += pod_spec_errors(spec, "spec", metadata)
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group, [])):
            errors += image_errors(container, f"spec.{group}[{index}]")
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return errors + profile_match_errors(annotations, spec, "spec")


def template_errors(template: Object, path: str) -> Errors:
    """Return what is wrong with a pod template."""
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    annotations = metadata.get("annotations", {})
    errors = label_errors(metadata.get("labels", {}), f"{path}.labels")
    errors += annotation_errors(annotations, f"{path}.annotations")
    errors += pod_annotation_errors(annotations, spec, f"{path}.annotations")
    errors += pod_spec_errors(spec, f"{path}.spec", None)
    errors += profile_match_errors(annotations, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", detail))
    return errors


def pod_spec_errors(spec: Object, path: str, metadata: Object | None) -> Errors:
    """Return what is wrong with the spec of a pod, or of a template where there is no metadata."""
    is_pod = metadata is not None
    grace = spec.get("terminationGracePeriodSeconds")
    errors: Errors = [] if grace is not None else [required(f"{path}.terminationGracePeriodSeconds")]
    name = metadata.get("name", "") if metadata is not None else ""
    volumes, problems = volume_errors(spec, f"{path}.volumes", name, is_pod=is_pod)
    errors += problems
    claims = {claim["name"] for claim in spec.get("resourceClaims", []) if claim.get("name")}
    errors += _claim_errors(spec.get("resourceClaims", []), metadata, f"{path}.resourceClaims")
    restart = spec.get("restartPolicy", "")
    around = Surroundings(volumes, claims, grace, restart, spec.get("hostUsers", True))
    errors += container_errors(spec.get("containers", []), around, f"{path}.containers")
    errors += init_container_errors(spec, around, f"{path}.initContainers")
    errors += ephemeral_container_errors(spec, around, f"{path}.ephemeralContainers")
    errors += pod_resource_errors(spec, claims, path)
    errors += _host_network_errors(spec, path, is_pod=is_pod)
    return errors + [error for check in _CHECKS for error in check(spec, path)]


def _claim_errors(claims: list[Object], metadata: Object | None, path: str) -> Errors:
    if metadata is not None and _MIRROR in metadata.get("annotations", {}):
        return [forbidden("", "static pods do not support resource claims") for _ in claims]
    errors: Errors = []
    names: set[str] = set()
    for index, claim in enumerate(claims):
        at, name = f"{path}[{index}]", claim.get("name", "")
        if not name:
            errors.append(required(f"{at}.name"))
        elif name in names:
            errors.append(duplicate(f"{at}.name", name))
        else:
            errors += dns_label_error(name, f"{at}.name")
            names.add(name)
        sources = {key: claim.get(key) for key in ("resourceClaimName", "resourceClaimTemplateName")}
        shown = GoStruct({"Name": name, **{key[0].upper() + key[1:]: value for key, value in sources.items()}})
        stated = {key: value for key, value in sources.items() if value is not None}
        if len(stated) == 2:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(invalid(at, shown, detail))
        if not stated:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(invalid(at, shown, detail))
        for key, value in stated.items():
            errors += dns_subdomain_error(value, f"{at}.{key}")
    return errors


def _host_network_errors(spec: Object, path: str, *, is_pod: bool) -> Errors:
    if not spec.get("hostNetwork"):
        return []
    detail = "must match `containerPort` when `hostNetwork` is true"
    return [
        invalid(f"{path}.containers[{index}].ports[{number}].hostPort", port.get("hostPort", 0), detail)
        for index, container in enumerate(spec.get("containers", []))
        for number, port in enumerate(container.get("ports", []))
        if (is_pod or port.get("hostPort", 0)) and port.get("hostPort", 0) != port.get("containerPort", 0)
    ]


def _host_user_errors(spec: Object, path: str) -> Errors:
    """Return what a pod in its own user namespace must not use of its node."""
    if spec.get("hostUsers", True):
        return []
    detail = "when `hostUsers` is false"
    fields = {"hostNetwork": "hostNetwork", "hostPID": "HostPID", "hostIPC": "HostIPC"}
    errors = [forbidden(f"{path}.{called}", detail) for key, called in fields.items() if spec.get(key)]
    for container, at in containers_with_path(spec, path):
        if container.get("volumeDevices"):
            errors.append(forbidden(f"{at}.volumeDevices", detail))
    return errors


def _host_name_errors(spec: Object, path: str) -> Errors:
    name, at = spec.get("hostnameOverride"), f"{path}.hostnameOverride"
    if name is None:
        return []
    errors: Errors = []
    if spec.get("setHostnameAsFQDN"):
        errors.append(forbidden(at, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        errors.append(forbidden(at, "may not be specified when hostNetwork is true"))
    return errors + size_errors(len(name.encode()), _MOST_HOSTNAME, at) + dns_subdomain_error(name, at)


def _readiness_gate_errors(gates: list[Object], path: str) -> Errors:
    return [
        error
        for index, gate in enumerate(gates)
        for error in label_key_errors(gate.get("conditionType", ""), f"{path}[{index}].conditionType")
    ]


def _host_alias_errors(aliases: list[Object], path: str) -> Errors:
    errors: Errors = []
    for index, alias in enumerate(aliases):
        errors += ip_errors(alias.get("ip", ""), f"{path}[{index}].ip")
        for number, name in enumerate(alias.get("hostnames", [])):
            errors += dns_subdomain_error(name, f"{path}[{index}].hostnames[{number}]")
    return errors


def _file_key_volume_errors(spec: Object, path: str) -> Errors:
    """Return where an environment variable comes from a volume that is not an emptyDir."""
    volumes = {volume.get("name", ""): volume for volume in spec.get("volumes", [])}
    errors: Errors = []
    for container, at in containers_with_path(spec, path):
        for index, variable in enumerate(container.get("env", [])):
            reference = variable.get("valueFrom", {}).get("fileKeyRef")
            if reference is None:
                continue
            name, where = reference.get("volumeName", ""), f"{at}.env[{index}].valueFrom.fileKeyRef.volumeName"
            if name not in volumes:
                errors.append(not_found(where, name))
            elif "emptyDir" not in volumes[name]:
                errors.append(invalid(where, name, "referenced volume must be of type emptyDir"))
    return errors


def restart_policy_errors(spec: Object, owner: str, path: str) -> Errors:
    """Return what is wrong with restart policy and deadline of a controller's pods; `path` is that of their spec."""
    errors = enum_errors(spec.get("restartPolicy", ""), ("Always",), f"{path}.restartPolicy")
    if "activeDeadlineSeconds" in spec:
        detail = f"activeDeadlineSeconds in {owner} is not Supported"
        errors.append(forbidden(f"{path}.activeDeadlineSeconds", detail))
    return errors


def _field(key: str, check: Callable[[Any, str], Errors]) -> Check:
    """Return a check of a field that may be absent."""
    return lambda spec, path: check(spec[key], f"{path}.{key}") if key in spec else []


def _text(key: str, check: Callable[[str, str], Errors]) -> Check:
    """Return a check of a field that may be absent or empty."""
    return lambda spec, path: check(spec[key], f"{path}.{key}") if spec.get(key) else []


def _enum(key: str, allowed: tuple[str, ...]) -> Check:
    """Return a check of a required field with one of several values."""
    return lambda spec, path: required_enum_errors(spec.get(key, ""), allowed, f"{path}.{key}")


_CHECKS: tuple[Check, ...] = (
    _enum("restartPolicy", RESTART_POLICIES),
    _enum("dnsPolicy", ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")),
    _field("nodeSelector", label_errors),
    pod_security_errors,
    _field("affinity", affinity_errors),
    dns_config_errors,
    _field("readinessGates", _readiness_gate_errors),
    _field("schedulingGates", gate_errors),
    _field("topologySpreadConstraints", spread_errors),
    host_process_errors,
    _host_user_errors,
    _host_name_errors,
    _text("serviceAccountName", dns_subdomain_error),
    _text("nodeName", dns_subdomain_error),
    _field("activeDeadlineSeconds", lambda seconds, path: range_errors(seconds, 1, _MOST_DEADLINE, path)),
    _text("hostname", dns_label_error),
    _text("subdomain", dns_label_error),
    _field("tolerations", toleration_errors),
    _field("hostAliases", _host_alias_errors),
    _text("priorityClassName", dns_subdomain_error),
    _field("runtimeClassName", dns_subdomain_error),
    _field("preemptionPolicy", lambda policy, path: required_enum_errors(policy, _PREEMPTION_POLICIES, path)),
    _field("overhead", lambda amounts, path: container_resource_errors({"limits": amounts}, set(), path)),
    os_errors,
    _file_key_volume_errors,
)
"""Checks of a pod spec in upstream's order, which is that of the errors."""
