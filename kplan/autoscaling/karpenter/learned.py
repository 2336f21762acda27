"""A catalogue of the instance types that the nodes and claims of a cluster show.

What they do not show is guessed in the open: a type can be had in every zone of the cluster, in the capacity types in
which it runs. Prices are unknown; the size of a machine takes the place of its price, so that the smallest one that is
enough is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from kplan.api.base import ResourceList
from kplan.api.wellknown import ZONE
from kplan.autoscaling.karpenter.amounts import Amounts, amounts_of, text_of
from kplan.autoscaling.karpenter.catalogue import offering_entry
from kplan.autoscaling.karpenter.instance_types import InstanceTypeEntry, Overhead
from kplan.autoscaling.karpenter.names import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ON_DEMAND, OS
from kplan.rules.resources import CPU, MEMORY
from kplan.snapshot.model import Snapshot

_DESCRIBING = ("karpenter.k8s.aws/instance-", "karpenter.azure.com/sku-", "node.kubernetes.io/windows-build")
"""Labels that begin so describe the machine."""

_GIB = 2**30 * 10**9
_CORES_PER_GIB = 8
"""In the clouds about so many GiB of memory cost as much as a core."""


class _Machine(msgspec.Struct, frozen=True):
    """A machine as a node or claim shows it."""

    labels: Mapping[str, str]
    capacity: Amounts
    allocatable: Amounts


def learned_catalogue(snapshot: Snapshot) -> list[InstanceTypeEntry]:
    """Return the instance types that a cluster shows, by name."""
    machines: dict[str, list[_Machine]] = {}
    for machine in _machines(snapshot):
        name = machine.labels.get(INSTANCE_TYPE)
        if name and machine.capacity:
            machines.setdefault(name, []).append(machine)
    zones = sorted({zone for own in machines.values() for one in own if (zone := one.labels.get(ZONE))})
    return [_learned(name, machines[name], zones) for name in sorted(machines)]


def _machines(snapshot: Snapshot) -> Iterator[_Machine]:
    """Yield the machines of Karpenter's claims, and of nodes of its pools."""
    nodes = {node.spec.provider_id: node for node in snapshot.nodes if node.spec.provider_id}
    for claim in snapshot.node_claims:
        node = nodes.pop(claim.status.provider_id, None)
        labels = {**claim.metadata.labels, **({} if node is None else node.metadata.labels)}
        status = claim.status if node is None or not node.status.capacity else node.status
        yield _Machine(labels, amounts_of(status.capacity), amounts_of(status.allocatable))
    for node in nodes.values():
        if NODEPOOL in node.metadata.labels:
            status = node.status
            yield _Machine(node.metadata.labels, amounts_of(status.capacity), amounts_of(status.allocatable))


def _learned(name: str, machines: list[_Machine], zones: list[str]) -> InstanceTypeEntry:
    model = machines[0]
    # Kernel and firmware take a little more on one machine than on another: the least is safe.
    capacity = {key: min(one.capacity.get(key, 0) for one in machines) for key in model.capacity}
    allocatable = {key: min(one.allocatable.get(key, 0) for one in machines) for key in model.allocatable}
    overhead = {key: max(0, capacity[key] - allocatable.get(key, capacity[key])) for key in capacity}
    size = capacity.get(CPU, 0) / 10**9 + capacity.get(MEMORY, 0) / _GIB / _CORES_PER_GIB
    capacity_types = sorted({one.labels.get(CAPACITY_TYPE, ON_DEMAND) for one in machines})
    return InstanceTypeEntry(
        name=name,
        architecture=model.labels.get(ARCH, "amd64"),
        operating_systems=tuple(sorted({one.labels.get(OS, "linux") for one in machines})),
        resources=_texts(capacity),
        offerings=tuple(
            offering_entry(zone, capacity_type, round(size, 3))
            for zone in zones or [""]
            for capacity_type in capacity_types
        ),
        overhead=Overhead(kube_reserved=_texts({key: amount for key, amount in overhead.items() if amount})),
        labels={
            key: value
            for key, value in sorted(model.labels.items())
            if key.startswith(_DESCRIBING) and all(one.labels.get(key) == value for one in machines)
        },
    )


def _texts(amounts: Amounts) -> ResourceList:
    return {name: text_of(name, amount) for name, amount in amounts.items()}
