"""Amounts of resources, exact, in billionths; and the labels, resources and words that Karpenter knows.

Upstream: utils/resources/resources.go, apis/v1/labels.go, apis/v1/taints.go, cloudprovider/types.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kplan.api.core import HUGE_PAGES
from kplan.api.labels import REGION, ZONE
from kplan.api.quantity import Quantity
from kplan.rules.resources import EPHEMERAL_STORAGE, MEMORY

Amounts = dict[str, int]  #: resource name -> amount in 1e-9

ONE = 10**9


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


NODEPOOL = "karpenter.sh/nodepool"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
REGISTERED = "karpenter.sh/registered"
INITIALIZED = "karpenter.sh/initialized"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ARCH = "kubernetes.io/arch"
OS = "kubernetes.io/os"
WINDOWS_BUILD = "node.kubernetes.io/windows-build"
RESERVATION_IDS = frozenset({"karpenter.kwok.sh/reservation-id", "karpenter.k8s.aws/capacity-reservation-id"})
"""The labels that name a reservation, by provider."""

SPOT = "spot"
ON_DEMAND = "on-demand"
RESERVED = "reserved"

WELL_KNOWN = frozenset({NODEPOOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD})

NODES = "nodes"  #: the resource of which every node has one, for the limits of pools

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
