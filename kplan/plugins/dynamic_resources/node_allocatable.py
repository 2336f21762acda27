"""Devices that stand for the node's own resources: what a pod takes of its node through its claims.

A device says how much of a resource of the node its allocation means (gate DRANodeAllocatableResources). Once the
devices of a pod are found, the whole demand of the pod must fit on the node, the requests of its containers included.

Upstream: pkg/scheduler/framework/plugins/dynamicresources/nodeallocatabledynamicresources.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
from msgspec.structs import replace

from kplan.api import resource as dra
from kplan.api.core import HUGE_PAGES, Pod
from kplan.api.meta import ResourceList
from kplan.api.pod import NodeAllocatableResourceClaimStatus
from kplan.api.quantity import Quantity
from kplan.engine.arrays import BoolArray
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.engine.details import Detail, insufficient
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.plugins.dynamic_resources.allocator import Solution
from kplan.plugins.dynamic_resources.claims import DeviceResult
from kplan.plugins.dynamic_resources.cluster_devices import ClaimState
from kplan.plugins.dynamic_resources.requests import UNNAMED_CLAIM, claim_names
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import COMPUTE, NANO, Requests, nano, pod_requests, resource_order, rounded_requests

GATE: Final = "DRANodeAllocatableResources"  #: the feature gate with which devices stand for resources of the node


class DemandProblem(Exception):  # noqa: N818 - a rejection, or upstream's error
    """Why the demand of a pod on a node cannot be computed; the message is upstream's."""

    def __init__(self, text: str, code: Code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE) -> None:
        super().__init__(text)
        self.code = code


def shortage(pod: Pod, state: ClaimState, nodes: NodeView, positions: Iterable[int]) -> Verdicts | None:
    """Return where the pod does not fit with what its newly allocated claims take of the node; None for nowhere.

    The `positions` are those of the nodes on which the search found devices.
    """
    problems: defaultdict[tuple[str, Code], list[int]] = defaultdict(list)  # why the demand cannot be computed
    lacks: defaultdict[str, dict[int, int]] = defaultdict(dict)  # resource -> position -> the whole demand
    unresolvable = np.zeros(len(nodes), np.bool_)
    free = {name: nodes.allocatable(name) - nodes.requested(name) for name in COMPUTE}
    for position in positions:
        try:
            requests = _demand(pod, state, nodes.row(position))
        except DemandProblem as problem:
            problems[str(problem), problem.code].append(position)
            continue
        for name, amount in requests.items():
            if name not in free:
                free[name] = nodes.allocatable(name) - nodes.requested(name)
            if amount > free[name][position] and (amount > 0 or name not in COMPUTE):
                lacks[name][position] = amount
                unresolvable[position] |= amount > nodes.allocatable(name)[position]
    failures = [(_at(nodes, where), Reason(text, code)) for (text, code), where in problems.items()]
    for name in resource_order(lacks):
        text = f"Insufficient {name}"
        details = partial(_details, nodes, text, name, lacks[name])
        failures.append((_at(nodes, lacks[name]), Reason(text, Code.UNSCHEDULABLE, details)))
    return replace(Verdicts.all_of(*failures), unresolvable=unresolvable) if failures else None


def _at(nodes: NodeView, positions: Iterable[int]) -> BoolArray:
    holds = np.zeros(len(nodes), np.bool_)
    holds[list(positions)] = True
    return holds


def _details(nodes: NodeView, reason: str, name: str, demands: Mapping[int, int], position: int) -> list[Detail]:
    allocatable, used = int(nodes.allocatable(name)[position]), int(nodes.requested(name)[position])
    return [insufficient(reason, name, demands[position], allocatable, used)]


def _demand(pod: Pod, state: ClaimState, row: int) -> Requests:
    """Return the pod's requests for resources that devices can stand for; empty where none of its devices does."""
    statuses = claim_statuses(pod, state, state.solution(row))
    if not statuses:
        return {}
    for status in statuses:
        if not status.containers:
            name = status.resource_claim_name
            raise DemandProblem(
                f"claim {name}: node-allocatable resource claim not referenced by any container within the pod"
            )
    demanding = with_statuses(pod, statuses)
    requests = pod_requests(demanding, use_status=False)
    if pod.spec.resources is not None and pod.spec.resources.requests:
        of_parts = pod_requests(demanding, use_status=False, use_pod_level=False)
        for name in resource_order(requests):
            if of_parts.get(name, 0) > requests[name]:
                raise DemandProblem(
                    f"pod level request for {name} is insufficient to cover the aggregated container and "
                    "node-allocatable DRA requests"
                )
    counted = rounded_requests(requests)
    return {name: amount for name, amount in counted.items() if name in COMPUTE or name.startswith(HUGE_PAGES)}


def with_statuses(pod: Pod, statuses: tuple[NodeAllocatableResourceClaimStatus, ...]) -> Pod:
    return replace(pod, status=replace(pod.status, node_allocatable_resource_claim_statuses=statuses))


