"""New nodes as Karpenter asks its provider for them, as NodeClaims, and as they will register once they are ready.

The provider makes the cheapest machine, as Karpenter's kwok provider chooses it. A cloud chooses among the same
instance types by its own knowledge (for spot capacity, also by how much of it there is).

Upstream: provisioning/scheduling/nodeclaim.go FinalizeScheduling, scheduler.go TruncateInstanceTypes,
nodeclaimtemplate.go ToNodeClaim; kwok/cloudprovider/cloudprovider.go toNode, addInstanceLabels;
controllers/nodeclaim/lifecycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import msgspec
from msgspec.structs import asdict, replace

from kplan.api.core import Node, NodeCondition, NodeMeta, NodeSpec, NodeStatus, Pod
from kplan.api.labels import HOSTNAME, INSTANCE_TYPE, NODEPOOL, ZONE
from kplan.api.meta import ObjectMeta
from kplan.api.provisioning import NodeClaim, NodeClaimSpec, NodeClaimStatus
from kplan.api.time import from_micros
from kplan.api.workloads import DaemonSet
from kplan.autoscaling.karpenter.amounts import Amounts, texts_of
from kplan.autoscaling.karpenter.claims import NewClaim
from kplan.autoscaling.karpenter.cluster import SIMULATED, Template
from kplan.autoscaling.karpenter.devices import published_slices
from kplan.autoscaling.karpenter.instance_types import InstanceType, Offering
from kplan.autoscaling.karpenter.requirements import (
    CAPACITY_TYPE,
    INITIALIZED,
    REGISTERED,
    RESERVATION_IDS,
    RESERVED,
    Requirements,
    Vocabulary,
)
from kplan.autoscaling.karpenter.scheduler import Refused, Scheduler, with_limits_as_requests
from kplan.autoscaling.karpenter.texts import Plain, PoolRefusal
from kplan.autoscaling.seam import NewNode
from kplan.documents.nodes import AddedNode
from kplan.workloads.new_pods import new_daemon_pod, pinned, runs_on

MOST_TYPES = 600  #: a new node may become one of at most so many instance types
ANY_NUMBER = "*"  #: the value of a label that is drawn at random: some number


class Planned(msgspec.Struct, frozen=True, dict=True):
    """A node that is to be made."""

    template: Template
    pods: tuple[str, ...]  #: NAMESPACE/NAME
    requirements: Requirements  #: without that on the instance type, which `types` say
    types: tuple[int, ...]  #: numbers of the instance types that it may become, the cheapest first
    requests: Amounts  #: of daemons and pods
    is_relaxed: bool = False  #: fewer values of a label than the pool asks for stay possible
    drivers: tuple[str, ...] = ()  #: of the devices that its pods get
    is_static: bool = False  #: made for a pool with replicas; its provider chooses among all types

    @cached_property
    def claim_requirements(self) -> Requirements:
        """The requirements of the NodeClaim: instance types and capacity types added (upstream ToNodeClaim)."""
        if self.is_static:
            return self.requirements
        columns, before = self.template.columns, self.requirements.items.get(INSTANCE_TYPE)
        known = columns.vocabulary
        names = known.requirement(INSTANCE_TYPE, "In", self.type_names, None if before is None else before.min_values)
        requirements = known.join(self.requirements, known.of([names]))
        offerings = (one for index in self.types for one in columns.offerings_of(index, requirements))
        capacity_types = {one.capacity_type for one in offerings}
        added = [known.requirement(CAPACITY_TYPE, "In", capacity_types)] if capacity_types else []
        return known.join(requirements, known.of(added))

    @cached_property
    def labels(self) -> dict[str, str]:
        """The labels of the NodeClaim: those of its pool, and a value for every label that the pool leaves open."""
        known = self.template.columns.vocabulary
        labels = dict(self.template.labels)
        for key, wanted in self.claim_requirements.items.items():
            if key not in known.well_known and (wanted.operator == "In" or wanted.is_complement):
                labels[key] = ANY_NUMBER if wanted.is_complement else known.one(wanted)
        return labels

    @property
    def cheapest(self) -> list[tuple[InstanceType, Offering]]:
        """Where it is cheapest: each type, zone and capacity type that has the lowest price."""
        columns = self.template.columns
        choices = [
            (columns.types[index], offering)
            for index in self.types
            for offering in columns.offerings_of(index, self.claim_requirements)
        ]
        lowest = min((offering.price for _, offering in choices), default=0.0)
        return [choice for choice in choices if choice[1].price == lowest]

    @property
    def launch(self) -> tuple[InstanceType, tuple[Offering, ...]] | None:
        """The machine that the kwok provider makes, one of equally cheap offerings; None where it crashes.

        It goes over the types by name. A type without an offering that is left, as reserved capacity may leave some,
        makes it forget the best one so far.
        """
        columns = self.template.machines
        best: tuple[InstanceType, tuple[Offering, ...]] | None = None
        for index in sorted(self.types, key=lambda number: columns.types[number].name):
            offerings = columns.offerings_of(index, self.claim_requirements)
            lowest = min((offering.price for offering in offerings), default=0.0)
            if best is None or lowest < best[1][0].price:
                cheapest = tuple(offering for offering in offerings if offering.price == lowest)
                best = (columns.types[index], cheapest) if cheapest else None
        return best

    @property
    def launch_order(self) -> tuple[str, ...]:
        """The names of `types` as the NodeClaim has them: by price once more, since requirements may be tighter."""
        columns = self.template.columns
        return tuple(columns.types[index].name for index in columns.by_price(self.types, self.requirements))

    @property
    def type_names(self) -> tuple[str, ...]:
        return tuple(self.template.columns.types[index].name for index in self.types)


def planned_of(scheduler: Scheduler, errors: dict[str, Refused]) -> Iterator[Planned]:
    """Yield the new nodes of a pass; truncating their types may take the place from pods, which `errors` get then."""
    devices, relaxes = scheduler.shared.devices, scheduler.shared.facts.options.relaxes_min_values
    for claim in scheduler.claims:
        template, columns = claim.template, claim.template.columns
        requirements = _final(claim, columns.vocabulary)
        types = columns.by_price(claim.ordered_types, requirements)[:MOST_TYPES]
        if not relaxes and columns.needed_for_min_values(types, requirements)[1]:
            for entrant in claim.pods:
                errors[entrant.key] = (PoolRefusal(template.name, Plain.MIN_VALUES),)
            continue
        yield Planned(
            template,
            tuple(entrant.key for entrant in claim.pods),
            requirements,
            tuple(types),
            claim.requests,
            is_relaxed=scheduler.is_relaxed[template.name],
            drivers=() if devices is None else devices.drivers_of(claim.hostname),
        )


def _final(claim: NewClaim, vocabulary: Vocabulary) -> Requirements:
    """Return the requirements of a node; one that holds reservations becomes reserved."""
    requirements = _wanted(claim.requirements, claim.template)
    if not claim.reservations:
        return requirements
    label = next(
        wanted.key
        for offering in claim.template.columns.offerings
        if offering.reservation in claim.reservations
        for wanted in offering.requirements
        if wanted.key in RESERVATION_IDS
    )
    held = vocabulary.requirement(label, "In", claim.reservations)
    before = requirements.items.get(label)
    return vocabulary.replace(
        requirements,
        vocabulary.requirement(CAPACITY_TYPE, "In", (RESERVED,)),
        held if before is None else vocabulary.intersection(held, before),
    )


def _wanted(requirements: Requirements, template: Template) -> Requirements:
    """Return requirements without the labels that new nodes have while their daemons are looked for."""
    simulated = template.requirements.items.keys() & SIMULATED
    wanted = {key: own for key, own in requirements.items.items() if key not in simulated}
    return template.columns.vocabulary.intern(wanted)


def static_node(template: Template) -> Planned:
    return Planned(template, (), _wanted(template.requirements, template), (), {}, is_static=True)


def labels_of(instance_type: InstanceType, offering: Offering) -> dict[str, str]:
    settled = {
        wanted.key: wanted.values[0]
        for wanted in (*instance_type.requirements, *offering.requirements)
        if wanted.operator == "In" and len(wanted.values) == 1
    }
    return {INSTANCE_TYPE: instance_type.name} | settled


_CONDITIONS = ("Launched", "Registered", "Initialized", "Ready")


def new_node(planned: Planned, name: str, daemon_sets: Sequence[DaemonSet], *, has_prices: bool, now: int) -> NewNode:
    """Return what becomes of a planned node: the cheapest machine; of several the first zone by name.

    It is made `now`, in microseconds since 1970.
    """
    launch = None if planned.is_static else planned.launch
    choices = planned.cheapest if launch is None else [(launch[0], offering) for offering in launch[1]]
    choice = min(choices, key=lambda choice: (choice[0].name, choice[1].choice), default=None)
    instance_type, offering = choice or (None, None)
    node = _node(planned, name, instance_type, offering)
    slices = [] if instance_type is None else published_slices(name, instance_type.dynamic_resources)
    return NewNode(
        node=node,
        daemons=tuple(_daemons(node, daemon_sets)),
        objects=(_claim_of(planned, node, now), *slices),
        facts=AddedNode(
            name=name,
            pool=planned.template.name,
            instance_type="" if instance_type is None else instance_type.name,
            zone="" if offering is None else offering.zone,
            capacity_type="" if offering is None else offering.capacity_type,
            price=offering.price if offering is not None and has_prices else None,
            pods=planned.pods,
            options=planned.launch_order,
        ),
    )


def _node(planned: Planned, name: str, instance_type: InstanceType | None, offering: Offering | None) -> Node:
    template = planned.template
    labels = {key: "0" if value == ANY_NUMBER else value for key, value in planned.labels.items()}
    capacity, allocatable = planned.requests, planned.requests
    if instance_type is not None and offering is not None:
        labels |= labels_of(instance_type, offering) | {ZONE: offering.zone, CAPACITY_TYPE: offering.capacity_type}
        capacity, allocatable = instance_type.capacity, instance_type.allocatable
    labels |= {HOSTNAME: name, NODEPOOL: template.name, REGISTERED: "true", INITIALIZED: "true"}
    return Node(
        metadata=NodeMeta(name=name, uid=f"new-{name}", labels=labels),
        spec=NodeSpec(taints=template.taints, provider_id=f"kplan://{name}"),
        status=NodeStatus(
            capacity=dict(texts_of(capacity)),
            allocatable=dict(texts_of(allocatable)),
            conditions=(NodeCondition(type="Ready", status="True"),),
        ),
    )


def _claim_of(planned: Planned, node: Node, now: int) -> NodeClaim:
    own, spec = node.metadata, planned.template.pool.spec.template.spec
    return NodeClaim(
        metadata=ObjectMeta(
            name=own.name, uid=f"claim-{own.name}", labels=own.labels, creation_timestamp=from_micros(now)
        ),
        spec=NodeClaimSpec(**asdict(spec)),
        status=NodeClaimStatus(
            node_name=own.name,
            provider_id=node.spec.provider_id,
            capacity=node.status.capacity,
            allocatable=node.status.allocatable,
            conditions=tuple(NodeCondition(type=name, status="True") for name in _CONDITIONS),
        ),
    )


def _daemons(node: Node, daemon_sets: Sequence[DaemonSet]) -> Iterable[Pod]:
    for daemon_set in daemon_sets:
        if runs_on(daemon_set.spec.template, node):
            own, name = daemon_set.metadata, f"{daemon_set.metadata.name}-{node.metadata.name}"
            pod = pinned(new_daemon_pod(daemon_set, name, f"new-{own.namespace}-{name}"), node.metadata.name)
            spec = with_limits_as_requests(pod.spec)
            yield replace(pod, spec=replace(spec, node_name=node.metadata.name))
