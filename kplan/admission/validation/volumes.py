"""Volumes of a pod: unique names, with one source each (pkg/apis/core/validation ValidateVolumes)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kplan.admission.validation import network_volumes as network
from kplan.admission.validation.claims import claim_template_errors
from kplan.admission.validation.errors import (
    Errors,
    duplicate,
    enum_errors,
    forbidden,
    invalid,
    invalids,
    required,
    required_enum_errors,
)
from kplan.admission.validation.paths import mode_errors, no_backsteps
from kplan.admission.validation.projected import downward_file_errors, key_to_path_errors, projected_errors
from kplan.admission.validation.texts import dns_label, dns_label_error, dns_subdomain
from kplan.api.quantity import parse

Source = dict[str, Any]
_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def volume_errors(spec: dict[str, Any], path: str, pod_name: str, *, is_pod: bool) -> tuple[dict[str, Source], Errors]:
    """Return the valid volumes by name, and what is wrong with the others."""
    errors: Errors = []
    good: dict[str, Source] = {}
    volumes: list[Source] = spec.get("volumes", [])
    created = (
        {f"{pod_name}-{volume.get('name', '')}" for volume in volumes if "ephemeral" in volume} if pod_name else set()
    )
    for index, volume in enumerate(volumes):
        at = f"{path}[{index}]"
        name = volume.get("name", "")
        problems = _source_errors(volume, at, name, pod_name, is_pod=is_pod)
        problems += invalids(f"{at}.name", name, dns_label(name)) if name else [required(f"{at}.name")]
        if name in good:
            problems.append(duplicate(f"{at}.name", name))
        if not problems:
            good[name] = volume
        errors += problems
        claim = volume.get("persistentVolumeClaim", {}).get("claimName", "")
        if claim in created and claim:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(f"{at}.persistentVolumeClaim.claimName", claim, detail))
    return good, errors


def _source_errors(volume: Source, path: str, name: str, pod_name: str, *, is_pod: bool) -> Errors:
    errors: Errors = []
    has_source = False
    for key, check in _SOURCES.items():
        if key not in volume:
            continue
        if has_source:
            errors.append(
                forbidden(f"{path}.{_UPSTREAM_PATHS.get(key, key)}", "may not specify more than 1 volume type")
            )
        else:
            if key == "image" and is_pod and not volume[key].get("reference"):
                errors.append(required(f"{path}.image.reference"))
            errors += check(volume[key], f"{path}.{_CHECKED_AS.get(key, key)}")
            if key == "ephemeral" and pod_name and name:
                claim = f"{pod_name}-{name}"
                errors += [
                    invalid(f"{path}.name", name, f'PVC name "{claim}": {problem}') for problem in dns_subdomain(claim)
                ]
        has_source = True
        if key == "iscsi" and "initiatorName" in volume[key]:
            errors += network.iscsi_name_errors(volume[key], name, path)
    return errors if has_source else [*errors, required(path, "must specify a volume type")]


def _empty_dir(source: Source, path: str) -> Errors:
    if "sizeLimit" in source and parse(source["sizeLimit"]).nanos < 0:
        return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def _host_path(source: Source, path: str) -> Errors:
    if not source.get("path"):
        return [required(f"{path}.path")]
    kind_errors = enum_errors(source.get("type"), _HOST_PATH_TYPES, f"{path}.type")
    return no_backsteps(source["path"], f"{path}.path") + kind_errors


def _files(name: str) -> Callable[[Source, str], Errors]:
    """Return the check of a secret or config map, whose name is in the field `name`."""

    def check(source: Source, path: str) -> Errors:
        errors = [] if source.get(name) else [required(f"{path}.{name}")]
        errors += mode_errors(source.get("defaultMode"), f"{path}.defaultMode")
        for index, item in enumerate(source.get("items", [])):
            errors += key_to_path_errors(item, f"{path}.items[{index}]")
        return errors

    return check


def _downward(source: Source, path: str) -> Errors:
    errors = mode_errors(source.get("defaultMode"), f"{path}.defaultMode")
    for item in source.get("items", []):
        errors += downward_file_errors(item, path)
    return errors


def _csi(source: Source, path: str) -> Errors:
    driver = source.get("driver", "")
    at = f"{path}.driver"
    errors = network.driver_errors(driver, at)
    if "nodePublishSecretRef" in source:
        name = source["nodePublishSecretRef"].get("name", "")
        if not name:
            errors.append(required(f"{path}.nodePublishSecretRef.name"))
        else:
            errors += invalids(f"{path}.name", name, dns_subdomain(name))
    return errors


def _ephemeral(source: Source, path: str) -> Errors:
    if "volumeClaimTemplate" not in source:
        return [required(f"{path}.volumeClaimTemplate")]
    return claim_template_errors(source["volumeClaimTemplate"], f"{path}.volumeClaimTemplate")


def _image(source: Source, path: str) -> Errors:
    return required_enum_errors(source.get("pullPolicy", ""), PULL_POLICIES, f"{path}.pullPolicy")


def _storage_os(source: Source, path: str) -> Errors:
    name, namespace = source.get("volumeName", ""), source.get("volumeNamespace", "")
    errors = dns_label_error(name, f"{path}.volumeName") if name else [required(f"{path}.volumeName")]
    if namespace:
        errors += dns_label_error(namespace, f"{path}.volumeNamespace")
    return errors + network.secret_errors(source, path)


#: In upstream's order: of two sources the later one is the error.
_SOURCES: dict[str, Callable[[Source, str], Errors]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "gitRepo": network.git_repo,
    "gcePersistentDisk": network.disk("pdName"),
    "awsElasticBlockStore": network.disk("volumeID"),
    "secret": _files("secretName"),
    "nfs": network.nfs,
    "iscsi": network.iscsi,
    "glusterfs": network.needs("endpoints", "path"),
    "flocker": network.flocker,
    "persistentVolumeClaim": network.needs("claimName"),
    "rbd": network.needs("monitors", "image"),
    "cinder": network.cinder,
    "cephfs": network.needs("monitors"),
    "quobyte": network.quobyte,
    "downwardAPI": _downward,
    "fc": network.fibre_channel,
    "flexVolume": network.flex,
    "configMap": _files("name"),
    "azureFile": network.needs("secretName", "shareName"),
    "vsphereVolume": network.needs("volumePath"),
    "photonPersistentDisk": network.needs("pdID"),
    "portworxVolume": network.needs("volumeID"),
    "azureDisk": network.azure_disk,
    "storageos": _storage_os,
    "projected": projected_errors,
    "scaleIO": network.needs("gateway", "system", "volumeName"),
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
_UPSTREAM_PATHS = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Sources that upstream misspells in the error about a second source."""

_CHECKED_AS = {"gcePersistentDisk": "persistentDisk"}
