"""Annotations of pods that Kubernetes validates (core ValidatePodSpecificAnnotations)."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from kplan.admission.validation.checks import Object
from kplan.admission.validation.errors import Errors, forbidden, invalid, quoted
from kplan.admission.validation.placement import toleration_errors
from kplan.admission.validation.texts import descending
from kplan.admission.validation.windows import containers_with_path

_MIRROR = "kubernetes.io/config.mirror"
_TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_LOCALHOST = "localhost/"
_INT32 = 2**31


def pod_annotation_errors(annotations: dict[str, str], spec: Object, path: str) -> Errors:
    """Return what is wrong with annotations of a pod or template."""
    if _MIRROR in annotations and not spec.get("nodeName"):
        words = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid(f"{path}[{_MIRROR}]", annotations[_MIRROR], words)
    if annotations.get(_TOLERATIONS):
        yield from _written_toleration_errors(annotations[_TOLERATIONS], path)
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not _is_int32(cost):
        yield invalid(f"{path}[{_DELETION_COST}]", cost, "must be a 32bit integer")
    for key, profile in sorted(annotations.items()):
        if key == _SECCOMP_POD or key.startswith(_SECCOMP):
            yield from _seccomp_errors(profile, f"{path}.{key}")
    names = {container.get("name", "") for container, _ in containers_with_path(spec, "")}
    for key, profile in sorted(annotations.items()):
        if key.startswith(_APP_ARMOR):
            name = key.removeprefix(_APP_ARMOR)
            if name not in names:
                yield invalid(f"{path}[{key}]", name, "container not found")
            if profile not in ("", "runtime/default", "unconfined") and not profile.startswith(_LOCALHOST):
                yield invalid(f"{path}[{key}]", profile, f"invalid AppArmor profile name: {quoted(profile)}")


def _is_int32(text: str) -> bool:
    return bool(re.fullmatch(r"-?[1-9][0-9]{0,9}|0", text)) and -_INT32 <= int(text) < _INT32


def _written_toleration_errors(text: str, path: str) -> Errors:
    try:
        tolerations = msgspec.json.decode(text, type=list[dict[str, Any]])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        return [invalid(path, _TOLERATIONS, str(error))]
    return toleration_errors(tolerations, f"{path}.{_TOLERATIONS}")


def _seccomp_errors(profile: str, path: str) -> Errors:
    if profile.startswith(_LOCALHOST):
        yield from descending(profile.removeprefix(_LOCALHOST), path)
    elif profile not in ("runtime/default", "docker/default", "unconfined"):
        yield invalid(path, profile, "must be a valid seccomp profile")


def profile_match_errors(annotations: dict[str, str], spec: Object, path: str) -> Errors:
    """Return where a deprecated annotation differs from the field that replaced it."""
    whole = spec.get("securityContext", {})
    if "seccompProfile" in whole and _SECCOMP_POD in annotations:
        at = f"{path}.securityContext.seccompProfile"
        yield from _match_errors("seccomp", annotations[_SECCOMP_POD], whole["seccompProfile"], at)
    is_windows = spec.get("os", {}).get("name") == "windows"
    kinds: tuple[tuple[str, str, str, Object], ...] = (
        ("seccomp", _SECCOMP, "seccompProfile", {}),
        ("apparmor", _APP_ARMOR, "appArmorProfile", whole),
    )
    for what, prefix, name, otherwise in kinds[:1] if is_windows else kinds:
        for container, at in containers_with_path(spec, path):
            key = prefix + container.get("name", "")
            profile = container.get("securityContext", {}).get(name) or otherwise.get(name)
            if profile is not None and key in annotations:
                yield from _match_errors(what, annotations[key], profile, f"{at}.securityContext.{name}")


def _match_errors(what: str, annotation: str, profile: dict[str, str], path: str) -> Errors:
    kind = profile.get("type", "")
    allowed = {"Unconfined": ["unconfined"], "RuntimeDefault": ["runtime/default"]}
    allowed["RuntimeDefault"] += ["docker/default"] if what == "seccomp" else []
    is_local = kind == "Localhost"
    if annotation not in allowed.get(kind, [annotation]) or (is_local and not annotation.startswith(_LOCALHOST)):
        yield forbidden(f"{path}.type", f"{what} type in annotation and field must match")
    elif is_local and annotation.removeprefix(_LOCALHOST) != profile.get("localhostProfile"):
        yield forbidden(f"{path}.localhostProfile", f"{what} profile in annotation and field must match")
