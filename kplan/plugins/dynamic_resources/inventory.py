"""All published devices, indexed by node and by pool, with their attributes as selectors read them, and their taints.

The results of selectors are cached; an expression is evaluated once for devices that are equal in what it reads.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating NewAllocator, selectorsMatch, api/types.go,
resourceclaim/devicetoleration.go ToleratesTaint, resourceslice/tracker/tracker.go applyPatches.

Features of device objects that the reference scheduler ignores because their gates are off, or kplan cannot model.

Upstream: pkg/features/kube_features.go.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from kplan.api.affinity import untolerated
from kplan.api.meta import controller_of
from kplan.api.quantity import parse
from kplan.api.resource import (
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceSelector,
    DeviceTaintRule,
    DeviceToleration,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceSlice,
)
from kplan.cel.values import ABSENT, CelCompileError, CelError, CostLimitError, Semver
from kplan.facts import UnmodelledFeature
from kplan.rules.resources import nano
from kplan.snapshot.model import Snapshot

if TYPE_CHECKING:
    from kplan.cel.expression import DeviceExpression
_encoder = msgspec.json.Encoder(order="sorted")
_EFFECTS = {"NoSchedule", "NoExecute"}


#: Exact amounts of capacities and counters by name, in nanos.
Amounts = Mapping[str, int]


class PoolId(NamedTuple):
    """The identity of a pool: names are unique within a driver."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    """The identity of a device: names are unique within a pool."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class DeviceInfo:
    """A device of a slice, with what the search reads of it."""

    def __init__(self, device: Device, slice_: SliceInfo, index: int, *, lists: bool) -> None:
        self.device = device
        self._lists = lists
        self.slice = slice_
        #: position among all devices of the inventory, the key of everything that is cached per device
        self.index = index
        self.id = DeviceId(slice_.driver, slice_.pool_id.pool, device.name)
        self.allows_multiple = bool(device.allow_multiple_allocations)
        self.capacity: Mapping[str, DeviceCapacity] = device.capacity  #: name -> capacity as published
        #: whether requests for some capacity are rounded or limited
        self.has_policies = any(capacity.request_policy is not None for capacity in device.capacity.values())

    def as_unshared(self) -> DeviceInfo:
        alone = replace(self.device, allow_multiple_allocations=None)
        return DeviceInfo(alone, self.slice, self.index, lists=self._lists)

    @cached_property
    def consumes(self) -> tuple[tuple[str, Amounts], ...]:
        """What the device draws from counter sets, in nanos."""
        return tuple(
            (drawn.counter_set, {name: nano(counter.value) for name, counter in drawn.counters.items()})
            for drawn in self.device.consumes_counters
        )

    @cached_property
    def capacity_values(self) -> Amounts:
        return {name: nano(capacity.value) for name, capacity in self.capacity.items()}

    @cached_property
    def traits(self) -> bytes:
        """All that searches read of the device besides its name and attributes, encoded."""
        own = self.device
        return _encoder.encode((self.allows_multiple, own.capacity, own.consumes_counters, own.taints))

    @cached_property
    def problem(self) -> str:
        """Why every selector fails on the device, whether or not it reads the broken attribute; empty if none does."""
        problems = (_problem(name, own, lists=self._lists) for name, own in self.device.attributes.items())
        return next(filter(None, problems), "")

    def attribute_in(self, domain: str, name: str) -> DeviceAttribute | None:
        """Return an attribute by domain and name; the driver is the domain of those without one."""
        attributes = self.device.attributes
        attribute = attributes.get(name) if domain == self.slice.driver else None
        return attribute or attributes.get(f"{domain}/{name}")

    def capacity_in(self, domain: str, name: str) -> DeviceCapacity | None:
        """Return a capacity by domain and name; the driver is the domain of those without one."""
        capacity = self.capacity.get(name) if domain == self.slice.driver else None
        return capacity or self.capacity.get(f"{domain}/{name}")

    @property
    def driver(self) -> str:
        return self.slice.driver

    def cel_value(self, field: str, domain: str, key: str) -> object:
        """Return an attribute or a capacity for selectors, `ABSENT` when there is none."""
        if field == "device.attributes":
            attribute = self.attribute_in(domain, key)
            return ABSENT if attribute is None else _cel_value(attribute, lists=self._lists)
        capacity = self.capacity_in(domain, key)
        return ABSENT if capacity is None else parse(capacity.value)

    def cel_domains(self, field: str) -> dict[str, dict[str, object]]:
        domains: dict[str, dict[str, object]] = {}
        if field == "device.attributes":
            values = {
                key: _cel_value(attribute, lists=self._lists) for key, attribute in self.device.attributes.items()
            }
        else:
            values = {key: parse(capacity.value) for key, capacity in self.capacity.items()}
        for name, value in values.items():
            domain, key = _qualified(name, self.slice.driver)
            domains.setdefault(domain, {})[key] = value
        return domains

    def attribute(self, name: str) -> DeviceAttribute | None:
        """Return an attribute by its fully qualified name; the driver's own may be published without the domain."""
        attribute = self.device.attributes.get(name)
        if attribute is None and "/" in name:
            domain, key = name.split("/", 1)
            if domain == self.slice.driver:
                attribute = self.device.attributes.get(key)
        return attribute


