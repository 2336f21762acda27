"""Live clusters, read-only: the only package that uses the network; it sends only GET requests to API servers.

:func:`kplan.live.collect.collect_snapshot` turns a cluster into a :class:`~kplan.snapshot.model.Snapshot`. The
`kubernetes` client is imported when it is called, not before. Here is what is asked of a cluster: with which options,
and which kinds, all that scheduling depends on and no others. The collector, the printed ClusterRole and the warnings
about missing kinds use this table.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kplan.api.kinds import KINDS, Kind
from kplan.reading.arguments import duration_of

DEFAULT_PAGE_SIZE = 500  #: objects in one answer; kubectl's chunk size
DEFAULT_REQUEST_TIMEOUT = 60.0  #: seconds for one request; kubectl has no limit
_LONGEST = 1e8  #: three years: sockets do not accept much more


class LiveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The values of kubectl's flags that choose a cluster and a user."""

    #: one path, or several joined as in ``KUBECONFIG``; empty for ``~/.kube/config``, else the account of the pod that
    #: kplan runs in
    kubeconfig: str = ""
    #: context, cluster, user: names in the kubeconfig that replace its current context, and that context's cluster and
    #: user
    context: str = ""
    cluster: str = ""
    user: str = ""
    #: impersonate_user, impersonate_groups: user and groups to impersonate, which needs the right to do so
    impersonate_user: str = ""
    impersonate_groups: tuple[str, ...] = ()
    request_timeout: float | None = DEFAULT_REQUEST_TIMEOUT  #: seconds for one whole request; None for no limit
    insecure_skip_tls_verify: bool = False
    #: read namespaced kinds in these namespaces only, for users without rights on the whole cluster
    namespaces: tuple[str, ...] = ()
    page_size: int = DEFAULT_PAGE_SIZE  #: objects in one answer of a list
    stdin_is_free: bool = True  #: kplan itself does not read standard input, so that a plugin may


def parse_timeout(text: str) -> float | None:
    """Return a duration as in kubectl (``1m30s``, ``45``) in seconds; None for ``0``, no limit. Raises UsageError."""
    return min(duration_of(text), _LONGEST) or None


_VOLUME_PLUGINS = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
_DYNAMIC = ("DynamicResources",)
_SPREADING = ("PodTopologySpread",)

#: Plural name -> the plugins whose decisions are uncertain when the kind is missing. Kinds that are not here are only
#: for controllers of pods and for admission.
_BLINDS: dict[str, tuple[str, ...]] = {
    "pods": ("NodeResourcesFit", "NodePorts", "PodTopologySpread", "InterPodAffinity", "DefaultPreemption"),
    "namespaces": ("InterPodAffinity",),
    **dict.fromkeys(("services", "replicationcontrollers", "replicasets", "statefulsets"), _SPREADING),
    "poddisruptionbudgets": ("DefaultPreemption",),
    "priorityclasses": ("PrioritySort", "DefaultPreemption"),
    "podgroups": ("GangScheduling", "DefaultPreemption"),
    **dict.fromkeys(("persistentvolumes", "persistentvolumeclaims"), _VOLUME_PLUGINS),
    "storageclasses": ("NodeVolumeLimits", "VolumeBinding", "VolumeZone"),
    "csinodes": ("NodeVolumeLimits", "VolumeBinding"),
    "csidrivers": ("NodeVolumeLimits", "VolumeBinding"),
    "csistoragecapacities": ("VolumeBinding",),
    "volumeattachments": ("NodeVolumeLimits",),
    "limitranges": ("NodeResourcesFit",),
    "runtimeclasses": ("NodeAffinity", "NodeResourcesFit", "TaintToleration"),
    **dict.fromkeys(("resourceclaims", "resourceclaimtemplates", "resourceslices", "devicetaintrules"), _DYNAMIC),
    "deviceclasses": ("DynamicResources", "NodeResourcesFit"),
}

_REQUIRED = frozenset({"nodes", "pods"})  #: kinds without which scheduling cannot be simulated

#: Terminated pods use no resources of their node, and can be most of a cluster's pods.
_SELECTORS = {"pods": "status.phase!=Succeeded,status.phase!=Failed"}

SYSTEM_NAMESPACE = "kube-system"  #: where the objects are of which only some names are read
_FIRST = ("pods", "nodes", "replicasets")  #: read first, as the other lists are shorter and run in parallel with these


class Resource(msgspec.Struct, frozen=True):
    """A kind of the snapshot, as the API server serves it."""

    kind: Kind
    blinds: tuple[str, ...]  #: plugins whose decisions are uncertain when this kind is missing
    required: bool  #: whether a snapshot needs it
    selector: str  #: field selector that excludes objects that scheduling does not count

    def path(self, version: str, namespace: str = "") -> str:
        group, plural = self.kind.group, self.kind.resource
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


#: All resources, in the order of the requests.
RESOURCES: tuple[Resource, ...] = tuple(
    Resource(
        kind=kind,
        blinds=_BLINDS.get(kind.resource, ()),
        required=kind.resource in _REQUIRED,
        selector=_SELECTORS.get(kind.resource, ""),
    )
    for kind in sorted(KINDS, key=lambda kind: _FIRST.index(kind.resource) if kind.resource in _FIRST else len(_FIRST))
)

VERBS = ("get", "list")  #: the verbs that GET requests need; a test checks that the transport sends no others


def cluster_role(name: str = "kplan") -> dict[str, Any]:
    """Return a ClusterRole (rbac.authorization.k8s.io/v1) for exactly the kinds that the collector reads.

    Discovery and ``/version`` need no rule: every authenticated user may read them (system:discovery).
    """
    groups: dict[str, list[str]] = {}
    named: list[dict[str, Any]] = []
    for resource in RESOURCES:
        kind = resource.kind
        if kind.names:
            rule = {"apiGroups": [kind.group], "resources": [kind.resource], "resourceNames": sorted(kind.names)}
            named.append({**rule, "verbs": ["get"]})
        else:
            groups.setdefault(kind.group, []).append(kind.resource)
    rules = [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": list(VERBS)}
        for group, plurals in sorted(groups.items())
    ]
    kind_of_object = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    return {**kind_of_object, "metadata": {"name": name}, "rules": [*rules, *named]}
