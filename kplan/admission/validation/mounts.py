"""Volume mounts and block devices of containers (pkg/apis/core/validation ValidateVolumeMounts)."""

from __future__ import annotations

from typing import Any

from kplan.admission.validation.errors import (
    Errors,
    enum_errors,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required_errors,
)
from kplan.admission.validation.paths import descending, no_backsteps

Container = dict[str, Any]
Volumes = dict[str, dict[str, Any]]
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")


def mount_errors(container: Container, volumes: Volumes, path: str) -> Errors:
    """Return what is wrong with the mounts of a container; `volumes` are the valid ones of the pod."""
    devices = {device.get("name", ""): device.get("devicePath", "") for device in container.get("volumeDevices", [])}
    errors: Errors = []
    paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", [])):
        at, name, target = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        errors += required_errors(mount, at, "name")
        if name not in volumes:
            errors.append(not_found(f"{at}.name", name))
        errors += required_errors(mount, at, "mountPath")
        errors += _unique_errors(target, paths, f"{at}.mountPath")
        paths.add(target)
        if name in devices:
            errors.append(invalid(f"{at}.name", name, "must not already exist in volumeDevices"))
        if target in devices.values():
            errors.append(invalid(f"{at}.mountPath", target, "must not already exist as a path in volumeDevices"))
        errors += _below_errors(mount, at, path)
        errors += _propagation_errors(mount, container, f"{path}.mountPropagation")
        errors += _recursive_errors(mount, f"{path}.recursiveReadOnly")
    return errors


def _unique_errors(value: str, used: set[str], path: str) -> Errors:
    return [invalid(path, value, "must be unique")] if value in used else []


def _below_errors(mount: Container, at: str, path: str) -> Errors:
    part, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    errors = descending(part, f"{path}.subPath") if part else []
    if expression:
        if part:
            errors.append(invalid(f"{at}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive"))
        errors += descending(expression, f"{path}.subPathExpr")
    return errors


def _propagation_errors(mount: Container, container: Container, path: str) -> Errors:
    how = mount.get("mountPropagation")
    errors = enum_errors(how, _PROPAGATIONS, path)
    if how == "Bidirectional" and not container.get("securityContext", {}).get("privileged"):
        errors.append(forbidden(path, "Bidirectional mount propagation is available only to privileged containers"))
    return errors


def _recursive_errors(mount: Container, path: str) -> Errors:
    how = mount.get("recursiveReadOnly")
    if how is None or how == "Disabled":
        return []
    if how not in _RECURSIVE:
        return [not_supported(path, how, _RECURSIVE)]
    errors: Errors = []
    if not mount.get("readOnly"):
        errors.append(forbidden(path, "may only be specified when readOnly is true"))
    if mount.get("mountPropagation", "None") != "None":
        errors.append(forbidden(path, "may only be specified when mountPropagation is None or not specified"))
    return errors


def device_errors(container: Container, volumes: Volumes, path: str) -> Errors:
    """Return what is wrong with the block devices of a container."""
    mounts = {mount.get("name", ""): mount.get("mountPath", "") for mount in container.get("volumeMounts", [])}
    errors: Errors = []
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices", [])):
        at, name, target = f"{path}[{index}]", device.get("name", ""), device.get("devicePath", "")
        volume = volumes.get(name)
        errors += required_errors(device, at, "name")
        errors += _unique_errors(name, names, f"{at}.name")
        if volume is not None and "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(f"{at}.name", name, detail))
        if volume is None:
            errors.append(not_found(f"{at}.name", name))
        errors += required_errors(device, at, "devicePath")
        errors += _unique_errors(target, paths, f"{at}.devicePath")
        if target and no_backsteps(target, path):
            errors.append(invalid(f"{at}.devicePath", target, "can not contain backsteps ('..')"))
        else:
            paths.add(target)
        if name in mounts:
            errors.append(invalid(f"{at}.name", name, "must not already exist in volumeMounts"))
        if target in mounts.values():
            errors.append(invalid(f"{at}.devicePath", target, "must not already exist as a path in volumeMounts"))
        names |= {name} - {""}
    return errors
