"""Instance types: what a machine of each kind has, and where it is offered at which price.

The format is that of Karpenter's kwok provider, with `overhead` and `labels` besides.

Upstream: kwok/cloudprovider/helpers.go, cloudprovider/types.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from itertools import chain

import msgspec

from kplan.api.affinity import NodeSelectorRequirement
from kplan.api.core import HUGE_PAGES
from kplan.api.labels import ARCH, INSTANCE_TYPE, OS, ZONE
from kplan.api.meta import Int64, KubeStruct, ResourceList
from kplan.api.quantity import canonical, nanos_of
from kplan.api.resource import CounterSet, Device
from kplan.autoscaling.karpenter.amounts import Amounts, less, total_of
from kplan.autoscaling.karpenter.requirements import CAPACITY_TYPE, RESERVATION_IDS, WELL_KNOWN
from kplan.rules.resources import CPU, MEMORY, PODS

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
