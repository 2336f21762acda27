"""The resource claims of a pod, and what they ask for as the search reads it: exact requests and alternatives alike.

The scheduler creates a claim for extended resources that devices provide, node by node. Lists as attributes have no
value for constraints, with the gate DRAListTypeAttributes too: that scheduler hands the gate to selectors only
(dynamicresources.go AllocatorFeatures).

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating requestAccessor, matchAttributeConstraint,
distinctAttributeConstraint, resourceclaim/resourceclaim.go; pkg/scheduler/framework/plugins/dynamicresources/
extendeddynamicresources.go, dynamicresources.go foreachPodResourceClaim.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence

import msgspec

from kplan.api import resource as dra
from kplan.api.affinity import compile_node_selector
from kplan.api.core import Container, Pod
from kplan.api.meta import controller_of
from kplan.api.pod import PodResourceClaim
from kplan.api.quantity import parse
from kplan.api.scheduling import PodGroup
from kplan.api.time import to_micros
from kplan.framework.interface import Status
from kplan.framework.listers import Key, key_of
from kplan.framework.pod_groups import group_of
from kplan.plugins.dynamic_resources.inventory import Amounts, DeviceInfo
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import NANO, is_extended, nano, pod_requests, rounded_requests

UNNAMED_CLAIM = "<extended-resources>"  #: upstream's name of the claim for extended resources before it exists

_Value = tuple[str, int | bool | str]


class RequestSpec(msgspec.Struct, frozen=True):
    """A request without alternatives, or an alternative."""

    name: str
    class_name: str
    mode: str
    count: int
    parent: str = ""  #: name of the request that this is an alternative of, or empty
    expressions: tuple[str | None, ...] = ()  #: CEL texts; None for a selector of an unknown kind
    admin_access: bool = False
    tolerations: tuple[dra.DeviceToleration, ...] = ()
    capacity: Amounts | None = None  #: name -> requested amount, in nanos; None without a request

    @property
    def full_name(self) -> str:
        """The name under which allocation results refer to the request."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def base_name(self) -> str:
        return self.parent or self.name

    @property
    def wants_all(self) -> bool:
        return self.mode == dra.MODE_ALL


class ClaimSpec(msgspec.Struct, frozen=True):
    """The requests of a claim, each a tuple of itself or of its alternatives in order, and its constraints."""

    requests: tuple[tuple[RequestSpec, ...], ...]
    constraints: tuple[dra.DeviceConstraint, ...]


def claim_spec(spec: dra.ResourceClaimSpec) -> ClaimSpec:
    """Return a claim in the form that the search reads, with the API server's defaults."""
    return ClaimSpec(tuple(map(_alternatives, spec.devices.requests)), spec.devices.constraints)


def _alternatives(request: dra.DeviceRequest) -> tuple[RequestSpec, ...]:
    if request.first_available:
        return tuple(_request(alternative, alternative.name, request.name) for alternative in request.first_available)
    return (_request(request.exactly or dra.ExactDeviceRequest(), request.name, ""),)


def _request(request: dra.ExactDeviceRequest | dra.DeviceSubRequest, name: str, parent: str) -> RequestSpec:
    mode = request.allocation_mode or dra.MODE_EXACT_COUNT
    amounts = None if request.capacity is None else request.capacity.requests
    return RequestSpec(
        name=name,
        parent=parent,
        class_name=request.device_class_name,
        expressions=expressions(request.selectors),
        mode=mode,
        count=request.count or 1 if mode == dra.MODE_EXACT_COUNT else request.count,
        admin_access=isinstance(request, dra.ExactDeviceRequest) and bool(request.admin_access),
        tolerations=request.tolerations,
        capacity={name: nano(amount) for name, amount in amounts.items()} if amounts else None,
    )


def expressions(selectors: tuple[dra.DeviceSelector, ...]) -> tuple[str | None, ...]:
    """Return the CEL texts of selectors; None for a selector of an unknown kind."""
    return tuple(None if selector.cel is None else selector.cel.expression for selector in selectors)


