"""The nodes of the cluster as Karpenter remembers them: nodes joined with their claims, and what pods use of them.

Upstream: controllers/state/cluster.go, statenode.go; scheduling/taints.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec

from kplan.api.affinity import NO_EXECUTE, NO_SCHEDULE, Taint
from kplan.api.core import Node, Pod
from kplan.api.labels import HOSTNAME
from kplan.api.meta import ResourceList
from kplan.api.provisioning import NodeClaim
from kplan.autoscaling.karpenter.amounts import (
    DO_NOT_DISRUPT,
    INITIALIZED,
    INSTANCE_TYPE,
    NODEPOOL,
    NODES,
    ONE,
    REGISTERED,
    UNREGISTERED,
    Amounts,
    add,
    amounts_of,
    less,
    total_of,
)
from kplan.autoscaling.karpenter.pods import HostPort, PodFacts, Volumes, host_ports, is_of_daemon_set, is_terminal
from kplan.autoscaling.karpenter.pools import is_true

_EPHEMERAL = frozenset(
    {
        ("node.kubernetes.io/not-ready", NO_SCHEDULE),
        ("node.kubernetes.io/not-ready", NO_EXECUTE),
        ("node.kubernetes.io/unreachable", NO_SCHEDULE),
        ("node.cloudprovider.kubernetes.io/uninitialized", NO_SCHEDULE),
        (UNREGISTERED, NO_EXECUTE),
    }
)
_EPHEMERAL_PREFIX = "readiness.k8s.io/"


class Usage(msgspec.Struct):
    """What pods use of a node."""

    requests: Amounts = {}
    daemon_requests: Amounts = {}
    ports: dict[str, tuple[HostPort, ...]] = {}  #: pod -> its host ports
    volumes: dict[str, frozenset[str]] = {}  #: driver -> claims


class StateNode(msgspec.Struct, frozen=True, dict=True):
    """A node, its claim, or both."""

    node: Node | None
    claim: NodeClaim | None
    pods: tuple[Pod, ...] = ()  #: the pods that are bound to it, also those that have ended
    usage: Usage = msgspec.field(default_factory=Usage)
    limits: Mapping[str, int] = {}  #: driver -> how many volumes it can have
    is_marked: bool = False  #: Karpenter is removing it
    is_nominated: bool = False  #: it is kept for a pending pod

    @cached_property
    def is_registered(self) -> bool:
        """Whether labels and taints of its node count."""
        if self.claim is None:
            return True
        return self.node is not None and self.node.metadata.labels.get(REGISTERED) == "true"

    @cached_property
    def is_initialized(self) -> bool:
        """Whether it is ready for all pods."""
        if self.claim is None:
            return True
        return self.node is not None and self.node.metadata.labels.get(INITIALIZED) == "true"

    @property
    def _known(self) -> Node | NodeClaim:
        """The node; the claim while that is not registered."""
        known = self.node if self.is_registered else self.claim
        assert known is not None  # noqa: S101 - one of the two is there
        return known

    @cached_property
    def name(self) -> str:
        """The name of the node; of the claim while it is not registered."""
        return self._known.metadata.name

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """Its labels; those of the claim while it is not registered."""
        return self._known.metadata.labels

    @property
    def do_not_disrupt(self) -> str | None:
        """The annotation that keeps it from being disrupted."""
        known = self._known
        if isinstance(known, Node):
            return known.metadata.annotations.do_not_disrupt
        return known.metadata.annotations.get(DO_NOT_DISRUPT)

    @property
    def pool(self) -> str:
        return self.labels.get(NODEPOOL, "")

    @property
    def hostname(self) -> str:
        return self.labels.get(HOSTNAME) or self.name

    @cached_property
    def taints(self) -> tuple[Taint, ...]:
        """The taints that count: not those that go away while it starts."""
        if self.claim is None:
            return () if self.node is None else self.node.spec.taints
        own = self.claim.spec.taints if self.node is None or not self.is_registered else self.node.spec.taints
        if self.is_initialized:
            return own
        starting = {(taint.key, taint.effect) for taint in self.claim.spec.startup_taints} | _EPHEMERAL
        return tuple(
            taint
            for taint in own
            if (taint.key, taint.effect) not in starting and not taint.key.startswith(_EPHEMERAL_PREFIX)
        )

    @cached_property
    def capacity(self) -> Amounts:
        """What it has, itself as one node included."""
        node = {} if self.node is None else self.node.status.capacity
        return {**self._filled(node, {} if self.claim is None else self.claim.status.capacity), NODES: ONE}

    @cached_property
    def allocatable(self) -> Amounts:
        """What pods can use."""
        node = {} if self.node is None else self.node.status.allocatable
        return self._filled(node, {} if self.claim is None else self.claim.status.allocatable)

    def _filled(self, node: ResourceList, claim: ResourceList) -> Amounts:
        """Return what a node says; until it is ready, what its claim says where it says nothing or zero."""
        own, more = amounts_of(node), {} if self.is_initialized else amounts_of(claim)
        return {**own, **{name: amount for name, amount in more.items() if not own.get(name)}}

    @cached_property
    def available(self) -> Amounts:
        """What pods do not use yet."""
        return less(self.allocatable, self.usage.requests)

    @cached_property
    def is_deleting(self) -> bool:
        if self.is_marked:
            return True
        if self.claim is not None:
            is_terminating = is_true(self.claim.status.conditions, "InstanceTerminating")
            return self.claim.metadata.deletion_timestamp is not None or is_terminating
        return self.node is not None and self.node.metadata.deletion_timestamp is not None


class ClusterState(msgspec.Struct, frozen=True, dict=True):
    """All nodes, by name of their nodes, and the pods on them."""

    nodes: tuple[StateNode, ...]
    by_node: Mapping[str, StateNode]  #: node name -> its state; without nodes that Karpenter does not know yet

    @cached_property
    def active(self) -> tuple[StateNode, ...]:
        return tuple(state for state in self.nodes if not state.is_deleting)

    @cached_property
    def deleting(self) -> tuple[StateNode, ...]:
        return tuple(state for state in self.nodes if state.is_deleting)

    def used_by(self, pool: str) -> Amounts:
        """Return the capacity of the nodes of a pool that stay."""
        return total_of(state.capacity for state in self.active if state.pool == pool)


def cluster_state(
    nodes: Iterable[Node],
    claims: Iterable[NodeClaim],
    pods: Mapping[str, tuple[Pod, ...]],
    facts: PodFacts,
    volume_limits: Mapping[str, Mapping[str, int]],
    *,
    marked: frozenset[str],
    nominated: frozenset[str],
) -> ClusterState:
    """Join nodes with their claims by the machine that both name.

    Parameters
    ----------
    pods : node name -> the pods bound to it
    volume_limits : node name -> driver -> how many volumes it can have
    marked, nominated : names of nodes that Karpenter has marked for deletion, or nominated
    """
    by_machine: dict[str, tuple[Node | None, NodeClaim | None]] = {
        claim.status.provider_id: (None, claim) for claim in claims if claim.status.provider_id
    }
    for node in nodes:
        labels, machine = node.metadata.labels, node.spec.provider_id
        is_managed = bool(labels.get(NODEPOOL))
        if is_managed and (not machine or not (labels.get(INSTANCE_TYPE) or labels.get(INITIALIZED))):
            continue
        machine = machine or node.metadata.name
        by_machine[machine] = (node, by_machine.get(machine, (None, None))[1])
    states = []
    for known, claim in by_machine.values():
        names = {entry.metadata.name for entry in (known, claim) if entry is not None}
        own = () if known is None else pods.get(known.metadata.name, ())
        states.append(
            StateNode(
                node=known,
                claim=claim,
                pods=own,
                usage=_usage(own, facts),
                limits={} if known is None else volume_limits.get(known.metadata.name, {}),
                is_marked=not names.isdisjoint(marked),
                is_nominated=not names.isdisjoint(nominated),
            )
        )
    states.sort(key=lambda state: state.name)
    return ClusterState(tuple(states), {state.node.metadata.name: state for state in states if state.node is not None})


def _usage(pods: tuple[Pod, ...], facts: PodFacts) -> Usage:
    usage = Usage({}, {}, {}, {})
    for pod in pods:
        if is_terminal(pod):
            continue
        requests = facts.requests(pod)
        add(usage.requests, requests)
        if is_of_daemon_set(pod):
            add(usage.daemon_requests, requests)
        if ports := host_ports(pod):
            usage.ports[pod.metadata.key] = ports
        usage.volumes = joined(usage.volumes, facts.volumes(pod))
    return usage


def joined(one: Volumes, other: Volumes) -> dict[str, frozenset[str]]:
    """Return the claims of both, by driver."""
    return {**one, **{driver: one.get(driver, frozenset()) | claims for driver, claims in other.items()}}
