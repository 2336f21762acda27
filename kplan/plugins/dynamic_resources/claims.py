"""The resource claims of a pod, and whether they can be used yet.

Upstream: k8s.io/dynamic-resource-allocation resourceclaim/resourceclaim.go, pkg/scheduler/framework/plugins/
dynamicresources/dynamicresources.go foreachPodResourceClaim.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kplan.api.core import Pod, PodResourceClaim
from kplan.api.meta import controller_of
from kplan.api.resource import (
    EXTENDED_RESOURCE_CLAIM_ANNOTATION,
    AllocatedDeviceStatus,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from kplan.api.time import to_micros

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
    pod: Pod, claims: Mapping[ClaimKey, ResourceClaim], inherited: Collection[ClaimKey] = ()
) -> list[ResourceClaim]:
    """Return the claims that a pod names, in its order, without entries for which no claim is needed.

    Parameters
    ----------
    inherited : claims of pods that left, which stand for those created for their successors

    Raises
    ------
    ClaimProblem
        If a claim is missing, is being deleted or belongs to another pod.
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
            _check_owner(pod, claim)
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


def _check_owner(pod: Pod, claim: ResourceClaim) -> None:
    owner = controller_of(claim.metadata)
    if owner is None or owner.uid != pod.metadata.uid:
        msg = f"ResourceClaim {claim.metadata.key} was not created for Pod {pod.metadata.key} (Pod is not owner)"
        raise ClaimProblem(msg)


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
