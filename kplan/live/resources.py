"""What kplan reads of a cluster: every kind that scheduling depends on, and no other.

The collector, the printed ClusterRole and the words about missing kinds all come from this one table.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kplan.api.kinds import KINDS, Kind

_VOLUME_PLUGINS = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
_DYNAMIC = ("DynamicResources",)
_SPREADING = ("PodTopologySpread",)

#: Plural name to the plugins that decide without knowing all when the kind is missing. Kinds that are not here only
#: serve to follow a pod to its controller and to admit new pods.
_BLINDS: dict[str, tuple[str, ...]] = {
    "pods": ("NodeResourcesFit", "NodePorts", "PodTopologySpread", "InterPodAffinity", "DefaultPreemption"),
    "namespaces": ("InterPodAffinity",),
    "services": _SPREADING,
    "replicationcontrollers": _SPREADING,
    "replicasets": _SPREADING,
    "statefulsets": _SPREADING,
    "poddisruptionbudgets": ("DefaultPreemption",),
    "priorityclasses": ("PrioritySort", "DefaultPreemption"),
    "persistentvolumes": _VOLUME_PLUGINS,
    "persistentvolumeclaims": _VOLUME_PLUGINS,
    "storageclasses": ("NodeVolumeLimits", "VolumeBinding", "VolumeZone"),
    "csinodes": ("NodeVolumeLimits", "VolumeBinding"),
    "csidrivers": ("VolumeBinding",),
    "csistoragecapacities": ("VolumeBinding",),
    "volumeattachments": ("NodeVolumeLimits",),
    "limitranges": ("NodeResourcesFit",),
    "runtimeclasses": ("NodeAffinity", "NodeResourcesFit", "TaintToleration"),
    "resourceclaims": _DYNAMIC,
    "resourceclaimtemplates": _DYNAMIC,
    "resourceslices": _DYNAMIC,
    "deviceclasses": ("DynamicResources", "NodeResourcesFit"),
}

#: Without these nothing can be decided.
_REQUIRED = frozenset({"nodes", "pods"})

#: Terminated pods hold nothing of their node any more, and can be most of a cluster's pods.
_SELECTORS = {"pods": "status.phase!=Succeeded,status.phase!=Failed"}

#: Asked for before the others, which then fill the time beside these long lists.
_FIRST = ("pods", "nodes", "replicasets")


class Resource(msgspec.Struct, frozen=True):
    """One kind, as the API server serves it and as the snapshot holds it."""

    kind: Kind  #: its group, versions, struct and place in the snapshot
    blinds: tuple[str, ...]  #: plugins that decide without knowing all when this kind is missing
    required: bool  #: whether nothing can be decided without it
    selector: str  #: a field selector that leaves on the server what scheduling does not count

    @property
    def plural(self) -> str:
        """The name in paths and in RBAC rules."""
        return self.kind.resource

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.kind.group

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions that can be read, the best first."""
        return self.kind.versions

    @property
    def attribute(self) -> str:
        """The field of the snapshot."""
        return self.kind.attribute

    @property
    def type(self) -> Any:
        """The struct that objects are decoded into."""
        return self.kind.type

    @property
    def namespaced(self) -> bool:
        """Whether objects live in namespaces."""
        return self.kind.is_namespaced

    def path(self, version: str, namespace: str = "") -> str:
        """Return the path of the list, in one namespace or in the whole cluster."""
        root = f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" if namespace else f"{root}/{self.plural}"


#: In the order in which they are asked for.
RESOURCES: tuple[Resource, ...] = tuple(
    Resource(
        kind=kind,
        blinds=_BLINDS.get(kind.resource, ()),
        required=kind.resource in _REQUIRED,
        selector=_SELECTORS.get(kind.resource, ""),
    )
    for kind in sorted(KINDS, key=lambda kind: _FIRST.index(kind.resource) if kind.resource in _FIRST else len(_FIRST))
)


#: Only these; a test holds the transport to GET, and get and list are what GET needs.
VERBS = ("get", "list")


def cluster_role(name: str = "kplan") -> dict[str, Any]:
    """Return a ClusterRole (rbac.authorization.k8s.io/v1) over exactly the kinds that the collector asks for.

    Discovery and ``/version`` need no rule: every signed-in user may ask for them (system:discovery).
    """
    groups: dict[str, list[str]] = {}
    for resource in RESOURCES:
        groups.setdefault(resource.group, []).append(resource.plural)
    rules = [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": list(VERBS)}
        for group, plurals in sorted(groups.items())
    ]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }
