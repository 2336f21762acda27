"""The cluster as Karpenter knows it: its node pools, and nodes joined with their claims and with what pods use of them.

Only Karpenter itself knows its provider, and ignores pools and claims of another one. Here it is taken from the node
classes that are in the cluster, else from what most pools and claims refer to.

Upstream: controllers/state: cluster.go, statenode.go; scheduling/taints.go; provisioning: provisioner.go NewScheduler,
scheduling/nodeclaimtemplate.go; utils/nodepool/nodepool.go and utils/nodeclaim/nodeclaim.go IsManaged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Literal

import msgspec
from msgspec.structs import replace

from kplan.api.affinity import NO_EXECUTE, NO_SCHEDULE, Taint
from kplan.api.core import Node, Pod
from kplan.api.kinds import KINDS
from kplan.api.labels import HOSTNAME, INSTANCE_TYPE, NODEPOOL, NOT_READY, UNINITIALIZED, UNREACHABLE, UNREGISTERED
from kplan.api.meta import is_true
from kplan.api.provisioning import AKSNodeClass, EC2NodeClass, KWOKNodeClass, NodeClaim, NodeClassReference, NodePool
from kplan.api.quantity import grouped, nanos_of
from kplan.autoscaling.karpenter.amounts import NODES, Amounts, add, less, total_of
from kplan.autoscaling.karpenter.instance_types import Columns, InstanceType
from kplan.autoscaling.karpenter.options import Options
from kplan.autoscaling.karpenter.pods import HostPort, PodFacts, Volumes, host_ports, is_of_daemon_set, is_terminal
from kplan.autoscaling.karpenter.requirements import DO_NOT_DISRUPT, INITIALIZED, REGISTERED, Requirements, Vocabulary
from kplan.rules.resources import NANO
from kplan.snapshot.model import Snapshot

_CLASSES = tuple(kind for kind in KINDS if kind.type in {AKSNodeClass, EC2NodeClass, KWOKNodeClass})


def own_part(snapshot: Snapshot, options: Options) -> tuple[Snapshot, dict[str, str]]:
    """Return a cluster without the pools and claims of other providers, and why Karpenter passes over these pools."""
    of_pools = {pool.metadata.name: _kind(pool.spec.template.spec.node_class_ref) for pool in snapshot.node_pools}
    of_claims = [_kind(claim.spec.node_class_ref) for claim in snapshot.node_claims]
    supported = set(options.supported_node_classes) or _running(snapshot, [*of_pools.values(), *of_claims])
    if not supported:
        return snapshot, {}
    foreign = {name: kind for name, kind in sorted(of_pools.items()) if kind and kind not in supported}
    own = replace(
        snapshot,
        node_pools=tuple(pool for pool in snapshot.node_pools if pool.metadata.name not in foreign),
        node_claims=tuple(
            claim for claim, kind in zip(snapshot.node_claims, of_claims, strict=True) if not kind or kind in supported
        ),
    )
    words = f"and the running provider's {', '.join(sorted(supported))}"
    return own, {name: f"its node class is {kind}, {words}" for name, kind in foreign.items()}


def _kind(reference: NodeClassReference) -> str:
    """Return ``GROUP/KIND`` of a node class; empty where the reference names none."""
    return f"{reference.group}/{reference.kind}" if reference.kind else ""


def _running(snapshot: Snapshot, kinds: Iterable[str]) -> set[str]:
    """Return the kind of node classes that the running provider supports; none where nothing tells."""
    counts = Counter(filter(None, kinds))
    present = [f"{kind.group}/{kind.name}" for kind in _CLASSES if snapshot.objects(kind.attribute)]
    ranked = sorted(present or counts, key=lambda kind: (-counts[kind], kind))
    return set(ranked[:1])


class Template(msgspec.Struct, frozen=True):
    """What new nodes of a pool have in common."""

    pool: NodePool
    name: str
    requirements: Requirements  #: those of the pool, its labels, and the labels of pool and node class
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    columns: Columns  #: all instance types that the pool may have
    machines: Columns  #: the same as their provider knows them, without overlays
    types: int  #: those that it can use, as a set
    lacks_min_values: bool = False  #: why it can use none: too few values of a label


_PARTS = ("ValidationSucceeded", "NodeClassReady")
_READY = "Ready"


def why_not_ready(pool: NodePool) -> str:
    """Return why a pool is not ready, empty if it is: its condition Ready decides, once its parts are there at all.

    Upstream: github.com/awslabs/operatorpkg status/condition_set.go For.
    """
    known = {condition.type: condition for condition in pool.status.conditions}
    for name in _PARTS:
        if name not in known:
            return f"it is not ready: it has no condition {name} yet"
    if is_true(pool.status.conditions, _READY):
        return ""
    for name in (*_PARTS, _READY):
        condition = known.get(name)
        if condition is not None and condition.status != "True":
            reason = f" ({condition.reason})" if condition.reason else ""
            return f"it is not ready: {name} is {condition.status}{reason}"
    return f"it is not ready: it has no condition {_READY} yet"


def why_unusable(pool: NodePool) -> str:
    """Return why a pool gets no nodes for pods; empty if it may."""
    if pool.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    if pool.spec.replicas is not None:
        return "it has as many nodes as its replicas say, whatever the pods"
    return why_not_ready(pool)


def pool_requirements(pool: NodePool, vocabulary: Vocabulary) -> Requirements:
    wanted = pool.spec.template.spec.requirements
    return vocabulary.of(
        vocabulary.requirement(entry.key, entry.operator, entry.values, entry.min_values) for entry in wanted
    )


SIMULATED = (REGISTERED, INITIALIZED)
"""Labels that new nodes have while their daemons are looked for; no claim asks for them."""


DomainGroup = dict[str, list[tuple[Taint, ...]]]
"""Domain -> the taints of the pools that have it; an empty tuple alone where a pool without taints has it."""


def domain_groups(
    pools: Sequence[NodePool], types: Mapping[str, Sequence[InstanceType]], vocabulary: Vocabulary
) -> dict[str, DomainGroup]:
    """Return the domains of every label that new nodes can have (upstream buildDomainGroups)."""
    groups: dict[str, DomainGroup] = {}
    for pool in pools:
        own = types.get(pool.metadata.name)
        if not own:
            continue
        taints = pool.spec.template.spec.taints
        labels = vocabulary.of_labels(pool.spec.template.metadata.labels)
        base = vocabulary.join(pool_requirements(pool, vocabulary), labels)
        of_types = (vocabulary.join(base, vocabulary.of_expressions(entry.requirements)) for entry in own)
        naming = [wanted for requirements in of_types for wanted in requirements.items.values()]
        naming += [wanted for wanted in base.items.values() if wanted.operator == "In"]
        domains: dict[str, int] = {}
        for wanted in naming:
            # Of NotIn those that are excluded, as upstream does.
            domains[wanted.key] = domains.get(wanted.key, 0) | wanted.values
        for key, values in domains.items():
            group = groups.setdefault(key, {})
            for domain in vocabulary.texts(key, values):
                known = group.get(domain)
                if known is None or not taints:
                    group[domain] = [taints]
                elif known[0]:
                    known.append(taints)
    return groups


_EPHEMERAL = frozenset(
    {
        (NOT_READY, NO_SCHEDULE),
        (NOT_READY, NO_EXECUTE),
        (UNREACHABLE, NO_SCHEDULE),
        (UNINITIALIZED, NO_SCHEDULE),
        (UNREGISTERED, NO_EXECUTE),
    }
)


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
        node = self.node
        return self.claim is None or (node is not None and node.metadata.labels.get(REGISTERED) == "true")

    @cached_property
    def is_initialized(self) -> bool:
        """Whether it is ready for all pods."""
        node = self.node
        return self.claim is None or (node is not None and node.metadata.labels.get(INITIALIZED) == "true")

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

    @cached_property
    def hostname(self) -> str:
        return self.labels.get(HOSTNAME) or self.name

    @cached_property
    def taints(self) -> tuple[Taint, ...]:
        """The taints that count: not those that go away while it starts."""
        own = self._known.spec.taints
        if self.claim is None or self.is_initialized:
            return own
        starting = {(taint.key, taint.effect) for taint in self.claim.spec.startup_taints} | _EPHEMERAL
        lasting = (taint for taint in own if (taint.key, taint.effect) not in starting)
        return tuple(taint for taint in lasting if not taint.key.startswith("readiness.k8s.io/"))

    @cached_property
    def capacity(self) -> Amounts:
        """What it has, itself as one node included."""
        return {**self._filled("capacity"), NODES: NANO}

    @cached_property
    def allocatable(self) -> Amounts:
        return self._filled("allocatable")

    def _filled(self, field: Literal["capacity", "allocatable"]) -> Amounts:
        """Return what the node says; until it is ready, what its claim says where it says nothing or zero."""
        whole = (self.node, None if self.is_initialized else self.claim)
        own, more = ({} if one is None else nanos_of(getattr(one.status, field)) for one in whole)
        return {**own, **{name: amount for name, amount in more.items() if not own.get(name)}}

    @cached_property
    def available(self) -> Amounts:
        return less(self.allocatable, self.usage.requests)

    @cached_property
    def is_deleting(self) -> bool:
        is_terminating = self.claim is not None and is_true(self.claim.status.conditions, "InstanceTerminating")
        own = self.claim or self.node
        return self.is_marked or is_terminating or (own is not None and own.metadata.deletion_timestamp is not None)


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
        return total_of(state.capacity for state in self.active if state.pool == pool)


def cluster_state(facts: PodFacts) -> ClusterState:
    """Join nodes with their claims by the machine that both name."""
    snapshot, options = facts.snapshot, facts.options
    pods = grouped((pod.spec.node_name, pod) for pod in snapshot.pods)
    limits = {
        entry.metadata.name: {one.name: one.allocatable.count or 0 for one in entry.spec.drivers if one.allocatable}
        for entry in snapshot.csi_nodes
    }
    by_machine: dict[str, tuple[Node | None, NodeClaim | None]] = {
        claim.status.provider_id: (None, claim) for claim in snapshot.node_claims if claim.status.provider_id
    }
    for node in snapshot.nodes:
        labels, machine = node.metadata.labels, node.spec.provider_id
        is_managed = bool(labels.get(NODEPOOL))
        if is_managed and (not machine or not (labels.get(INSTANCE_TYPE) or labels.get(INITIALIZED))):
            continue
        machine = machine or node.metadata.name
        by_machine[machine] = (node, by_machine.get(machine, (None, None))[1])
    states = []
    for known, claim in by_machine.values():
        names = {entry.metadata.name for entry in (known, claim) if entry is not None}
        name = "" if known is None else known.metadata.name
        own = tuple(pods.get(name, ()) if name else ())
        states.append(
            StateNode(
                node=known,
                claim=claim,
                pods=own,
                usage=_usage(own, facts),
                limits=limits.get(name, {}),
                is_marked=not names.isdisjoint(options.marked_for_deletion),
                is_nominated=not names.isdisjoint(options.nominated),
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
        usage.volumes = joined(usage.volumes, facts.volumes(pod) or {})
    return usage


def joined(one: Volumes, other: Volumes) -> dict[str, frozenset[str]]:
    """Return the claims of both, by driver."""
    return {**one, **{driver: one.get(driver, frozenset()) | claims for driver, claims in other.items()}}
