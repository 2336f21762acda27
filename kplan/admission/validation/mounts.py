"""Volume mounts and block devices of containers (pkg/apis/core/validation ValidateVolumeMounts)."""

from __future__ import annotations

from kplan.admission.validation.checks import Object, field, needed, one_of
from kplan.admission.validation.errors import Errors, forbidden, invalid, not_found, not_supported
from kplan.admission.validation.texts import descending

Volumes = dict[str, Object]
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")
_mode = field("mountPropagation", one_of("Bidirectional", "HostToContainer", "None"))


def mount_errors(container: Object, volumes: Volumes, path: str) -> Errors:
    """Return what is wrong with the mounts of a container; `volumes` are the valid ones of the pod."""
    devices = {device.get("name", ""): device.get("devicePath", "") for device in container.get("volumeDevices", [])}
    paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", [])):
        at, name, target = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        yield from needed("name")(mount, at)
        if name not in volumes:
            yield not_found(f"{at}.name", name)
        yield from needed("mountPath")(mount, at)
        if target in paths:
            yield invalid(f"{at}.mountPath", target, "must be unique")
        paths.add(target)
        if name in devices:
            yield invalid(f"{at}.name", name, "must not already exist in volumeDevices")
        if target in devices.values():
            yield invalid(f"{at}.mountPath", target, "must not already exist as a path in volumeDevices")
        yield from _mount_option_errors(mount, container, at, path)


def _mount_option_errors(mount: Object, container: Object, at: str, path: str) -> Errors:
    part, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    how, recursive = mount.get("mountPropagation"), mount.get("recursiveReadOnly", "Disabled")
    yield from descending(part, f"{path}.subPath")
    if part and expression:
        yield invalid(f"{at}.subPathExpr", expression, "subPathExpr and subPath are mutually exclusive")
    yield from descending(expression, f"{path}.subPathExpr")
    yield from _mode(mount, path)
    if how == "Bidirectional" and not container.get("securityContext", {}).get("privileged"):
        words = "Bidirectional mount propagation is available only to privileged containers"
        yield forbidden(f"{path}.mountPropagation", words)
    at = f"{path}.recursiveReadOnly"
    if recursive not in _RECURSIVE:
        yield not_supported(at, recursive, _RECURSIVE)
    elif recursive != "Disabled":
        if not mount.get("readOnly"):
            yield forbidden(at, "may only be specified when readOnly is true")
        if how not in (None, "None"):
            yield forbidden(at, "may only be specified when mountPropagation is None or not specified")


def device_errors(container: Object, volumes: Volumes, path: str) -> Errors:
    """Return what is wrong with the block devices of a container."""
    mounts = {mount.get("name", ""): mount.get("mountPath", "") for mount in container.get("volumeMounts", [])}
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices", [])):
        at, name, target = f"{path}[{index}]", device.get("name", ""), device.get("devicePath", "")
        yield from needed("name")(device, at)
        if name in names:
            yield invalid(f"{at}.name", name, "must be unique")
        if name not in volumes:
            yield not_found(f"{at}.name", name)
        elif not volumes[name].keys() & {"persistentVolumeClaim", "ephemeral"}:
            words = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield invalid(f"{at}.name", name, words)
        yield from needed("devicePath")(device, at)
        if target in paths:
            yield invalid(f"{at}.devicePath", target, "must be unique")
        if ".." in target.split("/"):
            yield invalid(f"{at}.devicePath", target, "can not contain backsteps ('..')")
        else:
            paths.add(target)
        if name in mounts:
            yield invalid(f"{at}.name", name, "must not already exist in volumeMounts")
        if target in mounts.values():
            yield invalid(f"{at}.devicePath", target, "must not already exist as a path in volumeMounts")
        names |= {name} - {""}