class SliceInfo:
    """A slice: its devices, or the counters that devices of its pool share."""

    def __init__(self, published: ResourceSlice, first_index: int, *, lists: bool) -> None:
        spec = published.spec
        self.slice = published
        self.name = published.metadata.name
        self.driver = spec.driver
        self.pool_id = PoolId(spec.driver, spec.pool.name)
        self.node_name = spec.node_name or ""
        self.is_per_device = bool(spec.per_device_node_selection)
        self.devices = tuple(
            DeviceInfo(device, self, first_index + i, lists=lists) for i, device in enumerate(spec.devices)
        )

    @property
    def generation(self) -> int:
        return self.slice.spec.pool.generation

    @property
    def has_counters(self) -> bool:
        """Whether the slice has counters; then its devices do not count."""
        return bool(self.slice.spec.shared_counters)


class Inventory:
    """The slices of a cluster.

    Parameters
    ----------
    lists : attributes may be lists; without the feature selectors fail on such devices
    """

    def __init__(self, slices: Iterable[ResourceSlice], *, lists: bool = False) -> None:
        self.slices: list[SliceInfo] = []  #: all slices, by name
        self.devices: list[DeviceInfo] = []  #: all devices, by their index
        for published in sorted(slices, key=lambda resource_slice: resource_slice.metadata.name):
            info = SliceInfo(published, len(self.devices), lists=lists)
            self.slices.append(info)
            self.devices.extend(info.devices)

    @cached_property
    def has_node_resources(self) -> bool:
        return any(device.device.node_allocatable_resource_mappings for device in self.devices)

    @cached_property
    def _by_node(self) -> dict[str, list[SliceInfo]]:
        by_node = defaultdict(list)
        for slice_ in self.slices:
            if slice_.node_name and not slice_.has_counters:
                by_node[slice_.node_name].append(slice_)
        return dict(by_node)

    @cached_property
    def shared(self) -> list[SliceInfo]:
        """Slices that several nodes may use: those without a node name, or with counters."""
        return [slice_ for slice_ in self.slices if not slice_.node_name or slice_.has_counters]

    @cached_property
    def _by_pool(self) -> dict[PoolId, list[SliceInfo]]:
        by_pool = defaultdict(list)
        for slice_ in self.slices:
            by_pool[slice_.pool_id].append(slice_)
        return dict(by_pool)

    def for_node(self, name: str) -> list[SliceInfo]:
        return self._by_node.get(name, []) + self.shared

    def of_pool(self, pool: PoolId) -> list[SliceInfo]:
        return self._by_pool.get(pool, [])


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, key = name.partition("/")
    return (domain, key) if slash else (driver, name)


def _problem(name: str, attribute: DeviceAttribute, *, lists: bool) -> str:
    if attribute.string_value is not None or attribute.int_value is not None or attribute.bool_value is not None:
        return ""
    try:
        _cel_value(attribute, lists=lists)
    except CelError as error:
        return f"attribute {name}: {error}"
    return ""


