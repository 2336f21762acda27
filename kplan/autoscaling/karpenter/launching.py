"""Which machine a provider makes of a new node: the cheapest one, as Karpenter's kwok provider chooses it.

A cloud chooses among the same instance types by its own knowledge (for spot capacity, also by how much of it there is).

Upstream: kwok/cloudprovider/cloudprovider.go toNode, addInstanceLabels.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kplan.api.wellknown import HOSTNAME
from kplan.autoscaling.karpenter.instance_types import InstanceType, Offering
from kplan.autoscaling.karpenter.names import INSTANCE_TYPE
from kplan.autoscaling.karpenter.planned import Planned, node_claim_requirements
from kplan.autoscaling.karpenter.requirements import Requirement, Requirements, Vocabulary

CRASH = "panic: runtime error: invalid memory address or nil pointer dereference"
"""What the kwok provider ends with where the last instance type by name has no offering left."""

_PRICE_LABEL = "eks-node-viewer/instance-price"
_KWOK_LABELS = {"kwok-partition": "a", "kwok.x-k8s.io/node": "fake"}
ANY_NUMBER = "*"
"""The value of a label that is drawn at random: some number."""


class Cheapest(NamedTuple):
    """The lowest price of a new node, and each type, zone and capacity type that has it."""

    price: float | None
    choices: tuple[tuple[InstanceType, Offering], ...]


class Launch(msgspec.Struct, frozen=True):
    """The machine that is made: one of equally cheap offerings of an instance type."""

    instance_type: InstanceType
    offerings: tuple[Offering, ...]
    labels: dict[str, str]


def cheapest_of(node: Planned) -> Cheapest:
    """Return where a new node is cheapest."""
    columns = node.template.columns
    price: float | None = None
    choices: list[tuple[InstanceType, Offering]] = []
    for index in node.types:
        for number in columns.offerings_of(index, node_claim_requirements(node)):
            offering = columns.offerings[number]
            if price is None or offering.price < price:
                price, choices = offering.price, []
            if offering.price == price:
                choices.append((columns.types[index], offering))
    return Cheapest(price, tuple(choices))


def launch_of(node: Planned, labels: dict[str, str]) -> Launch | None:
    """Return what the kwok provider makes; None where it crashes.

    It goes over the types by name. A type without an offering that is left, as reserved capacity may leave some, makes
    it forget the best one so far.
    """
    columns = node.template.machines
    requirements = node_claim_requirements(node)
    best: tuple[InstanceType, tuple[Offering, ...]] | None = None
    for index in sorted(node.types, key=lambda number: columns.types[number].name):
        offerings = [columns.offerings[number] for number in columns.offerings_of(index, requirements)]
        lowest = min((offering.price for offering in offerings), default=0.0)
        if best is None or lowest < best[1][0].price:
            cheapest = tuple(offering for offering in offerings if offering.price == lowest)
            best = (columns.types[index], cheapest) if cheapest else None
    if best is None:
        return None
    return Launch(best[0], best[1], _labels(labels, requirements, columns.vocabulary, *best))


def _labels(
    labels: dict[str, str],
    requirements: Requirements,
    known: Vocabulary,
    instance_type: InstanceType,
    offerings: tuple[Offering, ...],
) -> dict[str, str]:
    own = dict(labels)
    for key, wanted in requirements.items.items():
        if _is_single(wanted):
            own[key] = known.one(wanted)
    own[INSTANCE_TYPE] = instance_type.name
    for expression in (*instance_type.requirements, *offerings[0].requirements):
        if expression.operator == "In" and len(expression.values) == 1:
            own[expression.key] = expression.values[0]
    own[_PRICE_LABEL] = f"{offerings[0].price:f}"
    own.update(_KWOK_LABELS)
    own.pop(HOSTNAME, None)
    return own


def _is_single(wanted: Requirement) -> bool:
    return not wanted.is_complement and wanted.values.bit_count() == 1


def node_claim_labels(node: Planned) -> dict[str, str]:
    """Return the labels of the NodeClaim: those of its pool, and a value for every label that the pool leaves open."""
    known = node.template.columns.vocabulary
    labels = dict(node.template.labels)
    for key, wanted in node_claim_requirements(node).items.items():
        if key in known.well_known:
            continue
        if wanted.operator == "In":
            labels[key] = known.one(wanted)
        elif wanted.is_complement:
            labels[key] = ANY_NUMBER
    return labels
