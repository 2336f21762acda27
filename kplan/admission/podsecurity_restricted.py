"""Additional checks of the level ``restricted`` (k8s.io/pod-security-admission, policy)."""

from __future__ import annotations

from kplan.admission.podsecurity_baseline import is_seccomp_allowed, unmasked_proc
from kplan.admission.podsecurity_checks import Check, Subject, Violation, containers_named, plural, quoted, setters

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


def _escalation(pod: Subject) -> Violation | None:
    names = [name for name, security in pod.contexts() if security.get("allowPrivilegeEscalation") is not False]
    if not names:
        return None
    detail = f"{containers_named(names)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", detail)


def _capabilities(pod: Subject) -> Violation | None:
    keeping: list[str] = []
    adding: list[str] = []
    added: set[str] = set()
    for name, security in pod.contexts():
        capabilities = security.get("capabilities") or {}
        if "ALL" not in (capabilities.get("drop") or ()):
            keeping.append(name)
        more = set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}
        if more:
            adding.append(name)
            added |= more
    details = [f'{containers_named(keeping)} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    if adding:
        what = f"must not include {quoted(sorted(added))} in securityContext.capabilities.add"
        details.append(f"{containers_named(adding)} {what}")
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
    who = setters([name for name, value in settings if value is False], by_pod=whole is False)
    if who:
        return Violation("runAsNonRoot != true", f"{who} must not set securityContext.runAsNonRoot=false")
    silent = [name for name, value in settings if value is None]
    if whole or not silent:
        return None
    detail = f"pod or {containers_named(silent)} must set securityContext.runAsNonRoot=true"
    return Violation("runAsNonRoot != true", detail)


def _root(pod: Subject) -> Violation | None:
    names = [name for name, security in pod.contexts() if security.get("runAsUser") == 0]
    who = setters(names, by_pod=pod.security.get("runAsUser") == 0)
    return Violation("runAsUser=0", f"{who} must not set runAsUser=0") if who else None


def _seccomp(pod: Subject) -> Violation | None:
    own_profiles = [(name, security.get("seccompProfile")) for name, security in pod.contexts()]
    names = [name for name, security in pod.contexts() if not is_seccomp_allowed(security)]
    who = setters(names, by_pod=not is_seccomp_allowed(pod.security))
    if who:
        profiles = (pod.security.get("seccompProfile"), *(profile for _, profile in own_profiles))
        types = {profile.get("type", "") for profile in profiles if profile is not None} - {
            "RuntimeDefault",
            "Localhost",
        }
        detail = f"{who} must not set securityContext.seccompProfile.type to {quoted(sorted(types))}"
        return Violation("seccompProfile", detail)
    silent = [name for name, profile in own_profiles if profile is None]
    if pod.security.get("seccompProfile") is not None or not silent:
        return None
    must = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", f"pod or {containers_named(silent)} {must}")


RESTRICTED = (
    Check("allowPrivilegeEscalation", 8, _escalation),
    Check("allowPrivilegeEscalation", 25, lambda pod: None if pod.is_windows else _escalation(pod)),
    Check("capabilities_restricted", 22, _capabilities, "capabilities_baseline"),
    Check(
        "capabilities_restricted",
        25,
        lambda pod: None if pod.is_windows else _capabilities(pod),
        "capabilities_baseline",
    ),
    Check("procMount_restricted", 35, unmasked_proc, "procMount"),
    Check("restrictedVolumes", 0, _volumes, "hostPathVolumes"),
    Check("runAsNonRoot", 0, _non_root),
    Check("runAsNonRoot", 35, lambda pod: None if pod.has_own_users else _non_root(pod)),
    Check("runAsUser", 23, _root),
    Check("runAsUser", 35, lambda pod: None if pod.has_own_users else _root(pod)),
    Check("seccompProfile_restricted", 19, _seccomp, "seccompProfile_baseline"),
    Check(
        "seccompProfile_restricted",
        25,
        lambda pod: None if pod.is_windows else _seccomp(pod),
        "seccompProfile_baseline",
    ),
)
"""The revisions of each check, oldest first."""
