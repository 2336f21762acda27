"""Defaults that an API server fills into pods and pod templates.

The functions change their argument, a decoded object.
Upstream: pkg/apis/core/v1 defaults.go and zz_generated.defaults.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kplan.admission.amounts import aggregate_limits, aggregate_requests
from kplan.api.quantity import Quantity, parse

Object = dict[str, Any]
_NANOS_PER_MILLI = 10**6
_HUGE_PAGES = "hugepages-"
_FILE_MODE = 0o644
_TOKEN_SECONDS = 3600
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_IMAGE = re.compile(
    rf"(?:{_HOST}/)?{_COMPONENT}(?:/{_COMPONENT})*(?::(?P<tag>\w[\w.-]{{0,127}}))?(?P<digest>@[A-Za-z][\w.+-]*:[0-9a-fA-F]{{32,}})?"
)


def default_pod(pod: Object) -> Object:
    """Fill in defaults of pods, but not of templates: requests from limits, pod-level resources, host ports."""
    spec: Object = pod.setdefault("spec", {})
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for container in _running(spec):
        resources: Object = container.setdefault("resources", {})
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **resources.get("requests", {})}
    if "resources" in spec:
        _default_pod_resources(spec, spec["resources"])
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in _running(spec):
            for port in container.get("ports", []):
                if port.get("containerPort", 0):
                    port.setdefault("hostPort", port["containerPort"])
    return pod


def default_pod_spec(spec: Object) -> Object:
    """Fill in defaults of pods and templates."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in spec.get("volumes", []):
        _default_volume(volume)
    for group in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(group, []):
            _default_container(container)
    for amounts in (spec.get("overhead"), *_sides(spec.get("resources", {}))):
        _round_up(amounts)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    return spec


def _running(spec: Object) -> Iterator[Object]:
    yield from spec.get("containers", [])
    yield from spec.get("initContainers", [])


def _sides(resources: Object) -> tuple[Object | None, Object | None]:
    return resources.get("limits"), resources.get("requests")


def _round_up(amounts: dict[str, str] | None) -> None:
    """Round amounts up to a thousandth (upstream SetDefaults_ResourceList)."""
    for name, amount in (amounts or {}).items():
        exact = parse(amount)
        if exact.nanos % _NANOS_PER_MILLI and amounts is not None:
            amounts[name] = str(Quantity(exact.milli_value() * _NANOS_PER_MILLI, exact.format))


def _default_container(container: Object) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports", []):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", []):
        _default_source(variable.get("valueFrom", {}))
    for amounts in _sides(container.get("resources", {})):
        _round_up(amounts)
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        if key in container:
            _default_probe(container[key])
    for hook in ("postStart", "preStop"):
        _default_http(container.get("lifecycle", {}).get(hook, {}))


def _default_source(source: Object) -> None:
    """Fill in the source of an environment variable, or of a file of the downward API."""
    if "fieldRef" in source:
        source["fieldRef"].setdefault("apiVersion", "v1")
    if "resourceFieldRef" in source:
        source["resourceFieldRef"].setdefault("divisor", "0")
    if "fileKeyRef" in source:
        source["fileKeyRef"].setdefault("optional", False)


def _default_probe(probe: Object) -> None:
    _default_http(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)


def _default_http(handler: Object) -> None:
    if "httpGet" in handler:
        handler["httpGet"].setdefault("path", "/")
        handler["httpGet"].setdefault("scheme", "HTTP")


def pull_policy(image: str) -> str:
    """Return the default pull policy of an image: ``Always`` for the tag ``latest`` or none."""
    match = _IMAGE.fullmatch(image[:1024])
    is_latest = match is not None and (match["tag"] == "latest" or not (match["tag"] or match["digest"]))
    return "Always" if is_latest else "IfNotPresent"


_SOURCE_DEFAULTS: dict[str, Object] = {
    "secret": {"defaultMode": _FILE_MODE},
    "configMap": {"defaultMode": _FILE_MODE},
    "downwardAPI": {"defaultMode": _FILE_MODE},
    "projected": {"defaultMode": _FILE_MODE},
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def _default_volume(volume: Object) -> None:
    if not any(key != "name" for key in volume):
        volume["emptyDir"] = {}
    for key, defaults in _SOURCE_DEFAULTS.items():
        if key in volume:
            volume[key] = {**defaults, **volume[key]}
    if "image" in volume and not volume["image"].get("pullPolicy"):
        volume["image"]["pullPolicy"] = pull_policy(volume["image"].get("reference", ""))
    files = list(volume.get("downwardAPI", {}).get("items", []))
    for source in volume.get("projected", {}).get("sources", []):
        files += source.get("downwardAPI", {}).get("items", [])
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_SECONDS)
    for file in files:
        _default_source(file)
    claim = volume.get("ephemeral", {}).get("volumeClaimTemplate")
    if claim is not None:
        default_claim(claim)


def default_claim(claim: Object) -> Object:
    """Fill in a persistent volume claim, or a claim template."""
    spec: Object = claim.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    for amounts in _sides(spec.get("resources", {})):
        _round_up(amounts)
    return claim


def settle_data_source(spec: Object) -> Object:
    """Make a claim's ``dataSource`` and ``dataSourceRef`` equal (pkg/api/persistentvolumeclaim)."""
    if spec.get("dataSourceRef", {}).get("namespace"):
        del spec["dataSourceRef"]
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        if (source.get("kind", ""), source.get("apiGroup") or "") in _DATA_SOURCES:
            spec["dataSourceRef"] = dict(source)
        else:
            del spec["dataSource"]
    elif reference is not None and source is None:
        spec["dataSource"] = {key: value for key, value in reference.items() if key != "namespace"}
    return spec


_DATA_SOURCES = (("PersistentVolumeClaim", ""), ("VolumeSnapshot", "snapshot.storage.k8s.io"))
"""Kinds and groups that ``dataSource`` supports; any other is dropped silently."""


def _default_pod_resources(spec: Object, resources: Object) -> None:
    """Fill in pod-level limits of huge pages, and pod-level requests where there are limits."""
    limits, requests = dict(resources.get("limits", {})), dict(resources.get("requests", {}))
    if limits or requests:
        totals = aggregate_limits(spec).items()
        pages = {name: str(total) for name, total in totals if name.startswith(_HUGE_PAGES) and name not in requests}
        limits = {**pages, **limits}
    if limits:
        totals = aggregate_requests(spec).items()
        summed = {name: str(total) for name, total in totals if name in ("cpu", "memory")}
        limited = {name: amount for name, amount in limits.items() if name in summed or _is_pod_level(name)}
        requests = {**limited, **summed, **requests}
    for side, amounts in (("limits", limits), ("requests", requests)):
        if amounts:
            resources[side] = amounts


def _is_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith(_HUGE_PAGES)
