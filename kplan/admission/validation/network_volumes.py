"""Volume sources outside the node: disks and file systems of clouds and networks (pkg/apis/core/validation)."""

from __future__ import annotations

import re

from kplan.admission.validation.checks import (
    Check,
    Object,
    at_most_bytes,
    between,
    field,
    filled,
    inclusive,
    must,
    needed,
    one_of,
    rules,
)
from kplan.admission.validation.errors import Errors, invalid, not_supported, required
from kplan.admission.validation.texts import descending, dns_subdomain

_BYTE = 255
_NAMES = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9\-.]+)(:[^,;*&$|\s]+)$"),
    "eui": re.compile(r"^eui.[A-Za-z0-9]{16}$"),
    "naa": re.compile(r"^naa.[A-Za-z0-9]{32}$"),
}
_MANAGED = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_byte = between(0, _BYTE)


def disk(name: str) -> Check:
    """Return the check of a disk that may be partitioned."""
    in_range = must(lambda partition: 0 <= partition <= _BYTE, inclusive(1, _BYTE))
    return rules(needed(name), field("partition", in_range))


secret = field("secretRef", needed("name"))
git_repo = rules(needed("repository"), field("directory", descending))
_most_driver = at_most_bytes(63)


def driver(name: str, path: str) -> Errors:
    """Return what is wrong with the name of a CSI driver."""
    yield from _most_driver(name, path)
    yield from (invalid(path, name, problem) for problem in dns_subdomain(name.lower()))


def _initiator_errors(name: str, path: str) -> Errors:
    if name[:3] not in _NAMES:
        yield invalid(path, name, "must be valid format starting with iqn, eui, or naa")
    elif not _NAMES[name[:3]].search(name):
        yield invalid(path, name, "must be valid format")


def _chap_errors(source: Object, path: str) -> Errors:
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and "secretRef" not in source:
        yield required(f"{path}.secretRef")


iscsi = rules(
    needed("targetPortal iqn"),
    filled("iqn", _initiator_errors),
    field("lun", _byte),
    _chap_errors,
    field("initiatorName", _initiator_errors, called="initiatorname"),
)


def iscsi_name_errors(source: Object, name: str, path: str) -> Errors:
    """Return an error for a volume whose name is too long for its initiator."""
    if len(f"{name}:{source.get('targetPortal', '')}".encode()) > 64:
        words = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if"
        yield invalid(f"{path}.name", name, f"{words} iscsi.initiatorName is specified.")


def flocker(source: Object, path: str) -> Errors:
    """Check a Flocker data set."""
    name, uid = source.get("datasetName", ""), source.get("datasetUUID", "")
    if not name and not uid:
        yield required(path, "one of datasetName and datasetUUID is required")
    if name and uid:
        yield invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously")
    if "/" in name:
        yield invalid(f"{path}.datasetName", name, "must not contain '/'")


def quobyte(source: Object, path: str) -> Errors:
    """Check a Quobyte volume."""
    registry, words = source.get("registry", ""), "must be a host:port pair or multiple pairs separated by commas"
    if not registry:
        yield required(f"{path}.registry", words)
    elif len(source.get("tenant", "").encode()) >= 65:
        yield required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters")
    else:
        for pair in registry.split(","):
            if not re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*):[^:]*", pair):
                yield invalid(f"{path}.registry", registry, words)
    yield from needed("volume")(source, path)


def fibre_channel(source: Object, path: str) -> Errors:
    """Check a fibre channel disk."""
    names, ids = source.get("targetWWNs", []), source.get("wwids", [])
    if not names and not ids:
        yield required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if names and ids:
        yield invalid(f"{path}.targetWWNs", names, "targetWWNs and wwids can not be specified simultaneously")
    if names and "lun" not in source:
        yield required(f"{path}.lun", "lun is required if targetWWNs is specified")
    elif names:
        yield from _byte(source["lun"], f"{path}.lun")


def flex(source: Object, path: str) -> Errors:
    """Check a FlexVolume."""
    yield from needed("driver")(source, path)
    for key in sorted(source.get("options", {})):
        if f".{key.split('/', 1)[0].lower()}".endswith((".kubernetes.io", ".k8s.io")):
            yield invalid(f"{path}.options[{key}]", key, "kubernetes.io and k8s.io namespaces are reserved")


def _uri_errors(source: Object, path: str) -> Errors:
    kind, uri = source.get("kind"), source.get("diskURI", "")
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        yield not_supported(f"{path}.diskURI", uri, (_MANAGED,))
    if kind not in (None, "Managed") and not uri.startswith("https://"):
        yield not_supported(f"{path}.diskURI", uri, (_BLOB,))


azure_disk = rules(
    needed("diskName diskURI"),
    field("cachingMode", one_of("None", "ReadOnly", "ReadWrite")),
    field("kind", one_of("Dedicated", "Managed", "Shared")),
    _uri_errors,
)
