"""All published devices, indexed by node and by pool, and the pools with their devices that a node can reach.

The results of selectors are cached; an expression is evaluated once for devices that are equal in what it reads.

Upstream: k8s.io/dynamic-resource-allocation structured/internal/incubating NewAllocator, selectorsMatch,
pools_incubating.go, api/types.go, resourceclaim/devicetoleration.go ToleratesTaint, resourceslice/tracker/tracker.go
applyPatches; of features whose gates are off, pkg/features/kube_features.go.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from kplan.api import resource as dra
from kplan.api.affinity import compile_node_selector, untolerated
from kplan.api.core import Node
from kplan.api.meta import controller_of
from kplan.api.quantity import parse
from kplan.cel.values import ABSENT, CelCompileError, CelError, CostLimitError, Semver
from kplan.facts import UnmodelledFeature
from kplan.rules.resources import nano
from kplan.snapshot.model import Snapshot

if TYPE_CHECKING:
    from kplan.cel.expression import DeviceExpression
_encoder = msgspec.json.Encoder(order="sorted")
_EFFECTS = {"NoSchedule", "NoExecute"}


T = TypeVar("T")

Amounts = Mapping[str, int]  #: exact amounts of capacities by name, in nanos
CounterKey = tuple[str, str]  #: the names of a counter set and of a counter in it


class AllocationError(Exception):
    """An object cannot be used; ends the pod's whole cycle, not only the search on a node."""


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

    def __init__(self, device: dra.Device, slice_: SliceInfo, index: int) -> None:
        self.device = device
        self.slice = slice_
        #: position among all devices of the inventory, the key of everything that is cached per device
        self.index = index
        self.id = DeviceId(slice_.pool_id.driver, slice_.pool_id.pool, device.name)
        self.driver = slice_.pool_id.driver
        self.allows_multiple = bool(device.allow_multiple_allocations)
        self.capacity: Mapping[str, dra.DeviceCapacity] = device.capacity  #: name -> capacity as published
        #: whether requests for some capacity are rounded or limited
        self.has_policies = any(capacity.request_policy is not None for capacity in device.capacity.values())

    def is_on(self, node: Node) -> bool:
        """Whether the device is on a node that reaches its slice; raises AllocationError."""
        return not self.slice.is_per_device or _is_on(node, self.device)

    def as_unshared(self) -> DeviceInfo:
        return DeviceInfo(replace(self.device, allow_multiple_allocations=None), self.slice, self.index)

    @cached_property
    def consumes(self) -> Mapping[CounterKey, int]:
        """What the device draws from counters, in nanos."""
        drawn: Counter[CounterKey] = Counter()
        for consumption in self.device.consumes_counters:
            for name, counter in consumption.counters.items():
                drawn[consumption.counter_set, name] += nano(counter.value)
        return drawn

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
        for name, attribute in self.device.attributes.items():
            try:
                self._cel(attribute)
            except CelError as error:
                return f"attribute {name}: {error}"
        return ""

    def find(self, named: Mapping[str, T], domain: str, name: str) -> T | None:
        """Return one of the attributes or capacities; the driver is the domain of those without one."""
        own = named.get(name) if domain == self.driver else None
        return own or named.get(f"{domain}/{name}")

    def _fields(self, field: str) -> Mapping[str, dra.DeviceAttribute | dra.DeviceCapacity]:
        return self.device.attributes if field == "device.attributes" else self.capacity

    def _cel(self, value: dra.DeviceAttribute | dra.DeviceCapacity) -> object:
        if isinstance(value, dra.DeviceCapacity):
            return parse(value.value)
        if self.slice.lists:
            for plain in (value.int_values, value.bool_values, value.string_values):
                if plain is not None:
                    return list(plain)
            if value.version_values is not None:
                return [Semver.parse(version) for version in value.version_values]
        for single in (value.int_value, value.bool_value, value.string_value):
            if single is not None:
                return single
        if value.version_value is not None:
            return Semver.parse(value.version_value)
        raise CelError("unsupported attribute value")

    def cel_value(self, field: str, domain: str, key: str) -> object:
        """Return an attribute or a capacity for selectors, `ABSENT` when there is none."""
        value = self.find(self._fields(field), domain, key)
        return ABSENT if value is None else self._cel(value)

    def cel_domains(self, field: str) -> dict[str, dict[str, object]]:
        domains: dict[str, dict[str, object]] = {}
        for name, value in self._fields(field).items():
            domain, slash, key = name.partition("/")
            if not slash:
                domain, key = self.driver, name
            domains.setdefault(domain, {})[key] = self._cel(value)
        return domains

    def attribute(self, name: str) -> dra.DeviceAttribute | None:
        """Return an attribute by its fully qualified name; the driver's own may be published without the domain."""
        attributes = self.device.attributes
        domain, slash, key = name.partition("/")
        return attributes.get(name) or (attributes.get(key) if slash and domain == self.driver else None)


