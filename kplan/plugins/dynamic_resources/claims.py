"""The resource claims of a pod, whether they can be used yet, and whether the scheduler can do anything with them.

Upstream: k8s.io/dynamic-resource-allocation resourceclaim/resourceclaim.go, pkg/scheduler/framework/plugins/
dynamicresources/dynamicresources.go foreachPodResourceClaim.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kplan.api.core import Pod
from kplan.api.meta import controller_of
from kplan.api.nodeselector import compile_node_selector
from kplan.api.pod import PodResourceClaim
from kplan.api.resource import (
    EXTENDED_RESOURCE_CLAIM_ANNOTATION,
    AllocatedDeviceStatus,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from kplan.api.scheduling import PodGroup
from kplan.api.time import to_micros
from kplan.framework.interface import Status
from kplan.framework.pod_groups import group_of
from kplan.rules.pod_info import PodInfo

_SCHEDULING = "scheduling.k8s.io"
_GROUPS = "podgroups"
_GROUP = "PodGroup"
_GROUP_API = f"{_SCHEDULING}/"

#: (namespace, name)
ClaimKey = tuple[str, str]


class ClaimProblem(Exception):  # noqa: N818 - a reason to wait rather than an error
    """A pod has to wait for one of its claims; the message is upstream's."""


def key_of(claim: ResourceClaim) -> ClaimKey:
    """Return a claim's namespace and name."""
    return claim.metadata.namespace, claim.metadata.name


def identity_of(pod: Pod) -> str:
    """Return the identity of a pod: its uid or, for a manifest without one, its namespace and name."""
    return pod.metadata.uid or pod.metadata.key


def is_for_extended_resources(claim: ResourceClaim) -> bool:
    """Whether the scheduler created a claim for the extended resources of its owner."""
    return claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) == "true"


def user_claims(
    pod: Pod,
    claims: Mapping[ClaimKey, ResourceClaim],
    inherited: Collection[ClaimKey] = (),
    *,
    of_groups: bool = False,
) -> list[ResourceClaim]:
    """Return the claims that a pod names, in its order, without entries for which no claim is needed.

    Raises ClaimProblem if a claim is missing, is being deleted or belongs to another pod.

    Parameters
    ----------
    inherited : claims of pods that left, which stand for those created for their successors
    of_groups : a claim may have been created for the pod's group (gate DRAWorkloadResourceClaims)
    """
    user_claims = []
    for entry in pod.spec.resource_claims:
        name = _claim_name(pod, entry)
        if name is None:
            continue
        claim = claims.get((pod.metadata.namespace, name))
        if claim is None:
            raise ClaimProblem(f'could not find ResourceClaim "{pod.metadata.namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimProblem(f'resourceclaim "{name}" is being deleted')
        if entry.resource_claim_name is None and key_of(claim) not in inherited:
            _check_owner(pod, claim, of_groups=of_groups)
        user_claims.append(claim)
    return user_claims


def claim_names(pod: Pod) -> Iterator[tuple[str, str]]:
    """Yield the entries of a pod that have a claim, each with the claim's name."""
    for entry in pod.spec.resource_claims:
        try:
            name = _claim_name(pod, entry)
        except ClaimProblem:
            continue
        if name is not None:
            yield entry.name, name


def _claim_name(pod: Pod, entry: PodResourceClaim) -> str | None:
    """Return the name of the claim of an entry; None where the controller found that none is needed."""
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    me = f'pod "{pod.metadata.key}"'
    if entry.resource_claim_template_name is None:
        raise ClaimProblem(f'{me}, spec.resourceClaim "{entry.name}": none of the supported fields are set')
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name
    raise ClaimProblem(f"{me}: ResourceClaim not created yet")


def _check_owner(pod: Pod, claim: ResourceClaim, *, of_groups: bool) -> None:
    owner = controller_of(claim.metadata)
    if owner is not None and owner.uid == pod.metadata.uid:
        return
    group = pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else None
    why = "Pod is not owner"
    if of_groups and group is not None:
        is_group = owner is not None and owner.kind == _GROUP and owner.api_version.startswith(_GROUP_API)
        if is_group and owner is not None and owner.name == group:
            return
        why = f"neither Pod nor PodGroup {group} is the owner"
    raise ClaimProblem(f"ResourceClaim {claim.metadata.key} was not created for Pod {pod.metadata.key} ({why})")


def consumer_of(pod: Pod, claim_name: str, group: PodGroup | None) -> ResourceClaimConsumerReference:
    """Return for whom a claim of a pod is reserved: its group, where that has the same claim, or else the pod.

    Upstream: resourceclaim.BindTo.
    """
    shared = () if group is None else group.spec.resource_claims
    for entry in pod.spec.resource_claims:
        own = entry.name, entry.resource_claim_name, entry.resource_claim_template_name
        if _claim_name(pod, entry) == claim_name and group is not None:
            for theirs in shared:
                if own == (theirs.name, theirs.resource_claim_name, theirs.resource_claim_template_name):
                    meta = group.metadata
                    return ResourceClaimConsumerReference(
                        api_group=_SCHEDULING, resource=_GROUPS, name=meta.name, uid=meta.uid
                    )
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=identity_of(pod))


