"""A pod with what scheduling derives from it, such as compiled affinity terms, computed when first used and cached.

Upstream: kube-scheduler/framework/types.go AffinityTerm, GetAffinityTerms.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.api.affinity import PodAffinityTerm, WeightedPodAffinityTerm, required_node_affinity
from kplan.api.core import Pod
from kplan.api.kinds import DAEMON_SET
from kplan.api.labels import InvalidSelector, Selector, selector_from
from kplan.api.meta import condition_of, controller_of
from kplan.api.pod import SCHEDULED, PodCondition
from kplan.facts import DerivedOnce
from kplan.rules.resources import (
    CPU,
    DEFAULT_REQUESTS,
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
from kplan.rules.volumes import storage_kinds

NO_START_TIME = 2**62  #: later than any real time: a pod that has not started counts as started now
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - the address that means all addresses
HostPort = tuple[str, str, int]  #: (host IP, protocol, port); IP ``0.0.0.0`` stands for all
_encoder = msgspec.json.Encoder()


class AffinityTerm(msgspec.Struct, frozen=True):
    """An affinity or anti-affinity term, resolved so that equal terms mean the same in whichever pod they are."""

    selector: Selector
    namespaces: frozenset[str]  #: names that match in any case; the owner's own where the term names none
    namespace_selector: Selector  #: further namespaces, by their labels
    topology_key: str

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        if namespace in self.namespaces or self.namespace_selector.matches(namespace_labels):
            return self.selector.matches(labels)
        return False


class WeightedAffinityTerm(msgspec.Struct, frozen=True):
    """A preferred term with its weight (1 to 100)."""

    term: AffinityTerm
    weight: int


class PodAffinityTerms(msgspec.Struct, frozen=True):
    """All inter-pod terms of one pod; empty tuples where it has none."""

    required_affinity: tuple[AffinityTerm, ...] = ()
    required_anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_affinity: tuple[WeightedAffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedAffinityTerm, ...] = ()

    def __bool__(self) -> bool:
        required = self.required_affinity or self.required_anti_affinity
        return bool(required or self.preferred_affinity or self.preferred_anti_affinity)


NO_TERMS = PodAffinityTerms()


def affinity_terms(pod: Pod) -> tuple[PodAffinityTerms, str]:
    """Return a pod's inter-pod terms, compiled, without lists with an invalid selector, and the message about those.

    The message is empty when all are valid.
    Upstream: pkg/scheduler/framework/types.go PodInfo.Update, whose error does not affect running pods.
    """
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS, ""
    sides = {"Affinity": affinity.pod_affinity, "AntiAffinity": affinity.pod_anti_affinity}
    errors: list[str] = []

    def required(term: PodAffinityTerm) -> AffinityTerm:
        own_namespace_only = not term.namespaces and term.namespace_selector is None
        return AffinityTerm(
            selector_from(term.label_selector),
            frozenset((pod.metadata.namespace,) if own_namespace_only else term.namespaces),
            selector_from(term.namespace_selector),
            term.topology_key,
        )

    def preferred(term: WeightedPodAffinityTerm) -> WeightedAffinityTerm:
        return WeightedAffinityTerm(required(term.pod_affinity_term), term.weight)

    def compiled(words: str, compile_term: Callable[[Any], Any]) -> Iterator[tuple[Any, ...]]:
        for name, side in sides.items():
            terms = () if side is None else getattr(side, f"{words}_during_scheduling_ignored_during_execution")
            try:
                yield tuple(map(compile_term, terms))
            except InvalidSelector as error:
                errors.append(f"{words}{name}Terms: {error}")
                yield ()

    lists = PodAffinityTerms(*compiled("required", required), *compiled("preferred", preferred))
    return lists, "".join(errors) if len(errors) < 2 else f"[{', '.join(errors)}]"


class PodInfo(msgspec.Struct, eq=False, dict=True, weakref=True):
    """A pod and what plugins derive from it.

    Plugins get the same results for pods with equal `shape`. Of most pods of a cluster nothing is derived.
    """

    pod: Pod
    own_key: str = ""  #: `key`, once it is put together
    shared_resources: PodResources | None = None  #: `resources`, once they or those of an equal pod are worked out

    @property
    def namespace(self) -> str:
        return self.pod.metadata.namespace

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        if not self.own_key:
            self.own_key = self.pod.metadata.key
        return self.own_key

    @property
    def uid(self) -> str:
        """The pod's UID; empty before an API server has stored it."""
        return self.pod.metadata.uid

    @property
    def labels(self) -> dict[str, str]:
        return self.pod.metadata.labels

    @property
    def priority(self) -> int:
        return self.pod.spec.priority or 0

    @property
    def is_terminating(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"

    @DerivedOnce
    def shape(self) -> bytes:
        """All that plugins read of a pending pod, encoded; equal for pods that differ only in names and times."""
        own = self.uid or self.key if is_unique(self.pod) else ""
        return _encoder.encode((self.namespace, self.labels, own, self.controller)) + self.shape_of_spec

    @DerivedOnce
    def shape_of_spec(self) -> bytes:
        """What plugins read of the pod's spec, encoded.

        Of volumes only types and images count: the claim or disk matters only to plugins of cluster scope, and those
        run for every pod. So replicas with claims of their own have one shape.
        """
        spec = self.pod.spec
        if not spec.volumes:
            return _encoder.encode(spec)
        kinds = sorted({kind for volume in spec.volumes for kind in storage_kinds(volume)})
        images = [volume.image for volume in spec.volumes if volume.image is not None]
        counted = _encoder.encode((kinds, images)) if kinds or images else b""
        return _encoder.encode(replace(spec, volumes=())) + counted

    @property
    def names_nodes(self) -> bool:
        """Whether the pod's required node affinity looks at fields of nodes everywhere, as that of a DaemonSet does."""
        required = required_node_affinity(self.pod.spec.affinity)
        return required is not None and all(term.match_fields for term in required.node_selector_terms)

    @DerivedOnce
    def controller(self) -> tuple[str, str, str] | None:
        """(apiVersion, kind, name) of the pod's controller, or None; default spreading reads its selector."""
        owner = controller_of(self.pod.metadata)
        return None if owner is None else (owner.api_version, owner.kind, owner.name)

    @property
    def resources(self) -> PodResources:
        if self.shared_resources is None:
            self.shared_resources = pod_resources(self.pod)
        return self.shared_resources

    @DerivedOnce
    def requests(self) -> Requests:
        """The requests of the pod's spec, without those of its status, in the scheduler's units."""
        if has_no_status_resources(self.pod):
            return self.resources.requests
        return rounded_requests(pod_requests(self.pod, use_status=False))

    @DerivedOnce
    def scored_requests(self) -> Requests:
        """The requests that scores of allocation count for the pod, in the scheduler's units.

        Containers without a CPU or memory request count with a default. As upstream, and unlike in the sums of a node,
        pod-level resources and the pod's status do not count.
        """
        if has_no_status_resources(self.pod) and not has_pod_level_requests(self.pod):
            resources = self.resources
            return {**resources.requests, CPU: resources.nonzero_cpu, MEMORY: resources.nonzero_memory}
        return rounded_requests(
            pod_requests(self.pod, use_status=False, missing_container_requests=DEFAULT_REQUESTS, use_pod_level=False)
        )

    @DerivedOnce
    def host_ports(self) -> tuple[HostPort, ...]:
        """Host ports of the pod's containers and sidecars (upstream util/utils.go GetHostPorts)."""
        spec = self.pod.spec
        running = [container for container in spec.init_containers if container.restart_policy == "Always"]
        return tuple(
            (port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
            for container in (*running, *spec.containers)
            for port in container.ports
            if port.host_port > 0
        )

    @DerivedOnce
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


class DistinctResources:
    """The resources of many pods, computed once for pods with equal requests."""

    def __init__(self) -> None:
        self.distinct: list[PodResources] = []
        self._code_of: dict[Hashable, int] = {}

    def share(self, infos: Iterable[PodInfo]) -> list[int]:
        """Let further pods share their resources, and return the index into `distinct` for each of them."""
        distinct, code_of = self.distinct, self._code_of
        codes: list[int] = []
        for info in infos:
            key = resources_key(info.pod)
            code = None if key is None else code_of.get(key)
            if code is None:
                code = len(distinct)
                distinct.append(pod_resources(info.pod))
                if key is not None:
                    code_of[key] = code
            info.shared_resources = distinct[code]
            codes.append(code)
        return codes


def daemon_set_of(pod: Pod) -> str:
    """Return the name of the DaemonSet that a pod is of; empty for none."""
    owner = controller_of(pod.metadata)
    return owner.name if owner is not None and owner.kind == DAEMON_SET else ""


def is_unique(pod: Pod) -> bool:
    """Whether plugins read the pod's own name or UID, so that no other pod has its shape: resource claims need them."""
    return bool(pod.spec.resource_claims or pod.status.extended_resource_claim_status)


def read_by_volume_plugins(pod: PodInfo) -> Hashable:
    """Return what plugins read of a pod that look at its volumes: None without volumes, and the shape of others."""
    return pod.shape if pod.pod.spec.volumes else None


def read_by_taint_plugins(pod: PodInfo) -> Hashable:
    return pod.pod.spec.tolerations


def unschedulable(message: str = "") -> PodCondition:
    """Return the condition of a pod for which the scheduler has found no node."""
    return PodCondition(type=SCHEDULED, status="False", reason="Unschedulable", message=message)


def scheduled_condition(pod: Pod) -> PodCondition | None:
    return condition_of(pod.status.conditions, SCHEDULED)


def scheduler_message(pod: Pod) -> str:
    """Return why the scheduler found no node for a pod when it tried last; empty where it has not said so."""
    condition = scheduled_condition(pod)
    return condition.message if condition is not None and condition.status == "False" else ""