class SliceInfo:
    """A slice: its devices, or the counters that devices of its pool share.

    Without `lists` selectors fail on devices with an attribute that is a list.
    """

    def __init__(self, published: dra.ResourceSlice, first_index: int, *, lists: bool) -> None:
        spec = published.spec
        self.slice = published
        self.lists = lists
        self.name = published.metadata.name
        self.pool_id = PoolId(spec.driver, spec.pool.name)
        self.generation = spec.pool.generation
        self.node_name = spec.node_name or ""
        self.is_per_device = bool(spec.per_device_node_selection)
        self.has_counters = bool(spec.shared_counters)  #: then its devices do not count
        self.devices = tuple(DeviceInfo(device, self, first_index + i) for i, device in enumerate(spec.devices))


class Inventory:
    """The slices of a cluster; `lists` as for a SliceInfo."""

    def __init__(self, slices: Iterable[dra.ResourceSlice], *, lists: bool = False) -> None:
        self.slices: list[SliceInfo] = []  #: all slices, by name
        self.devices: list[DeviceInfo] = []  #: all devices, by their index
        self.by_node: defaultdict[str, list[SliceInfo]] = defaultdict(list)
        self.shared: list[SliceInfo] = []  #: those without a node name, or with counters
        self.by_pool: defaultdict[PoolId, list[SliceInfo]] = defaultdict(list)
        for published in sorted(slices, key=lambda resource_slice: resource_slice.metadata.name):
            info = SliceInfo(published, len(self.devices), lists=lists)
            self.slices.append(info)
            self.devices.extend(info.devices)
            self.by_pool[info.pool_id].append(info)
            if info.node_name and not info.has_counters:
                self.by_node[info.node_name].append(info)
            else:
                self.shared.append(info)

    @cached_property
    def has_node_resources(self) -> bool:
        return any(device.device.node_allocatable_resource_mappings for device in self.devices)


class Pool(msgspec.Struct, frozen=True):
    """A pool as a node can reach it."""

    id: PoolId
    is_incomplete: bool = False
    is_invalid: bool = False
    #: devices that the node can reach, in the order in which the search tries them
    devices: tuple[DeviceInfo, ...] = ()
    elsewhere: tuple[DeviceInfo, ...] = ()  #: devices of other nodes, which may use up the pool's counters
    counters: Mapping[CounterKey, int] = {}  #: in nanos


class NodePools:
    """The pools that a node can reach, and their usable devices in the order in which searches try them."""

    def __init__(self, pools: Sequence[Pool]) -> None:
        self.pools = pools
        self.has_invalid = any(pool.is_invalid for pool in pools)
        self.candidates = [
            (pool, device) for pool in pools if not (pool.is_incomplete or pool.is_invalid) for device in pool.devices
        ]


