"""Security contexts of pods and containers, and fields that Windows or Linux pods must not have.

Upstream: pkg/apis/core/validation ValidateSecurityContext, validateWindows and others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kplan.admission.validation.checks import (
    Errors,
    Object,
    at_most_bytes,
    between,
    duplicate,
    field,
    forbidden,
    formed,
    go_struct,
    invalid,
    items,
    must,
    not_supported,
    one_of,
    required,
    rules,
)
from kplan.admission.validation.metadata import MOST_ID, SUBDOMAIN, descending

_MOST_SPEC_KIB = 64
_MOST_DOMAIN, _MOST_USER = 256, 104
_NET_BIOS = r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}'
_DNS_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS_DOMAIN = rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*"
_FORBIDDEN_CHARACTERS = r'["/\\:;|=,+*?<>@\[\]]'
_POD_FIELDS = (
    *("securityContext.appArmorProfile", "securityContext.seLinuxOptions", "hostUsers", "hostPID", "hostIPC"),
    *("securityContext.seccompProfile", "securityContext.fsGroup", "securityContext.fsGroupChangePolicy"),
    *("securityContext.sysctls", "shareProcessNamespace", "securityContext.runAsUser", "securityContext.runAsGroup"),
    *("securityContext.supplementalGroups", "securityContext.supplementalGroupsPolicy"),
    "securityContext.seLinuxChangePolicy",
)
_CONTAINER_FIELDS = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged"),
    *("allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
)


def containers_with_path(spec: Object, path: str) -> Iterator[tuple[Object, str]]:
    """Yield every container of a pod in upstream's order, with its path."""
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(group, [])):
            yield container, f"{path}.{group}[{index}]"


def os_errors(spec: Object, path: str) -> Errors:
    """Return the fields that the operating system of a pod does not allow."""
    name = spec.get("os", {}).get("name", "")
    if "os" not in spec:
        return
    if not name:
        yield required(f"{path}.os.name")
    elif name == "windows":
        yield from _windows_errors(spec, path)
    elif name != "linux":
        yield not_supported(f"{path}.os", name, ("linux", "windows"))
    else:
        for holder, at in [(spec, path), *containers_with_path(spec, path)]:
            if "windowsOptions" in holder.get("securityContext", {}):
                words = "windows options cannot be set for a linux pod"
                yield forbidden(f"{at}.securityContext.windowsOptions", words)


def _windows_errors(spec: Object, path: str) -> Errors:
    words = "cannot be set for a windows pod"
    for name in _POD_FIELDS:
        outer, _, inner = name.rpartition(".")
        if inner in (spec.get(outer, {}) if outer else spec):
            yield forbidden(f"{path}.{name}", words)
    for container, at in containers_with_path(spec, path):
        context = container.get("securityContext", {})
        yield from (forbidden(f"{at}.securityContext.{key}", words) for key in _CONTAINER_FIELDS if key in context)


def _user_problems(text: str) -> Iterator[str]:
    if not text:
        yield "runAsUserName cannot be an empty string"
    elif re.search(r"[\x00-\x1f\x7f]", text):
        yield "runAsUserName cannot contain control characters"
    elif text.count("\\") > 1:
        yield "runAsUserName cannot contain more than one backslash"
    else:
        domain, backslash, user = text.rpartition("\\")
        if len(domain.encode()) >= _MOST_DOMAIN:
            yield f"runAsUserName's Domain length must be under {_MOST_DOMAIN} characters"
        if backslash and not re.fullmatch(_NET_BIOS, domain) and not re.fullmatch(_DNS_DOMAIN, domain):
            yield "runAsUserName's Domain doesn't match the NetBios nor the DNS format"
        if not user:
            yield "runAsUserName's User cannot be empty"
        elif len(user.encode()) > _MOST_USER:
            yield f"runAsUserName's User length must not be longer than {_MOST_USER} characters"
        if re.fullmatch(r"[. ]+", user):
            yield "runAsUserName's User cannot contain only periods or spaces"
        if re.search(_FORBIDDEN_CHARACTERS, user):
            yield "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"


windows_option_errors = rules(
    field("gmsaCredentialSpecName", SUBDOMAIN),
    field(
        "gmsaCredentialSpec",
        must(bool, "gmsaCredentialSpec cannot be an empty string"),
        must(
            lambda text: len(text.encode()) <= _MOST_SPEC_KIB * 1024,
            f"gmsaCredentialSpec size must be under {_MOST_SPEC_KIB} KiB",
        ),
    ),
    field("runAsUserName", formed(_user_problems)),
)
"""The check of the Windows options of a security context."""


def host_process_errors(spec: Object, path: str) -> Errors:
    """Return what is wrong with HostProcess containers, which run as processes of a Windows node."""
    whole = spec.get("securityContext", {}).get("windowsOptions", {}).get("hostProcess")
    containers = list(containers_with_path(spec, path))
    on_host = 0
    for container, at in containers:
        own = container.get("securityContext", {}).get("windowsOptions", {}).get("hostProcess")
        if whole is not None and own is not None and whole != own:
            words = f"pod hostProcess value must be identical if both are specified, was {str(whole).lower()}"
            yield invalid(f"{at}.securityContext.windowsOptions.hostProcess", own, words)
        on_host += bool(whole if own is None else own)
    if on_host and on_host != len(containers):
        words = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        yield invalid(path, "", words)
    if on_host and not spec.get("hostNetwork"):
        words = "hostNetwork must be true if pod contains any hostProcess containers"
        yield invalid(f"{path}.hostNetwork", value=False, detail=words)


_PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_MOST_SYSCTL = 253
_IPC_SYSCTLS = r"kernel\.(sem|shm.*|msg.*)|fs\.mqueue\..*"
_id = between(0, MOST_ID)
_most_path = at_most_bytes(4095)


def _seccomp_errors(profile: Object, path: str) -> Errors:
    kind, file = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        yield required(f"{path}.type", "type is required when seccompProfile is set")
    elif kind not in _PROFILE_TYPES:
        yield not_supported(f"{path}.type", kind, _PROFILE_TYPES)
    if kind == "Localhost":
        if file is None:
            yield required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
        else:
            yield from descending(file, f"{path}.localhostProfile")
    elif file is not None:
        shown = go_struct(profile, **_PROFILE)
        yield invalid(f"{path}.localhostProfile", shown, "can only be set when seccomp type is Localhost")


def app_armor_errors(profile: Object, path: str) -> Errors:
    """Return what is wrong with an AppArmor profile."""
    kind, name = profile.get("type", ""), profile.get("localhostProfile")
    at = f"{path}.localhostProfile"
    if not kind:
        yield required(f"{path}.type", "type is required when appArmorProfile is set")
    elif kind not in _PROFILE_TYPES:
        yield not_supported(f"{path}.type", kind, _PROFILE_TYPES)
    elif kind != "Localhost":
        if name is not None:
            yield invalid(at, name, "can only be set when AppArmor type is Localhost")
    elif not name:
        yield required(at, "must be set when AppArmor type is Localhost")
    else:
        if name.strip() != name:
            yield invalid(at, name, "must not be padded with whitespace")
        yield from _most_path(name, at)


_seccomp, _app_armor = field("seccompProfile", _seccomp_errors), field("appArmorProfile", app_armor_errors)
_windows = field("windowsOptions", windows_option_errors)


def _escalation_errors(context: Object, path: str) -> Errors:
    if context.get("allowPrivilegeEscalation") is not False:
        return
    if context.get("privileged"):
        words = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield invalid(path, go_struct(context, **_CONTEXT), words)
    for name in context.get("capabilities", {}).get("add", []):
        if name == "CAP_SYS_ADMIN":
            words = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield invalid(path, go_struct(context, **_CONTEXT), words)


_PROFILE = {"Type": "", "LocalhostProfile": None}
_CONTEXT: dict[str, Any] = {
    "Capabilities": {"Add": None, "Drop": None},
    "Privileged": None,
    "SELinuxOptions": dict.fromkeys(("User", "Role", "Type", "Level"), ""),
    "WindowsOptions": dict.fromkeys(("GMSACredentialSpecName", "GMSACredentialSpec", "RunAsUserName", "HostProcess")),
    **dict.fromkeys(("RunAsUser", "RunAsGroup", "RunAsNonRoot", "ReadOnlyRootFilesystem")),
    **dict.fromkeys(("AllowPrivilegeEscalation", "ProcMount")),
    "SeccompProfile": _PROFILE,
    "AppArmorProfile": _PROFILE,
}
"""The fields of a container's security context as messages show them, with inner fields and their zero values."""

_container = rules(field("runAsUser runAsGroup", _id), field("procMount", one_of("Default", "Unmasked")))
_container_rest = rules(_seccomp, _escalation_errors, _windows, _app_armor)


def security_errors(context: Object, path: str, *, host_users: bool) -> Errors:
    yield from _container(context, path)
    if host_users and context.get("procMount") == "Unmasked":
        yield invalid(f"{path}.procMount", "Unmasked", "`hostUsers` must be false to use `Unmasked`")
    yield from _container_rest(context, path)


_ids = rules(field("fsGroup runAsUser runAsGroup", _id), items("supplementalGroups", _id))
_policies = rules(
    field("fsGroupChangePolicy", one_of("Always", "OnRootMismatch")),
    _seccomp,
    _windows,
    _app_armor,
    field("supplementalGroupsPolicy", one_of("Merge", "Strict")),
    field("seLinuxChangePolicy", one_of("Recursive")),
)


def pod_security_errors(spec: Object, path: str) -> Errors:
    """Return what is wrong with the security context of a pod; `path` is that of the spec."""
    context, at = spec.get("securityContext", {}), f"{path}.securityContext"
    yield from _ids(context, at)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        words = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{at}.shareProcessNamespace", value=True, detail=words)
    yield from _sysctl_errors(spec, context.get("sysctls", []), f"{at}.sysctls")
    yield from _policies(context, at)


def _sysctl_errors(spec: Object, settings: list[Object], path: str) -> Errors:
    names: set[str] = set()
    for index, setting in enumerate(settings):
        at, name = f"{path}[{index}].name", setting.get("name", "")
        if not name:
            yield required(at)
        elif len(name) > _MOST_SYSCTL or not re.fullmatch(_SYSCTL, name):
            yield invalid(at, name, f"must have at most {_MOST_SYSCTL} characters and match regex ^{_SYSCTL}$")
        elif name in names:
            yield duplicate(at, name)
        plain = name.replace("/", ".")
        if spec.get("hostNetwork") and plain.startswith("net."):
            yield invalid(at, name, "may not be specified when 'hostNetwork' is true")
        elif spec.get("hostIPC") and re.fullmatch(_IPC_SYSCTLS, plain):
            yield invalid(at, name, "may not be specified when 'hostIPC' is true")
        names.add(name)
