"""A pod with what scheduling derives from it, computed when first used and then cached."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import cached_property

import msgspec
from msgspec.structs import replace

from kplan.api.affinity import required_node_affinity
from kplan.api.core import Pod
from kplan.api.meta import controller_of
from kplan.rules.affinity import PodAffinityTerms, affinity_terms
from kplan.rules.resources import (
    CPU,
    DEFAULT_CPU_REQUEST_NANO,
    DEFAULT_MEMORY_REQUEST_NANO,
    MEMORY,
    PodResources,
    Requests,
    has_no_status_resources,
    has_pod_level_requests,
    pod_requests,
    pod_resources,
    resources_key,
    rounded_requests,
)
from kplan.rules.volume_claims import storage_kinds

NO_START_TIME = 2**62
"""Later than any real time: a pod that has not started counts as started now."""

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - the address that means all addresses

HostPort = tuple[str, str, int]
"""(host IP, protocol, port); IP ``0.0.0.0`` stands for all."""

_encoder = msgspec.json.Encoder()


class PodInfo:
    """A pod and what plugins derive from it.

    Plugins get the same results for pods with equal `shape`.
    """

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.namespace = pod.metadata.namespace
        self.name = pod.metadata.name
        self.key = f"{self.namespace}/{self.name}"
        self.uid = pod.metadata.uid
        self.labels = pod.metadata.labels
        self.priority = pod.spec.priority or 0
        self.is_terminating = pod.metadata.deletion_timestamp is not None

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"

    @cached_property
    def shape(self) -> bytes:
        """Everything that plugins read of a pending pod, encoded; equal for pods that differ only in names and times.

        Of volumes only types and images count: the claim or disk matters only to plugins of cluster scope, and those
        run for every pod. So replicas with claims of their own have one shape.
        """
        pod = self.pod
        own = self.uid or self.key if is_unique(pod) else ""
        kinds = sorted({kind for volume in pod.spec.volumes for kind in storage_kinds(volume)})
        images = [volume.image for volume in pod.spec.volumes if volume.image is not None]
        spec = replace(pod.spec, volumes=()) if pod.spec.volumes else pod.spec
        return _encoder.encode((self.namespace, self.labels, own, self.controller, spec, kinds, images))

    @property
    def names_nodes(self) -> bool:
        """Whether the pod's required node affinity looks at fields of nodes everywhere, as that of a DaemonSet does."""
        required = required_node_affinity(self.pod.spec.affinity)
        return required is not None and all(term.match_fields for term in required.node_selector_terms)

    @cached_property
    def controller(self) -> tuple[str, str, str] | None:
        """(apiVersion, kind, name) of the pod's controller, or None; default spreading reads its selector."""
        owner = controller_of(self.pod.metadata)
        return None if owner is None else (owner.api_version, owner.kind, owner.name)

    @cached_property
    def resources(self) -> PodResources:
        """The resources that the pod takes from its node."""
        return pod_resources(self.pod)

    @cached_property
    def requests(self) -> Requests:
        """The requests of the pod's spec, without those of its status, in the scheduler's units."""
        if has_no_status_resources(self.pod):
            return self.resources.requests
        return rounded_requests(pod_requests(self.pod, use_status=False))

    @cached_property
    def scored_requests(self) -> Requests:
        """The requests that scores of allocation count for the pod, in the scheduler's units.

        Containers without a CPU or memory request count with a default. As upstream, and unlike in the sums of a node,
        pod-level resources and the pod's status do not count.
        """
        if has_no_status_resources(self.pod) and not has_pod_level_requests(self.pod):
            resources = self.resources
            return {**resources.requests, CPU: resources.nonzero_cpu, MEMORY: resources.nonzero_memory}
        missing = {CPU: DEFAULT_CPU_REQUEST_NANO, MEMORY: DEFAULT_MEMORY_REQUEST_NANO}
        exact = pod_requests(self.pod, use_status=False, missing_container_requests=missing, use_pod_level=False)
        return rounded_requests(exact)

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """Host ports of the pod's containers and sidecars.

        Upstream: pkg/scheduler/util/utils.go GetHostPorts.
        """
        spec = self.pod.spec
        running = [container for container in spec.init_containers if container.restart_policy == "Always"]
        return tuple(
            (port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
            for container in (*running, *spec.containers)
            for port in container.ports
            if port.host_port > 0
        )

    @cached_property
    def _terms_or_error(self) -> tuple[PodAffinityTerms, str]:
        return affinity_terms(self.pod)

    def share_terms(self, other: PodInfo) -> None:
        """Use the compiled terms of a pod that has the same namespace and affinity."""
        self.__dict__.setdefault("_terms_or_error", other._terms_or_error)

    @property
    def affinity(self) -> PodAffinityTerms:
        """The pod's inter-pod terms, compiled, without invalid lists (see `affinity_error`)."""
        return self._terms_or_error[0]

    @property
    def affinity_error(self) -> str:
        """kube-scheduler's message about invalid inter-pod terms; empty when all are valid."""
        return self._terms_or_error[1]


def distinct_resources(infos: Iterable[PodInfo]) -> tuple[list[PodResources], list[int]]:
    """Compute the resources of many pods, once for pods with equal requests.

    Returns
    -------
    distinct : resources of pods
    codes : the index into `distinct` for each pod
    """
    distinct: list[PodResources] = []
    code_of: dict[Hashable, int] = {}
    codes: list[int] = []
    for info in infos:
        key = resources_key(info.pod)
        code = None if key is None else code_of.get(key)
        if code is None:
            code = len(distinct)
            distinct.append(pod_resources(info.pod))
            if key is not None:
                code_of[key] = code
        info.resources = distinct[code]
        codes.append(code)
    return distinct, codes


def is_unique(pod: Pod) -> bool:
    """Whether plugins read the pod's own name or UID, so that no other pod has its shape: resource claims need them."""
    return bool(pod.spec.resource_claims or pod.status.extended_resource_claim_status)


def read_by_volume_plugins(pod: PodInfo) -> Hashable:
    """Return what plugins read of a pod that look at its volumes: None without volumes, and the shape of others."""
    return pod.shape if pod.pod.spec.volumes else None


def read_by_taint_plugins(pod: PodInfo) -> Hashable:
    """Return what plugins read of a pod that look at taints: its tolerations."""
    return pod.pod.spec.tolerations