def _is_on(node: Node, place: dra.Device | dra.ResourceSliceSpec) -> bool:
    """Whether a slice or device, which names its nodes in one of three ways, is on a node; raises AllocationError."""
    if place.node_name:
        return node.metadata.name == place.node_name
    if place.all_nodes or place.node_selector is None:
        return bool(place.all_nodes)
    compiled = compile_node_selector(place.node_selector)
    if compiled.errors:
        raise AllocationError(f"failed to parse node selector: {', '.join(compiled.errors)}")
    return compiled.matches(node.metadata.labels, node.metadata.name)


def gather_pools(inventory: Inventory, node: Node) -> NodePools:
    """Return the pools that a node can reach, by driver and name, those with binding conditions last.

    Raises AllocationError if a node selector of a slice cannot be used.
    """
    reached: defaultdict[PoolId, list[SliceInfo]] = defaultdict(list)
    for slice_ in (*inventory.by_node.get(node.metadata.name, ()), *inventory.shared):
        if _is_relevant(slice_, node):
            reached[slice_.pool_id].append(slice_)
    built = (_pool(inventory, pool_id, reached[pool_id]) for pool_id in sorted(reached))
    pools = [pool for pool in built if pool is not None]
    pools.sort(key=lambda pool: any(device.device.binding_conditions for device in pool.devices))
    return NodePools(pools)


def _is_relevant(slice_: SliceInfo, node: Node) -> bool:
    spec = slice_.slice.spec
    try:
        if slice_.has_counters:
            return True
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            return _is_on(node, spec)
        return slice_.is_per_device and any(device.is_on(node) for device in slice_.devices)
    except AllocationError as error:
        text = f"gather pool information: failed to perform node selection for slice {slice_.name}: {error}"
        raise AllocationError(text) from None


def _pool(inventory: Inventory, pool_id: PoolId, reached: Sequence[SliceInfo]) -> Pool | None:
    """Return a pool of the slices that a node can reach; None when the newest generation is on other nodes only."""
    generation = max(slice_.generation for slice_ in reached)
    slices = [slice_ for slice_ in reached if slice_.generation == generation]
    others: list[SliceInfo] = []
    n_slices = slices[0].slice.spec.pool.resource_slice_count
    if len(slices) != n_slices:
        all_slices = inventory.by_pool[pool_id]
        if any(slice_.generation > generation for slice_ in all_slices):
            return None
        current = [slice_ for slice_ in all_slices if slice_.generation == generation]
        if len(current) != n_slices:
            return Pool(pool_id, is_incomplete=True)
        own = set(slices)
        others = [slice_ for slice_ in current if slice_ not in own]
    return pool_of(pool_id, sorted(slices, key=lambda slice_: slice_.name), others)


def pool_of(pool_id: PoolId, slices: Sequence[SliceInfo], others: Sequence[SliceInfo] = ()) -> Pool:
    """Return a pool of all its slices, of which a node cannot reach the `others`.

    It is invalid when two devices or two counter sets have one name, or a device draws from counters that it lacks.
    """
    devices = tuple(device for slice_ in slices if not slice_.has_counters for device in slice_.devices)
    sets = [shared for slice_ in slices for shared in slice_.slice.spec.shared_counters]
    counters = {
        (shared.name, name): nano(counter.value) for shared in sets for name, counter in shared.counters.items()
    }
    names = {shared.name for shared in sets}
    drawing = [device for slice_ in (*slices, *others) for device in slice_.devices]
    if (
        len({device.id for device in devices}) < len(devices)
        or len(names) < len(sets)
        or any(one.counter_set not in names for device in drawing for one in device.device.consumes_counters)
        or any(not device.consumes.keys() <= counters.keys() for device in drawing)
    ):
        return Pool(pool_id, is_invalid=True)
    elsewhere = tuple(device for other in others for device in other.devices)
    return Pool(pool_id, devices=devices, elsewhere=elsewhere, counters=counters)


