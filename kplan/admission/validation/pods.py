"""Pods and pod templates, with the annotations that Kubernetes validates.

Upstream: pkg/apis/core/validation ValidatePodCreate, ValidatePodSpec, ValidatePodTemplateSpec,
ValidatePodSpecificAnnotations.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from kplan.admission.validation.checks import (
    Check,
    Errors,
    FieldError,
    Object,
    at_most_bytes,
    between,
    duplicate,
    enum,
    field,
    filled,
    forbidden,
    formed,
    go_struct,
    in_list,
    invalid,
    items,
    must,
    needed,
    not_found,
    one_of,
    present,
    quoted,
    required,
    rules,
    stated,
)
from kplan.admission.validation.containers import (
    Surroundings,
    container_errors,
    ephemeral_container_errors,
    image_errors,
    init_container_errors,
)
from kplan.admission.validation.metadata import (
    KEY,
    LABEL,
    SUBDOMAIN,
    annotation_errors,
    descending,
    ip_errors,
    label_errors,
    metadata,
    subdomain_with_underscore,
)
from kplan.admission.validation.pod_fields import (
    affinity_errors,
    container_name_errors,
    containers_with_path,
    gate_errors,
    host_process_errors,
    os_errors,
    pod_resource_errors,
    pod_security_errors,
    resource_errors,
    spread_errors,
    toleration_errors,
)
from kplan.admission.validation.volumes import volume_errors

_MIRROR = "kubernetes.io/config.mirror"
_TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_LOCALHOST = "localhost/"
_INT32 = 2**31


def pod_annotation_errors(annotations: dict[str, str], spec: Object, path: str) -> Errors:
    if _MIRROR in annotations and not spec.get("nodeName"):
        words = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid(f"{path}[{_MIRROR}]", annotations[_MIRROR], words)
    if annotations.get(_TOLERATIONS):
        yield from _written_toleration_errors(annotations[_TOLERATIONS], path)
    cost = annotations.get(_DELETION_COST)
    is_number = cost is not None and re.fullmatch(r"-?[1-9][0-9]{0,9}|0", cost)
    if cost is not None and not (is_number and -_INT32 <= int(cost) < _INT32):
        yield invalid(f"{path}[{_DELETION_COST}]", cost, "must be a 32bit integer")
    for key, profile in sorted(annotations.items()):
        if key == _SECCOMP_POD or key.startswith(_SECCOMP):
            yield from _seccomp_errors(profile, f"{path}.{key}")
    names = {container.get("name", "") for container, _ in containers_with_path(spec, "")}
    for key, profile in sorted(annotations.items()):
        if key.startswith(_APP_ARMOR):
            name = key.removeprefix(_APP_ARMOR)
            if name not in names:
                yield invalid(f"{path}[{key}]", name, "container not found")
            if profile not in ("", "runtime/default", "unconfined") and not profile.startswith(_LOCALHOST):
                yield invalid(f"{path}[{key}]", profile, f"invalid AppArmor profile name: {quoted(profile)}")


def _written_toleration_errors(text: str, path: str) -> Errors:
    try:
        tolerations = msgspec.json.decode(text, type=list[dict[str, Any]])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        return [invalid(path, _TOLERATIONS, str(error))]
    return toleration_errors(tolerations, f"{path}.{_TOLERATIONS}")


def _seccomp_errors(profile: str, path: str) -> Errors:
    if profile.startswith(_LOCALHOST):
        yield from descending(profile.removeprefix(_LOCALHOST), path)
    elif profile not in ("runtime/default", "docker/default", "unconfined"):
        yield invalid(path, profile, "must be a valid seccomp profile")


def profile_match_errors(annotations: dict[str, str], spec: Object, path: str) -> Errors:
    """Return where a deprecated annotation differs from the field that replaced it."""
    whole = spec.get("securityContext", {})
    if "seccompProfile" in whole and _SECCOMP_POD in annotations:
        at = f"{path}.securityContext.seccompProfile"
        yield from _match_errors("seccomp", annotations[_SECCOMP_POD], whole["seccompProfile"], at)
    is_windows = spec.get("os", {}).get("name") == "windows"
    kinds: tuple[tuple[str, str, str, Object], ...] = (
        ("seccomp", _SECCOMP, "seccompProfile", {}),
        ("apparmor", _APP_ARMOR, "appArmorProfile", whole),
    )
    for what, prefix, name, otherwise in kinds[:1] if is_windows else kinds:
        for container, at in containers_with_path(spec, path):
            key = prefix + container.get("name", "")
            profile = container.get("securityContext", {}).get(name) or otherwise.get(name)
            if profile is not None and key in annotations:
                yield from _match_errors(what, annotations[key], profile, f"{at}.securityContext.{name}")


def _match_errors(what: str, annotation: str, profile: dict[str, str], path: str) -> Errors:
    kind = profile.get("type", "")
    allowed = {"Unconfined": ["unconfined"], "RuntimeDefault": ["runtime/default"]}
    allowed["RuntimeDefault"] += ["docker/default"] if what == "seccomp" else []
    is_local = kind == "Localhost"
    if annotation not in allowed.get(kind, [annotation]) or (is_local and not annotation.startswith(_LOCALHOST)):
        yield forbidden(f"{path}.type", f"{what} type in annotation and field must match")
    elif is_local and annotation.removeprefix(_LOCALHOST) != profile.get("localhostProfile"):
        yield forbidden(f"{path}.localhostProfile", f"{what} profile in annotation and field must match")


_MOST_SERVERS, _MOST_PATHS, _MOST_CHARACTERS = 3, 32, 2048
_metadata, _images = metadata(), items("containers initContainers", image_errors)
_grace = present("terminationGracePeriodSeconds")


def pod_errors(pod: Object) -> list[FieldError]:
    return list(_pod_errors(pod, pod.get("metadata", {}), pod.get("spec", {})))


def _pod_errors(pod: Object, meta: Object, spec: Object) -> Errors:
    annotations = meta.get("annotations", {})
    yield from _metadata(pod, "")
    yield from pod_annotation_errors(annotations, spec, "metadata.annotations")
    yield from pod_spec_errors(spec, "spec", meta)
    yield from _images(spec, "spec")
    if spec.get("ephemeralContainers"):
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
    yield from profile_match_errors(annotations, spec, "spec")


_template_metadata = rules(field("labels", label_errors), field("annotations", annotation_errors))


def template_errors(template: Object, path: str) -> Errors:
    meta, spec = template.get("metadata", {}), template.get("spec", {})
    annotations = meta.get("annotations", {})
    yield from _template_metadata(meta, path)
    yield from pod_annotation_errors(annotations, spec, f"{path}.annotations")
    yield from pod_spec_errors(spec, f"{path}.spec", None)
    yield from profile_match_errors(annotations, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        yield forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def pod_spec_errors(spec: Object, path: str, meta: Object | None) -> Errors:
    """Return what is wrong with the spec of a pod, or of a template where there is no metadata."""
    is_pod, name = meta is not None, (meta or {}).get("name", "")
    yield from _grace(spec, path)
    volumes, problems = volume_errors(spec, f"{path}.volumes", name, is_pod=is_pod)
    yield from problems
    claims = {claim["name"] for claim in spec.get("resourceClaims", []) if claim.get("name")}
    yield from _claim_errors(spec.get("resourceClaims", []), meta, f"{path}.resourceClaims")
    grace, restart = spec.get("terminationGracePeriodSeconds"), spec.get("restartPolicy", "")
    around = Surroundings(volumes, claims, grace, restart, spec.get("hostUsers", True))
    for errors in (container_errors, init_container_errors, ephemeral_container_errors):
        yield from errors(spec, around, path)
    yield from pod_resource_errors(spec, claims, path)
    words = "must match `containerPort` when `hostNetwork` is true"
    for index, container in enumerate(spec.get("containers", []) if spec.get("hostNetwork") else ()):
        for number, port in enumerate(container.get("ports", [])):
            on_host = port.get("hostPort", 0)
            if (is_pod or on_host) and on_host != port.get("containerPort", 0):
                yield invalid(f"{path}.containers[{index}].ports[{number}].hostPort", on_host, words)
    yield from _CHECKS(spec, path)


def _claim_errors(claims: list[Object], meta: Object | None, path: str) -> Errors:
    is_mirror = _MIRROR in (meta or {}).get("annotations", {})
    names: set[str] = set()
    for index, claim in enumerate(claims):
        at, name = f"{path}[{index}]", claim.get("name", "")
        if is_mirror:
            yield forbidden("", "static pods do not support resource claims")
            continue
        yield from [duplicate(f"{at}.name", name)] if name in names else _claim_name(claim, at)
        names |= {name} - {""}
        shown = go_struct(claim, Name="", ResourceClaimName=None, ResourceClaimTemplateName=None)
        count = ("resourceClaimName" in claim) + ("resourceClaimTemplateName" in claim)
        if count == 2:
            words = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield invalid(at, shown, words)
        if not count:
            yield invalid(at, shown, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
        yield from _claim_sources(claim, at)


_claim_name = needed("name", LABEL)
_claim_sources = field("resourceClaimName resourceClaimTemplateName", SUBDOMAIN)


def _host_user_errors(spec: Object, path: str) -> Errors:
    """Return what a pod in its own user namespace must not use of its node."""
    if spec.get("hostUsers", True):
        return
    words = "when `hostUsers` is false"
    for key, called in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(key):
            yield forbidden(f"{path}.{called}", words)
    for container, at in containers_with_path(spec, path):
        if container.get("volumeDevices"):
            yield forbidden(f"{at}.volumeDevices", words)


def _host_name_errors(spec: Object, path: str) -> Errors:
    for key in ("setHostnameAsFQDN", "hostNetwork"):
        if "hostnameOverride" in spec and spec.get(key):
            yield forbidden(f"{path}.hostnameOverride", f"may not be specified when {key} is true")


def _dns_config_errors(spec: Object, path: str) -> Errors:
    """Return what is wrong with the DNS configuration of a pod (upstream validatePodDNSConfig)."""
    config, at = spec.get("dnsConfig", {}), f"{path}.dnsConfig"
    if spec.get("dnsPolicy") != "None" or config.get("nameservers"):
        yield from _dns_config(config, at)
    elif "dnsConfig" in spec:
        yield required(f"{at}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")
    else:
        yield required(at, "must provide `dnsConfig` when `dnsPolicy` is None")


def _search_errors(search: str, path: str) -> Errors:
    domain = "a" if search == "." else search.removesuffix(".")
    return formed(subdomain_with_underscore)(domain, path)


_dns_config = rules(
    field(
        "nameservers",
        must(lambda servers: len(servers) <= _MOST_SERVERS, f"must not have more than {_MOST_SERVERS} nameservers"),
        in_list(ip_errors),
    ),
    field(
        "searches",
        must(lambda searches: len(searches) <= _MOST_PATHS, f"must not have more than {_MOST_PATHS} search paths"),
        must(
            lambda searches: len(" ".join(searches).encode()) <= _MOST_CHARACTERS,
            f"must not have more than {_MOST_CHARACTERS} characters (including spaces) in the search list",
        ),
        in_list(_search_errors),
    ),
    items("options", lambda option, path: () if option.get("name") else [required(path, "must not be empty")]),
)


def _file_key_volume_errors(spec: Object, path: str) -> Errors:
    """Return where an environment variable comes from a volume that is not an emptyDir."""
    volumes = {volume.get("name", ""): volume for volume in spec.get("volumes", [])}
    for container, at in containers_with_path(spec, path):
        for index, variable in enumerate(container.get("env", [])):
            reference = variable.get("valueFrom", {}).get("fileKeyRef")
            if reference is None:
                continue
            name, where = reference.get("volumeName", ""), f"{at}.env[{index}].valueFrom.fileKeyRef.volumeName"
            if name not in volumes:
                yield not_found(where, name)
            elif "emptyDir" not in volumes[name]:
                yield invalid(where, name, "referenced volume must be of type emptyDir")


def restart_policy(owner: str) -> Check:
    """Return the check of restart policy and deadline in the template of a controller."""

    def deadline(_: int, path: str) -> Errors:
        return [forbidden(path, f"activeDeadlineSeconds in {owner} is not Supported")]

    pod = rules(field("restartPolicy", one_of("Always"), absent=""), field("activeDeadlineSeconds", deadline))
    return field("spec", pod, absent={})


def _overhead_errors(amounts: Object, path: str) -> Errors:
    return resource_errors({"limits": amounts}, path, container_name_errors)


_CHECKS = rules(
    enum("restartPolicy", "Always", "OnFailure", "Never"),
    enum("dnsPolicy", "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    field("nodeSelector", label_errors),
    pod_security_errors,
    field("affinity", affinity_errors),
    _dns_config_errors,
    items("readinessGates", field("conditionType", KEY, absent="")),
    field("schedulingGates", gate_errors),
    field("topologySpreadConstraints", spread_errors),
    host_process_errors,
    _host_user_errors,
    _host_name_errors,
    field("hostnameOverride", at_most_bytes(64), SUBDOMAIN),
    filled("serviceAccountName nodeName", SUBDOMAIN),
    field("activeDeadlineSeconds", between(1, 2**31 - 1)),
    filled("hostname subdomain", LABEL),
    field("tolerations", toleration_errors),
    items("hostAliases", field("ip", ip_errors, absent=""), items("hostnames", SUBDOMAIN)),
    filled("priorityClassName", SUBDOMAIN),
    field("runtimeClassName", SUBDOMAIN),
    field("preemptionPolicy", stated("PreemptLowerPriority", "Never")),
    field("overhead", _overhead_errors),
    os_errors,
    _file_key_volume_errors,
)
"""Checks of a pod spec in upstream's order, which is that of the errors."""