class Constraint:
    """A condition over the devices picked so far: all have an attribute, with one value, or each with another.

    As upstream, distinct values are stored by the name of the request: of several devices for a request only the value
    of the last is stored.
    """

    def __init__(self, constraint: dra.DeviceConstraint) -> None:
        #: whether it is of a kind that is known
        self.is_known = constraint.match_attribute is not None or constraint.distinct_attribute is not None
        self._requests = frozenset(constraint.requests)  # empty for all
        self._is_distinct = constraint.match_attribute is None
        self._attribute = constraint.match_attribute or constraint.distinct_attribute or ""
        self._n_devices = 0
        self._values: dict[str, _Value | None] = {}  # of a value that all share the key is empty

    def _applies(self, request: RequestSpec) -> bool:
        return not self._requests or request.base_name in self._requests or request.full_name in self._requests

    def add(self, request: RequestSpec, device: DeviceInfo) -> bool:
        """Add a device; False, without adding it, when it violates the constraint."""
        if not self._applies(request):
            return True
        attribute = device.attribute(self._attribute)
        if attribute is None:
            return False
        value = _value(attribute)
        is_known = value in self._values.values()
        if self._n_devices and self._values and (value is None or is_known is self._is_distinct):
            return False
        self._values[request.base_name if self._is_distinct else ""] = value
        self._n_devices += 1
        return True

    def remove(self, request: RequestSpec) -> None:
        """Undo the last addition for a request."""
        if self._applies(request):
            self._n_devices -= 1
            if self._is_distinct or not self._n_devices:
                self._values.pop(request.base_name if self._is_distinct else "", None)

    def state(self, names: Collection[str]) -> Hashable:
        """Return all that decides about further devices, for requests of these names among others."""
        own = frozenset((name, value) for name, value in self._values.items() if name in names)
        return self._n_devices, own, frozenset(value for name, value in self._values.items() if name not in names)


def _value(attribute: dra.DeviceAttribute) -> _Value | None:
    """Return the value of an attribute with its kind; None when it has none that can be compared."""
    for kind in ("string", "int", "bool", "version"):
        value = getattr(attribute, f"{kind}_value")
        if value is not None:
            return kind, value
    return None


def requested_resources(pod: Pod, classes: Mapping[str, dra.DeviceClass]) -> dict[str, int]:
    """Return a pod's requests for extended resources, if a device class provides any of them; otherwise none."""
    if not classes:
        return {}
    requests = {
        name: amount
        for name, amount in rounded_requests(pod_requests(pod, use_status=False)).items()
        if amount and (is_extended(name) or name.startswith(dra.RESOURCE_DEVICE_CLASS_PREFIX))
    }
    return requests if any(name in classes for name in requests) else {}


def extended_claim_spec(pod: Pod, resources: Iterable[str], classes: Mapping[str, dra.DeviceClass]) -> ClaimSpec:
    """Return the claim for the extended resources that a node does not list itself.

    It has a request per container and resource. Init containers that end share devices with each other and with the
    containers that start after them, so only the largest of them gets a request, for what the others lack.
    """
    containers = list(enumerate((*pod.spec.init_containers, *pod.spec.containers)))
    short_lived = [i for i, one in containers[: len(pod.spec.init_containers)] if one.restart_policy != "Always"]
    requests: list[RequestSpec] = []
    for resource in sorted(classes.keys() & set(resources)):
        class_name = classes[resource].metadata.name
        lasting = [None if i in short_lived else _lacking(i, one, resource, class_name, ()) for i, one in containers]
        lacking = (_lacking(i, containers[i][1], resource, class_name, lasting[i:]) for i in short_lived)
        largest = max(filter(None, lacking), key=lambda request: request.count, default=None)
        requests.extend(request for request in (largest, *lasting) if request is not None)
    return ClaimSpec(tuple((request,) for request in sorted(requests, key=lambda request: request.name)), ())


def _lacking(
    index: int, container: Container, resource: str, class_name: str, reusable: Sequence[RequestSpec | None]
) -> RequestSpec | None:
    """Return the request for what a container needs beyond reusable devices; None when it needs no more."""
    requests = container.resources.requests
    if resource not in requests:
        return None
    count, fraction = divmod(parse(requests[resource]).nanos, NANO)
    if fraction or not count:
        return None
    n_reusable = sum(request.count for request in reusable if request is not None)
    if n_reusable >= count:
        return None
    name = f"container-{index}-request-{sorted(requests).index(resource)}"
    return RequestSpec(name, class_name, dra.MODE_EXACT_COUNT, count - n_reusable)


_SCHEDULING = "scheduling.k8s.io"
_GROUPS = "podgroups"