def with_rules(slices: Iterable[dra.ResourceSlice], rules: Sequence[dra.DeviceTaintRule]) -> list[dra.ResourceSlice]:
    """Return slices with the taints that rules add to their devices."""
    if not rules:
        return list(slices)
    devices = ((one, tuple(_tainted(device, one.spec, rules) for device in one.spec.devices)) for one in slices)
    return [replace(one, spec=replace(one.spec, devices=tainted)) for one, tainted in devices]


def _tainted(device: dra.Device, spec: dra.ResourceSliceSpec, rules: Iterable[dra.DeviceTaintRule]) -> dra.Device:
    names = (spec.driver, spec.pool.name, device.name)
    taints = []
    for rule in rules:
        selector = rule.spec.device_selector
        wanted = () if selector is None else (selector.driver, selector.pool, selector.device)
        # What a selector leaves out matches all.
        if all(one is None or one == name for one, name in zip(wanted, names, strict=False)):
            taints.append(rule.spec.taint)
    return replace(device, taints=(*device.taints, *taints)) if taints else device


def untolerated_taints(device: DeviceInfo, tolerations: tuple[dra.DeviceToleration, ...]) -> Sequence[dra.DeviceTaint]:
    """Return the NoSchedule and NoExecute taints of a device that are not tolerated."""
    return untolerated(tolerations, [taint for taint in device.device.taints if taint.effect in _EFFECTS])


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
        """Return whether the expression accepts a device; raises CelError, CostLimitError if it fails on it."""
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
        attributes = tuple(device.find(device.device.attributes, domain, name) for domain, name in reads.attributes)
        capacities = (device.find(device.capacity, domain, name) for domain, name in reads.capacity)
        return own, attributes, tuple(None if capacity is None else capacity.value for capacity in capacities)


class Selection:
    """The results of all expressions, by their text; with `lists` attributes may be lists."""

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


_MAX_SELECTORS = 500  #: how many different selectors are compiled in advance; each takes a millisecond


def off_gate_features(snapshot: Snapshot) -> Iterator[UnmodelledFeature]:
    """Yield the ignored device features of a snapshot's objects, an entry per object and feature."""
    for one in snapshot.resource_slices:
        name = f"ResourceSlice/{one.metadata.name}"
        if any(map(_has_list, one.spec.devices)):
            text = "an attribute is a list; every selector fails on its device"
            yield UnmodelledFeature(name, "DRAListTypeAttributes", text)
        if any(device.node_allocatable_resource_mappings for device in one.spec.devices):
            text = "node resources that its devices map to do not count"
            yield UnmodelledFeature(name, "DRANodeAllocatableResources", text)
    for claim in snapshot.resource_claims:
        owner = controller_of(claim.metadata)
        is_owned = owner is not None and owner.kind == "PodGroup"
        if is_owned or any(consumer.resource == "podgroups" for consumer in claim.status.reserved_for):
            text = "a claim of a pod group counts as one that no pod reserves"
            yield UnmodelledFeature(claim.metadata.key, "DRAWorkloadResourceClaims", text)
    for rule in snapshot.device_taint_rules:
        name = f"DeviceTaintRule/{rule.metadata.name}"
        yield UnmodelledFeature(name, "DRADeviceTaintRules", "the rule taints no device")
    for pod in snapshot.pods:
        if pod.status.node_allocatable_resource_claim_statuses:
            text = "node resources that the pod's claims account for do not count"
            yield UnmodelledFeature(pod.metadata.key, "DRANodeAllocatableResources", text)


def unevaluated_selectors(snapshot: Snapshot) -> Iterator[UnmodelledFeature]:
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


def _of_requests(spec: dra.ResourceClaimSpec) -> Iterator[dra.DeviceSelector]:
    for request in spec.devices.requests:
        if request.exactly is not None:
            yield from request.exactly.selectors
        for alternative in request.first_available:
            yield from alternative.selectors


def _has_list(device: dra.Device) -> bool:
    return any(
        values is not None
        for attribute in device.attributes.values()
        for values in (attribute.int_values, attribute.bool_values, attribute.string_values, attribute.version_values)
    )
