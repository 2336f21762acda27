"""Volume sources outside the node: disks and file systems of clouds and networks (pkg/apis/core/validation)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kplan.admission.validation.errors import (
    Errors,
    enum_errors,
    inclusive,
    invalid,
    invalids,
    not_supported,
    range_errors,
    required,
    required_errors,
    size_errors,
)
from kplan.admission.validation.paths import descending
from kplan.admission.validation.texts import dns_subdomain

Source = dict[str, Any]
Check = Callable[[Source, str], Errors]
_BYTE = 255
_IQN = re.compile(r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9\-.]+)(:[^,;*&$|\s]+)$")
_EUI = re.compile(r"^eui.[A-Za-z0-9]{16}$")
_NAA = re.compile(r"^naa.[A-Za-z0-9]{32}$")
_MANAGED = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def needs(*fields: str) -> Check:
    """Return the check of a source with required fields."""
    return lambda source, path: required_errors(source, path, *fields)


def disk(name: str) -> Check:
    """Return the check of a disk that may be partitioned."""

    def check(source: Source, path: str) -> Errors:
        errors = needs(name)(source, path)
        if not 0 <= source.get("partition", 0) <= _BYTE:
            errors.append(invalid(f"{path}.partition", source["partition"], inclusive(1, _BYTE)))
        return errors

    return check


def secret_errors(source: Source, path: str) -> Errors:
    """Return an error for a secret reference without a name."""
    if "secretRef" in source and not source["secretRef"].get("name"):
        return [required(f"{path}.secretRef.name")]
    return []


def driver_errors(driver: str, path: str) -> Errors:
    """Return what is wrong with the name of a CSI driver."""
    if not driver:
        return [required(path)]
    return size_errors(len(driver.encode()), 63, path) + invalids(path, driver, dns_subdomain(driver.lower()))


def git_repo(source: Source, path: str) -> Errors:
    """Check a Git repository."""
    return needs("repository")(source, path) + descending(source.get("directory", ""), f"{path}.directory")


def nfs(source: Source, path: str) -> Errors:
    """Check a network file system."""
    errors = needs("server", "path")(source, path)
    target = source.get("path", "")
    return errors if target.startswith("/") else [*errors, invalid(f"{path}.path", target, "must be an absolute path")]


def iscsi(source: Source, path: str) -> Errors:
    """Check an iSCSI disk."""
    errors = needs("targetPortal", "iqn")(source, path)
    if source.get("iqn"):
        errors += _initiator_errors(source["iqn"], f"{path}.iqn")
    errors += range_errors(source.get("lun", 0), 0, _BYTE, f"{path}.lun")
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and "secretRef" not in source:
        errors.append(required(f"{path}.secretRef"))
    if "initiatorName" in source:
        errors += _initiator_errors(source["initiatorName"], f"{path}.initiatorname")
    return errors


def _initiator_errors(name: str, path: str) -> Errors:
    forms = {"iqn": _IQN, "eui": _EUI, "naa": _NAA}
    if name[:3] not in forms:
        return [invalid(path, name, "must be valid format starting with iqn, eui, or naa")]
    return [] if forms[name[:3]].search(name) else [invalid(path, name, "must be valid format")]


def iscsi_name_errors(source: Source, name: str, path: str) -> Errors:
    """Return an error for a volume whose name is too long for its initiator."""
    if len(f"{name}:{source.get('targetPortal', '')}".encode()) <= 64:
        return []
    detail = (
        "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is"
        " specified."
    )
    return [invalid(f"{path}.name", name, detail)]


def flocker(source: Source, path: str) -> Errors:
    """Check a Flocker data set."""
    name, uid = source.get("datasetName", ""), source.get("datasetUUID", "")
    errors: Errors = []
    if not name and not uid:
        errors.append(required(path, "one of datasetName and datasetUUID is required"))
    if name and uid:
        errors.append(invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
    if "/" in name:
        errors.append(invalid(f"{path}.datasetName", name, "must not contain '/'"))
    return errors


def cinder(source: Source, path: str) -> Errors:
    """Check an OpenStack disk."""
    return needs("volumeID")(source, path) + secret_errors(source, path)


def quobyte(source: Source, path: str) -> Errors:
    """Check a Quobyte volume."""
    registry = source.get("registry", "")
    detail = "must be a host:port pair or multiple pairs separated by commas"
    errors: Errors = []
    if not registry:
        errors.append(required(f"{path}.registry", detail))
    elif len(source.get("tenant", "").encode()) >= 65:
        errors.append(required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters"))
    else:
        bad = [pair for pair in registry.split(",") if not re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*):[^:]*", pair)]
        errors += [invalid(f"{path}.registry", registry, detail) for _ in bad]
    return errors + needs("volume")(source, path)


def fibre_channel(source: Source, path: str) -> Errors:
    """Check a fibre channel disk."""
    names, ids = source.get("targetWWNs", []), source.get("wwids", [])
    errors: Errors = []
    if not names and not ids:
        errors.append(required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if names and ids:
        detail = "targetWWNs and wwids can not be specified simultaneously"
        errors.append(invalid(f"{path}.targetWWNs", names, detail))
    if names and "lun" not in source:
        errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    elif names:
        errors += range_errors(source["lun"], 0, _BYTE, f"{path}.lun")
    return errors


def flex(source: Source, path: str) -> Errors:
    """Check a FlexVolume."""
    errors = needs("driver")(source, path)
    for key in sorted(source.get("options", {})):
        domain = "." + key.split("/", 1)[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            detail = "kubernetes.io and k8s.io namespaces are reserved"
            errors.append(invalid(f"{path}.options[{key}]", key, detail))
    return errors


def azure_disk(source: Source, path: str) -> Errors:
    """Check an Azure disk."""
    errors = needs("diskName", "diskURI")(source, path)
    kind, uri = source.get("kind"), source.get("diskURI", "")
    errors += enum_errors(source.get("cachingMode"), ("None", "ReadOnly", "ReadWrite"), f"{path}.cachingMode")
    errors += enum_errors(kind, ("Dedicated", "Managed", "Shared"), f"{path}.kind")
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        errors.append(not_supported(f"{path}.diskURI", uri, (_MANAGED,)))
    if kind not in (None, "Managed") and not uri.startswith("https://"):
        errors.append(not_supported(f"{path}.diskURI", uri, (_BLOB,)))
    return errors
