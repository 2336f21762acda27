"""Containers, init containers and ephemeral containers.

Upstream: pkg/apis/core/validation validateContainers, validateInitContainers, validateEphemeralContainers.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kplan.admission.validation.checks import (
    Object,
    at_most_items,
    each,
    enum,
    field,
    filled,
    items,
    must,
    needed,
    one_of,
    present,
    rules,
    stated,
    unique,
)
from kplan.admission.validation.env import env_errors, env_from_errors
from kplan.admission.validation.errors import Errors, duplicate, forbidden, invalid, not_found, required
from kplan.admission.validation.mounts import device_errors, mount_errors
from kplan.admission.validation.probes import lifecycle_errors, probe_errors
from kplan.admission.validation.resources import container_name_errors, resource_errors
from kplan.admission.validation.security import security_errors
from kplan.admission.validation.texts import LABEL, PORT_NUMBER, port_name

_NOT_EPHEMERAL = "cannot be set for an Ephemeral Container"
_NOT_IN_EPHEMERAL = (
    *("ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules"),
    *("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"),
)
"""Fields that ephemeral containers must not have."""

_UNRULED = "must specify restartPolicy when restart rules are used"


class Surroundings(msgspec.Struct, frozen=True):
    """What containers refer to in their pod spec."""

    volumes: dict[str, dict[str, Any]]  #: valid volumes by name
    claims: set[str]  #: names of the resource claims
    grace: int | None  #: termination grace period of the pod, in seconds
    restart_policy: str  #: of the pod
    host_users: bool  #: whether the pod is in the user namespace of its node


def container_errors(spec: Object, pod: Surroundings, path: str) -> Errors:
    """Return what is wrong with the containers of a pod."""
    containers, path, is_new = spec.get("containers", []), f"{path}.containers", unique()
    if not containers:
        yield required(path)
    for index, container in enumerate(containers):
        at = f"{path}[{index}]"
        yield from _common_errors(container, pod, at)
        yield from is_new(container.get("name", ""), f"{at}.name")
        yield from lifecycle_errors(container, pod.grace, at)
        yield from probe_errors(container, at)
        yield from _restart_errors(container, at)
    yield from _host_port_errors(containers, path)


def init_container_errors(spec: Object, pod: Surroundings, path: str) -> Errors:
    """Return what is wrong with the init containers of a pod, sidecars among them."""
    path = f"{path}.initContainers"
    names = {container.get("name", "") for container in spec.get("containers", [])}
    for index, container in enumerate(spec.get("initContainers", [])):
        at, name = f"{path}[{index}]", container.get("name", "")
        yield from _common_errors(container, pod, at)
        if container.get("restartPolicy") is not None:
            yield from _restart_errors(container, at)
        elif container.get("restartPolicyRules"):
            yield required(f"{at}.restartPolicy", _UNRULED)
        if name in names:
            yield duplicate(f"{at}.name", name)
        names |= {name} - {""}
        yield from _host_port_errors([container], path)
        if container.get("restartPolicy") == "Always":
            yield from lifecycle_errors(container, pod.grace, at)
            yield from probe_errors(container, at)
        else:
            yield from _only_sidecar_errors(container, at)


def _only_sidecar_errors(container: Object, path: str) -> Errors:
    words = "may not be set for init containers without restartPolicy=Always"
    for key in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
        if key in container:
            yield forbidden(f"{path}.{key}", words)
    words = "must not be set to 'RestartContainer' for non-sidecar initContainers"
    in_place = must(lambda policy: policy != "RestartContainer", words)
    yield from items("resizePolicy", field("restartPolicy", in_place))(container, path)


def ephemeral_container_errors(spec: Object, pod: Surroundings, path: str) -> Errors:
    """Return what is wrong with the ephemeral containers of a pod."""
    others = {
        container.get("name", "") for group in ("containers", "initContainers") for container in spec.get(group, [])
    }
    names = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers", [])):
        at, name = f"{path}.ephemeralContainers[{index}]", container.get("name", "")
        target = container.get("targetContainerName", "")
        yield from _common_errors(container, pod, at)
        yield from image_errors(container, at)
        if name in names:
            yield duplicate(f"{at}.name", name)
        names.add(name)
        if target and target not in others:
            yield not_found(f"{at}.targetContainerName", target)
        stated = [f"{at}.{key}" for key in _NOT_IN_EPHEMERAL if container.get(key) not in (None, {})]
        for number, mount in enumerate(container.get("volumeMounts", [])):
            stated += [f"{at}.volumeMounts[{number}].{key}" for key in ("subPath", "subPathExpr") if mount.get(key)]
        yield from (forbidden(where, _NOT_EPHEMERAL) for where in stated)


image_errors = field("image", must(lambda text: text.strip() == text, "must not have leading or trailing whitespace"))
"""The check of the image of a container in a pod; templates are not checked for it."""


def _port_name_errors(ports: list[Object], path: str) -> Errors:
    names: set[str] = set()
    for index, port in enumerate(ports):
        at, name = f"{path}[{index}]", port.get("name", "")
        problems = port_name(name) if name else []
        yield from (invalid(f"{at}.name", name, problem) for problem in problems)
        if not problems and name in names:
            yield duplicate(f"{at}.name", name)
        names |= set() if problems else {name} - {""}
        yield from _port(port, at)


_port = rules(
    needed("containerPort", PORT_NUMBER), filled("hostPort", PORT_NUMBER), enum("protocol", "SCTP", "TCP", "UDP")
)
_plain = rules(
    needed("name", LABEL),
    needed("image"),
    enum("terminationMessagePolicy", "File", "FallbackToLogsOnError"),
    field("ports", _port_name_errors),
    field("env", env_errors),
    field("envFrom", env_from_errors),
)
_pull_policy = enum("imagePullPolicy", "Always", "IfNotPresent", "Never")


def _common_errors(container: Object, pod: Surroundings, path: str) -> Errors:
    yield from _plain(container, path)
    yield from mount_errors(container, pod.volumes, f"{path}.volumeMounts")
    yield from device_errors(container, pod.volumes, f"{path}.volumeDevices")
    yield from _pull_policy(container, path)
    resources = container.get("resources", {})
    yield from resource_errors(resources, f"{path}.resources", container_name_errors, pod.claims)
    yield from _resize_errors(container.get("resizePolicy", []), pod.restart_policy, f"{path}.resizePolicy")
    if "securityContext" in container:
        yield from security_errors(container["securityContext"], f"{path}.securityContext", host_users=pod.host_users)


def _host_port_errors(containers: list[Object], path: str) -> Errors:
    """Return an error for every host port that an earlier container uses."""
    is_new = unique()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports", [])):
            if port.get("hostPort", 0):
                key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
                yield from is_new(key, f"{path}[{index}].ports[{number}].hostPort")


_exit_codes = rules(field("operator", one_of("In", "NotIn"), absent=""), field("values", at_most_items(255)))
_rule = rules(
    field("action", one_of("Restart", "RestartAllContainers"), absent=""),
    present("exitCodes", _exit_codes, words="must be specified"),
)
_restarts = rules(
    field("restartPolicy", one_of("Always", "Never", "OnFailure")),
    field("restartPolicyRules", at_most_items(20), each(_rule)),
)


def _restart_errors(container: Object, path: str) -> Errors:
    """Check a container's restart policy and rules (upstream validateContainerRestartPolicy)."""
    if container.get("restartPolicyRules") and "restartPolicy" not in container:
        yield required(f"{path}.restartPolicy", _UNRULED)
    yield from _restarts(container, path)


_resized, _resize_policy = stated("cpu", "memory"), stated("NotRequired", "RestartContainer")


def _resize_errors(policies: list[Object], pod_restart_policy: str, path: str) -> Errors:
    is_new = unique()
    for index, policy in enumerate(policies):
        restart = policy.get("restartPolicy", "")
        yield from is_new(policy.get("resourceName", ""), f"{path}[{index}]")
        yield from _resized(policy.get("resourceName", ""), path)
        yield from _resize_policy(restart, path)
        if pod_restart_policy == "Never" and restart != "NotRequired":
            yield invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")
