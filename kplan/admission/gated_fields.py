"""Fields of pods that an API server drops because their feature gate is off, by the minor that turned the gate on.

Upstream: pkg/api/pod/util.go dropDisabledFields; pkg/features/kube_features.go for the minors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kplan.admission.validation.checks import Object, reached

NEWEST = 36
"""The newest minor whose gates are known."""

_NEVER = 1_000_000


class _Gate(NamedTuple):
    """A feature gate: `since` is the first minor that has it on by default; `drop` removes its fields from a spec.

    A gate without fields concerns what the API server adds.
    """

    name: str
    since: int
    drop: Callable[[Object], None]


def drop_disabled(spec: Object, minor: int = NEWEST, *, keeps: str = "") -> Object:
    """Remove the fields of features that are off by default in a minor such as 36; those of the gate `keeps` stay."""
    for gate in _GATES:
        if minor < gate.since and gate.name != keeps:
            gate.drop(spec)
    return spec


def is_on(name: str, minor: int) -> bool:
    """Tell whether a gate of this module is on by default in a minor."""
    return next(gate.since for gate in _GATES if gate.name == name) <= minor


def _drop(*paths: str) -> Callable[[Object], None]:
    """Return what removes fields, by their paths as in `reached`."""

    def drop(spec: Object) -> None:
        for path in paths:
            outer, _, name = path.rpartition(".")
            for holder in list(reached(spec, outer)) if outer else [spec]:
                holder.pop(name, None)

    return drop


def _drop_stop_signals(spec: Object) -> None:
    for container in reached(spec, "*"):
        lifecycle = container.get("lifecycle", {})
        if "stopSignal" in lifecycle:
            del lifecycle["stopSignal"]
            if not lifecycle:
                del container["lifecycle"]


def _drop_restart_rules(spec: Object) -> None:
    for container in reached(spec, "*"):
        container.pop("restartPolicyRules", None)
    for container in (*spec.get("containers", []), *spec.get("ephemeralContainers", [])):
        container.pop("restartPolicy", None)
    for container in spec.get("initContainers", []):
        if container.get("restartPolicy") != "Always":
            container.pop("restartPolicy", None)


def _drop_images(spec: Object) -> None:
    names = {volume.get("name", "") for volume in spec.get("volumes", []) if "image" in volume}
    if not names:
        return
    spec["volumes"] = [volume for volume in spec["volumes"] if "image" not in volume]
    for container in reached(spec, "*"):
        if mounts := container.get("volumeMounts"):
            container["volumeMounts"] = [mount for mount in mounts if mount.get("name", "") not in names]


_GATES = (
    _Gate("ClusterTrustBundleProjection", _NEVER, _drop("volumes.projected.sources.clusterTrustBundle")),
    _Gate("ContainerRestartRules", 35, _drop_restart_rules),
    _Gate("ContainerStopSignals", _NEVER, _drop_stop_signals),
    _Gate("DynamicResourceAllocation", 34, _drop("resourceClaims", "*.resources.claims")),
    _Gate("EnvFiles", 35, _drop("*.env.valueFrom.fileKeyRef")),
    _Gate("GenericWorkload", _NEVER, _drop("schedulingGroup")),
    _Gate("HostnameOverride", 35, _drop("hostnameOverride")),
    _Gate("ImageVolume", 35, _drop_images),
    _Gate("MatchLabelKeysInPodTopologySpreadSelectorMerge", 34, _drop()),
    _Gate("PodCertificateRequest", _NEVER, _drop("volumes.projected.sources.podCertificate")),
    _Gate("PodLevelResources", 34, _drop("resources")),
    _Gate("PodTopologyLabelsAdmission", 35, _drop()),
)
