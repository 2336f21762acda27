"""Pods and pod templates, and the workloads that create pods from templates.

These are deployments, replica sets, stateful sets, daemon sets and replication controllers; jobs have a module of their
own. Of annotations those are checked that Kubernetes validates.

Upstream: pkg/apis/core/validation ValidatePodCreate, ValidatePodSpec, ValidatePodTemplateSpec,
ValidatePodSpecificAnnotations, ValidateReplicationController; pkg/apis/apps/validation.
"""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec

from kplan.admission.validation import checks as check
from kplan.admission.validation import containers, pod_fields
from kplan.admission.validation.checks import Check, Object
from kplan.admission.validation.metadata import (
    annotation_errors,
    label_errors,
    metadata_check,
    of_kind,
    selector_errors,
    selector_matches,
    shown_selector,
)
from kplan.admission.validation.volumes import claim_spec_errors, volume_errors
from kplan.api.field_errors import (
    Errors,
    duplicate,
    forbidden,
    go_struct,
    invalid,
    not_found,
    not_supported,
    quoted,
    required,
)
from kplan.api.names import dns_subdomain_problems

MIRROR = "kubernetes.io/config.mirror"
_TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
LOCALHOST = "localhost/"
_INT32 = 2**31


def pod_annotation_errors(annotations: dict[str, str], spec: Object, path: str) -> Errors:
    if MIRROR in annotations and not spec.get("nodeName"):
        words = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid(f"{path}[{MIRROR}]", annotations[MIRROR], words)
    if annotations.get(_TOLERATIONS):
        yield from _written_toleration_errors(annotations[_TOLERATIONS], path)
    cost = annotations.get(_DELETION_COST)
    is_number = cost is not None and re.fullmatch(r"-?[1-9][0-9]{0,9}|0", cost)
    if cost is not None and not (is_number and -_INT32 <= int(cost) < _INT32):
        yield invalid(f"{path}[{_DELETION_COST}]", cost, "must be a 32bit integer")
    for key, profile in sorted(annotations.items()):
        if key == SECCOMP_POD or key.startswith(SECCOMP):
            yield from _seccomp_errors(profile, f"{path}.{key}")
    names = {container.get("name", "") for container, _ in pod_fields.containers_with_path(spec, "")}
    for key, profile in sorted(annotations.items()):
        if key.startswith(APP_ARMOR):
            name = key.removeprefix(APP_ARMOR)
            if name not in names:
                yield invalid(f"{path}[{key}]", name, "container not found")
            if profile not in ("", "runtime/default", "unconfined") and not profile.startswith(LOCALHOST):
                yield invalid(f"{path}[{key}]", profile, f"invalid AppArmor profile name: {quoted(profile)}")


def _written_toleration_errors(text: str, path: str) -> Errors:
    try:
        tolerations = msgspec.json.decode(text, type=list[dict[str, Any]] | None)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        return [invalid(path, _TOLERATIONS, str(error))]
    return pod_fields.toleration_errors(tolerations or [], f"{path}.{_TOLERATIONS}")


def _seccomp_errors(profile: str, path: str) -> Errors:
    if profile.startswith(LOCALHOST):
        yield from check.descending(profile.removeprefix(LOCALHOST), path)
    elif profile not in ("runtime/default", "docker/default", "unconfined"):
        yield invalid(path, profile, "must be a valid seccomp profile")


def profile_match_errors(annotations: dict[str, str], spec: Object, path: str) -> Errors:
    """Return where a deprecated annotation differs from the field that replaced it."""
    whole = spec.get("securityContext", {})
    if "seccompProfile" in whole and SECCOMP_POD in annotations:
        at = f"{path}.securityContext.seccompProfile"
        yield from _match_errors("seccomp", annotations[SECCOMP_POD], whole["seccompProfile"], at)
    is_windows = spec.get("os", {}).get("name") == "windows"
    kinds: tuple[tuple[str, str, str, Object], ...] = (
        ("seccomp", SECCOMP, "seccompProfile", {}),
        ("apparmor", APP_ARMOR, "appArmorProfile", whole),
    )
    for what, prefix, name, otherwise in kinds[:1] if is_windows else kinds:
        for container, at in pod_fields.containers_with_path(spec, path):
            key = prefix + container.get("name", "")
            profile = container.get("securityContext", {}).get(name) or otherwise.get(name)
            if profile is not None and key in annotations:
                yield from _match_errors(what, annotations[key], profile, f"{at}.securityContext.{name}")


