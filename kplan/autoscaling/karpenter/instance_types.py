"""Instance types: what a machine of each kind has, where it is offered at which price, and what overlays change.

Amounts of resources are exact, in billionths. The format is that of Karpenter's kwok provider, with `overhead` and
`labels` besides.

Upstream: kwok/cloudprovider/helpers.go, cloudprovider/types.go, utils/resources/resources.go;
controllers/nodeoverlay/controller.go, store.go; apis/v1alpha1/nodeoverlay_validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain

import msgspec
from msgspec.structs import asdict, replace

from kplan.api.affinity import NodeSelectorRequirement
from kplan.api.core import HUGE_PAGES
from kplan.api.labels import ZONE
from kplan.api.meta import Int64, KubeStruct, ResourceList
from kplan.api.provisioning import NodeOverlay, NodePool
from kplan.api.quantity import Quantity, canonical, nanos_of
from kplan.api.resource import CounterSet, Device
from kplan.autoscaling.karpenter.requirements import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODEPOOL,
    OS,
    RESERVATION_IDS,
    WELL_KNOWN,
    Vocabulary,
)
from kplan.rules.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

Amounts = dict[str, int]  #: resource name -> amount in 1e-9

ONE = 10**9

NODES = "nodes"  #: the resource of which every node has one, for the limits of pools


def total_of(lists: Iterable[Mapping[str, int]]) -> Amounts:
    total: Amounts = {}
    for amounts in lists:
        add(total, amounts)
    return total


def add(total: Amounts, amounts: Mapping[str, int]) -> None:
    """Add to a running total, in place."""
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def most_of(lists: Iterable[Mapping[str, int]]) -> Amounts:
    highest: Amounts = {}
    for amounts in lists:
        for name, amount in amounts.items():
            highest[name] = max(amount, highest.get(name, amount))
    return highest


def least_of(lists: Sequence[Mapping[str, int]]) -> Amounts:
    """Return the lowest amount of each resource that all have."""
    shared = (name for name in (lists[0] if lists else ()) if all(name in amounts for amounts in lists))
    return {name: min(amounts[name] for amounts in lists) for name in shared}


def less(amounts: Mapping[str, int], minus: Mapping[str, int]) -> Amounts:
    """Return what is left of each resource; resources that are not there stay away (upstream Subtract)."""
    return {name: amount - minus.get(name, 0) for name, amount in amounts.items()}


def fits(wanted: Mapping[str, int], room: Mapping[str, int]) -> bool:
    """Tell whether something fits; nothing fits where anything is overcommitted (upstream Fits)."""
    return all(amount >= 0 for amount in room.values()) and all(
        amount <= room.get(name, 0) for name, amount in wanted.items()
    )


def texts_of(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts as quantities, without those that are zero."""
    return {name: text_of(name, amount) for name, amount in sorted(amounts.items()) if amount}


def text_of(name: str, amount: int) -> str:
    """Return an amount as a quantity: with a binary suffix for bytes."""
    is_bytes = name in {MEMORY, EPHEMERAL_STORAGE} or name.startswith(HUGE_PAGES)
    return str(Quantity(amount, "BinarySI" if is_bytes else "DecimalSI"))


_KWOK = "karpenter.kwok.sh"
KWOK_LABELS = frozenset(f"{_KWOK}/instance-{part}" for part in ("size", "family", "cpu", "memory"))
_AWS_NAME = re.compile(r"\w+\.(nano|micro|small|medium|large|\d*xlarge|metal)", re.ASCII)


class Overhead(KubeStruct, frozen=True):
    """What pods cannot use of a machine."""

    kube_reserved: ResourceList = {}
    system_reserved: ResourceList = {}
    eviction_threshold: ResourceList = {}

    @property
    def total(self) -> Amounts:
        return total_of(map(nanos_of, (self.kube_reserved, self.system_reserved, self.eviction_threshold)))


class Offering(msgspec.Struct, frozen=True, rename="pascal", omit_defaults=True):
    """A zone and capacity type in which an instance type can be had, and its price.

    Overrides are amounts that its machines have beside those of the type.
    """

    requirements: tuple[NodeSelectorRequirement, ...] = ()
    price: float = 0.0
    available: bool = True
    reservation_capacity: Int64 = 0
    capacity_override: ResourceList = {}
    overhead_override: Overhead | None = None
    is_price_overlaid: bool = False  #: never in a catalogue

    @property
    def capacity_type(self) -> str:
        return self._value(CAPACITY_TYPE)

    @property
    def zone(self) -> str:
        return self._value(ZONE)

    @property
    def reservation(self) -> str:
        """The reservation that it draws on; empty for none."""
        return next((value for key in sorted(RESERVATION_IDS) if (value := self._value(key))), "")

    @property
    def choice(self) -> str:
        return f"{self.zone} {self.capacity_type}"

    def _value(self, key: str) -> str:
        return next((min(wanted.values, default="") for wanted in self.requirements if wanted.key == key), "")


