"""Volumes of a pod: unique names, with one source each; and persistent volume claims.

Cluster trust bundles and pod certificates are dropped before validation while their feature gates are off.
Upstream: pkg/apis/core/validation ValidateVolumes, ValidatePersistentVolumeClaimSpec.
"""

from __future__ import annotations

import re

from kplan.admission.validation import checks as check
from kplan.admission.validation.checks import Check, Object
from kplan.admission.validation.containers import field_selector, resource_selector_errors
from kplan.admission.validation.metadata import metadata_check, selector_errors, template_metadata
from kplan.api.field_errors import Errors, FieldError, duplicate, forbidden, invalid, not_supported, required
from kplan.api.quantity import parse

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
positive = check.must(lambda amount: parse(amount).nanos > 0, "must be greater than zero")


def _demand_errors(spec: Object, path: str) -> Errors:
    """Return what is wrong with the access modes, the selector and the amount of a claim."""
    modes, at = spec.get("accessModes", []), f"{path}.accessModes"
    if not modes:
        yield required(at, "at least 1 access mode is required")
    yield from check.field("selector", selector_errors)(spec, path)
    yield from (not_supported(at, mode, _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and {*modes} & {*_ACCESS_MODES} - {"ReadWriteOncePod"}:
        yield forbidden(at, "may not use ReadWriteOncePod with other access modes")
    amount, at = spec.get("resources", {}).get("requests", {}).get("storage"), f"{path}.resources[storage]"
    yield from [required(at)] if amount is None else positive(amount, at)


def _kind_errors(source: Object, path: str) -> Errors:
    kind = source.get("kind", "")
    if not source.get("apiGroup", "") and kind != "PersistentVolumeClaim":
        yield invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")


def _equality_errors(spec: Object, path: str) -> Errors:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is None or reference is None:
        return
    if reference.get("namespace"):
        yield invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified")
    elif any(source.get(key) != reference.get(key) for key in ("apiGroup", "kind", "name")):
        yield invalid(path, {}, "must match dataSourceRef")


claim_spec_errors = check.rules(
    _demand_errors,
    check.filled("storageClassName", check.SUBDOMAIN),
    check.field("volumeMode", check.one_of("Block", "Filesystem")),
    check.field(
        "dataSource dataSourceRef",
        check.needed("name kind"),
        _kind_errors,
        check.filled("apiGroup", check.SUBDOMAIN),
        check.filled("namespace", check.LABEL),
    ),
    _equality_errors,
    check.since(34, check.filled("volumeAttributesClassName", check.SUBDOMAIN)),
)
_spec = check.field("spec", claim_spec_errors, absent={})
claim_template_errors = check.rules(check.field("metadata", template_metadata), _spec)
claim_errors = check.rules(
    metadata_check(), check.field("metadata", check.field("generation", check.not_negative)), _spec
)
"""The check of a PersistentVolumeClaim."""

_LEAST_EXPIRATION, _MOST_EXPIRATION = 600, 1 << 32
_name = check.needed("name", check.LABEL)
_path = check.field("path", check.unreserved, absent="")
_mode = check.field("mode", check.file_mode)
_key_to_path_errors = check.rules(check.needed("key path"), _path, _mode)
"""The check of a key that is mounted as a file."""

_fields = field_selector(
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"
)


def _downward_source_errors(item: Object, path: str) -> Errors:
    if "fieldRef" in item:
        yield from _fields(item["fieldRef"], f"{path}.fieldRef")
        if "resourceFieldRef" in item:
            yield invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif "resourceFieldRef" in item:
        yield from resource_selector_errors(item["resourceFieldRef"], f"{path}.resourceFieldRef")
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")


_downward_file_errors = check.rules(check.needed("path"), _path, _downward_source_errors, _mode)
"""The check of a file of the downward API."""

_token = check.field(
    "expirationSeconds",
    check.must(lambda seconds: seconds >= _LEAST_EXPIRATION, "may not specify a duration less than 10 minutes"),
    check.must(lambda seconds: seconds <= _MOST_EXPIRATION, "may not specify a duration larger than 2^32 seconds"),
    absent=0,
)
_token_path = check.needed("path", check.unreserved)


def _projected_errors(volume: Object, path: str) -> Errors:
    yield from check.field("defaultMode", check.file_mode)(volume, path)
    targets: set[str] = set()
    for index, source in enumerate(volume.get("sources", [])):
        at = f"{path}.sources[{index}]"
        for key in ("secret", "configMap", "downwardAPI"):
            yield from _file_errors(key, source[key], at, path, targets) if key in source else ()
        if "serviceAccountToken" in source:
            yield from _token(source["serviceAccountToken"], f"{at}.serviceAccountToken")
            yield from _token_path(source["serviceAccountToken"], path)
        if len(source) > 1:
            yield forbidden(at, "may not specify more than 1 volume type per source")


def _file_errors(key: str, source: Object, at: str, path: str, targets: set[str]) -> Errors:
    """Check the files of a source; `targets` are those of earlier ones, which none may repeat."""
    at, is_downward = f"{at}.{key}", key == "downwardAPI"
    yield from () if is_downward else check.needed("name")(source, at)
    for index, item in enumerate(source.get("items", [])):
        yield from _downward_file_errors(item, at) if is_downward else _key_to_path_errors(item, f"{at}.items[{index}]")
        target = item.get("path", "")
        if target in targets:
            yield invalid(path, target if is_downward else source.get("name", ""), "conflicting duplicate paths")
        targets |= {target} - {""}


_BYTE = 255
_NAMES = {
    "iqn": r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9\-.]+)(:[^,;*&$|\s]+)$",
    "eui": r"^eui.[A-Za-z0-9]{16}$",
    "naa": r"^naa.[A-Za-z0-9]{32}$",
}
_MANAGED = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_byte = check.between(0, _BYTE)