def claim_statuses(
    pod: Pod, state: ClaimState, solution: Solution | None
) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
    """Return what the newly allocated claims take of the node, by the name of the claim.

    Raises DemandProblem when a device stands for an amount of a capacity that it does not hand out in parts.
    """
    allocated: dict[str, tuple[dra.ResourceClaim | None, list[DeviceResult]]] = {}
    for index, devices in enumerate(solution or ()):
        claim = state.to_allocate[index] if index < len(state.to_allocate) else None
        # Of a claim that the pod names twice the last allocation counts, as upstream.
        allocated[UNNAMED_CLAIM if claim is None else claim.metadata.name] = claim, devices
    statuses = []
    for name, (claim, devices) in sorted(allocated.items()):
        amounts = _amounts(claim, state.namespace, devices)
        if amounts:
            resources: ResourceList = {resource: str(Quantity(amount)) for resource, amount in amounts.items()}
            status = NodeAllocatableResourceClaimStatus(
                resource_claim_name=name, containers=tuple(_containers(pod, name)), resources=resources
            )
            statuses.append(status)
    return tuple(statuses)


def _amounts(claim: dra.ResourceClaim | None, namespace: str, devices: Sequence[DeviceResult]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for result in devices:
        for resource, mapping in sorted(result.device.device.node_allocatable_resource_mappings.items()):
            if mapping.capacity_key and result.consumed is None:
                key = f"{namespace}/{UNNAMED_CLAIM}" if claim is None else claim.metadata.key
                raise DemandProblem(
                    f"claim {key}, device {result.device.id.device}: ConsumedCapacity is nil, but Capacity key "
                    f"'{mapping.capacity_key}' is set in NodeAllocatableResourceMappings for resource {resource}",
                    Code.ERROR,
                )
            amount = _amount(mapping, result)
            if amount is not None:
                amounts[resource] = amounts.get(resource, 0) + amount
    return amounts


def _amount(mapping: dra.NodeAllocatableResourceMapping, result: DeviceResult) -> int | None:
    multiplier = None if mapping.allocation_multiplier is None else nano(mapping.allocation_multiplier)
    if not mapping.capacity_key:
        return multiplier or 0
    consumed = (result.consumed or {}).get(mapping.capacity_key)
    if consumed is None or multiplier is None:
        return consumed
    return -(-consumed * multiplier // NANO)


def _containers(pod: Pod, claim_name: str) -> Iterator[str]:
    """Yield the containers that use a claim, once for each mention."""
    entries = {entry for entry, name in claim_names(pod) if name == claim_name}
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for used in container.resources.claims:
            if used.name in entries:
                yield container.name


class ClaimHolders:
    """The running pods whose claims take resources of their nodes, in a session."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        infos = cluster.pods.infos
        self.pods = {pod for pod, info in enumerate(infos) if info.pod.status.node_allocatable_resource_claim_statuses}

    def place(self, pod: int, info: PodInfo) -> None:
        self._cluster.pods.replace_resources(pod, info)
        if info.pod.status.node_allocatable_resource_claim_statuses:
            self.pods.add(pod)
        else:
            self.pods.discard(pod)

    def failures(self, pod: PodInfo, state: ClaimState, nodes: NodeView) -> Iterator[tuple[BoolArray, Reason]]:
        """Yield why allocated claims of a pod cannot be shared, with the nodes that could use them otherwise."""
        unusable = {claim.metadata.key: is_unavailable for claim, is_unavailable in state.unavailable}
        for claim in state.claims if self.pods else ():
            if claim.status.allocation is None:
                continue
            rejections = self._rejections(pod, claim, nodes)
            for text in dict.fromkeys(rejections.values()):
                held = _at(nodes, (position for position, reason in rejections.items() if reason == text))
                if claim.metadata.key in unusable:
                    held &= ~nodes.take(unusable[claim.metadata.key])
                yield held, Reason(text, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)

    def _rejections(self, pod: PodInfo, claim: dra.ResourceClaim, nodes: NodeView) -> dict[int, str]:
        """Return the positions of a view on which another pod holds a claim, with upstream's reason."""
        node_of, infos = self._cluster.node_of, self._cluster.pods.infos
        name = claim.metadata.name
        rows = {
            node_of[holder]
            for holder in self.pods
            if node_of[holder] != NOWHERE and _holds(infos[holder], pod.namespace, name)
        }
        rejections = {}
        for position in range(len(nodes)) if rows else ():
            if nodes.row(position) not in rows:
                continue
            holders = [infos[holder] for holder in nodes.pods_at(position) if holder in self.pods]
            uids = {holder.uid or holder.key for holder in holders if _holds(holder, pod.namespace, name)}
            if len(uids) > 1:
                rejections[position] = f"node allocatable resource claim {name} shared by multiple pods"
            elif uids - {pod.uid or pod.key}:
                rejections[position] = f"node allocatable resource claim {name} is already used by another pod"
        return rejections


def _holds(info: PodInfo, namespace: str, claim: str) -> bool:
    statuses = info.pod.status.node_allocatable_resource_claim_statuses
    return info.namespace == namespace and any(status.resource_claim_name == claim for status in statuses)
