"""Checks of the level ``baseline``, against known privilege escalations (k8s.io/pod-security-admission, policy)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kplan.admission.podsecurity_checks import (
    Check,
    Object,
    Subject,
    Violation,
    capabilities_added,
    containers_named,
    context_check,
    plural,
    quoted,
    unless_own_users,
)
from kplan.admission.validation.errors import quoted as go_quoted

_CAPABILITIES = frozenset(
    [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ]
)
_SYSCTLS = frozenset(
    [
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    ]
)
_SYSCTLS_27 = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    f"net.ipv4.tcp_{name}" for name in ("keepalive_time", "fin_timeout", "keepalive_intvl", "keepalive_probes")
}
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_SELINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_SELINUX_TYPES_31 = _SELINUX_TYPES | {"container_engine_t"}
_PROFILES = frozenset({"RuntimeDefault", "Localhost"})
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"


def _apparmor(pod: Subject) -> Violation | None:
    def forbidden(security: Object) -> str:
        profile = security.get("appArmorProfile")
        return "" if profile is None or profile.get("type") in _PROFILES else str(profile.get("type", ""))

    notes = sorted(
        f"{key}={go_quoted(value)}"
        for key, value in pod.annotations.items()
        if key.startswith(_APPARMOR) and value not in {"", "runtime/default"} and not value.startswith("localhost/")
    )
    who = pod.violators(forbidden)
    if notes:
        who = " and ".join([*([who] if who else []), plural("annotation", "annotations", notes)])
    if not who:
        return None
    values = [*sorted(set(map(forbidden, pod.all_contexts())) - {""}), *notes]
    reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values)
    return Violation(reason, f"{who} must not set AppArmor profile type to {quoted(values)}")


def _capabilities(pod: Subject) -> Violation | None:
    detail = capabilities_added(pod, _CAPABILITIES)
    return Violation("non-default capabilities", detail) if detail else None


def _host_namespaces(pod: Subject) -> Violation | None:
    fields = [f"{key}=true" for key in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(key)]
    return Violation("host namespaces", ", ".join(fields)) if fields else None


def _host_paths(pod: Subject) -> Violation | None:
    names = [volume.get("name", "") for volume in pod.spec.get("volumes") or () if "hostPath" in volume]
    if not names:
        return None
    return Violation("hostPath volumes", f"{plural('volume', 'volumes', names)} {quoted(names)}")


def _host_ports(pod: Subject) -> Violation | None:
    names: list[str] = []
    ports: set[str] = set()
    for container in pod.containers:
        used = {str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")}
        if used:
            names.append(container.get("name", ""))
            ports |= used
    if not names:
        return None
    use = f"{plural('uses', 'use', names)} {plural('hostPort', 'hostPorts', ports)}"
    return Violation("hostPort", f"{containers_named(names)} {use} {', '.join(sorted(ports))}")


def _host_probes(pod: Subject) -> Violation | None:
    names: set[str] = set()
    hosts: set[str] = set()
    for container in pod.containers:
        used = {host for handler in _handlers(container) for host in _hosts(handler)}
        if used:
            names.add(container.get("name", ""))
            hosts |= used
    if not names:
        return None
    what = plural("probe or lifecycle host", "probe or lifecycle hosts", hosts)
    detail = f"{containers_named(sorted(names))} {plural('uses', 'use', names)} {what} {quoted(sorted(hosts))}"
    return Violation("probe or lifecycle host", detail)


def _handlers(container: Any) -> Iterator[Any]:
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        yield container.get(key) or {}
    lifecycle = container.get("lifecycle") or {}
    for key in ("postStart", "preStop"):
        yield lifecycle.get(key) or {}


def _hosts(handler: Any) -> Iterator[str]:
    for key in ("httpGet", "tcpSocket"):
        if host := (handler.get(key) or {}).get("host"):
            yield host


def unmasked_proc(pod: Subject) -> Violation | None:
    """Return a violation where containers see all of ``/proc``."""
    mounts = {name: security["procMount"] for name, security in pod.contexts() if security.get("procMount") is not None}
    mounts = {name: kind for name, kind in mounts.items() if kind != "Default"}
    if not mounts:
        return None
    kinds = quoted(sorted(set(mounts.values())))
    return Violation("procMount", f"{containers_named(list(mounts))} must not set securityContext.procMount to {kinds}")


def _selinux(pod: Subject, allowed: frozenset[str]) -> Violation | None:
    who = pod.violators(lambda security: _is_odd(security, allowed))
    if not who:
        return None
    options = [security.get("seLinuxOptions") or {} for security in pod.all_contexts()]
    types = sorted({option.get("type", "") for option in options} - allowed)
    what = [f"{plural('type', 'types', types)} {quoted(types)}"] if types else []
    what += [f"{key} may not be set" for key in ("user", "role") if any(option.get(key) for option in options)]
    return Violation("seLinuxOptions", f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(what)}")


def _is_odd(security: Any, allowed: frozenset[str]) -> bool:
    options = security.get("seLinuxOptions") or {}
    return bool(options.get("user") or options.get("role") or options.get("type", "") not in allowed)


def _seccomp_notes(pod: Subject) -> Violation | None:
    keys = {_SECCOMP_POD, *(_SECCOMP_CONTAINER + name for name, _ in pod.contexts())} & pod.annotations.keys()
    forbidden = sorted(
        f"{key}={go_quoted(pod.annotations[key])}"
        for key in keys
        if pod.annotations[key] not in {"runtime/default", "docker/default"}
        and not pod.annotations[key].startswith("localhost/")
    )
    if not forbidden:
        return None
    return Violation(
        "seccompProfile", f"forbidden {plural('annotation', 'annotations', forbidden)} {', '.join(forbidden)}"
    )


def seccomp(pod: Subject) -> Violation | None:
    """Return a violation where a security context sets a forbidden seccomp profile."""

    def is_forbidden(security: Object) -> bool:
        profile = security.get("seccompProfile")
        return profile is not None and profile.get("type") not in _PROFILES

    who = pod.violators(is_forbidden)
    if not who:
        return None
    types = {security["seccompProfile"].get("type", "") for security in pod.all_contexts() if is_forbidden(security)}
    detail = f"{who} must not set securityContext.seccompProfile.type to {quoted(sorted(types))}"
    return Violation("seccompProfile", detail)


def _sysctls(pod: Subject, allowed: frozenset[str]) -> Violation | None:
    names = [sysctl["name"] for sysctl in pod.security.get("sysctls") or () if sysctl.get("name") not in allowed]
    return Violation("forbidden sysctls", ", ".join(names)) if names else None


_PRIVILEGED = context_check(
    lambda security: security.get("privileged"),
    "privileged",
    "must not set securityContext.privileged=true",
    in_pod=False,
)
_HOST_PROCESS = context_check(
    lambda security: (security.get("windowsOptions") or {}).get("hostProcess"),
    "hostProcess",
    "must not set securityContext.windowsOptions.hostProcess=true",
)
BASELINE = (
    Check("appArmorProfile", 0, _apparmor),
    Check("capabilities_baseline", 0, _capabilities),
    Check("hostNamespaces", 0, _host_namespaces),
    Check("hostPathVolumes", 0, _host_paths),
    Check("hostPorts", 0, _host_ports),
    Check("hostProbesAndHostLifecycle", 34, _host_probes),
    Check("privileged", 0, _PRIVILEGED),
    Check("procMount", 0, unmasked_proc),
    Check("procMount", 35, unless_own_users(unmasked_proc)),
    Check("seLinuxOptions", 0, lambda pod: _selinux(pod, _SELINUX_TYPES)),
    Check("seLinuxOptions", 31, lambda pod: _selinux(pod, _SELINUX_TYPES_31)),
    Check("seccompProfile_baseline", 0, _seccomp_notes),
    Check("seccompProfile_baseline", 19, seccomp),
    Check("sysctls", 0, lambda pod: _sysctls(pod, _SYSCTLS)),
    Check("sysctls", 27, lambda pod: _sysctls(pod, _SYSCTLS_27)),
    Check("sysctls", 29, lambda pod: _sysctls(pod, _SYSCTLS_29)),
    Check("sysctls", 32, lambda pod: _sysctls(pod, _SYSCTLS_32)),
    Check("windowsHostProcess", 0, _HOST_PROCESS),
)
"""The revisions of each check, oldest first."""
