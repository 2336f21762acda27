"""Security contexts of pods and containers (pkg/apis/core/validation ValidateSecurityContext and others)."""

from __future__ import annotations

import re
from typing import Any

from kplan.admission.validation.errors import (
    Errors,
    GoStruct,
    duplicate,
    enum_errors,
    invalid,
    not_supported,
    range_errors,
    required,
    size_errors,
)
from kplan.admission.validation.paths import descending
from kplan.admission.validation.texts import MOST_ID
from kplan.admission.validation.windows import windows_option_errors

Context = dict[str, Any]
_PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_MOST_SYSCTL = 253
_MOST_PATH = 4095
_FS_GROUP_POLICIES = ("Always", "OnRootMismatch")
_GROUP_POLICIES = ("Merge", "Strict")
_IPC_SYSCTLS = re.compile(r"kernel\.(sem|shm.*|msg.*)|fs\.mqueue\..*")


def security_errors(context: Context, path: str, *, host_users: bool) -> Errors:
    """Return what is wrong with the security context of a container."""
    shown = _shown_context(context)
    errors = _id_errors(context, ("runAsUser", "runAsGroup"), path)
    mount = context.get("procMount")
    errors += enum_errors(mount, ("Default", "Unmasked"), f"{path}.procMount")
    if host_users and mount == "Unmasked":
        errors.append(invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`"))
    errors += _seccomp_errors(context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            errors.append(invalid(path, shown, detail))
        for name in context.get("capabilities", {}).get("add", []):
            if name == "CAP_SYS_ADMIN":
                detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
                errors.append(invalid(path, shown, detail))
    errors += windows_option_errors(context.get("windowsOptions", {}), f"{path}.windowsOptions")
    return errors + app_armor_errors(context.get("appArmorProfile"), f"{path}.appArmorProfile")


def _shown_context(context: Context) -> GoStruct:
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
_GO_FIELDS: dict[str, dict[str, Any]] = {
    "capabilities": {"add": None, "drop": None},
    "privileged": {},
    "seLinuxOptions": dict.fromkeys(("user", "role", "type", "level"), ""),
    "windowsOptions": dict.fromkeys(("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName", "hostProcess")),
    "runAsUser": {},
    "runAsGroup": {},
    "runAsNonRoot": {},
    "readOnlyRootFilesystem": {},
    "allowPrivilegeEscalation": {},
    "procMount": {},
    "seccompProfile": {"type": "", "localhostProfile": None},
    "appArmorProfile": {"type": "", "localhostProfile": None},
}
"""The fields of a security context in the order of the struct, with inner fields and their zero values."""


def pod_security_errors(spec: dict[str, Any], path: str) -> Errors:
    """Return what is wrong with the security context of a pod; `path` is that of the spec."""
    context, at = spec.get("securityContext", {}), f"{path}.securityContext"
    errors = _id_errors(context, ("fsGroup", "runAsUser", "runAsGroup"), at)
    for index, group in enumerate(context.get("supplementalGroups", [])):
        errors += range_errors(group, 0, MOST_ID, f"{at}.supplementalGroups[{index}]")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{at}.shareProcessNamespace", value=True, detail=detail))
    errors += _sysctl_errors(spec, context.get("sysctls", []), f"{at}.sysctls")
    errors += enum_errors(context.get("fsGroupChangePolicy"), _FS_GROUP_POLICIES, f"{at}.fsGroupChangePolicy")
    errors += _seccomp_errors(context.get("seccompProfile"), f"{at}.seccompProfile")
    errors += windows_option_errors(context.get("windowsOptions", {}), f"{at}.windowsOptions")
    errors += app_armor_errors(context.get("appArmorProfile"), f"{at}.appArmorProfile")
    errors += enum_errors(context.get("supplementalGroupsPolicy"), _GROUP_POLICIES, f"{at}.supplementalGroupsPolicy")
    return errors + enum_errors(context.get("seLinuxChangePolicy"), ("Recursive",), f"{at}.seLinuxChangePolicy")


def _id_errors(context: Context, keys: tuple[str, ...], path: str) -> Errors:
    return [error for key in keys for error in range_errors(context.get(key, 0), 0, MOST_ID, f"{path}.{key}")]


def _seccomp_errors(profile: Context | None, path: str) -> Errors:
    if profile is None:
        return []
    kind, file = profile.get("type", ""), profile.get("localhostProfile")
    errors: Errors = []
    if not kind:
        errors.append(required(f"{path}.type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILE_TYPES:
        errors.append(not_supported(f"{path}.type", kind, _PROFILE_TYPES))
    if kind == "Localhost":
        if file is None:
            errors.append(required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost"))
        else:
            errors += descending(file, f"{path}.localhostProfile")
    elif file is not None:
        shown = GoStruct({"Type": kind, "LocalhostProfile": file})
        errors.append(invalid(f"{path}.localhostProfile", shown, "can only be set when seccomp type is Localhost"))
    return errors


def app_armor_errors(profile: Context | None, path: str) -> Errors:
    """Return what is wrong with an AppArmor profile."""
    if profile is None:
        return []
    kind, name = profile.get("type", ""), profile.get("localhostProfile")
    at = f"{path}.localhostProfile"
    if not kind:
        return [required(f"{path}.type", "type is required when appArmorProfile is set")]
    if kind not in _PROFILE_TYPES:
        return [not_supported(f"{path}.type", kind, _PROFILE_TYPES)]
    if kind != "Localhost":
        return [] if name is None else [invalid(at, name, "can only be set when AppArmor type is Localhost")]
    if name is None:
        return [required(at, "must be set when AppArmor type is Localhost")]
    errors: Errors = []
    if name.strip() != name:
        errors.append(invalid(at, name, "must not be padded with whitespace"))
    elif not name:
        errors.append(required(at, "must be set when AppArmor type is Localhost"))
    return errors + size_errors(len(name.encode()), _MOST_PATH, at)


def _sysctl_errors(spec: dict[str, Any], settings: list[Context], path: str) -> Errors:
    errors: Errors = []
    names: set[str] = set()
    for index, setting in enumerate(settings):
        at, name = f"{path}[{index}].name", setting.get("name", "")
        if not name:
            errors.append(required(at))
        elif len(name) > _MOST_SYSCTL or not re.fullmatch(_SYSCTL, name):
            detail = f"must have at most {_MOST_SYSCTL} characters and match regex ^{_SYSCTL}$"
            errors.append(invalid(at, name, detail))
        elif name in names:
            errors.append(duplicate(at, name))
        plain = name.replace("/", ".")
        if spec.get("hostNetwork") and plain.startswith("net."):
            errors.append(invalid(at, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and _IPC_SYSCTLS.fullmatch(plain):
            errors.append(invalid(at, name, "may not be specified when 'hostIPC' is true"))
        names.add(name)
    return errors
