"""Which events may make a rejected pod schedulable: the events that plugins register for, and their queueing hints.

A rejected pod stays in the queue until an event that one of the plugins that rejected it waits for. Until then its
message is that of its last scheduling attempt, and pods with different rejectors come back at different times.
Only events that a simulation causes are here.
Upstream: EventsToRegister and the QueueingHintFn of each plugin, backend/queue isPodWorthRequeuing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from kplan.api.core import Node
from kplan.api.labels import InvalidSelector, selector_from
from kplan.rules.affinity import AffinityTerm
from kplan.rules.pod_info import ANY_ADDRESS, PodInfo

DO_NOT_SCHEDULE = "DoNotSchedule"


class PodAdded(msgspec.Struct, frozen=True):
    """A pod was bound to a node."""

    info: PodInfo


class PodDeleted(msgspec.Struct, frozen=True):
    """A pod that ran or was nominated to a node is gone."""

    info: PodInfo


class NodeUncordoned(msgspec.Struct, frozen=True):
    """A node takes pods again."""

    node: Node


class ClaimFreed(msgspec.Struct, frozen=True):
    """A plugin gave up the devices of a resource claim that no pod uses."""


Event = PodAdded | PodDeleted | NodeUncordoned | ClaimFreed
Hint = Callable[[PodInfo, Event], bool]


def is_worth_retrying(pod: PodInfo, rejectors: frozenset[str], event: Event) -> bool:
    """Tell whether an event may make a pod schedulable that these plugins rejected; without rejectors any event may."""
    return not rejectors or any(plugin not in _HINTS or _HINTS[plugin](pod, event) for plugin in rejectors)


def _ports(pod: PodInfo, event: Event) -> bool:
    return isinstance(event, PodDeleted) and any(
        _conflict(port, other) for port in pod.host_ports for other in event.info.host_ports
    )


def _conflict(port: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    same_address = port[0] == other[0] or ANY_ADDRESS in (port[0], other[0])
    return same_address and port[1:] == other[1:]


def _spread(pod: PodInfo, event: Event) -> bool:
    """Wait for pods that a hard constraint counts."""
    if isinstance(event, NodeUncordoned | ClaimFreed) or event.info.namespace != pod.namespace:
        return False
    hard = [
        constraint
        for constraint in pod.pod.spec.topology_spread_constraints
        if constraint.when_unsatisfiable == DO_NOT_SCHEDULE
    ]
    try:
        return any(selector_from(constraint.label_selector).matches(event.info.labels) for constraint in hard)
    except InvalidSelector:
        return True


def _inter_pod(pod: PodInfo, event: Event) -> bool:
    terms = pod.affinity
    if isinstance(event, PodAdded):
        return _match_all(terms.required_affinity, event.info)
    if isinstance(event, PodDeleted):
        deleted_terms = event.info.affinity.required_anti_affinity
        return _match_all(terms.required_anti_affinity, event.info) or _match_all(deleted_terms, pod)
    return False


def _match_all(terms: tuple[AffinityTerm, ...], pod: PodInfo) -> bool:
    return bool(terms) and all(term.matches(pod.namespace, pod.labels, {}) for term in terms)


def _volumes(_pod: PodInfo, event: Event) -> bool:
    return isinstance(event, PodDeleted) and bool(event.info.pod.spec.volumes)


def _devices(_pod: PodInfo, event: Event) -> bool:
    """Wait for claims to be released, by a plugin or because the pods that hold them are gone."""
    if isinstance(event, ClaimFreed):
        return True
    pod = event.info.pod if isinstance(event, PodDeleted) else None
    return pod is not None and bool(pod.spec.resource_claims or pod.status.extended_resource_claim_status)


_HINTS: Mapping[str, Hint] = {
    "NodeResourcesFit": lambda _, event: isinstance(event, PodDeleted),
    "NodePorts": _ports,
    "PodTopologySpread": _spread,
    "InterPodAffinity": _inter_pod,
    "NodeUnschedulable": lambda _, event: isinstance(event, NodeUncordoned),
    "VolumeRestrictions": _volumes,
    "NodeVolumeLimits": _volumes,
    "DynamicResources": _devices,
    # These wait for nodes to appear or to change, which none does in a simulation.
    **dict.fromkeys(
        (
            "SchedulingGates",
            "NodeAffinity",
            "TaintToleration",
            "NodeName",
            "VolumeBinding",
            "VolumeZone",
            "NodeDeclaredFeatures",
        ),
        lambda _pod, _event: False,
    ),
}
"""Queueing hints of the in-tree plugins; any other plugin waits for every event."""