def _cel_value(attribute: DeviceAttribute, *, lists: bool) -> object:
    if lists:
        for plain in (attribute.int_values, attribute.bool_values, attribute.string_values):
            if plain is not None:
                return list(plain)
        if attribute.version_values is not None:
            return [Semver.parse(version) for version in attribute.version_values]
    for value in (attribute.int_value, attribute.bool_value, attribute.string_value):
        if value is not None:
            return value
    if attribute.version_value is not None:
        return Semver.parse(attribute.version_value)
    raise CelError("unsupported attribute value")


def with_rules(slices: Iterable[ResourceSlice], rules: Sequence[DeviceTaintRule]) -> list[ResourceSlice]:
    return [_with_rules(resource_slice, rules) for resource_slice in slices] if rules else list(slices)


def _with_rules(resource_slice: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> ResourceSlice:
    spec = resource_slice.spec
    in_reach = [rule for rule in rules if _selects(rule, spec.driver, spec.pool.name)]
    if not in_reach:
        return resource_slice
    devices = tuple(_tainted(device, in_reach) for device in spec.devices)
    return replace(resource_slice, spec=replace(spec, devices=devices))


def _selects(rule: DeviceTaintRule, driver: str, pool: str) -> bool:
    """Tell whether a rule may select devices of a pool; what its selector leaves out matches all."""
    selector = rule.spec.device_selector
    return selector is None or (selector.driver in {None, driver} and selector.pool in {None, pool})


def _tainted(device: Device, rules: Iterable[DeviceTaintRule]) -> Device:
    names = (None if rule.spec.device_selector is None else rule.spec.device_selector.device for rule in rules)
    taints = tuple(rule.spec.taint for rule, name in zip(rules, names, strict=True) if name in {None, device.name})
    return replace(device, taints=(*device.taints, *taints)) if taints else device


def prevents_allocation(device: DeviceInfo, tolerations: tuple[DeviceToleration, ...]) -> bool:
    """Whether a device has a NoSchedule or NoExecute taint that is not tolerated."""
    return bool(untolerated(tolerations, [taint for taint in device.device.taints if taint.effect in _EFFECTS]))


_Answer = bool | CelError | CostLimitError


class ExpressionResults:
    """The results of an expression, by device.

    Devices that are equal in all that the expression reads share a result, whatever their names or serial numbers.
    """

    def __init__(self, expression: DeviceExpression) -> None:
        self._expression = expression
        self._by_device: dict[int, _Answer] = {}
        self._by_look: dict[Hashable, _Answer] = {}

    def matches(self, device: DeviceInfo) -> bool:
        """Return whether the expression accepts a device.

        Raises CelError, CostLimitError if the expression fails on it.
        """
        answer = self._by_device.get(device.index)
        if answer is None:
            look = self._look(device)
            answer = self._by_look.get(look)
            if answer is None:
                answer = self._by_look[look] = self._ask(device)
            self._by_device[device.index] = answer
        if isinstance(answer, bool):
            return answer
        raise answer

    def _ask(self, device: DeviceInfo) -> _Answer:
        if device.problem:
            return CelError(device.problem)
        try:
            return self._expression.matches(device)
        except (CelError, CostLimitError) as error:
            return error

    def _look(self, device: DeviceInfo) -> Hashable:
        own = (device.id.driver, device.allows_multiple)
        if device.problem:
            return own, device.index
        reads = self._expression.reads
        if reads is None:
            return own, _encoder.encode((device.device.attributes, device.capacity))
        attributes = tuple(device.attribute_in(domain, name) for domain, name in reads.attributes)
        capacities = (device.capacity_in(domain, name) for domain, name in reads.capacity)
        return own, attributes, tuple(None if capacity is None else capacity.value for capacity in capacities)


class Selection:
    """The results of all expressions, by their text.

    Parameters
    ----------
    lists : attributes may be lists
    """

    def __init__(self, *, lists: bool) -> None:
        self._lists = lists
        self._results: dict[str, ExpressionResults | CelCompileError] = {}

    def results(self, expression: str) -> ExpressionResults:
        """Return the results of an expression; raises CelCompileError if it is not valid."""
        known = self._results.get(expression)
        if known is None:
            from kplan.cel.expression import compile_expression

            compiled = compile_expression(expression, lists=self._lists)
            known = compiled if isinstance(compiled, CelCompileError) else ExpressionResults(compiled)
            self._results[expression] = known
        if isinstance(known, CelCompileError):
            raise known
        return known


#: How many different selectors are compiled in advance; each takes a millisecond.
_MAX_SELECTORS = 500


def off_gate_features(snapshot: Snapshot) -> list[UnmodelledFeature]:
    """Return the ignored device features of a snapshot's objects, an entry per object and feature."""
    features = [
        *_selectors(snapshot),
        *(feature for resource_slice in snapshot.resource_slices for feature in _of_slice(resource_slice)),
        *(feature for resource_claim in snapshot.resource_claims for feature in _of_claim(resource_claim)),
    ]
    features += [
        UnmodelledFeature(f"DeviceTaintRule/{rule.metadata.name}", "DRADeviceTaintRules", "the rule taints no device")
        for rule in snapshot.device_taint_rules
    ]
    for pod in snapshot.pods:
        if pod.status.node_allocatable_resource_claim_statuses:
            text = "node resources that the pod's claims account for do not count"
            features.append(UnmodelledFeature(pod.metadata.key, "DRANodeAllocatableResources", text))
    return features


def _selectors(snapshot: Snapshot) -> Iterator[UnmodelledFeature]:
    """Yield the valid selectors that kplan cannot evaluate; a pod whose search evaluates one gets an error."""
    pending = [claim for claim in snapshot.resource_claims if claim.status.allocation is None]
    selectors_by_owner = itertools.chain(
        ((f"DeviceClass/{obj.metadata.name}", obj.spec.selectors) for obj in snapshot.device_classes),
        ((obj.metadata.key, tuple(_of_requests(obj.spec))) for obj in pending),
    )
    known: set[str] = set()
    for owner, selectors in selectors_by_owner:
        for selector in selectors:
            if selector.cel is None or selector.cel.expression in known or len(known) == _MAX_SELECTORS:
                continue
            known.add(selector.cel.expression)
            from kplan.cel.expression import compile_expression

            compiled = compile_expression(selector.cel.expression)
            if not isinstance(compiled, CelCompileError) and compiled.unsupported:
                problem = f"{compiled.unsupported}; a pod whose claims need it gets an error"
                yield UnmodelledFeature(owner, "CELSelector", f"selector {selector.cel.expression!r}: {problem}")


def _of_requests(spec: ResourceClaimSpec) -> Iterator[DeviceSelector]:
    for request in spec.devices.requests:
        if request.exactly is not None:
            yield from request.exactly.selectors
        for alternative in request.first_available:
            yield from alternative.selectors


def _of_slice(resource_slice: ResourceSlice) -> Iterator[UnmodelledFeature]:
    name = f"ResourceSlice/{resource_slice.metadata.name}"
    if any(map(_has_list, resource_slice.spec.devices)):
        text = "an attribute is a list; every selector fails on its device"
        yield UnmodelledFeature(name, "DRAListTypeAttributes", text)
    if any(device.node_allocatable_resource_mappings for device in resource_slice.spec.devices):
        text = "node resources that its devices map to do not count"
        yield UnmodelledFeature(name, "DRANodeAllocatableResources", text)


def _has_list(device: Device) -> bool:
    return any(
        values is not None
        for attribute in device.attributes.values()
        for values in (attribute.int_values, attribute.bool_values, attribute.string_values, attribute.version_values)
    )


def _of_claim(claim: ResourceClaim) -> Iterator[UnmodelledFeature]:
    owner = controller_of(claim.metadata)
    is_owned = owner is not None and owner.kind == "PodGroup"
    if is_owned or any(consumer.resource == "podgroups" for consumer in claim.status.reserved_for):
        text = "a claim of a pod group counts as one that no pod reserves"
        name = claim.metadata.key
        yield UnmodelledFeature(name, "DRAWorkloadResourceClaims", text)
