"""New nodes as they will register, once they are ready for pods.

Upstream: kwok/cloudprovider/cloudprovider.go toNode; controllers/nodeclaim/lifecycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from kplan.api.apps import DaemonSet
from kplan.api.core import Node, NodeCondition, NodeMeta, NodeSpec, NodeStatus, Pod
from kplan.api.karpenter import NodeClaim, NodeClaimSpec, NodeClaimStatus
from kplan.api.meta import ObjectMeta
from kplan.api.time import from_micros
from kplan.api.wellknown import HOSTNAME, ZONE
from kplan.autoscaling.karpenter.amounts import texts_of
from kplan.autoscaling.karpenter.daemons import with_limits_as_requests
from kplan.autoscaling.karpenter.instance_types import InstanceType, Offering
from kplan.autoscaling.karpenter.launching import ANY_NUMBER, cheapest_of, launch_of, node_claim_labels
from kplan.autoscaling.karpenter.names import CAPACITY_TYPE, INITIALIZED, INSTANCE_TYPE, NODEPOOL, REGISTERED
from kplan.autoscaling.karpenter.planned import Planned
from kplan.autoscaling.seam import NewNode
from kplan.workloads.daemons import new_daemon_pod, pinned, runs_on

_NO_NUMBER = "0"
_PROVIDER = "kplan://"
_CONDITIONS = ("Launched", "Registered", "Initialized", "Ready")


def new_node(planned: Planned, name: str, daemon_sets: Sequence[DaemonSet], *, has_prices: bool, now: int) -> NewNode:
    """Return what becomes of a planned node: the cheapest machine; of several the first zone by name.

    Parameters
    ----------
    now : when it is made, in microseconds since 1970
    """
    choice = _choice(planned)
    instance_type, offering = choice if choice is not None else (None, None)
    node = _node(planned, name, instance_type, offering)
    return NewNode(
        node=node,
        daemons=tuple(_daemons(node, daemon_sets)),
        objects=(_claim_of(planned, node, now),),
        pool=planned.template.name,
        instance_type="" if instance_type is None else instance_type.name,
        zone="" if offering is None else offering.zone,
        capacity_type="" if offering is None else offering.capacity_type,
        price=offering.price if offering is not None and has_prices else None,
        pods=planned.pods,
        options=planned.launch_order,
    )


def _choice(planned: Planned) -> tuple[InstanceType, Offering] | None:
    launch = None if planned.is_static else launch_of(planned, node_claim_labels(planned))
    if launch is not None:
        return launch.instance_type, min(launch.offerings, key=lambda offering: offering.choice)
    choices = sorted(cheapest_of(planned).choices, key=lambda choice: (choice[0].name, choice[1].choice))
    return choices[0] if choices else None


def _node(planned: Planned, name: str, instance_type: InstanceType | None, offering: Offering | None) -> Node:
    template = planned.template
    labels = {key: _NO_NUMBER if value == ANY_NUMBER else value for key, value in node_claim_labels(planned).items()}
    if instance_type is not None and offering is not None:
        labels[INSTANCE_TYPE] = instance_type.name
        for wanted in (*instance_type.requirements, *offering.requirements):
            if wanted.operator == "In" and len(wanted.values) == 1:
                labels[wanted.key] = wanted.values[0]
        labels |= {ZONE: offering.zone, CAPACITY_TYPE: offering.capacity_type}
    labels |= {HOSTNAME: name, NODEPOOL: template.name, REGISTERED: "true", INITIALIZED: "true"}
    capacity = planned.requests if instance_type is None else instance_type.capacity
    allocatable = planned.requests if instance_type is None else instance_type.allocatable
    return Node(
        metadata=NodeMeta(name=name, uid=f"new-{name}", labels=labels),
        spec=NodeSpec(taints=template.taints, provider_id=f"{_PROVIDER}{name}"),
        status=NodeStatus(
            capacity=dict(texts_of(capacity)),
            allocatable=dict(texts_of(allocatable)),
            conditions=(NodeCondition(type="Ready", status="True"),),
        ),
    )


def _claim_of(planned: Planned, node: Node, now: int) -> NodeClaim:
    """Return the NodeClaim of a node, once that is ready."""
    own, spec = node.metadata, planned.template.pool.spec.template.spec
    return NodeClaim(
        metadata=ObjectMeta(
            name=own.name, uid=f"claim-{own.name}", labels=own.labels, creation_timestamp=from_micros(now)
        ),
        spec=NodeClaimSpec(
            taints=spec.taints,
            startup_taints=spec.startup_taints,
            requirements=spec.requirements,
            node_class_ref=spec.node_class_ref,
            termination_grace_period=spec.termination_grace_period,
            expire_after=spec.expire_after,
        ),
        status=NodeClaimStatus(
            node_name=own.name,
            provider_id=node.spec.provider_id,
            capacity=node.status.capacity,
            allocatable=node.status.allocatable,
            conditions=tuple(NodeCondition(type=name, status="True") for name in _CONDITIONS),
        ),
    )


def _daemons(node: Node, daemon_sets: Sequence[DaemonSet]) -> Iterable[Pod]:
    """Yield the pods that daemon sets put on a node."""
    for daemon_set in daemon_sets:
        if runs_on(daemon_set.spec.template, node):
            own, name = daemon_set.metadata, f"{daemon_set.metadata.name}-{node.metadata.name}"
            pod = pinned(new_daemon_pod(daemon_set, name, f"new-{own.namespace}-{name}"), node.metadata.name)
            spec = with_limits_as_requests(pod.spec)
            yield replace(pod, spec=replace(spec, node_name=node.metadata.name))
