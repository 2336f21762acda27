"""Containers, init containers and ephemeral containers.

Upstream: pkg/apis/core/validation validateContainers, validateInitContainers, validateEphemeralContainers.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kplan.admission.validation.env import env_errors, env_from_errors
from kplan.admission.validation.errors import (
    Errors,
    count_errors,
    duplicate,
    enum_errors,
    forbidden,
    invalid,
    invalids,
    not_found,
    required,
    required_enum_errors,
    required_errors,
)
from kplan.admission.validation.mounts import device_errors, mount_errors
from kplan.admission.validation.probes import lifecycle_errors, probe_errors
from kplan.admission.validation.resources import container_resource_errors
from kplan.admission.validation.security import security_errors
from kplan.admission.validation.texts import dns_label_error, port_name, port_number

Container = dict[str, Any]
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")
_RESIZED = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")
_MOST_RULES, _MOST_EXIT_CODES = 20, 255
_NOT_EPHEMERAL = "cannot be set for an Ephemeral Container"
_NOT_IN_EPHEMERAL = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
"""Fields that ephemeral containers must not have."""

_ONLY_SIDECARS = "may not be set for init containers without restartPolicy=Always"


class Surroundings(msgspec.Struct, frozen=True):
    """What containers refer to in their pod spec."""

    volumes: dict[str, dict[str, Any]]  #: valid volumes by name
    claims: set[str]  #: names of the resource claims
    grace: int | None  #: termination grace period of the pod, in seconds
    restart_policy: str  #: of the pod
    host_users: bool  #: whether the pod is in the user namespace of its node


def container_errors(containers: list[Container], pod: Surroundings, path: str) -> Errors:
    """Return what is wrong with the containers of a pod."""
    if not containers:
        return [required(path)]
    errors: Errors = []
    names: set[str] = set()
    for index, container in enumerate(containers):
        at, name = f"{path}[{index}]", container.get("name", "")
        errors += _common_errors(container, pod, at)
        if name in names:
            errors.append(duplicate(f"{at}.name", name))
        names.add(name)
        errors += lifecycle_errors(container, pod.grace, at)
        errors += probe_errors(container, at)
        errors += _restart_errors(container, at)
    return errors + _host_port_errors(containers, path)


def init_container_errors(spec: dict[str, Any], pod: Surroundings, path: str) -> Errors:
    """Return what is wrong with the init containers of a pod, sidecars among them."""
    errors: Errors = []
    names = {container.get("name", "") for container in spec.get("containers", [])}
    for index, container in enumerate(spec.get("initContainers", [])):
        at, name = f"{path}[{index}]", container.get("name", "")
        errors += _common_errors(container, pod, at)
        errors += _init_restart_errors(container, at)
        if name in names:
            errors.append(duplicate(f"{at}.name", name))
        elif name:
            names.add(name)
        errors += _host_port_errors([container], path)
        if container.get("restartPolicy") == "Always":
            errors += lifecycle_errors(container, pod.grace, at)
            errors += probe_errors(container, at)
        else:
            keys = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
            errors += [forbidden(f"{at}.{key}", _ONLY_SIDECARS) for key in keys if key in container]
            for number, policy in enumerate(container.get("resizePolicy", [])):
                if policy.get("restartPolicy") == "RestartContainer":
                    detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                    errors.append(invalid(f"{at}.resizePolicy[{number}].restartPolicy", "RestartContainer", detail))
    return errors


def ephemeral_container_errors(spec: dict[str, Any], pod: Surroundings, path: str) -> Errors:
    """Return what is wrong with the ephemeral containers of a pod."""
    errors: Errors = []
    others = {
        container.get("name", "") for group in ("containers", "initContainers") for container in spec.get(group, [])
    }
    names = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers", [])):
        at, name, target = f"{path}[{index}]", container.get("name", ""), container.get("targetContainerName", "")
        errors += _common_errors(container, pod, at) + image_errors(container, at)
        if name in names:
            errors.append(duplicate(f"{at}.name", name))
        names.add(name)
        if target and target not in others:
            errors.append(not_found(f"{at}.targetContainerName", target))
        errors += [
            forbidden(f"{at}.{key}", _NOT_EPHEMERAL)
            for key in _NOT_IN_EPHEMERAL
            if container.get(key) not in (None, {})
        ]
        for number, mount in enumerate(container.get("volumeMounts", [])):
            for key in ("subPath", "subPathExpr"):
                if mount.get(key):
                    errors.append(forbidden(f"{at}.volumeMounts[{number}].{key}", _NOT_EPHEMERAL))
    return errors


def image_errors(container: Container, path: str) -> Errors:
    """Return what is wrong with the image of a container in a pod; templates are not checked for it."""
    image = container.get("image", "")
    if image.strip() == image:
        return []
    return [invalid(f"{path}.image", image, "must not have leading or trailing whitespace")]


def _common_errors(container: Container, pod: Surroundings, path: str) -> Errors:
    name = container.get("name", "")
    errors = dns_label_error(name, f"{path}.name") if name else [required(f"{path}.name")]
    errors += required_errors(container, path, "image")
    policy = container.get("terminationMessagePolicy", "")
    errors += required_enum_errors(policy, _MESSAGE_POLICIES, f"{path}.terminationMessagePolicy")
    errors += _port_errors(container.get("ports", []), f"{path}.ports")
    errors += env_errors(container.get("env", []), f"{path}.env")
    errors += env_from_errors(container.get("envFrom", []), f"{path}.envFrom")
    errors += mount_errors(container, pod.volumes, f"{path}.volumeMounts")
    errors += device_errors(container, pod.volumes, f"{path}.volumeDevices")
    errors += required_enum_errors(container.get("imagePullPolicy", ""), PULL_POLICIES, f"{path}.imagePullPolicy")
    errors += container_resource_errors(container.get("resources", {}), pod.claims, f"{path}.resources")
    errors += _resize_errors(container.get("resizePolicy", []), pod.restart_policy, f"{path}.resizePolicy")
    if "securityContext" in container:
        errors += security_errors(container["securityContext"], f"{path}.securityContext", host_users=pod.host_users)
    return errors


def _port_errors(ports: list[Container], path: str) -> Errors:
    errors: Errors = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        at, name, number = f"{path}[{index}]", port.get("name", ""), port.get("containerPort", 0)
        if name and (problems := port_name(name)):
            errors += invalids(f"{at}.name", name, problems)
        elif name in names:
            errors.append(duplicate(f"{at}.name", name))
        elif name:
            names.add(name)
        if not number:
            errors.append(required(f"{at}.containerPort"))
        else:
            errors += invalids(f"{at}.containerPort", number, port_number(number))
        if port.get("hostPort", 0):
            errors += invalids(f"{at}.hostPort", port["hostPort"], port_number(port["hostPort"]))
        errors += required_enum_errors(port.get("protocol", ""), _PROTOCOLS, f"{at}.protocol")
    return errors


def _host_port_errors(containers: list[Container], path: str) -> Errors:
    """Return an error for every host port that an earlier container uses."""
    errors: Errors = []
    used: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports", [])):
            if not port.get("hostPort", 0):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in used:
                errors.append(duplicate(f"{path}[{index}].ports[{number}].hostPort", key))
            used.add(key)
    return errors


def _init_restart_errors(container: Container, path: str) -> Errors:
    """Check an init container's restart policy and rules; rules without a policy are not checked further."""
    if container.get("restartPolicy") is not None:
        return _restart_errors(container, path)
    if not container.get("restartPolicyRules"):
        return []
    return [required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")]


def _restart_errors(container: Container, path: str) -> Errors:
    """Check a container's restart policy and rules (upstream validateContainerRestartPolicy)."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules", [])
    errors: Errors = []
    if policy is None:
        if not rules:
            return []
        errors.append(required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used"))
    errors += enum_errors(policy, _RESTART_POLICIES, f"{path}.restartPolicy")
    errors += count_errors(rules, _MOST_RULES, f"{path}.restartPolicyRules")
    for index, rule in enumerate(rules):
        at = f"{path}.restartPolicyRules[{index}]"
        errors += enum_errors(rule.get("action", ""), _ACTIONS, f"{at}.action")
        codes = rule.get("exitCodes")
        if codes is None:
            errors.append(required(f"{at}.exitCodes", "must be specified"))
            continue
        errors += enum_errors(codes.get("operator", ""), ("In", "NotIn"), f"{at}.exitCodes.operator")
        errors += count_errors(codes.get("values", []), _MOST_EXIT_CODES, f"{at}.exitCodes.values")
    return errors


def _resize_errors(policies: list[Container], pod_restart_policy: str, path: str) -> Errors:
    errors: Errors = []
    names: set[str] = set()
    for index, policy in enumerate(policies):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in names:
            errors.append(duplicate(f"{path}[{index}]", name))
        names.add(name)
        errors += required_enum_errors(name, _RESIZED, path) + required_enum_errors(restart, _RESIZE_POLICIES, path)
        if pod_restart_policy == "Never" and restart != "NotRequired":
            detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(invalid(path, restart, detail))
    return errors
