"""Annotations of pods that Kubernetes validates (core ValidatePodSpecificAnnotations)."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from kplan.admission.validation.errors import Errors, forbidden, invalid, quoted
from kplan.admission.validation.paths import descending
from kplan.admission.validation.placement import toleration_errors
from kplan.admission.validation.windows import containers_with_path

_MIRROR = "kubernetes.io/config.mirror"
_TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_LOCALHOST = "localhost/"
_INT32 = 2**31


def pod_annotation_errors(annotations: dict[str, str], spec: dict[str, Any], path: str) -> Errors:
    """Return what is wrong with annotations of a pod or template."""
    errors: Errors = []
    if _MIRROR in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{path}[{_MIRROR}]", annotations[_MIRROR], detail))
    if annotations.get(_TOLERATIONS):
        errors += _written_toleration_errors(annotations[_TOLERATIONS], path)
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not _is_int32(cost):
        errors.append(invalid(f"{path}[{_DELETION_COST}]", cost, "must be a 32bit integer"))
    for key, profile in sorted(annotations.items()):
        if key == _SECCOMP_POD or key.startswith(_SECCOMP):
            errors += _seccomp_errors(profile, f"{path}.{key}")
    names = {container.get("name", "") for container, _ in containers_with_path(spec, "")}
    for key, profile in sorted(annotations.items()):
        if key.startswith(_APP_ARMOR):
            name = key.removeprefix(_APP_ARMOR)
            if name not in names:
                errors.append(invalid(f"{path}[{key}]", name, "container not found"))
            if profile not in ("", "runtime/default", "unconfined") and not profile.startswith(_LOCALHOST):
                errors.append(invalid(f"{path}[{key}]", profile, f"invalid AppArmor profile name: {quoted(profile)}"))
    return errors


def _is_int32(text: str) -> bool:
    return bool(re.fullmatch(r"-?[1-9][0-9]{0,9}|0", text)) and -_INT32 <= int(text) < _INT32


def _written_toleration_errors(text: str, path: str) -> Errors:
    try:
        tolerations = msgspec.json.decode(text, type=list[dict[str, Any]])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        return [invalid(path, _TOLERATIONS, str(error))]
    return toleration_errors(tolerations, f"{path}.{_TOLERATIONS}")


def _seccomp_errors(profile: str, path: str) -> Errors:
    if profile in ("runtime/default", "docker/default", "unconfined"):
        return []
    if profile.startswith(_LOCALHOST):
        return descending(profile.removeprefix(_LOCALHOST), path)
    return [invalid(path, profile, "must be a valid seccomp profile")]


def profile_match_errors(annotations: dict[str, str], spec: dict[str, Any], path: str) -> Errors:
    """Return where a deprecated annotation differs from the field that replaced it."""
    errors: Errors = []
    whole = spec.get("securityContext", {})
    if "seccompProfile" in whole and _SECCOMP_POD in annotations:
        at = f"{path}.securityContext.seccompProfile"
        errors += _match_errors("seccomp", annotations[_SECCOMP_POD], whole["seccompProfile"], at)
    for container, at in containers_with_path(spec, path):
        key = _SECCOMP + container.get("name", "")
        profile = container.get("securityContext", {}).get("seccompProfile")
        if profile is not None and key in annotations:
            errors += _match_errors("seccomp", annotations[key], profile, f"{at}.securityContext.seccompProfile")
    if spec.get("os", {}).get("name") == "windows":
        return errors
    for container, at in containers_with_path(spec, path):
        key = _APP_ARMOR + container.get("name", "")
        profile = container.get("securityContext", {}).get("appArmorProfile") or whole.get("appArmorProfile")
        if profile is not None and key in annotations:
            errors += _match_errors("apparmor", annotations[key], profile, f"{at}.securityContext.appArmorProfile")
    return errors


def _match_errors(what: str, annotation: str, profile: dict[str, str], path: str) -> Errors:
    kind = profile.get("type", "")
    allowed: dict[str, tuple[str, ...]] = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default",)}
    if what == "seccomp":
        allowed["RuntimeDefault"] = ("runtime/default", "docker/default")
    if kind in allowed and annotation not in allowed[kind]:
        return [forbidden(f"{path}.type", f"{what} type in annotation and field must match")]
    if kind == "Localhost":
        if not annotation.startswith(_LOCALHOST):
            return [forbidden(f"{path}.type", f"{what} type in annotation and field must match")]
        if annotation.removeprefix(_LOCALHOST) != profile.get("localhostProfile"):
            return [forbidden(f"{path}.localhostProfile", f"{what} profile in annotation and field must match")]
    return []