def _match_errors(what: str, annotation: str, profile: dict[str, str], path: str) -> Errors:
    kind = profile.get("type", "")
    allowed = {"Unconfined": ["unconfined"], "RuntimeDefault": ["runtime/default"]}
    allowed["RuntimeDefault"] += ["docker/default"] if what == "seccomp" else []
    is_local = kind == "Localhost"
    if annotation not in allowed.get(kind, [annotation]) or (is_local and not annotation.startswith(LOCALHOST)):
        yield forbidden(f"{path}.type", f"{what} type in annotation and field must match")
    elif is_local and annotation.removeprefix(LOCALHOST) != profile.get("localhostProfile"):
        yield forbidden(f"{path}.localhostProfile", f"{what} profile in annotation and field must match")


_MOST_SERVERS, _MOST_PATHS, _MOST_CHARACTERS = 3, 32, 2048  # upstream MaxDNSNameservers and others, as glibc has them
_pod_metadata, _grace = metadata_check(), check.present("terminationGracePeriodSeconds")
_template_metadata = check.rules(check.field("labels", label_errors), check.field("annotations", annotation_errors))
_new = check.rules(
    check.items("containers initContainers", containers.image_errors),
    check.unset("ephemeralContainers", "cannot be set on create"),
)


def pod_errors(pod: Object) -> Errors:
    meta, spec = pod.get("metadata", {}), pod.get("spec", {})
    annotations = meta.get("annotations", {})
    yield from _pod_metadata(pod, "")
    yield from pod_annotation_errors(annotations, spec, "metadata.annotations")
    yield from pod_spec_errors(spec, "spec", meta)
    yield from _new(spec, "spec")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
    yield from profile_match_errors(annotations, spec, "spec")


