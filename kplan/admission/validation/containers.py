"""Containers, init containers and ephemeral containers, with their mounts, block devices, probes and hooks.

Upstream: pkg/apis/core/validation validateContainers, validateInitContainers, validateEphemeralContainers,
ValidateVolumeMounts, validateProbe, validateLifecycle.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from kplan.admission.validation import checks as check
from kplan.admission.validation.checks import Check, Object
from kplan.admission.validation.pod_fields import container_name_errors, resource_errors, security_errors
from kplan.api.field_errors import Errors, duplicate, forbidden, invalid, not_found, not_supported, required
from kplan.api.names import as_prefix
from kplan.api.quantity import parse

_RESOURCES = tuple(
    f"{side}.{name}" for side in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_ENV_FIELDS = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
_SUBSCRIPTED = ("metadata.annotations", "metadata.labels")
_CONVERTIBLE = frozenset(
    {*_ENV_FIELDS, *_SUBSCRIPTED, "spec.host", "spec.restartPolicy", "spec.schedulerName", "status.phase"}
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_DIVIDED = {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "local ephemeral storage"}
_SEVERAL = "may not have more than one field specified at a time"
Volumes = dict[str, Object]
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")
_mode = check.field("mountPropagation", check.one_of("Bidirectional", "HostToContainer", "None"))

_NOT_EPHEMERAL = "cannot be set for an Ephemeral Container"
_NOT_IN_EPHEMERAL = (
    *("ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules"),
    *("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"),
)
"""Fields that ephemeral containers must not have."""


def field_selector(*fields: str) -> Check:
    def errors_of(source: Object, path: str) -> Errors:
        version, label = source.get("apiVersion", ""), source.get("fieldPath", "")
        stem, mark, subscript = label.removesuffix("']").partition("['")
        subscripted, problem = bool(stem and mark) and label.endswith("']"), ""
        if version != "v1":
            problem = f"unsupported pod version: {version}"
        elif subscripted and stem not in _SUBSCRIPTED:
            problem = f"field label does not support subscript: {label}"
        elif not subscripted and label not in _CONVERTIBLE:
            problem = f"field label not supported: {label}"
        if not version or not label:
            yield required(f"{path}.{'fieldPath' if version else 'apiVersion'}")
        elif problem:
            yield invalid(f"{path}.fieldPath", label, f"error converting fieldPath: {problem}")
        elif subscripted:
            yield from check.KEY(subscript.lower() if stem == _SUBSCRIPTED[0] else subscript, path)
        elif (label := "spec.nodeName" if label == "spec.host" else label) not in fields:
            yield not_supported(f"{path}.fieldPath", label, fields)

    return errors_of


def resource_selector_errors(source: Object, path: str, *, in_volume: bool = True) -> Errors:
    name, divisor = source.get("resource", ""), source.get("divisor", "0")
    if in_volume and not source.get("containerName"):
        yield required(f"{path}.containerName")
    elif not name:
        yield required(f"{path}.resource")
    elif name not in _RESOURCES and not name.startswith(_HUGE_PAGES):
        yield not_supported(f"{path}.resource", name, _RESOURCES)
    what = "hugepages" if name.startswith(_HUGE_PAGES) else ""
    if name in _RESOURCES:
        what = _DIVIDED[name.partition(".")[2]]
    if parse(divisor).nanos and what:
        if what == "cpu" and divisor not in ("1m", "1"):
            words = "only divisor's values 1m and 1 are supported with the cpu resource"
            yield invalid(f"{path}.divisor", name, words)
        if what != "cpu" and divisor not in _BYTE_DIVISORS:
            words = f"only divisor's values {', '.join(_BYTE_DIVISORS)} are supported with the {what} resource"
            yield invalid(f"{path}.divisor", name, words)


_key_reference = check.rules(
    check.field("name", check.SUBDOMAIN, absent=""), check.needed("key", check.formed(check.config_key))
)
_SOURCES: dict[str, Check] = {
    "fieldRef": field_selector(*_ENV_FIELDS),
    "resourceFieldRef": partial(resource_selector_errors, in_volume=False),
    "configMapKeyRef": _key_reference,
    "secretKeyRef": _key_reference,
    "fileKeyRef": check.rules(
        check.needed("key", check.ENV_NAME),
        check.needed("volumeName", check.LABEL),
        check.needed("path", check.no_backsteps),
    ),
}
_sources = check.rules(*(check.field(key, errors) for key, errors in _SOURCES.items()))
_older = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`"
_no_source = check.since(
    35, check.never(f"{_older}, `secretKeyRef` or `fileKeyRef`"), check.never(f"{_older} or `secretKeyRef`")
)


def _source_errors(variable: Object, path: str) -> Errors:
    source, at = variable.get("valueFrom"), f"{path}.valueFrom"
    if source is None:
        return
    yield from _sources(source, at)
    if not (count := sum(key in source for key in _SOURCES)):
        yield from _no_source("", at)
    elif variable.get("value"):
        yield invalid(at, "", "may not be specified when `value` is not empty")
    elif count > 1:
        yield invalid(at, "", _SEVERAL)


env_errors = check.in_list(check.needed("name", check.ENV_NAME), _source_errors)

_source_name = check.needed("name", check.formed(lambda name: check.dns_subdomain(as_prefix(name))))
_whole_source = check.rules(check.filled("prefix", check.ENV_NAME), check.field("configMapRef secretRef", _source_name))


def env_from_errors(sources: list[Object], path: str) -> Errors:
    """Return what is wrong with the sources in ``envFrom``."""
    for index, source in enumerate(sources):
        yield from _whole_source(source, f"{path}[{index}]")
        count = ("configMapRef" in source) + ("secretRef" in source)
        if count != 1:
            yield invalid(path, "", _SEVERAL if count else "must specify one of: `configMapRef` or `secretRef`")


def mount_errors(container: Object, volumes: Volumes, path: str) -> Errors:
    """Return what is wrong with the mounts of a container; `volumes` are the valid ones of the pod."""
    devices = {device.get("name", ""): device.get("devicePath", "") for device in container.get("volumeDevices", [])}
    paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", [])):
        at, name, target = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        yield from check.needed("name")(mount, at)
        if name not in volumes:
            yield not_found(f"{at}.name", name)
        yield from check.needed("mountPath")(mount, at)
        if target in paths:
            yield invalid(f"{at}.mountPath", target, "must be unique")
        paths.add(target)
        if name in devices:
            yield invalid(f"{at}.name", name, "must not already exist in volumeDevices")
        if target in devices.values():
            yield invalid(f"{at}.mountPath", target, "must not already exist as a path in volumeDevices")
        yield from _mount_option_errors(mount, container, at, path)


def _mount_option_errors(mount: Object, container: Object, at: str, path: str) -> Errors:
    part, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    how, recursive = mount.get("mountPropagation"), mount.get("recursiveReadOnly", "Disabled")
    yield from check.descending(part, f"{path}.subPath")
    if part and expression:
        yield invalid(f"{at}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive")
    yield from check.descending(expression, f"{path}.subPathExpr")
    yield from _mode(mount, path)
    if how == "Bidirectional" and not container.get("securityContext", {}).get("privileged"):
        words = "Bidirectional mount propagation is available only to privileged containers"
        yield forbidden(f"{path}.mountPropagation", words)
    at = f"{path}.recursiveReadOnly"
    if recursive not in _RECURSIVE:
        yield not_supported(at, recursive, _RECURSIVE)
    elif recursive != "Disabled":
        if not mount.get("readOnly"):
            yield forbidden(at, "may only be specified when readOnly is true")
        if how not in (None, "None"):
            yield forbidden(at, "may only be specified when mountPropagation is None or not specified")


def device_errors(container: Object, volumes: Volumes, path: str) -> Errors:
    mounts = {mount.get("name", ""): mount.get("mountPath", "") for mount in container.get("volumeMounts", [])}
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices", [])):
        at, name, target = f"{path}[{index}]", device.get("name", ""), device.get("devicePath", "")
        yield from check.needed("name")(device, at)
        if name in names:
            yield invalid(f"{at}.name", name, "must be unique")
        if name not in volumes:
            yield not_found(f"{at}.name", name)
        elif not volumes[name].keys() & {"persistentVolumeClaim", "ephemeral"}:
            words = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield invalid(f"{at}.name", name, words)
        yield from check.needed("devicePath")(device, at)
        if target in paths:
            yield invalid(f"{at}.devicePath", target, "must be unique")
        if ".." in target.split("/"):
            yield invalid(f"{at}.devicePath", target, "can not contain backsteps ('..')")
        else:
            paths.add(target)
        if name in mounts:
            yield invalid(f"{at}.name", name, "must not already exist in volumeMounts")
        if target in mounts.values():
            yield invalid(f"{at}.devicePath", target, "must not already exist as a path in volumeMounts")
        names |= {name} - {""}


_header_name = check.every_item(lambda header, path: check.HEADER(header.get("name", ""), path))
_target_port = check.field("port", check.port_errors, absent=0)
_scheme = check.field("scheme", check.one_of("HTTP", "HTTPS"), absent="")
_ACTIONS = {
    "exec": check.needed("command"),
    "httpGet": check.rules(check.needed("path"), _target_port, _scheme, check.field("httpHeaders", _header_name)),
    "tcpSocket": _target_port,
}
_probe = check.rules(
    check.choice({**_ACTIONS, "grpc": _target_port}, "handler type"),
    check.field(
        "initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold", check.not_negative
    ),
    check.field("terminationGracePeriodSeconds", check.must(lambda seconds: seconds > 0, "must be greater than 0")),
)
_once = check.field("successThreshold", check.must(lambda number: number == 1, "must be 1"), absent=0)
_no_grace = check.field("terminationGracePeriodSeconds", check.never("must not be set for readinessProbes"))
probe_errors = check.rules(
    check.field("livenessProbe", _probe, _once),
    check.field("readinessProbe", _probe, _no_grace),
    check.field("startupProbe", _probe, _once),
)
"""The check of the probes of a container or sidecar."""


def lifecycle_errors(container: Object, grace: int | None, path: str) -> Errors:
    """Return what is wrong with the hooks of a container; `grace` is the pod's termination grace period."""

    def sleep(action: Object, at: str) -> Errors:
        seconds = action.get("seconds", 0)
        if grace is not None and not 0 <= seconds <= grace:
            yield invalid(at, seconds, f"must be non-negative and less than terminationGracePeriodSeconds ({grace})")

    handler = check.choice({**_ACTIONS, "sleep": sleep}, "handler type")
    return check.field("lifecycle", check.field("postStart preStop", handler))(container, path)