def _disk(name: str) -> Check:
    in_range = check.between(0, _BYTE, least=1)
    return check.rules(check.needed(name), check.field("partition", in_range))


_host_path_type = check.one_of(
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
)
_default_mode = check.field("defaultMode", check.file_mode)
_secret = check.field("secretRef", check.needed("name"))
_git_repo = check.rules(check.needed("repository"), check.field("directory", check.descending))
_driver = check.rules(check.at_most_bytes(63), check.formed(lambda name: check.dns_subdomain(name.lower())))


def _initiator_errors(name: str, path: str) -> Errors:
    if name[:3] not in _NAMES:
        yield invalid(path, name, "must be valid format starting with iqn, eui, or naa")
    elif not re.search(_NAMES[name[:3]], name):
        yield invalid(path, name, "must be valid format")


_iscsi = check.rules(
    check.needed("targetPortal iqn"),
    check.filled("iqn", _initiator_errors),
    check.field("lun", _byte),
    check.when(
        lambda source: source.get("chapAuthDiscovery") or source.get("chapAuthSession"), check.present("secretRef")
    ),
    check.field("initiatorName", _initiator_errors, called="initiatorname"),
)


def _flocker(source: Object, path: str) -> Errors:
    name, uid = source.get("datasetName", ""), source.get("datasetUUID", "")
    if not name and not uid:
        yield required(path, "one of datasetName and datasetUUID is required")
    if name and uid:
        yield invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously")
    if "/" in name:
        yield invalid(f"{path}.datasetName", name, "must not contain '/'")


def _quobyte(source: Object, path: str) -> Errors:
    registry, words = source.get("registry", ""), "must be a host:port pair or multiple pairs separated by commas"
    if not registry:
        yield required(f"{path}.registry", words)
    elif len(source.get("tenant", "").encode()) >= 65:
        yield required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters")
    else:
        for pair in registry.split(","):
            if not re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*):[^:]*", pair):
                yield invalid(f"{path}.registry", registry, words)
    yield from check.needed("volume")(source, path)


def _fibre_channel(source: Object, path: str) -> Errors:
    names, ids = source.get("targetWWNs", []), source.get("wwids", [])
    if not names and not ids:
        yield required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if names and ids:
        yield invalid(f"{path}.targetWWNs", names, "targetWWNs and wwids can not be specified simultaneously")
    if names and "lun" not in source:
        yield required(f"{path}.lun", "lun is required if targetWWNs is specified")
    elif names:
        yield from _byte(source["lun"], f"{path}.lun")


def _flex(source: Object, path: str) -> Errors:
    yield from check.needed("driver")(source, path)
    for key in sorted(source.get("options", {})):
        if f".{key.split('/', 1)[0].lower()}".endswith((".kubernetes.io", ".k8s.io")):
            yield invalid(f"{path}.options[{key}]", key, "kubernetes.io and k8s.io namespaces are reserved")


def _uri_errors(source: Object, path: str) -> Errors:
    kind, uri = source.get("kind"), source.get("diskURI", "")
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        yield not_supported(f"{path}.diskURI", uri, (_MANAGED,))
    if kind not in (None, "Managed") and not uri.startswith("https://"):
        yield not_supported(f"{path}.diskURI", uri, (_BLOB,))


