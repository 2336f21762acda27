"""PodSecurity: the level that a namespace enforces by its labels, and how a pod violates it.

The API server's own defaults stand (everything is privileged, nothing is exempt); a cluster that configures others is
not modelled. A check returns in the API server's words how a pod violates it, ``reason (detail)``; "" where not.
Upstream: k8s.io/pod-security-admission, api/helpers.go, policy/registry.go, admission/admission.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from kplan.admission.validation.checks import Object, reached
from kplan.admission.validation.checks import quoted as go_quoted
from kplan.admission.validation.pods import APP_ARMOR, SECCOMP, SECCOMP_POD

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


class Subject:
    """A whole pod, with what checks read of it."""

    def __init__(self, pod: Object) -> None:
        self.annotations: Object = pod.get("metadata", {}).get("annotations") or {}
        self.spec: Object = pod.get("spec") or {}
        self.security: Object = self.spec.get("securityContext") or {}  #: the pod's own security context
        #: init containers first, as upstream visits them
        self.containers: list[Object] = list(reached(self.spec, "*"))
        #: every container's name with its security context
        self.contexts = [(one.get("name", ""), one.get("securityContext") or {}) for one in self.containers]
        self.all_contexts: list[Object] = [self.security, *(security for _, security in self.contexts)]

    def violators(self, is_bad: Callable[[Object], object], *, in_pod: bool = True) -> str:
        """Return ``pod and container "a"`` for bad security contexts, `in_pod` with its own; "" where none is."""
        names = [name for name, security in self.contexts if is_bad(security)]
        by_pod = ["pod"] if in_pod and is_bad(self.security) else []
        return " and ".join([*by_pod, *([_containers(names)] if names else [])])


Find = Callable[[Subject], str]


_NEVER = 1000


class Check(NamedTuple):
    """One revision of a check; the numbers are minor versions of the policies."""

    name: str  #: checks of a level run in the order of their names
    since: int  #: the first that has this revision
    find: Find
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


def _demand(is_bad: Callable[[Object], object], reason: str, demand: str, *, in_pod: bool = True) -> Find:
    """Return the check that no security context is bad; `demand` is what a violator must do."""

    def find(pod: Subject) -> str:
        who = pod.violators(is_bad, in_pod=in_pod)
        return f"{reason} ({who} {demand})" if who else ""

    return find


def _apparmor(pod: Subject) -> str:
    def forbidden(security: Object) -> str:
        profile = security.get("appArmorProfile")
        return "" if profile is None or profile.get("type") in _PROFILES else str(profile.get("type", ""))

    notes = sorted(
        f"{key}={go_quoted(value)}"
        for key, value in pod.annotations.items()
        if key.startswith(APP_ARMOR) and value not in {"", "runtime/default"} and not value.startswith("localhost/")
    )
    who = [pod.violators(forbidden), _plural("annotation", notes) if notes else ""]
    values = [*sorted(set(map(forbidden, pod.all_contexts)) - {""}), *notes]
    reason = _plural("forbidden AppArmor profile", values)
    subject = " and ".join(filter(None, who))
    return f"{reason} ({subject} must not set AppArmor profile type to {_quoted(values)})" if subject else ""


def _used(items_of: Iterable[tuple[str, set[str]]]) -> tuple[list[str], list[str]]:
    """Return the names of the containers that use something, and all that they use."""
    used = [(name, items) for name, items in items_of if items]
    return [name for name, _ in used], sorted({item for _, items in used for item in items})


def _added(pod: Subject, allowed: Collection[str]) -> str:
    """Tell which containers add capabilities other than the allowed ones; "" where none does."""
    names, items = _used(
        (name, {*reached(security, "capabilities.add")}.difference(allowed)) for name, security in pod.contexts
    )
    what = f"must not include {_quoted(items)} in securityContext.capabilities.add"
    return f"{_containers(names)} {what}" if names else ""


def _capabilities(pod: Subject) -> str:
    detail = _added(pod, _CAPABILITIES)
    return f"non-default capabilities ({detail})" if detail else ""


def _restricted_capabilities(pod: Subject) -> str:
    who = pod.violators(lambda security: "ALL" not in reached(security, "capabilities.drop"), in_pod=False)
    details = [f'{who} must set securityContext.capabilities.drop=["ALL"]' if who else ""]
    details = [*filter(None, [*details, _added(pod, ("NET_BIND_SERVICE",))])]
    return f"unrestricted capabilities ({'; '.join(details)})" if details else ""


def _host_namespaces(pod: Subject) -> str:
    fields = [f"{key}=true" for key in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(key)]
    return f"host namespaces ({', '.join(fields)})" if fields else ""


def _host_paths(pod: Subject) -> str:
    names = [volume.get("name", "") for volume in pod.spec.get("volumes") or () if "hostPath" in volume]
    return f"hostPath volumes ({_plural('volume', names)} {_quoted(names)})" if names else ""


def _volumes(pod: Subject) -> str:
    sources = [(volume, [key for key in volume if key != "name"]) for volume in pod.spec.get("volumes") or ()]
    bad = [(volume.get("name", ""), keys[0]) for volume, keys in sources if keys and not _VOLUMES.intersection(keys)]
    names, kinds = [name for name, _ in bad], {kind for _, kind in bad}
    what = _plural("restricted volume type", kinds)
    use = f"{_plural('volume', names)} {_quoted(names)} {_use(names)}"
    return f"restricted volume types ({use} {what} {_quoted(sorted(kinds))})" if bad else ""


def _host_ports(pod: Subject) -> str:
    names, ports = _used(
        (one.get("name", ""), {str(port) for port in reached(one, "ports.hostPort") if port}) for one in pod.containers
    )
    use = f"{_use(names)} {_plural('hostPort', ports)}"
    return f"hostPort ({_containers(names)} {use} {', '.join(ports)})" if names else ""


_HOSTS = tuple(
    f"{handler}.{action}.host"
    for handler in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop")
    for action in ("httpGet", "tcpSocket")
)


def _host_probes(pod: Subject) -> str:
    used, hosts = _used(
        (one.get("name", ""), {host for path in _HOSTS for host in reached(one, path) if host})
        for one in pod.containers
    )
    names = sorted(set(used))
    what = _plural("probe or lifecycle host", hosts)
    detail = f"{_containers(names)} {_use(names)} {what} {_quoted(hosts)}"
    return f"probe or lifecycle host ({detail})" if names else ""


def _unmasked_proc(pod: Subject) -> str:
    mounts = {name: security["procMount"] for name, security in pod.contexts if security.get("procMount") is not None}
    mounts = {name: kind for name, kind in mounts.items() if kind != "Default"}
    kinds = _quoted(sorted(set(mounts.values())))
    return f"procMount ({_containers(mounts)} must not set securityContext.procMount to {kinds})" if mounts else ""


def _selinux(allowed: Collection[str]) -> Find:
    def is_odd(security: Object) -> bool:
        options = security.get("seLinuxOptions") or {}
        return bool(options.get("user") or options.get("role") or options.get("type", "") not in allowed)

    def find(pod: Subject) -> str:
        who = pod.violators(is_odd)
        options = [security.get("seLinuxOptions") or {} for security in pod.all_contexts]
        types = sorted({option.get("type", "") for option in options}.difference(allowed))
        what = [f"{_plural('type', types)} {_quoted(types)}"] if types else []
        what += [f"{key} may not be set" for key in ("user", "role") if any(option.get(key) for option in options)]
        detail = f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(what)}"
        return f"seLinuxOptions ({detail})" if who else ""

    return find


def _seccomp_notes(pod: Subject) -> str:
    keys = {SECCOMP_POD, *(SECCOMP + name for name, _ in pod.contexts)} & pod.annotations.keys()
    forbidden = sorted(
        f"{key}={go_quoted(pod.annotations[key])}"
        for key in keys
        if pod.annotations[key] not in {"runtime/default", "docker/default"}
        and not pod.annotations[key].startswith("localhost/")
    )
    what = _plural("annotation", forbidden)
    return f"seccompProfile (forbidden {what} {', '.join(forbidden)})" if forbidden else ""


def _seccomp(pod: Subject) -> str:
    def is_forbidden(security: Object) -> bool:
        profile = security.get("seccompProfile")
        return profile is not None and profile.get("type") not in _PROFILES

    who = pod.violators(is_forbidden)
    types = {security["seccompProfile"].get("type", "") for security in pod.all_contexts if is_forbidden(security)}
    detail = f"{who} must not set securityContext.seccompProfile.type to {_quoted(sorted(types))}"
    return f"seccompProfile ({detail})" if who else ""


def _restricted_seccomp(pod: Subject) -> str:
    silent = [name for name, security in pod.contexts if security.get("seccompProfile") is None]
    must = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    is_set = pod.security.get("seccompProfile") is not None or not silent
    return _seccomp(pod) or ("" if is_set else f"seccompProfile (pod or {_containers(silent)} {must})")


def _sysctls(allowed: Collection[str]) -> Find:
    def find(pod: Subject) -> str:
        names = [one["name"] for one in pod.security.get("sysctls") or () if one.get("name") not in allowed]
        return f"forbidden sysctls ({', '.join(names)})" if names else ""

    return find


def _non_root(pod: Subject) -> str:
    who = pod.violators(lambda security: security.get("runAsNonRoot") is False)
    silent = [name for name, security in pod.contexts if security.get("runAsNonRoot") is None]
    if who:
        return f"runAsNonRoot != true ({who} must not set securityContext.runAsNonRoot=false)"
    must = "must set securityContext.runAsNonRoot=true"
    is_set = pod.security.get("runAsNonRoot") or not silent
    return "" if is_set else f"runAsNonRoot != true (pod or {_containers(silent)} {must})"


_UNPRIVILEGED = _demand(
    lambda security: security.get("privileged"),
    "privileged",
    "must not set securityContext.privileged=true",
    in_pod=False,
)
_HOST_PROCESS = _demand(
    lambda security: (security.get("windowsOptions") or {}).get("hostProcess"),
    "hostProcess",
    "must not set securityContext.windowsOptions.hostProcess=true",
)
_ESCALATION = _demand(
    lambda security: security.get("allowPrivilegeEscalation") is not False,
    "allowPrivilegeEscalation != false",
    "must set securityContext.allowPrivilegeEscalation=false",
    in_pod=False,
)
_ROOT = _demand(lambda security: security.get("runAsUser") == 0, "runAsUser=0", "must not set runAsUser=0")
BASELINE = (
    Check("appArmorProfile", 0, _apparmor),
    Check("capabilities_baseline", 0, _capabilities),
    Check("hostNamespaces", 0, _host_namespaces),
    Check("hostPathVolumes", 0, _host_paths),
    Check("hostPorts", 0, _host_ports),
    Check("hostProbesAndHostLifecycle", 34, _host_probes),
    Check("privileged", 0, _UNPRIVILEGED),
    Check("procMount", 0, _unmasked_proc, spares_own_users=35),
    Check("seLinuxOptions", 0, _selinux(_SELINUX_TYPES)),
    Check("seLinuxOptions", 31, _selinux(_SELINUX_TYPES_31)),
    Check("seccompProfile_baseline", 0, _seccomp_notes),
    Check("seccompProfile_baseline", 19, _seccomp),
    Check("sysctls", 0, _sysctls(_SYSCTLS)),
    Check("sysctls", 27, _sysctls(_SYSCTLS_27)),
    Check("sysctls", 29, _sysctls(_SYSCTLS_29)),
    Check("sysctls", 32, _sysctls(_SYSCTLS_32)),
    Check("windowsHostProcess", 0, _HOST_PROCESS),
)
RESTRICTED = (
    Check("allowPrivilegeEscalation", 8, _ESCALATION, spares_windows=25),
    Check("capabilities_restricted", 22, _restricted_capabilities, "capabilities_baseline", spares_windows=25),
    Check("procMount_restricted", 35, _unmasked_proc, "procMount"),
    Check("restrictedVolumes", 0, _volumes, "hostPathVolumes"),
    Check("runAsNonRoot", 0, _non_root, spares_own_users=35),
    Check("runAsUser", 23, _ROOT, spares_own_users=35),
    Check("seccompProfile_restricted", 19, _restricted_seccomp, "seccompProfile_baseline", spares_windows=25),
)
"""The revisions of each check, oldest first."""


_LABEL = "pod-security.kubernetes.io/enforce"
_VERSION_LABEL = "pod-security.kubernetes.io/enforce-version"
_PRIVILEGED, _BASELINE, _RESTRICTED = "privileged", "baseline", "restricted"
_LATEST = "latest"
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)", re.ASCII)
NEWEST = 36  #: the newest known minor of the policies


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
    return Policy(level, version if _VERSION.fullmatch(version) else _LATEST, min(newest, NEWEST))


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
    subject = Subject(pod)
    is_windows = (subject.spec.get("os") or {}).get("name") == "windows"
    has_own_users = subject.spec.get("hostUsers") is False
    details = [
        check.find(subject)
        for check in sorted(checks.values(), key=lambda check: (check.name in _STRICTER, check.name))
        if not (is_windows and check.spares_windows <= minor)
        and not (has_own_users and check.spares_own_users <= minor)
    ]
    return f'violates PodSecurity "{policy}": {", ".join(filter(None, details))}' if any(details) else ""


_STRICTER = frozenset(check.name for check in RESTRICTED)