class Surroundings(msgspec.Struct, frozen=True):
    """What containers refer to in their pod spec."""

    volumes: dict[str, dict[str, Any]]  #: valid volumes by name
    claims: set[str]  #: names of the resource claims
    grace: int | None  #: termination grace period of the pod, in seconds
    restart_policy: str  #: of the pod
    host_users: bool  #: whether the pod is in the user namespace of its node


def container_errors(spec: Object, pod: Surroundings, path: str) -> Errors:
    containers, path, is_new = spec.get("containers", []), f"{path}.containers", check.unique()
    if not containers:
        yield required(path)
    for index, container in enumerate(containers):
        at = f"{path}[{index}]"
        yield from _common_errors(container, pod, at)
        yield from is_new(container.get("name", ""), f"{at}.name")
        yield from lifecycle_errors(container, pod.grace, at)
        yield from probe_errors(container, at)
        yield from _restarts(container, at)
    yield from _host_port_errors(containers, path)


def init_container_errors(spec: Object, pod: Surroundings, path: str) -> Errors:
    """Return what is wrong with the init containers of a pod, sidecars among them."""
    path = f"{path}.initContainers"
    names = {container.get("name", "") for container in spec.get("containers", [])}
    for index, container in enumerate(spec.get("initContainers", [])):
        at, name = f"{path}[{index}]", container.get("name", "")
        yield from _common_errors(container, pod, at)
        restart_policy = container.get("restartPolicy")
        restarts = {None: _policy_for_rules, "Always": _sidecar_restarts}.get(restart_policy, _restarts)
        yield from restarts(container, at)
        if name in names:
            yield duplicate(f"{at}.name", name)
        names |= {name} - {""}
        yield from _host_port_errors([container], path)
        if restart_policy == "Always":
            yield from lifecycle_errors(container, pod.grace, at)
            yield from probe_errors(container, at)
        else:
            yield from _no_sidecar(container, at)