def template_errors(template: Object, path: str) -> Errors:
    meta, spec = template.get("metadata", {}), template.get("spec", {})
    annotations = meta.get("annotations", {})
    yield from _template_metadata(meta, path)
    yield from pod_annotation_errors(annotations, spec, f"{path}.annotations")
    yield from pod_spec_errors(spec, f"{path}.spec", None)
    yield from profile_match_errors(annotations, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        yield forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


pod_template_errors = check.rules(metadata_check(), check.field("template", template_errors))


def pod_spec_errors(spec: Object, path: str, meta: Object | None) -> Errors:
    """Return what is wrong with the spec of a pod, or of a template where there is no metadata."""
    is_pod, name = meta is not None, (meta or {}).get("name", "")
    yield from _grace(spec, path)
    volumes, problems = volume_errors(spec, f"{path}.volumes", name, is_pod=is_pod)
    yield from problems
    claims = {claim["name"] for claim in spec.get("resourceClaims", []) if claim.get("name")}
    yield from _claim_errors(spec.get("resourceClaims", []), meta, f"{path}.resourceClaims")
    grace, restart = spec.get("terminationGracePeriodSeconds"), spec.get("restartPolicy", "")
    around = containers.Surroundings(volumes, claims, grace, restart, spec.get("hostUsers", True))
    for errors in (
        containers.container_errors,
        containers.init_container_errors,
        containers.ephemeral_container_errors,
    ):
        yield from errors(spec, around, path)
    yield from pod_fields.pod_resource_errors(spec, claims, path)
    words = "must match `containerPort` when `hostNetwork` is true"
    for index, container in enumerate(spec.get("containers", []) if spec.get("hostNetwork") else ()):
        for number, port in enumerate(container.get("ports", [])):
            on_host = port.get("hostPort", 0)
            if (is_pod or on_host) and on_host != port.get("containerPort", 0):
                yield invalid(f"{path}.containers[{index}].ports[{number}].hostPort", on_host, words)
    yield from _CHECKS(spec, path)


def _claim_errors(claims: list[Object], meta: Object | None, path: str) -> Errors:
    is_mirror = MIRROR in (meta or {}).get("annotations", {})
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


_claim_name = check.needed("name", check.LABEL)
_claim_sources = check.field("resourceClaimName resourceClaimTemplateName", check.SUBDOMAIN)

_no_host_user = check.barred("when `hostUsers` is false")
_own_users = check.when(
    lambda spec: not spec.get("hostUsers", True),
    check.filled("hostNetwork", _no_host_user),
    check.filled("hostPID", _no_host_user, called="HostPID"),
    check.filled("hostIPC", _no_host_user, called="HostIPC"),
    pod_fields.in_containers(check.filled("volumeDevices", _no_host_user)),
)
"""The check of what a pod in its own user namespace must not use of its node."""


def _dns_config_errors(spec: Object, path: str) -> Errors:
    """Return what is wrong with the DNS configuration of a pod (upstream validatePodDNSConfig)."""
    config, at = spec.get("dnsConfig", {}), f"{path}.dnsConfig"
    if spec.get("dnsPolicy") != "None" or config.get("nameservers"):
        yield from _dns_config(config, at)
    elif "dnsConfig" in spec:
        yield required(f"{at}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")
    else:
        yield required(at, "must provide `dnsConfig` when `dnsPolicy` is None")


def _at_most(most: int, what: str) -> Check:
    return check.must(lambda listed: len(listed) <= most, f"must not have more than {most} {what}")


_domain = check.formed(check.subdomain_with_underscore)
_dns_config = check.rules(
    check.field("nameservers", _at_most(_MOST_SERVERS, "nameservers"), check.in_list(check.ip_errors)),
    check.field(
        "searches",
        _at_most(_MOST_PATHS, "search paths"),
        check.must(
            lambda searches: len(" ".join(searches).encode()) <= _MOST_CHARACTERS,
            f"must not have more than {_MOST_CHARACTERS} characters (including spaces) in the search list",
        ),
        check.in_list(lambda search, path: _domain("a" if search == "." else search.removesuffix("."), path)),
    ),
    check.items("options", lambda option, path: () if option.get("name") else [required(path, "must not be empty")]),
)


def _file_key_volume_errors(spec: Object, path: str) -> Errors:
    """Return where an environment variable comes from a volume that is not an emptyDir."""
    volumes = {volume.get("name", ""): volume for volume in spec.get("volumes", [])}

    def is_empty_dir(name: str, at: str) -> Errors:
        if name not in volumes:
            yield not_found(at, name)
        elif "emptyDir" not in volumes[name]:
            yield invalid(at, name, "referenced volume must be of type emptyDir")

    reference = check.field("fileKeyRef", check.field("volumeName", is_empty_dir, absent=""))
    return pod_fields.in_containers(check.items("env", check.field("valueFrom", reference)))(spec, path)


def restart_policy(owner: str) -> Check:
    """Return the check of restart policy and deadline in the template of a controller."""
    return check.field(
        "spec",
        check.field("restartPolicy", check.one_of("Always"), absent=""),
        check.unset("activeDeadlineSeconds", f"activeDeadlineSeconds in {owner} is not Supported"),
        absent={},
    )


_CHECKS = check.rules(
    check.enum("restartPolicy", "Always", "OnFailure", "Never"),
    check.enum("dnsPolicy", "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    check.field("nodeSelector", label_errors),
    pod_fields.pod_security_errors,
    check.field("affinity", pod_fields.affinity_errors),
    _dns_config_errors,
    check.items("readinessGates", check.field("conditionType", check.KEY, absent="")),
    check.field("schedulingGates", pod_fields.gate_errors),
    check.field("topologySpreadConstraints", pod_fields.spread_errors),
    pod_fields.host_process_errors,
    _own_users,
    *(
        check.when(key, check.unset("hostnameOverride", f"may not be specified when {key} is true"))
        for key in ("setHostnameAsFQDN", "hostNetwork")
    ),
    check.field("hostnameOverride", check.at_most_bytes(64), check.SUBDOMAIN),
    check.filled("serviceAccountName nodeName", check.SUBDOMAIN),
    check.field("activeDeadlineSeconds", check.between(1, 2**31 - 1)),
    check.filled("hostname subdomain", check.LABEL),
    check.field("tolerations", pod_fields.toleration_errors),
    check.items(
        "hostAliases", check.field("ip", check.ip_errors, absent=""), check.items("hostnames", check.SUBDOMAIN)
    ),
    check.filled("priorityClassName", check.SUBDOMAIN),
    check.field("runtimeClassName", check.SUBDOMAIN),
    check.field("preemptionPolicy", check.stated("PreemptLowerPriority", "Never")),
    check.field("overhead", pod_fields.overhead_errors),
    pod_fields.os_errors,
    _file_key_volume_errors,
)
"""Checks of a pod spec in upstream's order, which is that of the errors."""

_UNMATCHED = "`selector` does not match template `labels`"
_SURGING = {"MaxUnavailable": 0, "MaxSurge": 0}
_PARTITIONED = {"Partition": 0, "MaxUnavailable": None}

FIRST_WITH_RECREATE = 37
"""The first minor whose StatefulSets have the update strategy Recreate, behind a gate that is off by default."""


def _something(called: str) -> Check:
    words = f"empty selector is invalid for {called}"
    return lambda selector, path: [] if any(selector.values()) else [invalid(path, shown_selector(selector), words)]


def label_match_errors(spec: Object, path: str) -> Errors:
    """Return an error for a template whose labels the selector does not match; an invalid selector passes."""
    labels = spec.get("template", {}).get("metadata", {}).get("labels")
    if selector_matches(spec.get("selector"), labels or {}) is False:
        yield invalid(f"{path}.template.metadata.labels", labels, _UNMATCHED)


def _template(owner: str, unreadable: str = "invalid label selector") -> Check:
    errors_of = check.rules(
        label_match_errors,
        check.field("template", template_errors, absent={}),
        check.field("template", restart_policy(owner), absent={}) if owner else check.rules(),
    )

    def errors(spec: Object, path: str) -> Errors:
        if (selector := spec.get("selector")) is not None and any(selector_errors(selector, "")):
            return [invalid(f"{path}.selector", shown_selector(selector), unreadable)]
        return errors_of(spec, path)

    return errors


def share_errors(share: int | str, path: str) -> Errors:
    """Check a number or percentage (upstream ValidatePositiveIntOrPercent)."""
    if isinstance(share, int):
        return check.not_negative(share, path)
    return [invalid(path, share, problem) for problem in check.percent(share)]


def above_all_errors(share: int | str, path: str) -> Errors:
    """Refuse more than all (upstream IsNotMoreThan100Percent)."""
    if isinstance(share, str) and not check.percent(share) and _number(share) > 100:
        yield invalid(path, share, "must not be greater than 100%")


def _number(share: int | str) -> int:
    """Return the number in a number or percentage; 0 for another text (upstream getIntOrPercentValue)."""
    if isinstance(share, int):
        return share
    text = share.removesuffix("%") if not check.percent(share) else share
    return int(text[:19]) if text.isascii() and text.removeprefix("-").isdigit() else 0


def _strategy_errors(strategy: Object, path: str) -> Errors:
    kind, rolling, at = strategy.get("type", ""), strategy.get("rollingUpdate", {}), f"{path}.rollingUpdate"
    if kind == "Recreate":
        if "rollingUpdate" in strategy:
            yield forbidden(at, "may not be specified when strategy `type` is 'Recreate'")
        return
    if kind != "RollingUpdate":
        shown = go_struct(strategy, Type="", RollingUpdate=_SURGING)
        yield not_supported(path, shown, ("Recreate", "RollingUpdate"))
        return
    unavailable = rolling.get("maxUnavailable", 0)
    yield from check.field("maxUnavailable maxSurge", share_errors)(rolling, at)
    if not _number(unavailable) and not _number(rolling.get("maxSurge", 0)):
        yield invalid(f"{at}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    yield from above_all_errors(unavailable, f"{at}.maxUnavailable")


deployment_errors = of_kind(
    metadata_check(),
    check.field("replicas", check.not_negative),
    check.present("selector", selector_errors, _something("deployment")),
    _template("ReplicaSet"),
    check.field("strategy", _strategy_errors, absent={}),
    check.field("minReadySeconds revisionHistoryLimit", check.not_negative),
    check.field("progressDeadlineSeconds", check.not_negative),
    check.when(
        lambda spec: spec.get("progressDeadlineSeconds", math.inf) <= spec.get("minReadySeconds", 0),
        check.field("progressDeadlineSeconds", check.never("must be greater than minReadySeconds")),
    ),
)
replica_set_errors = of_kind(
    metadata_check(),
    check.field("replicas minReadySeconds", check.not_negative),
    check.present("selector", selector_errors, _something("deployment")),
    _template("ReplicaSet"),
)


def _plain_selector_errors(spec: Object, path: str) -> Errors:
    labels = spec.get("template", {}).get("metadata", {}).get("labels")
    is_unmatched = any((labels or {}).get(key) != value for key, value in spec.get("selector", {}).items())
    if "template" in spec and is_unmatched:
        yield invalid(f"{path}.template.metadata.labels", labels, _UNMATCHED)


replication_controller_errors = of_kind(
    # Unlike the other kinds it does not check generateName, and its messages say bytes, not characters.
    metadata_check(dns_subdomain_problems, checks_prefix=False),
    check.field("minReadySeconds", check.not_negative),
    check.needed("selector"),
    check.field("replicas", check.not_negative),
    check.present("template"),
    _plain_selector_errors,
    check.field("template", template_errors, restart_policy("ReplicationController")),
)


def _not_rolling(strategy: Object, path: str) -> Errors:
    if (rolling := strategy.get("rollingUpdate")) is not None:
        shown = go_struct(rolling, **_PARTITIONED)
        yield invalid(f"{path}.rollingUpdate", shown, "only allowed for updateStrategy 'RollingUpdate'")


def _unknown_strategy(strategy: Object, path: str) -> Errors:
    shown = go_struct(strategy, Type="", RollingUpdate=_PARTITIONED)
    yield invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'")


_BY_STRATEGY: dict[str, Check] = {
    "RollingUpdate": check.filled("rollingUpdate", check.field("partition", check.not_negative)),
    "OnDelete": _not_rolling,
    "Recreate": check.since(FIRST_WITH_RECREATE, _not_rolling, _unknown_strategy),
}


def _update_errors(strategy: Object, path: str) -> Errors:
    return _BY_STRATEGY.get(strategy.get("type", ""), _unknown_strategy)(strategy, path)


def _stateful_template_errors(spec: Object, path: str) -> Errors:
    """Check the template with volumes for the claim templates, and without the host names of its pods."""
    names = [claim.get("metadata", {}).get("name", "") for claim in spec.get("volumeClaimTemplates", [])]
    template = spec.get("template", {})
    pod = {key: value for key, value in template.get("spec", {}).items() if key not in ("subdomain", "hostname")}
    if names:
        claims = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(names)]
        pod["volumes"] = [*claims, *(one for one in pod.get("volumes", []) if one.get("name", "") not in names)]
    return _template("", "")({**spec, "template": {**template, "spec": pod}}, path)


stateful_set_errors = of_kind(
    metadata_check(check.dns_label),
    check.field(
        "podManagementPolicy",
        check.must(lambda policy: policy in ("OrderedReady", "Parallel"), "must be 'OrderedReady' or 'Parallel'"),
        absent="",
    ),
    check.field("updateStrategy", _update_errors, absent={}),
    check.field(
        "persistentVolumeClaimRetentionPolicy", check.field("whenDeleted whenScaled", check.one_of("Retain", "Delete"))
    ),
    check.items("volumeClaimTemplates", check.field("spec", claim_spec_errors, absent={})),
    check.field("replicas minReadySeconds", check.not_negative),
    check.field("ordinals", check.field("start", check.not_negative)),
    check.filled("serviceName", check.LABEL),
    check.present("selector", selector_errors, _something("statefulset")),
    _stateful_template_errors,
    check.field("template", restart_policy("StatefulSet"), absent={}),
)


def _daemon_update_errors(strategy: Object, path: str) -> Errors:
    kind, rolling, at = strategy.get("type", ""), strategy.get("rollingUpdate", {}), f"{path}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    if kind == "RollingUpdate":
        yield from check.field("maxUnavailable maxSurge", share_errors)(rolling, at)
        yield from check.field("maxUnavailable maxSurge", above_all_errors)(rolling, at)
        if _number(unavailable) and _number(surge):
            yield invalid(f"{at}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
        if not _number(unavailable) and not _number(surge):
            yield required(f"{at}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    elif kind != "OnDelete":
        shown = go_struct(strategy, Type="", RollingUpdate=_SURGING)
        yield not_supported(path, shown, ("RollingUpdate", "OnDelete"))


daemon_set_errors = of_kind(
    metadata_check(),
    check.field("selector", selector_errors),
    label_match_errors,
    check.field("selector", _something("daemonset")),
    check.field("template", template_errors, restart_policy("DaemonSet"), absent={}),
    check.field("minReadySeconds", check.not_negative),
    check.field("updateStrategy", _daemon_update_errors, absent={}),
    check.field("revisionHistoryLimit", check.not_negative),
)
