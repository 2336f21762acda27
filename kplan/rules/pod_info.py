"""A pod with what scheduling derives from it, computed once and when first asked for."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import cached_property

import msgspec
from msgspec.structs import replace

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
    has_pod_level_requests,
    pod_requests,
    pod_resources,
    resources_key,
    rounded_requests,
    says_nothing_of_resources,
)
from kplan.rules.volume_claims import storage_kinds

NO_START_TIME = 2**62
"""Later than any real time: a pod that has not started counts as started now."""

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - the address that means all addresses

HostPort = tuple[str, str, int]
"""(host IP, protocol, port); IP ``0.0.0.0`` stands for all."""

_encoder = msgspec.json.Encoder()


class PodInfo:
    """A pod and what plugins read of it again and again.

    Two pods with equal `shape` say the same to every plugin, names and times aside, so what was computed for one
    holds for the other.
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
        """Everything that plugins read of this pod before it has a node, encoded; equal for pods that say the same.

        Of volumes only types and images count: which claim or disk it is matters to plugins of cluster scope alone,
        and those are asked for every pod. So replicas with a claim each are of one shape.
        """
        pod = self.pod
        own = self.uid or self.key if is_one_of_a_kind(pod) else ""
        kinds = sorted({kind for volume in pod.spec.volumes for kind in storage_kinds(volume)})
        images = [volume.image for volume in pod.spec.volumes if volume.image is not None]
        spec = replace(pod.spec, volumes=()) if pod.spec.volumes else pod.spec
        return _encoder.encode((self.namespace, self.labels, own, self.controller, spec, kinds, images))

    @cached_property
    def controller(self) -> tuple[str, str, str] | None:
        """(apiVersion, kind, name) of the pod's controller, or None; default spreading looks at what it selects."""
        owner = controller_of(self.pod.metadata)
        return None if owner is None else (owner.api_version, owner.kind, owner.name)

    @cached_property
    def resources(self) -> PodResources:
        """What the pod takes from its node."""
        return pod_resources(self.pod)

    @cached_property
    def requests(self) -> Requests:
        """What the pod asks for before it runs, whatever its status says, in the scheduler's units."""
        if says_nothing_of_resources(self.pod):
            return self.resources.requests
        return rounded_requests(pod_requests(self.pod, use_status=False))

    @cached_property
    def scored_requests(self) -> Requests:
        """What the pod counts for in scores of allocation, in the scheduler's units.

        Containers without a CPU or memory request count with a default. Resources of the whole pod are not looked at,
        nor is its status: unlike in the sums of the node, and as upstream does it.
        """
        if says_nothing_of_resources(self.pod) and not has_pod_level_requests(self.pod):
            known = self.resources
            return {**known.requests, CPU: known.nonzero_cpu, MEMORY: known.nonzero_memory}
        missing = {CPU: DEFAULT_CPU_REQUEST_NANO, MEMORY: DEFAULT_MEMORY_REQUEST_NANO}
        exact = pod_requests(self.pod, use_status=False, missing_container_requests=missing, use_pod_level=False)
        return rounded_requests(exact)

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """Ports that the pod's containers and sidecars take on their node.

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
        """Take over the compiled terms of a pod of the same namespace that says the same of affinity."""
        self.__dict__.setdefault("_terms_or_error", other._terms_or_error)

    @property
    def affinity(self) -> PodAffinityTerms:
        """Compiled inter-pod terms, without the lists that are invalid (see `affinity_error`)."""
        return self._terms_or_error[0]

    @property
    def affinity_error(self) -> str:
        """Why some inter-pod terms cannot be used, or empty."""
        return self._terms_or_error[1]


def work_out_resources(infos: Iterable[PodInfo]) -> tuple[list[PodResources], list[int]]:
    """Work out what many pods take from their nodes, what several say once.

    Returns
    -------
    distinct : what pods take
    codes : index into `distinct` of each pod's
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


def is_one_of_a_kind(pod: Pod) -> bool:
    """Tell whether plugins look at who the pod is: resource claims go by name."""
    return bool(pod.spec.resource_claims or pod.status.extended_resource_claim_status)