_azure_disk = check.rules(
    check.needed("diskName diskURI"),
    check.field("cachingMode", check.one_of("None", "ReadOnly", "ReadWrite")),
    check.field("kind", check.one_of("Dedicated", "Managed", "Shared")),
    _uri_errors,
)


def volume_errors(spec: Object, path: str, pod_name: str, *, is_pod: bool) -> tuple[dict[str, Object], Errors]:
    """Return the valid volumes by name, and what is wrong with the others."""
    errors: list[FieldError] = []
    good: dict[str, Object] = {}
    volumes: list[Object] = spec.get("volumes", [])
    created = {f"{pod_name}-{volume.get('name', '')}" for volume in volumes if pod_name and "ephemeral" in volume}
    for index, volume in enumerate(volumes):
        at, name = f"{path}[{index}]", volume.get("name", "")
        problems = [*_source_errors(volume, at, name, pod_name, is_pod=is_pod), *_name(volume, at)]
        problems += [duplicate(f"{at}.name", name)] if name in good else []
        if not problems:
            good[name] = volume
        errors += problems
        claim = volume.get("persistentVolumeClaim", {}).get("claimName", "")
        if claim in created and claim:
            words = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(f"{at}.persistentVolumeClaim.claimName", claim, words))
    return good, errors


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
            for problem in check.dns_subdomain(claim) if key == "ephemeral" and pod_name and name else ():
                yield invalid(f"{path}.name", name, f'PVC name "{claim}": {problem}')
        if (
            key == "iscsi"
            and "initiatorName" in source
            and len(f"{name}:{source.get('targetPortal', '')}".encode()) > 64
        ):
            words = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if"
            yield invalid(f"{path}.name", name, f"{words} iscsi.initiatorName is specified.")


def _files(name: str) -> Check:
    return check.rules(check.needed(name), _default_mode, check.items("items", _key_to_path_errors))


def _publish_secret_errors(reference: Object, path: str) -> Errors:
    if name := reference.get("name", ""):
        yield from check.SUBDOMAIN(name, f"{path.rpartition('.')[0]}.name")
    else:
        yield required(f"{path}.name")


#: In upstream's order: of two sources the later one is the error.
_SOURCES: dict[str, Check] = {
    "emptyDir": check.field(
        "sizeLimit",
        lambda amount, path: (
            [forbidden(path, "SizeLimit field must be a valid resource quantity")] if parse(amount).nanos < 0 else []
        ),
    ),
    "hostPath": check.rules(
        check.needed("path", check.no_backsteps), check.when("path", check.field("type", _host_path_type))
    ),
    "gitRepo": _git_repo,
    "gcePersistentDisk": _disk("pdName"),
    "awsElasticBlockStore": _disk("volumeID"),
    "secret": _files("secretName"),
    "nfs": check.rules(
        check.needed("server path"),
        check.field("path", check.must(lambda path: path[:1] == "/", "must be an absolute path"), absent=""),
    ),
    "iscsi": _iscsi,
    "glusterfs": check.needed("endpoints path"),
    "flocker": _flocker,
    "persistentVolumeClaim": check.needed("claimName"),
    "rbd": check.needed("monitors image"),
    "cinder": check.rules(check.needed("volumeID"), _secret),
    "cephfs": check.needed("monitors"),
    "quobyte": _quobyte,
    "downwardAPI": check.rules(
        _default_mode, lambda source, path: check.every_item(_downward_file_errors)(source.get("items", ()), path)
    ),
    "fc": _fibre_channel,
    "flexVolume": _flex,
    "configMap": _files("name"),
    "azureFile": check.needed("secretName shareName"),
    "vsphereVolume": check.needed("volumePath"),
    "photonPersistentDisk": check.needed("pdID"),
    "portworxVolume": check.needed("volumeID"),
    "azureDisk": _azure_disk,
    "storageos": check.rules(
        check.needed("volumeName", check.LABEL), check.filled("volumeNamespace", check.LABEL), _secret
    ),
    "projected": _projected_errors,
    "scaleIO": check.needed("gateway system volumeName"),
    "csi": check.rules(check.needed("driver", _driver), check.field("nodePublishSecretRef", _publish_secret_errors)),
    "ephemeral": check.present("volumeClaimTemplate", claim_template_errors),
    "image": check.enum("pullPolicy", "Always", "IfNotPresent", "Never"),
}
_UPSTREAM_PATHS = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Sources that upstream misspells in the error about a second source."""

_CHECKED_AS = {"gcePersistentDisk": "persistentDisk"}
