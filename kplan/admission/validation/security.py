"""Security contexts of pods and containers (pkg/apis/core/validation ValidateSecurityContext and others)."""

from __future__ import annotations

import re
from typing import Any

from kplan.admission.validation.checks import Object, at_most_bytes, between, field, items, one_of, rules
from kplan.admission.validation.errors import Errors, GoStruct, duplicate, go_struct, invalid, not_supported, required
from kplan.admission.validation.texts import MOST_ID, descending
from kplan.admission.validation.windows import windows_option_errors

_PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_MOST_SYSCTL = 253
_IPC_SYSCTLS = re.compile(r"kernel\.(sem|shm.*|msg.*)|fs\.mqueue\..*")
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
        shown = go_struct(profile, Type="", LocalhostProfile=None)
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
        yield invalid(path, _shown_context(context), words)
    for name in context.get("capabilities", {}).get("add", []):
        if name == "CAP_SYS_ADMIN":
            words = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield invalid(path, _shown_context(context), words)


def _shown_context(context: Object) -> GoStruct:
    """Return a container's security context as messages show it: with all fields, absent ones as null."""
    shown = GoStruct()
    for key, inner in _GO_FIELDS.items():
        value = context.get(key)
        shown[_go_name(key)] = value
        if inner and value is not None:
            shown[_go_name(key)] = GoStruct({_go_name(name): value.get(name, zero) for name, zero in inner.items()})
    return shown


def _go_name(key: str) -> str:
    return _GO_NAMES.get(key) or key[0].upper() + key[1:]


_GO_NAMES = {"seLinuxOptions": "SELinuxOptions"} | {
    f"gmsaCredentialSpec{more}": f"GMSACredentialSpec{more}" for more in ("", "Name")
}
_PROFILE = {"type": "", "localhostProfile": None}
_GO_FIELDS: dict[str, dict[str, Any]] = {
    "capabilities": {"add": None, "drop": None},
    "privileged": {},
    "seLinuxOptions": dict.fromkeys(("user", "role", "type", "level"), ""),
    "windowsOptions": dict.fromkeys(("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName", "hostProcess")),
    **{key: {} for key in ("runAsUser", "runAsGroup", "runAsNonRoot", "readOnlyRootFilesystem")},
    **{key: {} for key in ("allowPrivilegeEscalation", "procMount")},
    "seccompProfile": _PROFILE,
    "appArmorProfile": _PROFILE,
}
"""The fields of a security context in the order of the struct, with inner fields and their zero values."""

_container = rules(field("runAsUser runAsGroup", _id), field("procMount", one_of("Default", "Unmasked")))
_container_rest = rules(_seccomp, _escalation_errors, _windows, _app_armor)


def security_errors(context: Object, path: str, *, host_users: bool) -> Errors:
    """Return what is wrong with the security context of a container."""
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
        elif spec.get("hostIPC") and _IPC_SYSCTLS.fullmatch(plain):
            yield invalid(at, name, "may not be specified when 'hostIPC' is true")
        names.add(name)
