"""Fields for Windows pods, and those that Windows or Linux pods must not have (core validateWindows)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kplan.admission.validation.checks import Object, field, formed, must, rules
from kplan.admission.validation.errors import Errors, forbidden, invalid, not_supported, required
from kplan.admission.validation.texts import SUBDOMAIN

_MOST_SPEC_KIB = 64
_MOST_DOMAIN, _MOST_USER = 256, 104
_NET_BIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS_DOMAIN = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_FORBIDDEN_CHARACTERS = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
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
