"""PodSecurity: the level that a namespace enforces by its labels, and how a pod violates it.

The API server's own defaults stand (everything is privileged, nothing is exempt); a cluster that configures others is
not modelled. A check returns in the API server's words how a pod violates it, ``reason (detail)``; "" where not.
Upstream: k8s.io/pod-security-admission, api/helpers.go, policy/registry.go, admission/admission.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from kplan.admission.gates import NEWEST
from kplan.admission.validation.checks import Object, reached
from kplan.admission.validation.pods import APP_ARMOR, SECCOMP, SECCOMP_POD
from kplan.api.field_errors import quoted as go_quoted

_CAPABILITIES = frozenset(
    {"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"}
    | {"SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}
)
_SYSCTLS = frozenset(("kernel.shm_rmid_forced", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range")) | {
    f"net.ipv4.ip_{name}" for name in ("local_port_range", "unprivileged_port_start")
}
_SYSCTLS_27 = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    f"net.ipv4.tcp_{name}" for name in ("keepalive_time", "fin_timeout", "keepalive_intvl", "keepalive_probes")
}
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_SELINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_SELINUX_TYPES_31 = _SELINUX_TYPES | {"container_engine_t"}
_PROFILES = frozenset({"RuntimeDefault", "Localhost"})
_VOLUMES = frozenset(
    {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected"}
    | {"secret"}
)

_HOSTS = tuple(
    f"{handler}.{action}.host"
    for handler in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop")
    for action in ("httpGet", "tcpSocket")
)


class WholePod:
    """A whole pod, with what checks read of it."""

    def __init__(self, pod: Object) -> None:
        self.annotations: Object = pod.get("metadata", {}).get("annotations") or {}
        self.spec: Object = pod.get("spec") or {}
        self.security: Object = self.spec.get("securityContext") or {}  #: the pod's own security context
        self.containers: list[Object] = list(reached(self.spec, "*"))  #: init containers first, as upstream visits them
        #: every container's name with its security context
        self.contexts = [(one.get("name", ""), one.get("securityContext") or {}) for one in self.containers]
        self.all_contexts: list[Object] = [self.security, *(security for _, security in self.contexts)]

    def violators(self, is_bad: Callable[[Object], object], demand: str = "", *, in_pod: bool = True) -> str:
        """Return ``pod and container "a"`` of bad security contexts, `in_pod` with its own, and what they must do."""
        names = [name for name, security in self.contexts if is_bad(security)]
        who = (["pod"] if in_pod and is_bad(self.security) else []) + ([_containers(names)] if names else [])
        return " ".join(filter(None, (" and ".join(who), demand))) if who else ""


Find = Callable[[WholePod], str]
_NEVER = 1000


class Revision(NamedTuple):
    """One revision of a check; the numbers are minor versions of the policies."""

    name: str  #: checks of a level run in the order of their names
    since: int  #: the first that has this revision
    reason: str  #: what is told before the detail; empty where the detail says it
    find: Find  #: returns the detail; "" where a pod does not violate it
    overrides: str = ""  #: name of the weaker check that it replaces
    spares_windows: int = _NEVER  #: the first in which pods of Windows pass
    #: the first in which pods in user namespaces of their own pass, where root is not root outside
    spares_own_users: int = _NEVER


def _quoted(items: Iterable[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def _plural(singular: str, items: Collection[str]) -> str:
    return singular if len(items) == 1 else f"{singular}s"


def _use(names: Collection[str]) -> str:
    return "uses" if len(names) == 1 else "use"


def _containers(names: Collection[str]) -> str:
    return f"{_plural('container', names)} {_quoted(names)}"


def _apparmor(pod: WholePod) -> str:
    def forbidden(security: Object) -> str:
        profile = security.get("appArmorProfile")
        return "" if profile is None or profile.get("type") in _PROFILES else str(profile.get("type", ""))

    notes = sorted(
        f"{key}={go_quoted(value)}"
        for key, value in pod.annotations.items()
        if key.startswith(APP_ARMOR) and value not in {"", "runtime/default"} and not value.startswith("localhost/")
    )
    values = [*sorted(set(map(forbidden, pod.all_contexts)) - {""}), *notes]
    who = [pod.violators(forbidden), _plural("annotation", notes) if notes else ""]
    subject, reason = " and ".join(filter(None, who)), _plural("forbidden AppArmor profile", values)
    return f"{reason} ({subject} must not set AppArmor profile type to {_quoted(values)})" if subject else ""


def _used(items_of: Iterable[tuple[str, set[str]]]) -> tuple[list[str], list[str]]:
    """Return the names of the containers that use something, and all that they use."""
    used = [(name, items) for name, items in items_of if items]
    return [name for name, _ in used], sorted({item for _, items in used for item in items})


def _added(pod: WholePod, allowed: Collection[str]) -> str:
    """Tell which containers add capabilities other than the allowed ones; "" where none does."""
    names, items = _used(
        (name, {*reached(security, "capabilities.add")}.difference(allowed)) for name, security in pod.contexts
    )
    what = f"must not include {_quoted(items)} in securityContext.capabilities.add"
    return f"{_containers(names)} {what}" if names else ""


def _restricted_capabilities(pod: WholePod) -> str:
    demand = 'must set securityContext.capabilities.drop=["ALL"]'
    silent = pod.violators(lambda security: "ALL" not in reached(security, "capabilities.drop"), demand, in_pod=False)
    return "; ".join(filter(None, [silent, _added(pod, ("NET_BIND_SERVICE",))]))


def _host_namespaces(pod: WholePod) -> str:
    return ", ".join(f"{key}=true" for key in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(key))


def _host_paths(pod: WholePod) -> str:
    names = [volume.get("name", "") for volume in pod.spec.get("volumes") or () if "hostPath" in volume]
    return f"{_plural('volume', names)} {_quoted(names)}" if names else ""


def _volumes(pod: WholePod) -> str:
    sources = [(volume, [key for key in volume if key != "name"]) for volume in pod.spec.get("volumes") or ()]
    bad = [(volume.get("name", ""), keys[0]) for volume, keys in sources if keys and not _VOLUMES.intersection(keys)]
    names, kinds = [name for name, _ in bad], {kind for _, kind in bad}
    what = _plural("restricted volume type", kinds)
    use = f"{_plural('volume', names)} {_quoted(names)} {_use(names)}"
    return f"{use} {what} {_quoted(sorted(kinds))}" if bad else ""


def _host_ports(pod: WholePod) -> str:
    names, ports = _used(
        (one.get("name", ""), {str(port) for port in reached(one, "ports.hostPort") if port}) for one in pod.containers
    )
    use = f"{_use(names)} {_plural('hostPort', ports)}"
    return f"{_containers(names)} {use} {', '.join(ports)}" if names else ""


def _host_probes(pod: WholePod) -> str:
    used, hosts = _used(
        (one.get("name", ""), {host for path in _HOSTS for host in reached(one, path) if host})
        for one in pod.containers
    )
    names = sorted(set(used))
    what = _plural("probe or lifecycle host", hosts)
    return f"{_containers(names)} {_use(names)} {what} {_quoted(hosts)}" if names else ""


def _unmasked_proc(pod: WholePod) -> str:
    mounts = {name: security["procMount"] for name, security in pod.contexts if security.get("procMount") is not None}
    mounts = {name: kind for name, kind in mounts.items() if kind != "Default"}
    kinds = _quoted(sorted(set(mounts.values())))
    return f"{_containers(mounts)} must not set securityContext.procMount to {kinds}" if mounts else ""


def _selinux(allowed: Collection[str]) -> Find:
    def is_odd(security: Object) -> bool:
        options = security.get("seLinuxOptions") or {}
        return bool(options.get("user") or options.get("role") or options.get("type", "") not in allowed)

    def find(pod: WholePod) -> str:
        who = pod.violators(is_odd, "set forbidden securityContext.seLinuxOptions")
        options = [security.get("seLinuxOptions") or {} for security in pod.all_contexts]
        types = sorted({option.get("type", "") for option in options}.difference(allowed))
        what = [f"{_plural('type', types)} {_quoted(types)}"] if types else []
        what += [f"{key} may not be set" for key in ("user", "role") if any(option.get(key) for option in options)]
        return f"{who}: {'; '.join(what)}" if who else ""

    return find


def _seccomp_notes(pod: WholePod) -> str:
    keys = {SECCOMP_POD, *(SECCOMP + name for name, _ in pod.contexts)} & pod.annotations.keys()
    forbidden = sorted(
        f"{key}={go_quoted(pod.annotations[key])}"
        for key in keys
        if pod.annotations[key] not in {"runtime/default", "docker/default"}
        and not pod.annotations[key].startswith("localhost/")
    )
    what = _plural("annotation", forbidden)
    return f"forbidden {what} {', '.join(forbidden)}" if forbidden else ""


def _seccomp(pod: WholePod) -> str:
    def is_forbidden(security: Object) -> bool:
        profile = security.get("seccompProfile")
        return profile is not None and profile.get("type") not in _PROFILES

    types = {security["seccompProfile"].get("type", "") for security in pod.all_contexts if is_forbidden(security)}
    demand = f"must not set securityContext.seccompProfile.type to {_quoted(sorted(types))}"
    return pod.violators(is_forbidden, demand)


def _restricted_seccomp(pod: WholePod) -> str:
    silent = [name for name, security in pod.contexts if security.get("seccompProfile") is None]
    must = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    is_set = pod.security.get("seccompProfile") is not None or not silent
    return _seccomp(pod) or ("" if is_set else f"pod or {_containers(silent)} {must}")


def _sysctls(allowed: Collection[str]) -> Find:
    return lambda pod: ", ".join(
        one["name"] for one in pod.security.get("sysctls") or () if one.get("name") not in allowed
    )


def _non_root(pod: WholePod) -> str:
    demand = "must not set securityContext.runAsNonRoot=false"
    who = pod.violators(lambda security: security.get("runAsNonRoot") is False, demand)
    silent = [name for name, security in pod.contexts if security.get("runAsNonRoot") is None]
    is_set = pod.security.get("runAsNonRoot") or not silent
    return who or ("" if is_set else f"pod or {_containers(silent)} must set securityContext.runAsNonRoot=true")


def _privileged(pod: WholePod) -> str:
    demand = "must not set securityContext.privileged=true"
    return pod.violators(lambda security: security.get("privileged"), demand, in_pod=False)


def _host_process(pod: WholePod) -> str:
    demand = "must not set securityContext.windowsOptions.hostProcess=true"
    return pod.violators(lambda security: (security.get("windowsOptions") or {}).get("hostProcess"), demand)


def _escalation(pod: WholePod) -> str:
    demand = "must set securityContext.allowPrivilegeEscalation=false"
    return pod.violators(lambda one: one.get("allowPrivilegeEscalation") is not False, demand, in_pod=False)


def _root(pod: WholePod) -> str:
    return pod.violators(lambda security: security.get("runAsUser") == 0, "must not set runAsUser=0")


BASELINE = (
    Revision("appArmorProfile", 0, "", _apparmor),
    Revision("capabilities_baseline", 0, "non-default capabilities", lambda pod: _added(pod, _CAPABILITIES)),
    Revision("hostNamespaces", 0, "host namespaces", _host_namespaces),
    Revision("hostPathVolumes", 0, "hostPath volumes", _host_paths),
    Revision("hostPorts", 0, "hostPort", _host_ports),
    Revision("hostProbesAndHostLifecycle", 34, "probe or lifecycle host", _host_probes),
    Revision("privileged", 0, "privileged", _privileged),
    Revision("procMount", 0, "procMount", _unmasked_proc, spares_own_users=35),
    Revision("seLinuxOptions", 0, "seLinuxOptions", _selinux(_SELINUX_TYPES)),
    Revision("seLinuxOptions", 31, "seLinuxOptions", _selinux(_SELINUX_TYPES_31)),
    Revision("seccompProfile_baseline", 0, "seccompProfile", _seccomp_notes),
    Revision("seccompProfile_baseline", 19, "seccompProfile", _seccomp),
    Revision("sysctls", 0, "forbidden sysctls", _sysctls(_SYSCTLS)),
    Revision("sysctls", 27, "forbidden sysctls", _sysctls(_SYSCTLS_27)),
    Revision("sysctls", 29, "forbidden sysctls", _sysctls(_SYSCTLS_29)),
    Revision("sysctls", 32, "forbidden sysctls", _sysctls(_SYSCTLS_32)),
    Revision("windowsHostProcess", 0, "hostProcess", _host_process),
)
RESTRICTED = (
    Revision("allowPrivilegeEscalation", 8, "allowPrivilegeEscalation != false", _escalation, spares_windows=25),
    Revision(
        "capabilities_restricted",
        22,
        "unrestricted capabilities",
        _restricted_capabilities,
        "capabilities_baseline",
        spares_windows=25,
    ),
    Revision("procMount_restricted", 35, "procMount", _unmasked_proc, "procMount"),
    Revision("restrictedVolumes", 0, "restricted volume types", _volumes, "hostPathVolumes"),
    Revision("runAsNonRoot", 0, "runAsNonRoot != true", _non_root, spares_own_users=35),
    Revision("runAsUser", 23, "runAsUser=0", _root, spares_own_users=35),
    Revision(
        "seccompProfile_restricted",
        19,
        "seccompProfile",
        _restricted_seccomp,
        "seccompProfile_baseline",
        spares_windows=25,
    ),
)
"""The revisions of each check, oldest first."""

_LABEL = "pod-security.kubernetes.io/enforce"
_VERSION_LABEL = "pod-security.kubernetes.io/enforce-version"
_PRIVILEGED, _BASELINE, _RESTRICTED = "privileged", "baseline", "restricted"
_LATEST = "latest"
_VERSION = r"(?a)v1\.(0|[1-9][0-9]*)"


class Policy(NamedTuple):
    """A level and its version; `newest` is the newest minor whose policies the API server knows."""

    level: str
    version: str
    newest: int = NEWEST

    @property
    def is_demanding(self) -> bool:
        return self.level != _PRIVILEGED

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"


def enforced(labels: Mapping[str, str], newest: int = NEWEST) -> Policy:
    """Return the policy in the labels of a namespace; an invalid level counts as restricted, a version as latest.

    `newest` is the minor of the API server, which knows no newer policies.
    """
    level = labels.get(_LABEL, _PRIVILEGED)
    if level not in {_PRIVILEGED, _BASELINE, _RESTRICTED}:
        level = _RESTRICTED
    version = labels.get(_VERSION_LABEL, _LATEST)
    return Policy(level, version if re.fullmatch(_VERSION, version) else _LATEST, min(newest, NEWEST))


def violations(policy: Policy, pod: Object) -> str:
    """Return in the API server's words how a whole pod violates a policy; "" where it does not."""
    if not policy.is_demanding:
        return ""
    newest = policy.newest
    minor = newest if policy.version == _LATEST else min(int(policy.version.removeprefix("v1.")), newest)
    revisions = BASELINE if policy.level == _BASELINE else (*BASELINE, *RESTRICTED)
    checks = {check.name: check for check in revisions if check.since <= minor}
    for check in list(checks.values()):
        checks.pop(check.overrides, None)
    subject = WholePod(pod)
    is_windows = (subject.spec.get("os") or {}).get("name") == "windows"
    has_own_users = subject.spec.get("hostUsers") is False
    details = [
        f"{check.reason} ({detail})" if check.reason else detail
        for check in sorted(checks.values(), key=lambda check: (check.name in _STRICTER, check.name))
        if not (is_windows and check.spares_windows <= minor)
        and not (has_own_users and check.spares_own_users <= minor)
        and (detail := check.find(subject))
    ]
    return f'violates PodSecurity "{policy}": {", ".join(details)}' if details else ""


_STRICTER = frozenset(check.name for check in RESTRICTED)