def claims_of_group(group: PodGroup) -> Iterator[tuple[str, bool]]:
    """Yield the names of a group's claims, and whether each was created for the group.

    Raises ClaimProblem for a claim that is still to be created.
    """
    me = f"PodGroup {group.metadata.namespace}/{group.metadata.name}"
    for entry in group.spec.resource_claims:
        if entry.resource_claim_name is not None:
            yield entry.resource_claim_name, False
            continue
        status = next((s for s in group.status.resource_claim_statuses if s.name == entry.name), None)
        if status is None:
            raise ClaimProblem(f"{me}: ResourceClaim not created yet")
        if status.resource_claim_name is not None:
            yield status.resource_claim_name, True


def is_broken(claim: ResourceClaim, now_micros: int, timeout_micros: int) -> bool:
    """Whether an allocated claim cannot be used any more: its devices failed, or were not ready in time.

    Upstream: isClaimReadyForBinding, isClaimTimeout.
    """
    if claim.status.allocation is None:
        return False
    for result in claim.status.allocation.devices.results:
        if not result.binding_conditions:
            continue
        conditions = _conditions(claim, result)
        if any(conditions.get(name) == "True" for name in result.binding_failure_conditions):
            return True
        if any(conditions.get(name) != "True" for name in result.binding_conditions):
            return has_timed_out(claim, now_micros, timeout_micros)
    return False


def has_timed_out(claim: ResourceClaim, now_micros: int, timeout_micros: int) -> bool:
    """Whether devices with binding conditions were allocated longer ago than the timeout."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return False
    has_conditions = any(result.binding_conditions for result in allocation.devices.results)
    return has_conditions and to_micros(allocation.allocation_timestamp) + timeout_micros < now_micros


def _conditions(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> dict[str, str]:
    """Return the conditions that the driver reports for an allocated device: type -> status."""

    def is_of_device(status: AllocatedDeviceStatus) -> bool:
        return (status.driver, status.pool, status.device) == (result.driver, result.pool, result.device)

    status = next(filter(is_of_device, claim.status.devices), None)
    return {} if status is None else {condition.type: condition.status for condition in reversed(status.conditions)}


def rejection_of(claim: ResourceClaim, device_classes: Collection[str]) -> Status | None:
    """Return why a pod with this claim is rejected before any node is looked at; None where it is not.

    Parameters
    ----------
    device_classes : the names of the cluster's device classes
    """
    if claim.status.allocation is None:
        return _check_classes(claim, device_classes)
    selector = claim.status.allocation.node_selector
    errors = compile_node_selector(selector).errors if selector is not None else ()
    if not errors:
        return None
    return Status.error(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")


def _check_classes(claim: ResourceClaim, known: Collection[str]) -> Status | None:
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            classes = [(request.name, request.exactly.device_class_name)]
        elif request.first_available:
            classes = [
                (f"{request.name}/{alternative.name}", alternative.device_class_name)
                for alternative in request.first_available
            ]
        else:
            name = claim.metadata.key
            return Status.unresolvable(f"resource claim {name}, request {request.name}: unknown request type")
        for name, class_name in classes:
            if not class_name:
                return Status.error(f"request {name}: unsupported request type")
            if class_name not in known:
                return Status.unresolvable(f"request {name}: device class {class_name} does not exist")
    return None


def is_reserved_for(claim: ResourceClaim, pod: PodInfo) -> bool:
    """Whether a claim is reserved for a pod or its group."""
    key = group_of(pod)
    return any(
        consumer.uid == pod.uid
        or (
            key is not None
            and consumer.api_group == _SCHEDULING
            and consumer.resource == _GROUPS
            and consumer.name == key[1]
        )
        for consumer in claim.status.reserved_for
    )
