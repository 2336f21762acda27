"""New nodes as Karpenter asks its provider for them, once all pods have their places.

Upstream: provisioning/scheduling/nodeclaim.go FinalizeScheduling, scheduler.go TruncateInstanceTypes,
nodeclaimtemplate.go ToNodeClaim.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from kplan.autoscaling.karpenter.amounts import Amounts
from kplan.autoscaling.karpenter.claims import InFlight
from kplan.autoscaling.karpenter.names import CAPACITY_TYPE, INSTANCE_TYPE, RESERVATION_IDS, RESERVED
from kplan.autoscaling.karpenter.pools import Template
from kplan.autoscaling.karpenter.requirements import Requirements, Vocabulary, bits_of
from kplan.autoscaling.karpenter.scheduler import PassResult
from kplan.autoscaling.karpenter.texts import Plain, PoolRefusal
from kplan.autoscaling.karpenter.wishes import Entrant

MOST_TYPES = 600
"""A new node may become one of at most so many instance types."""


class Planned(msgspec.Struct, frozen=True):
    """A node that is to be made.

    Attributes
    ----------
    requirements : without that on the instance type, which `types` say
    types : numbers of the instance types that it may become, the cheapest first
    requests : of daemons and pods
    is_relaxed : fewer values of a label than the pool asks for stay possible
    is_static : made for a pool with replicas; its provider chooses among all types
    """

    template: Template
    entrants: tuple[Entrant, ...]
    requirements: Requirements
    types: tuple[int, ...]
    requests: Amounts
    is_relaxed: bool = False
    is_static: bool = False

    @property
    def pods(self) -> tuple[str, ...]:
        """Its pods, in the order in which they were added."""
        return tuple(entrant.key for entrant in self.entrants)

    @property
    def launch_order(self) -> tuple[str, ...]:
        """The names of `types` as the NodeClaim has them: by price once more, since requirements may be tighter."""
        columns = self.template.columns
        return tuple(columns.types[index].name for index in columns.by_price(self.types, self.requirements))

    @property
    def type_names(self) -> tuple[str, ...]:
        """The names of `types`."""
        return tuple(self.template.columns.types[index].name for index in self.types)


def planned_of(
    result: PassResult, *, relaxes_min_values: bool
) -> tuple[list[Planned], dict[str, tuple[PoolRefusal, ...]]]:
    """Return the new nodes of a pass, and why pods have no place; truncating may take it from some."""
    errors = dict(result.errors)
    planned = []
    for claim in result.claims:
        template, columns = claim.template, claim.template.columns
        requirements = _final(claim, columns.vocabulary)
        types = columns.by_price(list(bits_of(claim.types)), requirements)[:MOST_TYPES]
        if not relaxes_min_values and columns.needed_for_min_values(types, requirements)[1]:
            for entrant in claim.pods:
                errors[entrant.key] = (PoolRefusal(template.name, Plain.MIN_VALUES),)
            continue
        planned.append(
            Planned(
                template,
                tuple(claim.pods),
                requirements,
                tuple(types),
                claim.requests,
                is_relaxed=template.name in result.relaxed,
            )
        )
    return planned, errors


def _final(claim: InFlight, vocabulary: Vocabulary) -> Requirements:
    """Return the requirements of a node; one that holds reservations becomes reserved."""
    requirements = claim.requirements
    if not claim.reservations:
        return requirements
    label = _reservation_label(claim)
    held = vocabulary.requirement(label, "In", claim.reservations)
    before = requirements.get(label)
    return vocabulary.replace(
        requirements,
        vocabulary.requirement(CAPACITY_TYPE, "In", (RESERVED,)),
        held if before is None else vocabulary.intersection(held, before),
    )


def _reservation_label(claim: InFlight) -> str:
    offerings = claim.template.columns.offerings
    return next(
        wanted.key
        for offering in offerings
        if offering.reservation in claim.reservations
        for wanted in offering.requirements
        if wanted.key in RESERVATION_IDS
    )


def node_claim_requirements(node: Planned) -> Requirements:
    """Return the requirements of the NodeClaim: instance types and capacity types added (upstream ToNodeClaim)."""
    columns, requirements = node.template.columns, node.requirements
    known = columns.vocabulary
    if node.is_static:
        return requirements
    before = requirements.get(INSTANCE_TYPE)
    names = known.requirement(INSTANCE_TYPE, "In", node.type_names, None if before is None else before.min_values)
    requirements = known.join(requirements, known.of([names]))
    capacity_types = {
        columns.offerings[number].capacity_type
        for index in node.types
        for number in columns.offerings_of(index, requirements)
    }
    if capacity_types:
        requirements = known.join(requirements, known.of([known.requirement(CAPACITY_TYPE, "In", capacity_types)]))
    return requirements


def static_node(template: Template) -> Planned:
    """Return a node of a pool with replicas."""
    return Planned(template, (), template.requirements, (), {}, is_static=True)


def with_types(node: Planned, types: Sequence[int], requirements: Requirements | None = None) -> Planned:
    """Return a node that may become other instance types."""
    return replace(node, types=tuple(types), requirements=requirements or node.requirements)
