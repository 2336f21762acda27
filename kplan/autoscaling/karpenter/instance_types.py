"""Instance types: what a machine of each kind has, and where it is offered at which price.

The format is that of Karpenter's kwok provider, with `overhead` and `labels` besides.

Upstream: kwok/cloudprovider/helpers.go, cloudprovider/types.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from kplan.api.affinity import NodeSelectorRequirement
from kplan.api.base import Int64, KubeStruct, ResourceList
from kplan.api.pod_totals import HUGE_PAGES
from kplan.api.quantity import canonical
from kplan.api.wellknown import ZONE
from kplan.autoscaling.karpenter.amounts import Amounts, amounts_of, less, total_of
from kplan.autoscaling.karpenter.names import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, OS, RESERVATION_IDS, WELL_KNOWN
from kplan.rules.resources import CPU, MEMORY, PODS

_KWOK = "karpenter.kwok.sh"
KWOK_LABELS = frozenset(f"{_KWOK}/instance-{part}" for part in ("size", "family", "cpu", "memory"))
_AWS_NAME = re.compile(r"\w+\.(nano|micro|small|medium|large|\d*xlarge|metal)", re.ASCII)
_DEFAULT_PODS = "110"


class Offering(msgspec.Struct, frozen=True, rename="pascal", omit_defaults=True):
    """A zone and capacity type in which an instance type can be had, and its price."""

    requirements: tuple[NodeSelectorRequirement, ...] = ()
    price: float = 0.0
    available: bool = True
    reservation_capacity: Int64 = 0
    is_price_overlaid: bool = False  #: never in a catalogue

    @property
    def capacity_type(self) -> str:
        """Spot, on-demand or reserved."""
        return self._value(CAPACITY_TYPE)

    @property
    def zone(self) -> str:
        """Where the machine stands."""
        return self._value(ZONE)

    @property
    def reservation(self) -> str:
        """The reservation that it draws on; empty for none."""
        return next((value for key in sorted(RESERVATION_IDS) if (value := self._value(key))), "")

    @property
    def choice(self) -> str:
        """``ZONE CAPACITY-TYPE``."""
        return f"{self.zone} {self.capacity_type}"

    def _value(self, key: str) -> str:
        return next((min(wanted.values, default="") for wanted in self.requirements if wanted.key == key), "")


class Overhead(KubeStruct, frozen=True):
    """What pods cannot use of a machine."""

    kube_reserved: ResourceList = {}
    system_reserved: ResourceList = {}
    eviction_threshold: ResourceList = {}


_KWOK_OVERHEAD = Overhead(kube_reserved={CPU: "100m", MEMORY: "10Mi"})


class InstanceTypeEntry(KubeStruct, frozen=True):
    """An instance type, as a catalogue has it."""

    name: str = ""
    architecture: str = ""
    operating_systems: tuple[str, ...] = ()
    resources: ResourceList = {}
    offerings: tuple[Offering, ...] = ()
    overhead: Overhead | None = None
    labels: dict[str, str] = {}


class InstanceType(msgspec.Struct, frozen=True):
    """An instance type.

    Attributes
    ----------
    requirements : what its nodes' labels can be; one expression a label
    capacity : what the machine has
    overhead : what pods cannot use of it
    """

    name: str
    requirements: tuple[NodeSelectorRequirement, ...]
    offerings: tuple[Offering, ...]
    capacity: Amounts
    overhead: Amounts
    is_capacity_overlaid: bool = False

    @property
    def allocatable(self) -> Amounts:
        """What pods can use: huge pages are taken from the memory."""
        allocatable = less(self.capacity, self.overhead)
        for name, amount in self.capacity.items():
            if name.startswith(HUGE_PAGES):
                allocatable[MEMORY] = max(0, allocatable.get(MEMORY, 0) - amount)
        return allocatable


def instance_type_of(entry: InstanceTypeEntry) -> InstanceType:
    """Return what Karpenter makes of an entry (upstream newInstanceType)."""
    cpu, memory = (canonical(entry.resources[name]) if name in entry.resources else "" for name in (CPU, MEMORY))
    labels = {
        INSTANCE_TYPE: (entry.name,),
        ARCH: (entry.architecture,),
        OS: entry.operating_systems,
        ZONE: _union(entry.offerings, ZONE),
        CAPACITY_TYPE: _union(entry.offerings, CAPACITY_TYPE),
        f"{_KWOK}/instance-size": (_size(entry.name, cpu),),
        f"{_KWOK}/instance-family": (_family(entry.name),),
        f"{_KWOK}/instance-cpu": (cpu,),
        f"{_KWOK}/instance-memory": (memory,),
        **{key: (value,) for key, value in entry.labels.items()},
    }
    overhead = _KWOK_OVERHEAD if entry.overhead is None else entry.overhead
    reserved = (overhead.kube_reserved, overhead.system_reserved, overhead.eviction_threshold)
    return InstanceType(
        name=entry.name,
        requirements=tuple(NodeSelectorRequirement(key=key, operator="In", values=labels[key]) for key in labels),
        offerings=entry.offerings,
        capacity=amounts_of({PODS: _DEFAULT_PODS, **entry.resources}),
        overhead=total_of(map(amounts_of, reserved)),
    )


def well_known_of(entries: Iterable[InstanceTypeEntry]) -> frozenset[str]:
    """Return the labels that new nodes may have although no pool names them."""
    named: set[str] = set()
    for entry in entries:
        named.update(entry.labels)
        named.update(wanted.key for offering in entry.offerings for wanted in offering.requirements)
    return WELL_KNOWN | KWOK_LABELS | RESERVATION_IDS | named


def _union(offerings: Iterable[Offering], key: str) -> tuple[str, ...]:
    values = (
        value
        for offering in offerings
        for value in next((wanted.values for wanted in offering.requirements if wanted.key == key), ())
    )
    return tuple(dict.fromkeys(values))


def _size(name: str, cpu: str) -> str:
    match = _AWS_NAME.fullmatch(name)
    return match[1] if match else cpu


def _family(name: str) -> str:
    family, *rest = re.split(r"[.-]", name, maxsplit=1)
    return family if rest else name[:1]
