"""Volumes of a pod: unique names, with one source each (pkg/apis/core/validation ValidateVolumes)."""

from __future__ import annotations

from kplan.admission.validation import network_volumes as network
from kplan.admission.validation.checks import (
    Check,
    Object,
    enum,
    field,
    filled,
    items,
    must,
    needed,
    one_of,
    present,
    rules,
)
from kplan.admission.validation.claims import claim_template_errors
from kplan.admission.validation.errors import Errors, duplicate, forbidden, invalid, required
from kplan.admission.validation.projected import downward_file_errors, key_to_path_errors, projected_errors
from kplan.admission.validation.texts import LABEL, SUBDOMAIN, dns_subdomain, file_mode, no_backsteps
from kplan.api.quantity import parse


def volume_errors(spec: Object, path: str, pod_name: str, *, is_pod: bool) -> tuple[dict[str, Object], Errors]:
    """Return the valid volumes by name, and what is wrong with the others."""
    errors: list[Errors] = []
    good: dict[str, Object] = {}
    volumes: list[Object] = spec.get("volumes", [])
    created = {f"{pod_name}-{volume.get('name', '')}" for volume in volumes if pod_name and "ephemeral" in volume}
    for index, volume in enumerate(volumes):
        at, name = f"{path}[{index}]", volume.get("name", "")
        problems = [*_source_errors(volume, at, name, pod_name, is_pod=is_pod), *_name(volume, at)]
        if name in good:
            problems.append(duplicate(f"{at}.name", name))
        if not problems:
            good[name] = volume
        errors.append(problems)
        claim = volume.get("persistentVolumeClaim", {}).get("claimName", "")
        if claim in created and claim:
            words = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append([invalid(f"{at}.persistentVolumeClaim.claimName", claim, words)])
    return good, (error for several in errors for error in several)


_name = needed("name", LABEL)


def _source_errors(volume: Object, path: str, name: str, pod_name: str, *, is_pod: bool) -> Errors:
    stated = [key for key in _SOURCES if key in volume]
    if not stated:
        yield required(path, "must specify a volume type")
    for number, key in enumerate(stated):
        source, claim = volume[key], f"{pod_name}-{name}"
        if number:
            yield forbidden(f"{path}.{_UPSTREAM_PATHS.get(key, key)}", "may not specify more than 1 volume type")
        else:
            if key == "image" and is_pod and not source.get("reference"):
                yield required(f"{path}.image.reference")
            yield from _SOURCES[key](source, f"{path}.{_CHECKED_AS.get(key, key)}")
            for problem in dns_subdomain(claim) if key == "ephemeral" and pod_name and name else ():
                yield invalid(f"{path}.name", name, f'PVC name "{claim}": {problem}')
        if key == "iscsi" and "initiatorName" in source:
            yield from network.iscsi_name_errors(source, name, path)


def _size_errors(amount: str, path: str) -> Errors:
    if parse(amount).nanos < 0:
        yield forbidden(path, "SizeLimit field must be a valid resource quantity")


def _host_path(source: Object, path: str) -> Errors:
    yield from needed("path", no_backsteps)(source, path)
    yield from _host_path_type(source, path) if source.get("path") else ()


_host_path_type = field(
    "type",
    one_of("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
)
_default_mode = field("defaultMode", file_mode)


def _files(name: str) -> Check:
    """Return the check of a secret or config map, whose name is in the field `name`."""
    return rules(needed(name), _default_mode, items("items", key_to_path_errors))


def _downward_items(files: list[Object], path: str) -> Errors:
    at = path.removesuffix(".items")
    return [error for file in files for error in downward_file_errors(file, at)]


def _publish_secret_errors(reference: Object, path: str) -> Errors:
    if name := reference.get("name", ""):
        yield from SUBDOMAIN(name, f"{path.rpartition('.')[0]}.name")
    else:
        yield required(f"{path}.name")


#: In upstream's order: of two sources the later one is the error.
_SOURCES: dict[str, Check] = {
    "emptyDir": field("sizeLimit", _size_errors),
    "hostPath": _host_path,
    "gitRepo": network.git_repo,
    "gcePersistentDisk": network.disk("pdName"),
    "awsElasticBlockStore": network.disk("volumeID"),
    "secret": _files("secretName"),
    "nfs": rules(
        needed("server path"), field("path", must(lambda path: path[:1] == "/", "must be an absolute path"), absent="")
    ),
    "iscsi": network.iscsi,
    "glusterfs": needed("endpoints path"),
    "flocker": network.flocker,
    "persistentVolumeClaim": needed("claimName"),
    "rbd": needed("monitors image"),
    "cinder": rules(needed("volumeID"), network.secret),
    "cephfs": needed("monitors"),
    "quobyte": network.quobyte,
    "downwardAPI": rules(_default_mode, field("items", _downward_items)),
    "fc": network.fibre_channel,
    "flexVolume": network.flex,
    "configMap": _files("name"),
    "azureFile": needed("secretName shareName"),
    "vsphereVolume": needed("volumePath"),
    "photonPersistentDisk": needed("pdID"),
    "portworxVolume": needed("volumeID"),
    "azureDisk": network.azure_disk,
    "storageos": rules(needed("volumeName", LABEL), filled("volumeNamespace", LABEL), network.secret),
    "projected": projected_errors,
    "scaleIO": needed("gateway system volumeName"),
    "csi": rules(needed("driver", network.driver), field("nodePublishSecretRef", _publish_secret_errors)),
    "ephemeral": present("volumeClaimTemplate", claim_template_errors),
    "image": enum("pullPolicy", "Always", "IfNotPresent", "Never"),
}
_UPSTREAM_PATHS = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Sources that upstream misspells in the error about a second source."""

_CHECKED_AS = {"gcePersistentDisk": "persistentDisk"}
