"""Extended resources that devices stand behind: the claim that the scheduler makes for them, node by node.

Upstream: pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kplan.api.core import Container, Pod
from kplan.api.quantity import parse
from kplan.api.resource import MODE_EXACT_COUNT, RESOURCE_DEVICE_CLASS_PREFIX, DeviceClass, ResourceClaim
from kplan.plugins.dynamic_resources.requests import ClaimSpec, RequestSpec
from kplan.rules.resources import NANO, is_extended, pod_requests, rounded_requests

_ALWAYS = "Always"


def requested_resources(pod: Pod, classes: Mapping[str, DeviceClass]) -> dict[str, int]:
    """Return what a pod asks of extended resources, if a device class stands behind one of them; else nothing."""
    if not classes:
        return {}
    asked = {
        name: amount
        for name, amount in rounded_requests(pod_requests(pod, use_status=False)).items()
        if amount and (is_extended(name) or name.startswith(RESOURCE_DEVICE_CLASS_PREFIX))
    }
    return asked if any(name in classes for name in asked) else {}


def existing_claim(pod: Pod, claims: Iterable[ResourceClaim]) -> ResourceClaim | None:
    """Return the claim that an earlier attempt made for the pod, of those made for extended resources."""
    for claim in claims:
        for owner in claim.metadata.owner_references:
            if owner.name == pod.metadata.name and owner.controller and owner.uid == pod.metadata.uid:
                return claim
    return None


def extended_claim_spec(pod: Pod, resources: Iterable[str], classes: Mapping[str, DeviceClass]) -> ClaimSpec:
    """Return the claim for those extended resources that a node does not offer by itself.

    One request a container and resource. Init containers that end share devices with each other and with the
    containers that start after them, so only the largest of them gets a request, for what is missing.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    n_init = len(pod.spec.init_containers)
    short_lived = [i for i in range(n_init) if containers[i].restart_policy != _ALWAYS]
    long_lived = [i for i in range(len(containers)) if i not in set(short_lived)]
    requests: list[RequestSpec] = []
    for resource in sorted(resources):
        device_class = classes.get(resource)
        if device_class is None:
            continue
        class_name = device_class.metadata.name
        lasting: list[RequestSpec | None] = [None] * len(containers)
        for i in long_lived:
            lasting[i] = _request(i, containers[i], resource, class_name, ())
        largest: RequestSpec | None = None
        for i in short_lived:
            request = _request(i, containers[i], resource, class_name, lasting[i:])
            if request is not None and (largest is None or largest.count < request.count):
                largest = request
        requests.extend(each for each in (largest, *lasting) if each is not None)
    return ClaimSpec(tuple((each,) for each in sorted(requests, key=lambda each: each.name)), ())


def _request(
    index: int, container: Container, resource: str, class_name: str, reusable: Sequence[RequestSpec | None]
) -> RequestSpec | None:
    """Return the request for what a container needs beyond the reusable ones; None when it needs no more."""
    asked = container.resources.requests
    if resource not in asked:
        return None
    count, fraction = divmod(parse(asked[resource]).nanos, NANO)
    if fraction or not count:
        return None
    at_hand = 0
    for request in reusable:
        if request is not None:
            at_hand += request.count
            if at_hand >= count:
                return None
    return RequestSpec(
        name=f"container-{index}-request-{sorted(asked).index(resource)}",
        parent="",
        class_name=class_name,
        expressions=(),
        mode=MODE_EXACT_COUNT,
        count=count - at_hand,
        admin_access=False,
        tolerations=(),
        capacity=None,
    )
