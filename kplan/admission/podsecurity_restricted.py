"""Additional checks of the level ``restricted`` (k8s.io/pod-security-admission, policy)."""

from __future__ import annotations

from kplan.admission.podsecurity_baseline import seccomp, unmasked_proc
from kplan.admission.podsecurity_checks import (
    Check,
    Subject,
    Violation,
    capabilities_added,
    containers_named,
    context_check,
    plural,
    quoted,
    unless_own_users,
    unless_windows,
)

_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)


def _capabilities(pod: Subject) -> Violation | None:
    who = pod.violators(
        lambda security: "ALL" not in ((security.get("capabilities") or {}).get("drop") or ()), in_pod=False
    )
    details = [f'{who} must set securityContext.capabilities.drop=["ALL"]'] if who else []
    details += filter(None, [capabilities_added(pod, frozenset({"NET_BIND_SERVICE"}))])
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def _volumes(pod: Subject) -> Violation | None:
    names: list[str] = []
    kinds: set[str] = set()
    for volume in pod.spec.get("volumes") or ():
        sources = [key for key in volume if key != "name"]
        if sources and not _VOLUMES.intersection(sources):
            names.append(volume.get("name", ""))
            kinds.add(sources[0])
    if not names:
        return None
    what = plural("restricted volume type", "restricted volume types", kinds)
    use = f"{plural('volume', 'volumes', names)} {quoted(names)} {plural('uses', 'use', names)}"
    return Violation("restricted volume types", f"{use} {what} {quoted(sorted(kinds))}")


def _non_root(pod: Subject) -> Violation | None:
    whole = pod.security.get("runAsNonRoot")
    settings = [(name, security.get("runAsNonRoot")) for name, security in pod.contexts()]
    who = pod.violators(lambda security: security.get("runAsNonRoot") is False)
    if who:
        return Violation("runAsNonRoot != true", f"{who} must not set securityContext.runAsNonRoot=false")
    silent = [name for name, value in settings if value is None]
    if whole or not silent:
        return None
    detail = f"pod or {containers_named(silent)} must set securityContext.runAsNonRoot=true"
    return Violation("runAsNonRoot != true", detail)


def _seccomp(pod: Subject) -> Violation | None:
    if violation := seccomp(pod):
        return violation
    silent = [name for name, security in pod.contexts() if security.get("seccompProfile") is None]
    if pod.security.get("seccompProfile") is not None or not silent:
        return None
    must = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", f"pod or {containers_named(silent)} {must}")


_ESCALATION = context_check(
    lambda security: security.get("allowPrivilegeEscalation") is not False,
    "allowPrivilegeEscalation != false",
    "must set securityContext.allowPrivilegeEscalation=false",
    in_pod=False,
)
_ROOT = context_check(lambda security: security.get("runAsUser") == 0, "runAsUser=0", "must not set runAsUser=0")
RESTRICTED = (
    Check("allowPrivilegeEscalation", 8, _ESCALATION),
    Check("allowPrivilegeEscalation", 25, unless_windows(_ESCALATION)),
    Check("capabilities_restricted", 22, _capabilities, "capabilities_baseline"),
    Check("capabilities_restricted", 25, unless_windows(_capabilities), "capabilities_baseline"),
    Check("procMount_restricted", 35, unmasked_proc, "procMount"),
    Check("restrictedVolumes", 0, _volumes, "hostPathVolumes"),
    Check("runAsNonRoot", 0, _non_root),
    Check("runAsNonRoot", 35, unless_own_users(_non_root)),
    Check("runAsUser", 23, _ROOT),
    Check("runAsUser", 35, unless_own_users(_ROOT)),
    Check("seccompProfile_restricted", 19, _seccomp, "seccompProfile_baseline"),
    Check("seccompProfile_restricted", 25, unless_windows(_seccomp), "seccompProfile_baseline"),
)
"""The revisions of each check, oldest first."""
