"""Claims as the search reads them: exact requests and alternatives in the same form, amounts in nanos; constraints.

The scheduler creates a claim for extended resources that devices provide, node by node. Lists as attributes have no
value for constraints, with the gate DRAListTypeAttributes too: that scheduler hands the gate to selectors only
(dynamicresources.go AllocatorFeatures).

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating requestAccessor, matchAttributeConstraint,
distinctAttributeConstraint; pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

import msgspec

from kplan.api.core import Container, Pod
from kplan.api.quantity import parse
from kplan.api.resource import (
    MODE_ALL,
    MODE_EXACT_COUNT,
    RESOURCE_DEVICE_CLASS_PREFIX,
    CapacityRequirements,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from kplan.api.resource_slice import DeviceAttribute
from kplan.plugins.dynamic_resources.inventory import Amounts, DeviceInfo
from kplan.rules.resources import NANO, is_extended, nano, pod_requests, rounded_requests

_Value = tuple[str, int | bool | str]


class RequestSpec(msgspec.Struct, frozen=True):
    """A request without alternatives, or an alternative."""

    name: str
    parent: str  #: name of the request that this is an alternative of, or empty
    class_name: str
    expressions: tuple[str | None, ...]  #: CEL texts; None for a selector of an unknown kind
    mode: str
    count: int
    admin_access: bool
    tolerations: tuple[DeviceToleration, ...]
    capacity: Amounts | None  #: name -> requested amount, in nanos; None without a request

    @property
    def full_name(self) -> str:
        """The name under which allocation results refer to the request."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def base_name(self) -> str:
        """The name of the request, the same for all its alternatives."""
        return self.parent or self.name

    @property
    def wants_all(self) -> bool:
        """Whether the request is for all matching devices instead of a number of them."""
        return self.mode == MODE_ALL


class ClaimSpec(msgspec.Struct, frozen=True):
    """The requests of a claim, each a tuple of itself or of its alternatives in order, and its constraints."""

    requests: tuple[tuple[RequestSpec, ...], ...]
    constraints: tuple[DeviceConstraint, ...]


def claim_spec(spec: ResourceClaimSpec) -> ClaimSpec:
    """Return a claim in the form that the search reads, with the API server's defaults."""
    return ClaimSpec(tuple(map(_alternatives, spec.devices.requests)), spec.devices.constraints)


def _alternatives(request: DeviceRequest) -> tuple[RequestSpec, ...]:
    if request.first_available:
        return tuple(_request(alternative, alternative.name, request.name) for alternative in request.first_available)
    return (_request(request.exactly or ExactDeviceRequest(), request.name, ""),)


def _request(request: ExactDeviceRequest | DeviceSubRequest, name: str, parent: str) -> RequestSpec:
    mode = request.allocation_mode or MODE_EXACT_COUNT
    return RequestSpec(
        name=name,
        parent=parent,
        class_name=request.device_class_name,
        expressions=expressions(request.selectors),
        mode=mode,
        count=request.count or 1 if mode == MODE_EXACT_COUNT else request.count,
        admin_access=isinstance(request, ExactDeviceRequest) and bool(request.admin_access),
        tolerations=request.tolerations,
        capacity=_amounts(request.capacity),
    )


def expressions(selectors: tuple[DeviceSelector, ...]) -> tuple[str | None, ...]:
    """Return the CEL texts of selectors; None for a selector of an unknown kind."""
    return tuple(None if selector.cel is None else selector.cel.expression for selector in selectors)


def _amounts(capacity: CapacityRequirements | None) -> Mapping[str, int] | None:
    if capacity is None or not capacity.requests:
        return None
    return {name: nano(amount) for name, amount in capacity.requests.items()}


class Constraint(ABC):
    """A condition over the devices picked so far: all have an attribute, with values that go together.

    Parameters
    ----------
    requests : names of the requests that it is for; empty for all
    attribute : the fully qualified name
    """

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        self._requests = requests
        self._attribute = attribute
        self._n_devices = 0

    def add(self, request: RequestSpec, device: DeviceInfo) -> bool:
        """Add a device; False, without adding it, when it violates the constraint."""
        if not self._applies(request):
            return True
        attribute = device.attribute(self._attribute)
        if attribute is None or not self._take(request, _value(attribute)):
            return False
        self._n_devices += 1
        return True

    def remove(self, request: RequestSpec) -> None:
        """Undo the last addition for a request."""
        if self._applies(request):
            self._give_back(request)
            self._n_devices -= 1

    def _applies(self, request: RequestSpec) -> bool:
        return not self._requests or request.base_name in self._requests or request.full_name in self._requests

    @abstractmethod
    def _take(self, request: RequestSpec, value: _Value | None) -> bool:
        """Note the value of a further device; False where it does not go with those of the others."""

    @abstractmethod
    def _give_back(self, request: RequestSpec) -> None:
        """Forget the value of the last device of a request."""

    @abstractmethod
    def state(self, names: Collection[str]) -> Hashable:
        """Return all that decides about further devices, for requests of these names among others."""


def new_constraint(constraint: DeviceConstraint) -> Constraint | None:
    """Return a constraint without devices; None for an unknown kind."""
    requests = frozenset(constraint.requests)
    if constraint.match_attribute is not None:
        return _MatchAttribute(requests, constraint.match_attribute)
    if constraint.distinct_attribute is not None:
        return _DistinctAttribute(requests, constraint.distinct_attribute)
    return None


def _value(attribute: DeviceAttribute) -> _Value | None:
    """Return the value of an attribute with its kind; None when it has none that can be compared."""
    for kind in ("string", "int", "bool", "version"):
        value = getattr(attribute, f"{kind}_value")
        if value is not None:
            return kind, value
    return None


class _MatchAttribute(Constraint):
    """All devices have the attribute, with the same value."""

    _value: _Value | None = None

    def _take(self, request: RequestSpec, value: _Value | None) -> bool:
        if self._n_devices and (value is None or value != self._value):
            return False
        self._value = value
        return True

    def _give_back(self, request: RequestSpec) -> None:
        """Do nothing: the value counts only as long as a device is left."""

    def state(self, names: Collection[str]) -> Hashable:
        return self._n_devices, self._value if self._n_devices else None


class _DistinctAttribute(Constraint):
    """All devices have the attribute, with different values.

    As upstream, values are stored by the name of the request: of several devices for a request only the value of the
    last is stored.
    """

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._values: dict[str, _Value | None] = {}

    def _take(self, request: RequestSpec, value: _Value | None) -> bool:
        if self._n_devices and self._values and (value is None or value in self._values.values()):
            return False
        self._values[request.base_name] = value
        return True

    def _give_back(self, request: RequestSpec) -> None:
        self._values.pop(request.base_name, None)

    def state(self, names: Collection[str]) -> Hashable:
        own = frozenset((name, value) for name, value in self._values.items() if name in names)
        return self._n_devices, own, frozenset(value for name, value in self._values.items() if name not in names)


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
            lasting[i] = _lacking(i, containers[i], resource, class_name, ())
        largest: RequestSpec | None = None
        for i in short_lived:
            request = _lacking(i, containers[i], resource, class_name, lasting[i:])
            if request is not None and (largest is None or largest.count < request.count):
                largest = request
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
