"""Overview and checks of a snapshot: what it holds, and what in it is inconsistent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from kplan.api import core, resource
from kplan.api.kinds import KINDS, KINDS_BY_ATTRIBUTE, metadata_of
from kplan.api.labels import CONTROL_PLANE, HOSTNAME, ZONE, InvalidSelector, selector_from
from kplan.api.names import object_name
from kplan.api.pod import ENDED
from kplan.api.quantity import grouped, listing, parse
from kplan.api.workloads import PodDisruptionBudgetStatus
from kplan.facts import Count, Document
from kplan.snapshot.defaults import SYSTEM_PRIORITIES
from kplan.snapshot.model import Snapshot

_STATES = ("terminated", "terminating", "running", "gated", "nominated", "pending")


class NodeOverview(Document, frozen=True, kw_only=True):
    """How many nodes there are, by state, zone and version."""

    total: Count
    ready: Count
    unschedulable: Count
    tainted: Count
    control_plane: Count
    zones: dict[str, Count]  #: zone -> nodes; the empty name for nodes without one
    kubelet_versions: dict[str, Count]  #: version -> nodes


class PodOverview(Document, frozen=True, kw_only=True):
    """How many pods there are in each state; a pod counts in the first state that it has."""

    total: Count
    terminated: Count
    terminating: Count
    running: Count
    gated: Count
    nominated: Count
    pending: Count
    schedulers: dict[str, Count]  #: scheduler name -> pods


class Oddity(msgspec.Struct, frozen=True):
    """Something odd about a snapshot; `is_note` where it may well be intended."""

    code: str
    object: str
    message: str
    is_note: bool = False


def overview_of_nodes(snapshot: Snapshot) -> NodeOverview:
    nodes = snapshot.nodes
    zones = Counter(node.metadata.labels.get(ZONE, "") for node in nodes)
    versions = Counter(node.status.node_info.kubelet_version for node in nodes)
    return NodeOverview(
        total=len(nodes),
        # A node without conditions counts as ready.
        ready=sum(all(one.status == "True" for one in node.status.conditions if one.type == "Ready") for node in nodes),
        unschedulable=sum(node.spec.unschedulable for node in nodes),
        tainted=sum(any(taint.effect != "PreferNoSchedule" for taint in node.spec.taints) for node in nodes),
        control_plane=sum(CONTROL_PLANE[0] in node.metadata.labels for node in nodes),
        zones=dict(sorted(zones.items())),
        kubelet_versions=dict(sorted(versions.items())),
    )


def overview_of_pods(snapshot: Snapshot) -> PodOverview:
    states = Counter(map(_state, snapshot.pods))
    schedulers = Counter(pod.spec.scheduler_name for pod in snapshot.pods)
    counts = {state: states[state] for state in _STATES}
    return PodOverview(total=len(snapshot.pods), schedulers=dict(sorted(schedulers.items())), **counts)


def _state(pod: core.Pod) -> str:
    if pod.status.phase in ENDED:
        return "terminated"
    if pod.metadata.deletion_timestamp:
        return "terminating"
    if pod.spec.node_name:
        return "running"
    if pod.spec.scheduling_gates:
        return "gated"
    return "nominated" if pod.status.nominated_node_name else "pending"


def check_snapshot(snapshot: Snapshot) -> tuple[Oddity, ...]:
    oddities = [Oddity(warning.code, warning.object, warning.message) for warning in snapshot.warnings]
    for check in (_dangling, _odd_nodes, _odd_labels, _odd_pods, _odd_budgets):
        oddities.extend(check(snapshot))
    for kind, count in snapshot.skipped.items():
        message = f"{count} left out; scheduling does not read this kind"
        oddities.append(Oddity("SkippedKind", kind, message, is_note=True))
    return tuple(oddities)


_Reference = tuple[str, str, str]
"""Kind, namespace and name of an object to which another one refers; an empty name refers to none."""

#: Kind -> the consequence of a reference to an object that does not exist.
_CONSEQUENCES = {
    "Namespace": "namespace selectors do not see it",
    "Node": "it counts as unknown",
    "PersistentVolume": "the claim counts as lost",
    "PersistentVolumeClaim": "pods that use it cannot be placed",
    "PriorityClass": "the priority in the pod spec counts",
    "RuntimeClass": "the overhead in the pod spec counts",
    "StorageClass": "unbound claims cannot be bound",
    "ResourceClaim": "pods that use it cannot be placed",
    "ResourceClaimTemplate": "no claim can be created for the pods that use it",
    "DeviceClass": "claims of it cannot be allocated",
}


def _dangling(snapshot: Snapshot) -> Iterator[Oddity]:
    """Yield each object that is referred to but does not exist, with its referrers."""
    missing = {kind.resource for kind in snapshot.missing}
    objects = {kind.name: snapshot.objects(kind.attribute) for kind in KINDS if kind.resource not in missing}
    known = {name: {(own.namespace, own.name) for own in map(metadata_of, held)} for name, held in objects.items()}
    known.get("PriorityClass", set()).update(("", name) for name in SYSTEM_PRIORITIES)
    referrers: dict[_Reference, list[str]] = {}
    for attribute, references in _REFERENCES.items():
        for obj in snapshot.objects(attribute):
            for kind, namespace, name in references(obj):
                if name and kind in known and (namespace, name) not in known[kind]:
                    own = metadata_of(obj)
                    referrer = object_name(KINDS_BY_ATTRIBUTE[attribute].name, own.namespace, own.name)
                    referrers.setdefault((kind, namespace, name), []).append(referrer)
    for (kind, namespace, name), by in sorted(referrers.items()):
        if kind == "Namespace" and not snapshot.namespaces:
            continue
        who = _listed(by)
        message = f"not in the snapshot, but {who} {'names' if len(by) == 1 else 'name'} it; {_CONSEQUENCES[kind]}"
        yield Oddity(f"Unknown{kind}", object_name(kind, namespace, name), message)
    if not snapshot.namespaces and "namespaces" not in missing:
        message = "none in the snapshot; namespace selectors match nothing"
        yield Oddity("NoNamespaces", "Namespace", message, is_note=True)


def _of_pod(pod: core.Pod) -> Iterator[_Reference]:
    namespace, spec = pod.metadata.namespace, pod.spec
    yield "Namespace", "", namespace
    yield "Node", "", pod.status.nominated_node_name
    yield "PriorityClass", "", spec.priority_class_name
    yield "RuntimeClass", "", spec.runtime_class_name or ""
    for volume in spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield "PersistentVolumeClaim", namespace, volume.persistent_volume_claim.claim_name
    for claim in spec.resource_claims:
        yield "ResourceClaim", namespace, claim.resource_claim_name or ""
        if not any(status.name == claim.name for status in pod.status.resource_claim_statuses):
            yield "ResourceClaimTemplate", namespace, claim.resource_claim_template_name or ""
    for status in pod.status.resource_claim_statuses:
        yield "ResourceClaim", namespace, status.resource_claim_name or ""


def _of_claim(claim: core.PersistentVolumeClaim) -> Iterator[_Reference]:
    yield "PersistentVolume", "", claim.spec.volume_name
    if not claim.spec.volume_name:
        yield "StorageClass", "", claim.spec.storage_class_name or ""


def _of_volume(volume: core.PersistentVolume) -> Iterator[_Reference]:
    if volume.spec.claim_ref is not None and volume.status.phase == "Bound":
        yield "PersistentVolumeClaim", volume.spec.claim_ref.namespace, volume.spec.claim_ref.name


def _of_resource_claim(claim: resource.ResourceClaim) -> Iterator[_Reference]:
    for request in claim.spec.devices.requests:
        exactly = () if request.exactly is None else (request.exactly,)
        for wanted in (*exactly, *request.first_available):
            yield "DeviceClass", "", wanted.device_class_name


#: Attribute of a kind -> the references of an object of it.
_REFERENCES: dict[str, Callable[[Any], Iterable[_Reference]]] = {
    "pods": _of_pod,
    "persistent_volume_claims": _of_claim,
    "persistent_volumes": _of_volume,
    "csi_nodes": lambda csi_node: [("Node", "", csi_node.metadata.name)],
    "volume_attachments": lambda attachment: [
        ("Node", "", attachment.spec.node_name),
        ("PersistentVolume", "", attachment.spec.source.persistent_volume_name or ""),
    ],
    "resource_slices": lambda part: [("Node", "", part.spec.node_name or "")],
    "resource_claims": _of_resource_claim,
}


def _odd_nodes(snapshot: Snapshot) -> Iterator[Oddity]:
    """Yield nodes whose allocatable is above their capacity, and nodes with more pods than allocatable."""
    pods_on = Counter(pod.spec.node_name for pod in snapshot.pods if _state(pod) != "terminated")
    for node in snapshot.nodes:
        name = object_name("Node", "", node.metadata.name)
        capacity = node.status.capacity
        for resource_name, amount in node.status.allocatable.items():
            if resource_name in capacity and parse(amount).nanos > parse(capacity[resource_name]).nanos:
                above = f"a capacity of {capacity[resource_name]}; the allocatable amount counts"
                message = f"has {amount} of {resource_name} allocatable and {above}"
                yield Oddity("AllocatableOverCapacity", name, message)
        room = node.status.allocatable.get("pods")
        if room is not None and pods_on[node.metadata.name] * 10**9 > parse(room).nanos:
            message = f"runs {pods_on[node.metadata.name]} pods and allows {room}; no further pod fits"
            yield Oddity("TooManyPods", name, message)


def _odd_labels(snapshot: Snapshot) -> Iterator[Oddity]:
    """Yield labels that distort topologies: shared or absent host names, zones on some nodes only."""
    metadata = [node.metadata for node in snapshot.nodes]
    by_host = grouped((own.labels.get(HOSTNAME, ""), f"Node/{own.name}") for own in metadata)
    if without := by_host.pop("", []):
        message = f"not on {_listed(without)}; rules by host leave these nodes out"
        yield Oddity("NoHostname", HOSTNAME, message)
    for host, nodes in sorted(by_host.items()):
        if len(nodes) > 1:
            yield Oddity("SharedHostname", f"{HOSTNAME}={host}", f"on {_listed(nodes)}, which count as one host")
    zoneless = [f"Node/{own.name}" for own in metadata if not own.labels.get(ZONE)]
    if 0 < len(zoneless) < len(metadata):
        message = f"not on {_listed(zoneless)}; rules by zone leave these nodes out"
        yield Oddity("NoZone", ZONE, message, is_note=True)


def _odd_pods(snapshot: Snapshot) -> Iterator[Oddity]:
    for pod in snapshot.pods:
        if pod.status.phase == "Running" and not pod.spec.node_name:
            name = object_name("Pod", pod.metadata.namespace, pod.metadata.name)
            yield Oddity("RunningNowhere", name, "has phase Running, but no node; it counts as pending")


def _odd_budgets(snapshot: Snapshot) -> Iterator[Oddity]:
    """Yield disruption budgets that protect nothing, or of which it is not known what they allow."""
    labels_in = grouped((pod.metadata.namespace, pod.metadata.labels) for pod in snapshot.pods)
    for budget in snapshot.pod_disruption_budgets:
        namespace = budget.metadata.namespace
        name = object_name("PodDisruptionBudget", namespace, budget.metadata.name)
        try:
            selector = selector_from(budget.spec.selector)
        except InvalidSelector as error:
            yield Oddity("InvalidSelector", name, f"the selector is refused, so it protects nothing: {error}")
            continue
        if not any(map(selector.matches, labels_in.get(namespace, ()))):
            yield Oddity("IdleBudget", name, "selects no pod", is_note=True)
        elif budget.status == PodDisruptionBudgetStatus():
            message = "has no status yet, so preemption takes it to allow no disruption; drains count its pods"
            yield Oddity("NoBudgetStatus", name, message, is_note=True)


def _listed(names: list[str]) -> str:
    return listing(list(dict.fromkeys(names)))
