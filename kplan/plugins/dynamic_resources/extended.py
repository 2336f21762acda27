"""Extended resources provided by devices: the claim that the scheduler creates for them, node by node.

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
    """Return a pod's requests for extended resources, if a device class provides any of them; otherwise none."""
    if not classes:
        return {}
    requests = {
        name: amount
        for name, amount in rounded_requests(pod_requests(pod, use_status=False)).items()
        if amount and (is_extended(name) or name.startswith(RESOURCE_DEVICE_CLASS_PREFIX))
    }
    return requests if any(name in classes for name in requests) else {}


def existing_claim(pod: Pod, claims: Iterable[ResourceClaim]) -> ResourceClaim | None:
    """Return the claim for extended resources that an earlier scheduling attempt created for the pod, or None."""
    for claim in claims:
        for owner in claim.metadata.owner_references:
            if owner.name == pod.metadata.name and owner.controller and owner.uid == pod.metadata.uid:
                return claim
    return None


def extended_claim_spec(pod: Pod, resources: Iterable[str], classes: Mapping[str, DeviceClass]) -> ClaimSpec:
    """Return the claim for the extended resources that a node does not list itself.

    It has a request per container and resource. Init containers that end share devices with each other and with the
    containers that start after them, so only the largest of them gets a request, for what the others lack.
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
        requests.extend(request for request in (largest, *lasting) if request is not None)
    return ClaimSpec(tuple((request,) for request in sorted(requests, key=lambda request: request.name)), ())


def _request(
    index: int, container: Container, resource: str, class_name: str, reusable: Sequence[RequestSpec | None]
) -> RequestSpec | None:
    """Return the request for what a container needs beyond reusable devices; None when it needs no more."""
    requests = container.resources.requests
    if resource not in requests:
        return None
    count, fraction = divmod(parse(requests[resource]).nanos, NANO)
    if fraction or not count:
        return None
    n_reusable = 0
    for request in reusable:
        if request is not None:
            n_reusable += request.count
            if n_reusable >= count:
                return None
    return RequestSpec(
        name=f"container-{index}-request-{sorted(requests).index(resource)}",
        parent="",
        class_name=class_name,
        expressions=(),
        mode=MODE_EXACT_COUNT,
        count=count - n_reusable,
        admin_access=False,
        tolerations=(),
        capacity=None,
    )
