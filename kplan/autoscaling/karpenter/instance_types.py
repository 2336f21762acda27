"""Instance types: what a machine of each kind has, and where it is offered at which price; many at once; and overlays.

The format is that of Karpenter's kwok provider, with `overhead` and `labels` besides.

`Columns` are hundreds of instance types, to be asked at once. A requirement, an amount of a resource, or a set of
offerings is turned once into the set of types that meet it, the bits of an integer; these are then joined by AND.

Overlays give other prices and further resources to instance types.

Upstream: kwok/cloudprovider/helpers.go, cloudprovider/types.go; provisioning/scheduling/nodeclaim.go
filterInstanceTypesByRequirements; controllers/nodeoverlay/controller.go, store.go;
apis/v1alpha1/nodeoverlay_validation.go.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain

import msgspec
from msgspec.structs import asdict, replace

from kplan.api.affinity import NodeSelectorRequirement
from kplan.api.core import HUGE_PAGES
from kplan.api.labels import ARCH, INSTANCE_TYPE, NODEPOOL, OS, ZONE
from kplan.api.meta import Int64, KubeStruct, ResourceList
from kplan.api.provisioning import NodeOverlay, NodePool
from kplan.api.quantity import canonical, nanos_of
from kplan.api.resource import CounterSet, Device
from kplan.autoscaling.karpenter.amounts import Amounts, fits, less, most_of, total_of
from kplan.autoscaling.karpenter.requirements import (
    CAPACITY_TYPE,
    RESERVATION_IDS,
    RESERVED,
    WELL_KNOWN,
    Requirements,
    Vocabulary,
    bits_of,
    set_of,
)
from kplan.preemption.go_sort import go_sorted
from kplan.rules.resources import COMPUTE, CPU, MEMORY, PODS

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


class Columns:
    """Instance types, numbered in the order of the catalogue."""

    def __init__(
        self, types: Sequence[InstanceType], vocabulary: Vocabulary, *, varies_by_offering: bool = True
    ) -> None:
        self.types = tuple(types)
        self.vocabulary = vocabulary
        #: instance type -> its number, the first of several with the name; None, as what is not named, has none
        self.numbers: Mapping[str | None, int] = {
            entry.name: index for index, entry in reversed(list(enumerate(types)))
        }
        self.allocatable = [entry.allocatable for entry in self.types]
        self.capacity = [entry.capacity for entry in self.types]
        self.requirements = [vocabulary.of_expressions(entry.requirements) for entry in self.types]
        self.offerings: list[Offering] = []
        self._of_type: list[int] = []
        for entry in self.types:
            first = len(self.offerings)
            self.offerings += entry.offerings
            self._of_type.append(set_of(range(first, len(self.offerings))))
        self.offering_requirements = [vocabulary.of_expressions(offering.requirements) for offering in self.offerings]
        self._available = set_of(number for number, offering in enumerate(self.offerings) if offering.available)
        self.reserved = set_of(  #: the available offerings of reserved capacity
            number for number, one in enumerate(self.offerings) if one.available and one.capacity_type == RESERVED
        )
        # Types whose overhead is more than they have take no pod.
        self._sound = set_of(
            index for index, amounts in enumerate(self.allocatable) if all(amount >= 0 for amount in amounts.values())
        )
        #: type -> what pods can use of its machines, with the available offerings that have so much; for types whose
        #: offerings differ in that
        self._variants = dict(self._varying()) if varies_by_offering else {}
        self._matching: dict[int, int] = {}
        self._offered: dict[int, int] = {}
        self._with_offerings: dict[int, int] = {}
        #: resource -> its different amounts, and the types with at least as much as each; last, none
        self._steps: dict[str, tuple[list[int], list[int]]] = {}
        self._highest: dict[int, Amounts] = {}
        self._prices: dict[int, list[float]] = {}

    def _varying(self) -> Iterator[tuple[int, list[tuple[Amounts, int]]]]:
        for index, entry in enumerate(self.types):
            if not any(one.capacity_override or one.overhead_override is not None for one in entry.offerings):
                continue
            variants: dict[frozenset[tuple[str, int]], int] = {}
            for number in bits_of(self._of_type[index] & self._available):
                amounts = frozenset(entry.allocatable_at(self.offerings[number]).items())
                variants[amounts] = variants.get(amounts, 0) | 1 << number
            yield index, [(dict(amounts), offerings) for amounts, offerings in variants.items()]

    def fitting(self, wanted: Mapping[str, int], requirements: Requirements) -> int:
        """Return the types with an available offering that requirements allow, and that has so much for pods."""
        types = self.roomy(wanted) & self.offered(requirements)
        for index, variants in self._variants.items():
            allowed = self.compatible_offerings(requirements)
            fit = any(offerings & allowed and fits(wanted, amounts) for amounts, offerings in variants)
            types = types | 1 << index if fit else types & ~(1 << index)
        return types

    def matching(self, requirements: Requirements) -> int:
        """Return the types whose labels do not exclude requirements."""
        number, overlap = requirements.number, self.vocabulary.overlap
        if number not in self._matching:
            own = enumerate(self.requirements)
            self._matching[number] = set_of(index for index, labels in own if overlap(labels, requirements))
        return self._matching[number]

    def compatible_offerings(self, requirements: Requirements) -> int:
        """Return the offerings, available or not, that a node with these requirements can use."""
        number, misfits = requirements.number, self.vocabulary.misfits
        if number not in self._offered:
            own = enumerate(self.offering_requirements)
            self._offered[number] = set_of(
                index for index, wanted in own if not misfits(requirements, wanted, allows_well_known=True)
            )
        return self._offered[number]

    def offered(self, requirements: Requirements) -> int:
        """Return the types with an available offering that a node with these requirements can use."""
        offerings = self.compatible_offerings(requirements) & self._available
        if offerings not in self._with_offerings:
            own = enumerate(self._of_type)
            self._with_offerings[offerings] = set_of(index for index, has in own if has & offerings)
        return self._with_offerings[offerings]

    def roomy(self, wanted: Mapping[str, int]) -> int:
        """Return the types that have so much of every resource for pods."""
        mask = self._sound
        for name, amount in wanted.items():
            if name not in self._steps:
                amounts = [allocatable.get(name, 0) for allocatable in self.allocatable]
                steps = sorted(set(amounts))
                at_least = [set_of(index for index, own in enumerate(amounts) if own >= step) for step in steps]
                self._steps[name] = (steps, [*at_least, 0])
            values, types = self._steps[name]
            mask &= types[bisect_left(values, amount)]
        return mask

    def most(self, types: int) -> Amounts:
        """Return the highest allocatable amount of each resource among some types."""
        if types not in self._highest:
            varying = (self._variants[index] for index in self._variants if types >> index & 1)
            own = (self.allocatable[index] for index in bits_of(types))
            self._highest[types] = most_of((*own, *(amounts for variants in varying for amounts, _ in variants)))
        return self._highest[types]

    def within(self, types: int, limits: Mapping[str, int]) -> int:
        own = ((index, self.capacity[index]) for index in bits_of(types))
        return set_of(i for i, has in own if all(has.get(name, 0) <= limit for name, limit in limits.items()))

    def most_capacity(self, types: Iterable[int]) -> Amounts:
        """Return the highest capacity of each resource among some types."""
        return most_of(self.capacity[index] for index in types)

    def offerings_of(
        self, index: int, requirements: Requirements | None = None, *, available: bool = True
    ) -> list[Offering]:
        """Return a type's offerings: all, or those that requirements allow."""
        mask = self._of_type[index]
        if available:
            mask &= self._available
        if requirements is not None:
            mask &= self.compatible_offerings(requirements)
        return [self.offerings[number] for number in bits_of(mask)]

    def node_price(self, labels: Mapping[str, str]) -> float | None:
        """Return the lowest price of an offering, available or not, that the labels of a node allow; None for none."""
        index, wanted = self.numbers.get(labels.get(INSTANCE_TYPE)), self.vocabulary.of_labels(labels)
        offerings = () if index is None else self.offerings_of(index, wanted, available=False)
        return min((one.price for one in offerings), default=None)

    def listed_price(self, labels: Mapping[str, str]) -> float:
        """Return the price of the first offering of a node's zone and capacity type; 0 for none."""
        index = self.numbers.get(labels.get(INSTANCE_TYPE))
        place = labels.get(ZONE, ""), labels.get(CAPACITY_TYPE, "")
        offerings = () if index is None else self.types[index].offerings
        return next((one.price for one in offerings if (one.zone, one.capacity_type) == place), 0.0)

    def reservations(self, types: int, requirements: Requirements) -> list[str]:
        """Return what the available reserved offerings of some types draw on that requirements allow."""
        usable = self.reserved & self.compatible_offerings(requirements)
        numbers = (number for index in bits_of(types) for number in bits_of(self._of_type[index] & usable))
        return [self.offerings[number].reservation for number in numbers]

    def by_price(self, types: Sequence[int], requirements: Requirements) -> list[int]:
        """Return types by their cheapest available offering that requirements allow; those without come last.

        Equal ones are in the order in which Go's sort leaves them (upstream OrderByPrice).
        """
        known = self._prices.get(requirements.number)
        if known is None:
            known = self._prices[requirements.number] = [
                min((one.price for one in self.offerings_of(number, requirements)), default=math.inf)
                for number in range(len(self.types))
            ]
        return go_sorted(types, (known[index] for index in types))

    def needed_for_min_values(self, types: Sequence[int], requirements: Requirements) -> tuple[int, dict[str, int]]:
        """Tell how many of some types, from the first on, have the values that must stay possible.

        Where all are not enough, also the labels with the number of their values (upstream SatisfiesMinValues).
        """
        wanted = [requirement for requirement in requirements.items.values() if requirement.min_values is not None]
        if not wanted:
            return 0, {}
        values = dict.fromkeys((requirement.key for requirement in wanted), 0)
        lacking: dict[str, int] = {}
        for count, index in enumerate(types, 1):
            own = self.requirements[index].items
            for requirement in wanted:
                key = requirement.key
                values[key] |= own[key].values if key in own else 0
                if values[key].bit_count() < (requirement.min_values or 0):
                    lacking[key] = values[key].bit_count()
                else:
                    lacking.pop(key, None)
            if not lacking:
                return count, {}
        return len(types), lacking


_BUILT_IN = frozenset({*COMPUTE, PODS})

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