_KWOK_OVERHEAD = Overhead(kube_reserved={CPU: "100m", MEMORY: "10Mi"})


class SliceTemplate(KubeStruct, frozen=True):
    """A slice that nodes of an instance type publish."""

    driver: str = ""
    pool: str = ""
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class BoundDevice(KubeStruct, frozen=True):
    """A device of a slice of an instance type."""

    driver: str = ""
    pool: str = ""
    device: str = ""


class AttributeBinding(KubeStruct, frozen=True):
    """Devices that have one value of an attribute, whichever that will be."""

    attribute: str = ""
    devices: tuple[BoundDevice, ...] = ()


class DynamicResources(KubeStruct, frozen=True):
    """The devices of an instance type."""

    resource_slices: tuple[SliceTemplate, ...] = ()
    attribute_bindings: tuple[AttributeBinding, ...] = ()


class InstanceType(KubeStruct, frozen=True, dict=True, gc=True):
    """An instance type, as a catalogue has it, and what Karpenter makes of that (upstream newInstanceType)."""

    name: str = ""
    architecture: str = ""
    operating_systems: tuple[str, ...] = ()
    resources: ResourceList = {}
    offerings: tuple[Offering, ...] = ()
    overhead: Overhead | None = None
    labels: dict[str, str] = {}
    dynamic_resources: DynamicResources = DynamicResources()
    node_classes: tuple[str, ...] = ()  #: names of the node classes that have it; none for all

    @cached_property
    def requirements(self) -> tuple[NodeSelectorRequirement, ...]:
        """What its nodes' labels can be; one expression a label."""
        cpu, memory = (canonical(self.resources[name]) if name in self.resources else "" for name in (CPU, MEMORY))
        size = _AWS_NAME.fullmatch(self.name)
        family, *rest = re.split(r"[.-]", self.name, maxsplit=1)
        labels = {
            INSTANCE_TYPE: (self.name,),
            ARCH: (self.architecture,),
            OS: self.operating_systems,
            ZONE: self._values(ZONE),
            CAPACITY_TYPE: self._values(CAPACITY_TYPE),
            f"{_KWOK}/instance-size": (size[1] if size else cpu,),
            f"{_KWOK}/instance-family": (family if rest else self.name[:1],),
            f"{_KWOK}/instance-cpu": (cpu,),
            f"{_KWOK}/instance-memory": (memory,),
            **{key: (value,) for key, value in self.labels.items()},
        }
        return tuple(NodeSelectorRequirement(key=key, operator="In", values=labels[key]) for key in labels)

    def _values(self, key: str) -> tuple[str, ...]:
        lists = (next((one.values for one in own.requirements if one.key == key), ()) for own in self.offerings)
        return tuple(dict.fromkeys(chain.from_iterable(lists)))

    @cached_property
    def capacity(self) -> Amounts:
        """What the machine has."""
        return nanos_of({PODS: "110", **self.resources})

    @property
    def allocatable(self) -> Amounts:
        return self.allocatable_at(Offering())

    def allocatable_at(self, offering: Offering) -> Amounts:
        """Return what pods can use of the machine of an offering: huge pages are taken from the memory."""
        reserved, own = _KWOK_OVERHEAD if self.overhead is None else self.overhead, offering.overhead_override
        overhead = reserved.total if own is None else total_of((reserved.total, own.total))
        capacity = total_of((self.capacity, nanos_of(offering.capacity_override)))
        allocatable = less(capacity, overhead)
        for name, amount in capacity.items():
            if name.startswith(HUGE_PAGES):
                allocatable[MEMORY] = max(0, allocatable.get(MEMORY, 0) - amount)
        return allocatable


class EnlargedType(InstanceType, frozen=True, dict=True, gc=True):
    """An instance type to whose machines an overlay gives further resources."""


def well_known_of(entries: Iterable[InstanceType]) -> frozenset[str]:
    """Return the labels that new nodes may have although no pool names them."""
    named: set[str] = set()
    for entry in entries:
        named.update(entry.labels)
        named.update(wanted.key for offering in entry.offerings for wanted in offering.requirements)
    return WELL_KNOWN | KWOK_LABELS | RESERVATION_IDS | named


_BUILT_IN = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})

VALID = "True ValidationSucceeded"
CONFLICT = "False Conflict"
INVALID = "False RuntimeValidation"


class _Changes(msgspec.Struct):
    """What overlays make of one instance type of one pool."""

    prices: dict[int, str] = {}  #: offering -> the price of the heaviest overlay
    price_weights: dict[int, int] = {}  #: offering -> the weight of the lightest overlay with a price
    capacity: ResourceList = {}
    lightest: frozenset[str] = frozenset()  #: resources of the lightest overlay with capacity
    lightest_weight: int = 0