_in_place = check.must(
    lambda policy: policy != "RestartContainer", "must not be set to 'RestartContainer' for non-sidecar initContainers"
)
_no_sidecar = check.rules(
    check.unset(
        "lifecycle livenessProbe readinessProbe startupProbe",
        "may not be set for init containers without restartPolicy=Always",
    ),
    check.items("resizePolicy", check.field("restartPolicy", _in_place)),
)


def ephemeral_container_errors(spec: Object, pod: Surroundings, path: str) -> Errors:
    others = {one.get("name", "") for group in ("containers", "initContainers") for one in spec.get(group, [])}
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
        # The struct of resources is always there; the others may be there and empty.
        stated = [
            f"{at}.{key}"
            for key in _NOT_IN_EPHEMERAL
            if container.get(key) or (key in container and key != "resources")
        ]
        for number, mount in enumerate(container.get("volumeMounts", [])):
            stated += [f"{at}.volumeMounts[{number}].{key}" for key in ("subPath", "subPathExpr") if mount.get(key)]
        yield from (forbidden(where, _NOT_EPHEMERAL) for where in stated)


image_errors = check.field(
    "image", check.must(lambda text: text.strip() == text, "must not have leading or trailing whitespace")
)
"""The check of the image of a container in a pod; templates are not checked for it."""

