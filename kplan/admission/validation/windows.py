"""Fields for Windows pods, and those that Windows or Linux pods must not have (core validateWindows)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kplan.admission.validation.errors import Errors, forbidden, invalid, invalids, not_supported, required
from kplan.admission.validation.texts import dns_subdomain

Options = dict[str, Any]
_MOST_SPEC_KIB = 64
_MOST_DOMAIN, _MOST_USER = 256, 104
_NET_BIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS_DOMAIN = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_FORBIDDEN_CHARACTERS = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_NOT_FOR_WINDOWS = "cannot be set for a windows pod"
_NOT_FOR_LINUX = "windows options cannot be set for a linux pod"
_POD_FIELDS = (
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "shareProcessNamespace",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
)
_CONTAINER_FIELDS = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)


def containers_with_path(spec: dict[str, Any], path: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield every container of a pod in upstream's order, with its path."""
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(group, [])):
            yield container, f"{path}.{group}[{index}]"


def os_errors(spec: dict[str, Any], path: str) -> Errors:
    """Return the fields that the operating system of a pod does not allow."""
    if "os" not in spec:
        return []
    name = spec["os"].get("name", "")
    if not name:
        return [required(f"{path}.os.name")]
    if name not in ("linux", "windows"):
        return [not_supported(f"{path}.os", name, ("linux", "windows"))]
    return _windows_errors(spec, path) if name == "windows" else _linux_errors(spec, path)


def _linux_errors(spec: dict[str, Any], path: str) -> Errors:
    places = [(spec, path), *containers_with_path(spec, path)]
    return [
        forbidden(f"{at}.securityContext.windowsOptions", _NOT_FOR_LINUX)
        for place, at in places
        if "windowsOptions" in place.get("securityContext", {})
    ]


def _windows_errors(spec: dict[str, Any], path: str) -> Errors:
    errors: Errors = []
    for field in _POD_FIELDS:
        outer, _, inner = field.rpartition(".")
        place = spec.get(outer, {}) if outer else spec
        if inner in place:
            errors.append(forbidden(f"{path}.{field}", _NOT_FOR_WINDOWS))
    for container, at in containers_with_path(spec, path):
        context = container.get("securityContext", {})
        errors += [
            forbidden(f"{at}.securityContext.{key}", _NOT_FOR_WINDOWS) for key in _CONTAINER_FIELDS if key in context
        ]
    return errors


def windows_option_errors(options: Options, path: str) -> Errors:
    """Return what is wrong with the Windows options of a security context."""
    errors: Errors = []
    name = options.get("gmsaCredentialSpecName")
    if name is not None:
        errors += invalids(f"{path}.gmsaCredentialSpecName", name, dns_subdomain(name))
    text = options.get("gmsaCredentialSpec")
    if text is not None:
        at = f"{path}.gmsaCredentialSpec"
        if not text:
            errors.append(invalid(at, text, "gmsaCredentialSpec cannot be an empty string"))
        elif len(text.encode()) > _MOST_SPEC_KIB * 1024:
            errors.append(invalid(at, text, f"gmsaCredentialSpec size must be under {_MOST_SPEC_KIB} KiB"))
    user = options.get("runAsUserName")
    return errors if user is None else errors + invalids(f"{path}.runAsUserName", user, _user_problems(user))


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
        if backslash and not _NET_BIOS.fullmatch(domain) and not _DNS_DOMAIN.fullmatch(domain):
            yield "runAsUserName's Domain doesn't match the NetBios nor the DNS format"
        if not user:
            yield "runAsUserName's User cannot be empty"
        elif len(user.encode()) > _MOST_USER:
            yield f"runAsUserName's User length must not be longer than {_MOST_USER} characters"
        if re.fullmatch(r"[. ]+", user):
            yield "runAsUserName's User cannot contain only periods or spaces"
        if _FORBIDDEN_CHARACTERS.search(user):
            yield "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"


def host_process_errors(spec: dict[str, Any], path: str) -> Errors:
    """Return what is wrong with HostProcess containers, which run as processes of a Windows node."""
    whole = spec.get("securityContext", {}).get("windowsOptions", {}).get("hostProcess")
    errors: Errors = []
    containers = list(containers_with_path(spec, path))
    on_host = 0
    for container, at in containers:
        own = container.get("securityContext", {}).get("windowsOptions", {}).get("hostProcess")
        if whole is not None and own is not None and whole != own:
            shown = str(whole).lower()
            detail = f"pod hostProcess value must be identical if both are specified, was {shown}"
            errors.append(invalid(f"{at}.securityContext.windowsOptions.hostProcess", own, detail))
        on_host += bool(whole if own is None else own)
    if on_host and on_host != len(containers):
        detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(invalid(path, "", detail))
    if on_host and not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(invalid(f"{path}.hostNetwork", value=False, detail=detail))
    return errors
