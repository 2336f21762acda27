"""Claims that are reserved for a pod group: given back when no member has a node, so that others may be chosen.

Upstream: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go unreservePodGroupClaims.
"""

from __future__ import annotations

from functools import partial

from kplan.api.meta import controller_of
from kplan.api.resource import ResourceClaim
from kplan.framework.interface import PostFilterResult, Status
from kplan.framework.pod_groups import PodGroups, group_of
from kplan.plugins.dynamic_resources.claims import GROUPS, SCHEDULING, ClaimProblem, claims_of_group
from kplan.plugins.dynamic_resources.tracker import ClaimTracker
from kplan.rules.pod_info import PodInfo

UNRESERVED = "ResourceClaim unreserved for PodGroup"


def unreserve_group(pod: PodInfo, groups: PodGroups, tracker: ClaimTracker) -> PostFilterResult | None:
    """Take the group's reservation from the first of its allocated claims; None where there is nothing to take."""
    key = group_of(pod)
    if key is None or groups.scheduled_before(key):
        return None
    namespace, name = key
    group = groups.groups.get(key)
    if group is None:
        return PostFilterResult(Status.error(f'podgroup.scheduling.k8s.io "{name}" not found'))
    try:
        for claim_name, is_created in claims_of_group(group):
            claim = tracker.claims.get((namespace, claim_name))
            if claim is None:
                return PostFilterResult(Status.error(f'could not find ResourceClaim "{namespace}/{claim_name}"'))
            owner = controller_of(claim.metadata)
            if is_created and (owner is None or owner.uid != group.metadata.uid):
                continue
            is_pending = groups.cycle is not None and (namespace, claim_name) in groups.cycle.pending_reservations
            if claim.status.allocation is not None and is_reserved_for(claim, pod) and not is_pending:
                unreserve = partial(tracker.unreserve_group, (namespace, claim_name), group.metadata.uid)
                return PostFilterResult(Status.unresolvable(UNRESERVED), effects=(unreserve,))
    except ClaimProblem as problem:
        return PostFilterResult(Status.error(str(problem)))
    return None


def is_reserved_for(claim: ResourceClaim, pod: PodInfo) -> bool:
    """Whether a claim is reserved for a pod or its group."""
    key = group_of(pod)
    return any(
        consumer.uid == pod.uid
        or (
            key is not None
            and consumer.api_group == SCHEDULING
            and consumer.resource == GROUPS
            and consumer.name == key[1]
        )
        for consumer in claim.status.reserved_for
    )