_ports = check.distinct(
    lambda is_new: check.rules(
        check.filled("name", check.in_turn(check.PORT_NAME, is_new)),
        check.needed("containerPort", check.PORT_NUMBER),
        check.filled("hostPort", check.PORT_NUMBER),
        check.enum("protocol", "SCTP", "TCP", "UDP"),
    )
)
_plain = check.rules(
    check.needed("name", check.LABEL),
    check.needed("image"),
    check.enum("terminationMessagePolicy", "File", "FallbackToLogsOnError"),
    check.field("ports", _ports),
    check.field("env", env_errors),
    check.field("envFrom", env_from_errors),
)
_pull_policy = check.enum("imagePullPolicy", "Always", "IfNotPresent", "Never")
_resized, _resize_policy = check.stated("cpu", "memory"), check.stated("NotRequired", "RestartContainer")


def _common_errors(container: Object, pod: Surroundings, path: str) -> Errors:
    yield from _plain(container, path)
    yield from mount_errors(container, pod.volumes, f"{path}.volumeMounts")
    yield from device_errors(container, pod.volumes, f"{path}.volumeDevices")
    yield from _pull_policy(container, path)
    resources = container.get("resources", {})
    yield from resource_errors(resources, f"{path}.resources", container_name_errors, pod.claims)
    is_new, at = check.unique(), f"{path}.resizePolicy"
    for index, policy in enumerate(container.get("resizePolicy", [])):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        yield from (*is_new(name, f"{at}[{index}]"), *_resized(name, at), *_resize_policy(restart, at))
        if pod.restart_policy == "Never" and restart != "NotRequired":
            yield invalid(at, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")
    if "securityContext" in container:
        yield from security_errors(container["securityContext"], f"{path}.securityContext", host_users=pod.host_users)


def _host_port_errors(containers: list[Object], path: str) -> Errors:
    is_new = check.unique()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports", [])):
            if port.get("hostPort", 0):
                key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
                yield from is_new(key, f"{path}[{index}].ports[{number}].hostPort")


_exit_codes = check.rules(
    check.field("operator", check.one_of("In", "NotIn"), absent=""), check.field("values", check.at_most_items(255))
)
_restart_actions = check.since(36, check.one_of("Restart", "RestartAllContainers"), check.one_of("Restart"))
_rule = check.rules(
    check.field("action", _restart_actions, absent=""),
    check.present("exitCodes", _exit_codes, words="must be specified"),
)
_policy_for_rules = check.when(
    "restartPolicyRules", check.present("restartPolicy", words="must specify restartPolicy when restart rules are used")
)
_restarts = check.rules(
    _policy_for_rules,
    check.field("restartPolicy", check.one_of("Always", "Never", "OnFailure")),
    check.field("restartPolicyRules", check.at_most_items(20), check.in_list(_rule)),
)
"""The check of a container's restart policy and rules (upstream validateContainerRestartPolicy)."""
_no_rules = check.barred("restartPolicyRules are not allowed for init containers with restart policy Always")
#: Upstream RestartAllContainers lets sidecars have rules.
_sidecar_restarts = check.since(36, _restarts, check.filled("restartPolicyRules", _no_rules))
