"""Overlays, which give other prices and further resources to instance types.

Upstream: controllers/nodeoverlay/controller.go, store.go; apis/v1alpha1/nodeoverlay_validation.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import asdict, replace

from kplan.api.labels import NODEPOOL
from kplan.api.meta import ResourceList
from kplan.api.provisioning import NodeOverlay, NodePool
from kplan.autoscaling.karpenter.instance_types import EnlargedType, InstanceType
from kplan.autoscaling.karpenter.requirements import (
    Vocabulary,
)
from kplan.rules.resources import COMPUTE, PODS

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
