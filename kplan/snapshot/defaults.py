"""Defaults that an API server fills in when it stores or serves an object, as pure functions.

An object with a ``uid`` was stored by an API server and has its defaults already; only namespace and schedulerName,
which every served object has, are filled in. Objects without a uid (written by hand, rendered by a tool) are completed
as on creation. What depends on other objects, the priority of a pod and the default storage class, is filled in by
functions of its own.

Upstream: pkg/apis/core/v1/defaults.go, pkg/apis/storage/v1/defaults.go, the merge of matchLabelKeys into selectors in
pkg/registry/core/pod/strategy.go, plugin/pkg/admission/priority and storage/storageclass/setdefault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from kplan.api import core, provisioning, storage
from kplan.api.affinity import PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from kplan.api.core import HUGE_PAGES, LIMITS, REQUESTS, Totals, container_totals, is_pod_level_resource
from kplan.api.kinds import Kind
from kplan.api.labels import ANNOTATION_CLASS
from kplan.api.meta import LabelSelectorRequirement, QuantityLike, ResourceList
from kplan.api.quantity import Quantity, parse
from kplan.api.scheduling import PriorityClass
from kplan.api.time import to_micros

S = TypeVar("S", bound=msgspec.Struct)
A = TypeVar("A", bound=PodAffinity)
T = TypeVar("T", bound=PodAffinityTerm | TopologySpreadConstraint)

DEFAULT_NAMESPACE = "default"
DEFAULT_SCHEDULER_NAME = "default-scheduler"
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_NANOS_PER_MILLI = 10**6
_KARPENTER_LIFETIME = "720h"
_DEFAULT_MARKS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"

#: Priority classes that every cluster has.
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def complete(obj: Any, kind: Kind, namespace: str = DEFAULT_NAMESPACE) -> Any:
    """Return the object as an API server serves it; the same object where nothing is missing."""
    if kind.is_namespaced and not obj.metadata.namespace:
        obj = replace(obj, metadata=replace(obj.metadata, namespace=namespace))
    if obj.metadata.uid:
        is_nameless = kind.type is core.Pod and not obj.spec.scheduler_name
        return replace(obj, spec=replace(obj.spec, scheduler_name=DEFAULT_SCHEDULER_NAME)) if is_nameless else obj
    completion = _COMPLETIONS.get(kind.name)
    return completion(obj) if completion else obj


def complete_pod(pod: core.Pod) -> core.Pod:
    """Return the pod as created: defaults, requests from limits, host ports, label keys merged into selectors."""
    seconds = pod.spec.termination_grace_period_seconds
    seconds = core.GRACE_SECONDS if seconds is None else seconds
    spec = _filled(pod.spec, scheduler_name=DEFAULT_SCHEDULER_NAME, restart_policy="Always")
    spec = replace(spec, overhead=round_up(spec.overhead), termination_grace_period_seconds=seconds)
    containers = tuple(_complete_container(container, spec) for container in spec.containers)
    init_containers = tuple(_complete_container(container, spec) for container in spec.init_containers)
    spec = replace(spec, containers=containers, init_containers=init_containers)
    if spec.resources is not None:
        own = round_up(spec.resources.limits), round_up(spec.resources.requests)
        totals = (partial(container_totals, spec, which) for which in (LIMITS, REQUESTS))
        limits, requests = pod_level_amounts(*own, *totals)
        spec = replace(spec, resources=replace(spec.resources, limits=limits, requests=requests))
    spec = _merge_label_keys(spec, pod.metadata.labels)
    metadata = _filled(pod.metadata, namespace=DEFAULT_NAMESPACE)
    status = _filled(pod.status, phase="Running" if spec.node_name else "Pending")
    return replace(pod, metadata=metadata, spec=spec, status=status)


def _complete_container(container: core.Container, spec: core.PodSpec) -> core.Container:
    resources = container.resources
    limits = round_up(resources.limits)
    requests = {**limits, **round_up(resources.requests)}
    if requests != resources.requests or limits != resources.limits:
        resources = replace(resources, requests=requests, limits=limits)
    ports = []
    for port in container.ports:
        host_port = port.container_port if spec.host_network and not port.host_port else port.host_port
        ports.append(replace(port, protocol=port.protocol or "TCP", host_port=host_port))
    return replace(container, resources=resources, ports=tuple(ports))


def round_up(resources: ResourceList) -> ResourceList:
    """Return amounts rounded up to a thousandth (upstream SetDefaults_ResourceList)."""
    return {name: _round_to_milli(amount) for name, amount in resources.items()}


@lru_cache(maxsize=1 << 12, typed=True)
def _round_to_milli(amount: QuantityLike) -> QuantityLike:
    if isinstance(amount, int) or (
        isinstance(amount, str) and not amount.endswith(("n", "u")) and "." not in amount and "e" not in amount.lower()
    ):
        return amount
    exact = parse(amount)
    if exact.nanos % _NANOS_PER_MILLI == 0:
        return amount
    return str(Quantity(exact.milli_value() * _NANOS_PER_MILLI, exact.format))


def pod_level_amounts(
    limits: ResourceList, requests: ResourceList, limited: Callable[[], Totals], requested: Callable[[], Totals]
) -> tuple[ResourceList, ResourceList]:
    """Return a pod's own limits and requests, filled in where there are any.

    Limits of huge pages are those of its containers, and requests are those of its containers or its own limits.
    `limited`, `requested`: return the totals of the containers. Upstream: defaultHugePagePodLimits, defaultPodRequests.
    """
    if limits or requests:
        totals = limited().items()
        pages = {name: str(total) for name, total in totals if name.startswith(HUGE_PAGES) and name not in requests}
        limits = {**pages, **limits}
    if limits:
        from_containers = {name: str(total) for name, total in requested().items() if name in {"cpu", "memory"}}
        from_limits = {name: amount for name, amount in limits.items() if is_pod_level_resource(name)}
        requests = {**from_limits, **from_containers, **requests}
    return limits, requests


def _merge_label_keys(spec: core.PodSpec, labels: dict[str, str]) -> core.PodSpec:
    """Merge (mis)matchLabelKeys into their label selectors, once (upstream pod strategy mutatePodAffinity)."""
    if (affinity := spec.affinity) is not None:
        affinity = replace(
            affinity,
            pod_affinity=_merge_affinity(affinity.pod_affinity, labels),
            pod_anti_affinity=_merge_affinity(affinity.pod_anti_affinity, labels),
        )
    constraints = tuple(with_label_keys(constraint, labels) for constraint in spec.topology_spread_constraints)
    return replace(spec, affinity=affinity, topology_spread_constraints=constraints)


def _merge_affinity(affinity: A | None, labels: dict[str, str]) -> A | None:
    if affinity is None:
        return None
    return replace(
        affinity,
        required_during_scheduling_ignored_during_execution=tuple(
            with_label_keys(term, labels) for term in affinity.required_during_scheduling_ignored_during_execution
        ),
        preferred_during_scheduling_ignored_during_execution=tuple(
            replace(weighted, pod_affinity_term=with_label_keys(weighted.pod_affinity_term, labels))
            for weighted in affinity.preferred_during_scheduling_ignored_during_execution
        ),
    )


def with_label_keys(term: T, labels: dict[str, str]) -> T:
    """Add an expression for every key that the pod has; an absent selector matches nothing and stays absent."""
    if (selector := term.label_selector) is None:
        return term
    mismatched = term.mismatch_label_keys if isinstance(term, PodAffinityTerm) else ()
    expressions = list(selector.match_expressions)
    for operator, keys in (("In", term.match_label_keys), ("NotIn", mismatched)):
        for key in keys:
            expression = LabelSelectorRequirement(key=key, operator=operator, values=(labels.get(key, ""),))
            if key in labels and expression not in expressions:
                expressions.append(expression)
    return replace(term, label_selector=replace(selector, match_expressions=tuple(expressions)))


def _complete_node(node: core.Node) -> core.Node:
    status = node.status
    allocatable = round_up(status.allocatable or status.capacity)
    return node if allocatable == status.allocatable else replace(node, status=replace(status, allocatable=allocatable))


def _complete_namespace(namespace: core.Namespace) -> core.Namespace:
    name = namespace.metadata.name
    labels = {**namespace.metadata.labels, _NAMESPACE_LABEL: name}
    status = replace(namespace.status, phase=namespace.status.phase or "Active")
    return replace(namespace, metadata=replace(namespace.metadata, labels=labels), status=status)


def _complete_replication_controller(controller: core.ReplicationController) -> core.ReplicationController:
    template = controller.spec.template
    if controller.spec.selector or template is None:
        return controller
    return replace(controller, spec=replace(controller.spec, selector=template.metadata.labels))


def _filled(struct: S, **defaults: Any) -> S:
    """Return a struct with defaults in place of fields that are empty."""
    return replace(struct, **{name: default for name, default in defaults.items() if not getattr(struct, name)})


def _complete_storage(obj: Any, *, bound_by: str, unbound: str, **defaults: str) -> Any:
    """Complete a volume or a claim; the field `bound_by` names the other one once it is bound."""
    spec = _filled(obj.spec, volume_mode="Filesystem", **defaults)
    phase = obj.status.phase or ("Bound" if getattr(spec, bound_by) else unbound)
    return replace(obj, spec=spec, status=replace(obj.status, phase=phase))


def _complete_driver(driver: storage.CSIDriver) -> storage.CSIDriver:
    spec = driver.spec
    attach_required = True if spec.attach_required is None else spec.attach_required
    spec = replace(spec, attach_required=attach_required, storage_capacity=bool(spec.storage_capacity))
    return replace(driver, spec=spec)


def _complete_limit_range(limit_range: core.LimitRange) -> core.LimitRange:
    """Fill in limits from maxima, and requests from limits and minima (upstream SetDefaults_LimitRangeItem)."""
    limits = []
    for item in limit_range.spec.limits:
        default, request = default_amounts(item.max, item.min, item.default, item.default_request)
        is_of_container = item.type == "Container"
        limits.append(replace(item, default=default, default_request=request) if is_of_container else item)
    return replace(limit_range, spec=replace(limit_range.spec, limits=tuple(limits)))


def default_amounts(
    most: ResourceList, least: ResourceList, default: ResourceList, request: ResourceList
) -> tuple[ResourceList, ResourceList]:
    """Return the limits and requests that a limit range gives containers without their own."""
    default = {**most, **default}
    return default, {**least, **default, **request}


def _complete_node_pool(pool: provisioning.NodePool) -> provisioning.NodePool:
    spec, template, disruption = pool.spec, pool.spec.template, pool.spec.disruption
    budgets = (provisioning.Budget(nodes="10%"),) if disruption.budgets is None else disruption.budgets
    own = _filled(disruption, consolidate_after="0s", consolidation_policy="WhenEmptyOrUnderutilized")
    disruption = replace(own, budgets=budgets)
    template = replace(template, spec=_filled(template.spec, expire_after=_KARPENTER_LIFETIME))
    return replace(pool, spec=replace(spec, disruption=disruption, template=template))


_COMPLETIONS: dict[str, Callable[[Any], Any]] = {
    "Pod": complete_pod,
    "Node": _complete_node,
    "Namespace": _complete_namespace,
    "ReplicationController": _complete_replication_controller,
    "PersistentVolume": partial(
        _complete_storage, bound_by="claim_ref", unbound="Available", persistent_volume_reclaim_policy="Retain"
    ),
    "PersistentVolumeClaim": partial(_complete_storage, bound_by="volume_name", unbound="Pending"),
    "StorageClass": partial(_filled, reclaim_policy="Delete", volume_binding_mode="Immediate"),
    "CSIDriver": _complete_driver,
    "LimitRange": _complete_limit_range,
    "NodePool": _complete_node_pool,
    "NodeClaim": lambda claim: replace(claim, spec=_filled(claim.spec, expire_after=_KARPENTER_LIFETIME)),
}


class ResolvedPriority(msgspec.Struct, frozen=True):
    """The fields that admission sets in a pod."""

    class_name: str
    priority: int
    preemption_policy: str

    def applied_to(self, pod: core.Pod) -> core.Pod:
        """Return the pod with this priority, and with this preemption policy if it has none."""
        spec = replace(
            pod.spec,
            priority=self.priority,
            priority_class_name=self.class_name,
            preemption_policy=pod.spec.preemption_policy or self.preemption_policy,
        )
        return replace(pod, spec=spec)


def resolve_priority(class_name: str, classes: Iterable[PriorityClass]) -> ResolvedPriority | None:
    """Return the priority of a class; without a name of the lowest global default, or 0. None: unknown class."""
    if class_name:
        entry = next((entry for entry in classes if entry.metadata.name == class_name), None)
    else:
        entry = global_default(classes)
    if entry is not None:
        policy = entry.preemption_policy or _PREEMPT_LOWER_PRIORITY
        return ResolvedPriority(entry.metadata.name, entry.value, policy)
    priority = SYSTEM_PRIORITIES.get(class_name) if class_name else 0
    return None if priority is None else ResolvedPriority(class_name, priority, _PREEMPT_LOWER_PRIORITY)


def global_default(classes: Iterable[PriorityClass]) -> PriorityClass | None:
    """Return the class of pods that name none: the lowest global default, the first of these by name; None for none.

    Upstream: plugin/pkg/admission/priority getDefaultPriorityClass, which takes any of the lowest.
    """
    defaults = (entry for entry in classes if entry.global_default)
    return min(defaults, key=lambda entry: (entry.value, entry.metadata.name), default=None)


def with_default_class(
    claim: core.PersistentVolumeClaim, classes: Sequence[storage.StorageClass]
) -> core.PersistentVolumeClaim:
    """Return the claim with the default class where it names none; an empty name means a volume without a class."""
    if claim.spec.storage_class_name is not None or ANNOTATION_CLASS in claim.metadata.annotations:
        return claim
    name = default_class(classes)
    return replace(claim, spec=replace(claim.spec, storage_class_name=name)) if name else claim


def default_class(classes: Iterable[storage.StorageClass]) -> str:
    """Return the default storage class: the newest with the annotation, then the first by name; empty for none."""
    metadata = (entry.metadata for entry in classes)
    marked = [own for own in metadata if any(own.annotations.get(mark) == "true" for mark in _DEFAULT_MARKS)]
    ranked = ((-to_micros(own.creation_timestamp) if own.creation_timestamp else 0, own.name) for own in marked)
    return min(ranked, default=(0, ""))[1]
