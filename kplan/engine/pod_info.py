"""A pod with what scheduling derives from it, computed once and when first asked for."""

from __future__ import annotations

from functools import cached_property

import msgspec

from kplan.api.core import Pod
from kplan.api.labels import InvalidSelector
from kplan.api.time import to_micros
from kplan.engine.affinity import NO_TERMS, PodAffinityTerms, affinity_terms
from kplan.engine.resources import PodResources, pod_resources

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
        """Everything that plugins read of this pod before it has a node, encoded; equal for pods that say the same."""
        pod = self.pod
        own = self.uid or self.key if _is_one_of_a_kind(pod) else ""
        return _encoder.encode((self.namespace, self.labels, own, pod.spec))

    @cached_property
    def resources(self) -> PodResources:
        """What the pod takes from its node."""
        return pod_resources(self.pod)

    @cached_property
    def start_micros(self) -> int:
        """Microseconds since the epoch at which the pod started, or NO_START_TIME."""
        start = self.pod.status.start_time
        return NO_START_TIME if start is None else to_micros(start)

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """Ports that the pod's containers and sidecars take on their node.

        Upstream: pkg/scheduler/util/utils.go GetHostPorts (v1.36).
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
        try:
            return affinity_terms(self.pod), ""
        except InvalidSelector as error:
            return NO_TERMS, str(error)

    @property
    def affinity(self) -> PodAffinityTerms:
        """Compiled inter-pod terms; none when one of them is invalid (see `affinity_error`)."""
        return self._terms_or_error[0]

    @property
    def affinity_error(self) -> str:
        """Why the inter-pod terms cannot be used, or empty."""
        return self._terms_or_error[1]


def _is_one_of_a_kind(pod: Pod) -> bool:
    """Tell whether plugins look at who the pod is: claims and generated volumes go by name."""
    return bool(pod.spec.volumes or pod.spec.resource_claims or pod.status.extended_resource_claim_status)
