"""Which events may let a pod in that was turned down: what upstream's plugins register for, and their queueing hints.

A pod that was rejected waits until something happens that one of the plugins that rejected it has been waiting for. So
its message stays what it was at its last try, and pods that wait for different things come back at different times.
Upstream: EventsToRegister and the QueueingHintFn of each plugin, backend/queue isPodWorthRequeuing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kplan.api.core import Node, Pod
from kplan.api.labels import InvalidSelector, selector_from
from kplan.api.nodeselector import compile_node_selector
from kplan.api.quantity import milli_value, value
from kplan.api.tolerations import NO_EXECUTE, NO_SCHEDULE, tolerations_tolerate
from kplan.rules.affinity import AffinityTerm
from kplan.rules.pod_info import ANY_ADDRESS, PodInfo
from kplan.rules.resources import CPU

DO_NOT_SCHEDULE = "DoNotSchedule"


@dataclass(frozen=True, slots=True)
class PodAdded:
    """A pod was bound to a node."""

    info: PodInfo


@dataclass(frozen=True, slots=True)
class PodDeleted:
    """A pod that ran, or had a node promised, is gone."""

    info: PodInfo


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """There is a further node."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeUncordoned:
    """A node takes pods again."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node has left the cluster."""

    node: Node


Event = PodAdded | PodDeleted | NodeAdded | NodeUncordoned | NodeGone
Hint = Callable[[PodInfo, Event], bool]


def is_worth_retrying(pod: PodInfo, rejectors: frozenset[str], event: Event) -> bool:
    """Tell whether an event may let a pod in that these plugins rejected; without any, everything may."""
    return not rejectors or any(_HINTS.get(plugin, _always)(pod, event) for plugin in rejectors)


def _always(_pod: PodInfo, _event: Event) -> bool:
    return True


def _on_new_node(_pod: PodInfo, event: Event) -> bool:
    return isinstance(event, NodeAdded)


def _fit(pod: PodInfo, event: Event) -> bool:
    if isinstance(event, NodeAdded):
        allocatable = event.node.status.allocatable
        return all(
            (milli_value if name == CPU else value)(allocatable.get(name, 0)) >= amount
            for name, amount in pod.resources.requests.items()
            if amount
        )
    return isinstance(event, PodDeleted)


def _ports(pod: PodInfo, event: Event) -> bool:
    if isinstance(event, PodDeleted):
        return any(_clash(mine, its) for mine in pod.host_ports for its in event.info.host_ports)
    return isinstance(event, NodeAdded)


def _clash(one: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    same_address = one[0] == other[0] or ANY_ADDRESS in (one[0], other[0])
    return same_address and one[1:] == other[1:]


def _spread(pod: PodInfo, event: Event) -> bool:
    """Wait for pods that a hard constraint counts, and for nodes with all its labels."""
    hard = [each for each in pod.pod.spec.topology_spread_constraints if each.when_unsatisfiable == DO_NOT_SCHEDULE]
    if isinstance(event, NodeAdded | NodeGone):
        return all(each.topology_key in event.node.metadata.labels for each in hard)
    if isinstance(event, NodeUncordoned):
        return False
    if event.info.namespace != pod.namespace:
        return False
    try:
        return any(selector_from(each.label_selector).matches(event.info.labels) for each in hard)
    except InvalidSelector:
        return True


def _inter_pod(pod: PodInfo, event: Event) -> bool:
    terms = pod.affinity
    if isinstance(event, NodeAdded):
        labels = event.node.metadata.labels
        near = any(term.topology_key in labels for term in terms.required_affinity)
        return near or bool(terms.required_anti_affinity)
    if isinstance(event, PodAdded):
        return _match_all(terms.required_affinity, event.info)
    if isinstance(event, PodDeleted):
        its = event.info.affinity.required_anti_affinity
        return _match_all(terms.required_anti_affinity, event.info) or _match_all(its, pod)
    return False


def _match_all(terms: tuple[AffinityTerm, ...], pod: PodInfo) -> bool:
    return bool(terms) and all(term.matches(pod.namespace, pod.labels, {}) for term in terms)


def _node_affinity(pod: PodInfo, event: Event) -> bool:
    return isinstance(event, NodeAdded) and _takes(pod.pod, event.node)


def _takes(pod: Pod, node: Node) -> bool:
    labels, spec = node.metadata.labels, pod.spec
    if any(labels.get(key) != text for key, text in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required is None or compile_node_selector(required).matches(labels, node.metadata.name)


def _node_unschedulable(_pod: PodInfo, event: Event) -> bool:
    return isinstance(event, NodeUncordoned) or (isinstance(event, NodeAdded) and not event.node.spec.unschedulable)


def _taints(pod: PodInfo, event: Event) -> bool:
    tolerations = pod.pod.spec.tolerations
    return isinstance(event, NodeAdded) and all(
        tolerations_tolerate(tolerations, taint)
        for taint in event.node.spec.taints
        if taint.effect in (NO_SCHEDULE, NO_EXECUTE)
    )


def _volumes(_pod: PodInfo, event: Event) -> bool:
    return isinstance(event, NodeAdded) or (isinstance(event, PodDeleted) and bool(event.info.pod.spec.volumes))


def _devices(_pod: PodInfo, event: Event) -> bool:
    """Claims are released when the pods that hold them are gone."""
    if isinstance(event, NodeAdded):
        return True
    pod = event.info.pod if isinstance(event, PodDeleted) else None
    return pod is not None and bool(pod.spec.resource_claims or pod.status.extended_resource_claim_status)


_HINTS: Mapping[str, Hint] = {
    "NodeResourcesFit": _fit,
    "NodePorts": _ports,
    "PodTopologySpread": _spread,
    "InterPodAffinity": _inter_pod,
    "NodeAffinity": _node_affinity,
    "NodeUnschedulable": _node_unschedulable,
    "TaintToleration": _taints,
    "NodeName": _on_new_node,
    "VolumeBinding": _on_new_node,
    "VolumeZone": _on_new_node,
    "VolumeRestrictions": _volumes,
    "NodeVolumeLimits": _volumes,
    "DynamicResources": _devices,
    "NodeDeclaredFeatures": _on_new_node,
}
"""Hints of the in-tree plugins; any other plugin is taken to wait for everything."""