class Overlaid(msgspec.Struct, frozen=True):
    """Instance types by pool, and what became of the overlays."""

    types: Mapping[str, tuple[InstanceType, ...]]
    statuses: Mapping[str, str]  #: overlay -> its ValidationSucceeded condition: status and reason


def overlay(
    overlays: Iterable[NodeOverlay],
    pools: Sequence[NodePool],
    types: Mapping[str, Sequence[InstanceType]],
    vocabulary: Vocabulary,
) -> Overlaid:
    """Apply overlays to the types of each pool, the heaviest first; one that contradicts an equal one is not."""
    changes: dict[tuple[str, int], _Changes] = {}
    statuses: dict[str, str] = {}
    for entry in sorted(overlays, key=lambda one: (one.spec.weight or 0, one.metadata.name), reverse=True):
        name = entry.metadata.name
        if not _BUILT_IN.isdisjoint(entry.spec.capacity) or any(
            any(vocabulary.problems(wanted)) or (wanted.operator == "NotIn" and not wanted.values)
            for wanted in entry.spec.requirements
        ):
            statuses[name] = INVALID
            continue
        reach = _reach(entry, pools, types, vocabulary)
        if any(_conflicts(entry, changes.get(place), offerings) for place, offerings in reach.items()):
            statuses[name] = CONFLICT
            continue
        statuses[name] = VALID
        for place, offerings in reach.items():
            _note(entry, changes, place, offerings)
    changed = {
        pool: tuple(_changed(entry, changes.get((pool, index))) for index, entry in enumerate(own))
        for pool, own in types.items()
    }
    return Overlaid(changed, statuses)


def _reach(
    entry: NodeOverlay, pools: Sequence[NodePool], types: Mapping[str, Sequence[InstanceType]], vocabulary: Vocabulary
) -> dict[tuple[str, int], list[int]]:
    wanted = vocabulary.of_expressions(entry.spec.requirements)
    reach: dict[tuple[str, int], list[int]] = {}
    for pool in pools:
        labels = {NODEPOOL: pool.metadata.name}
        own = vocabulary.join(vocabulary.of_labels(labels), vocabulary.of_labels(pool.spec.template.metadata.labels))
        for index, instance_type in enumerate(types[pool.metadata.name]):
            node = vocabulary.join(own, vocabulary.of_expressions(instance_type.requirements))
            if vocabulary.misfits(node, wanted, allows_well_known=False):
                continue
            offerings = [
                number
                for number, offering in enumerate(instance_type.offerings)
                if not vocabulary.misfits(
                    wanted, vocabulary.of_expressions(offering.requirements), allows_well_known=True
                )
            ]
            if offerings:
                reach[pool.metadata.name, index] = offerings
    return reach


def _price(entry: NodeOverlay) -> str | None:
    return entry.spec.price_adjustment if entry.spec.price is None else entry.spec.price


def _conflicts(entry: NodeOverlay, known: _Changes | None, offerings: Iterable[int]) -> bool:
    """Tell whether an equally heavy overlay says something about the same price or resource."""
    if known is None:
        return False
    weight = entry.spec.weight or 0
    if _price(entry) is not None and any(known.price_weights.get(number) == weight for number in offerings):
        return True
    return known.lightest_weight == weight and not known.lightest.isdisjoint(entry.spec.capacity)


def _note(
    entry: NodeOverlay, changes: dict[tuple[str, int], _Changes], place: tuple[str, int], offerings: Iterable[int]
) -> None:
    price, weight = _price(entry), entry.spec.weight or 0
    known = changes.setdefault(place, _Changes())
    if price is not None:
        for number in offerings:
            known.prices.setdefault(number, price)
            known.price_weights[number] = weight
    if entry.spec.capacity:
        for name, amount in entry.spec.capacity.items():
            known.capacity.setdefault(name, amount)
        known.lightest = frozenset(entry.spec.capacity)
        known.lightest_weight = weight


def _changed(instance_type: InstanceType, changes: _Changes | None) -> InstanceType:
    if changes is None:
        return instance_type
    offerings = tuple(
        replace(offering, price=adjusted(offering.price, changes.prices[number]), is_price_overlaid=True)
        if number in changes.prices
        else offering
        for number, offering in enumerate(instance_type.offerings)
    )
    changed = replace(instance_type, offerings=offerings)
    if not changes.capacity:
        return changed
    return EnlargedType(**{**asdict(changed), "resources": changed.resources | changes.capacity})


def adjusted(price: float, change: str) -> float:
    """Return a price after a change such as ``0.5``, ``+0.1`` or ``-20%`` (upstream AdjustedPrice)."""
    if not change.startswith(("+", "-")):
        return float(change)
    if change.endswith("%"):
        return max(0.0, price * (1 + float(change[:-1]) / 100))
    return max(0.0, price + float(change))