class ClaimProblem(Exception):  # noqa: N818 - a reason to wait rather than an error
    """A pod has to wait for one of its claims; the message is upstream's."""


def user_claims(
    pod: Pod, claims: Mapping[Key, dra.ResourceClaim], inherited: Collection[Key] = (), *, of_groups: bool = False
) -> list[dra.ResourceClaim]:
    """Return the claims that a pod names, in its order, without entries for which no claim is needed.

    Claims of pods that left are `inherited` by their successors; with `of_groups` (gate DRAWorkloadResourceClaims) a
    claim may have been created for the pod's group. Raises ClaimProblem for one that is missing, is being deleted or
    belongs to another pod.
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


def _check_owner(pod: Pod, claim: dra.ResourceClaim, *, of_groups: bool) -> None:
    owner = controller_of(claim.metadata)
    if owner is not None and owner.uid == pod.metadata.uid:
        return
    group = pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else None
    why = "Pod is not owner"
    if of_groups and group is not None:
        is_group = owner is not None and owner.kind == "PodGroup" and owner.api_version.startswith(f"{_SCHEDULING}/")
        if is_group and owner is not None and owner.name == group:
            return
        why = f"neither Pod nor PodGroup {group} is the owner"
    raise ClaimProblem(f"ResourceClaim {claim.metadata.key} was not created for Pod {pod.metadata.key} ({why})")


def consumer_of(pod: Pod, claim_name: str, group: PodGroup | None) -> dra.ResourceClaimConsumerReference:
    """Return for whom a claim is reserved: the pod's group, where that has it too, or the pod. Upstream: BindTo."""
    for entry in () if group is None else pod.spec.resource_claims:
        own = entry.name, entry.resource_claim_name, entry.resource_claim_template_name
        if group is not None and _claim_name(pod, entry) == claim_name:
            for theirs in group.spec.resource_claims:
                if own == (theirs.name, theirs.resource_claim_name, theirs.resource_claim_template_name):
                    return dra.ResourceClaimConsumerReference(
                        api_group=_SCHEDULING, resource=_GROUPS, name=group.metadata.name, uid=group.metadata.uid
                    )
    return dra.ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.identity)


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


def is_broken(claim: dra.ResourceClaim, now_micros: int, timeout_micros: int) -> bool:
    """Whether an allocated claim cannot be used any more: its devices failed, or were not ready in time.

    Upstream: isClaimReadyForBinding, isClaimTimeout.
    """
    allocation = claim.status.allocation
    if allocation is None:
        return False
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        conditions = _conditions(claim, result)
        if any(conditions.get(name) == "True" for name in result.binding_failure_conditions):
            return True
        if any(conditions.get(name) != "True" for name in result.binding_conditions):
            since = allocation.allocation_timestamp
            return since is not None and to_micros(since) + timeout_micros < now_micros
    return False


def _conditions(claim: dra.ResourceClaim, result: dra.DeviceRequestAllocationResult) -> dict[str, str]:
    """Return the conditions that the driver reports for an allocated device: type -> status."""
    own = result.driver, result.pool, result.device
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == own:
            return {condition.type: condition.status for condition in reversed(status.conditions)}
    return {}


def rejection_of(claim: dra.ResourceClaim, known_classes: Collection[str]) -> Status | None:
    """Return why a pod with this claim is rejected before any node is looked at; None where it is not."""
    if claim.status.allocation is not None:
        selector = claim.status.allocation.node_selector
        errors = compile_node_selector(selector).errors if selector is not None else ()
        if not errors:
            return None
        return Status.error(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
    for request in claim.spec.devices.requests:
        if request.exactly is None and not request.first_available:
            name = claim.metadata.key
            return Status.unresolvable(f"resource claim {name}, request {request.name}: unknown request type")
        for wanted in _alternatives(request):
            if not wanted.class_name:
                return Status.error(f"request {wanted.full_name}: unsupported request type")
            if wanted.class_name not in known_classes:
                text = f"request {wanted.full_name}: device class {wanted.class_name} does not exist"
                return Status.unresolvable(text)
    return None


def is_reserved_for(claim: dra.ResourceClaim, pod: PodInfo) -> bool:
    key = group_of(pod)
    group = None if key is None else (_SCHEDULING, _GROUPS, key[1])
    return any(
        consumer.uid == pod.uid or (consumer.api_group, consumer.resource, consumer.name) == group
        for consumer in claim.status.reserved_for
    )
