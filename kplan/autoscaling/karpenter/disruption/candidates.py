"""Nodes that may be disrupted, why others may not, and what Karpenter writes about them.

Upstream: controllers/disruption/types.go NewCandidate, controllers/state/statenode.go ValidateNodeDisruptable,
controllers/disruption/events/events.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from kplan.api.core import Pod
from kplan.api.labels import ZONE
from kplan.api.provisioning import NEVER, NodeClaim, NodePool
from kplan.autoscaling.karpenter.cluster import StateNode
from kplan.autoscaling.karpenter.columns import Columns
from kplan.autoscaling.karpenter.disruption.conditions import ClaimState, allowed_disruptions, spared_nodes
from kplan.autoscaling.karpenter.names import CAPACITY_TYPE, DO_NOT_DISRUPT, INSTANCE_TYPE, NODEPOOL
from kplan.autoscaling.karpenter.options import Release
from kplan.autoscaling.karpenter.pods import (
    NODE_COST,
    Budgets,
    disruption_cost,
    is_disruptable,
    is_reschedulable,
    move_cost,
)
from kplan.autoscaling.karpenter.prepared import Prepared

BLOCKED = "DisruptionBlocked"
UNCONSOLIDATABLE = "Unconsolidatable"
CANDIDATE = "ConsolidationCandidate"
REJECTED = "ConsolidationRejected"
APPROVED = "ConsolidationApproved"


class Event(NamedTuple):
    """One event."""

    target: str  #: node/NAME, nodeclaim/NAME or nodepool/NAME
    reason: str
    message: str
    pod: str = ""  #: the pod that it names
    particulars: str = ""  #: about that pod: Karpenter writes them, too, but about pods in any order


class Events:
    """The events of one method, without repetitions."""

    def __init__(self) -> None:
        self.list: list[Event] = []

    def add(self, event: Event) -> None:
        """Note an event."""
        if event not in self.list:
            self.list.append(event)

    def note(self, state: StateNode, reason: str, message: str, *, pod: str = "", particulars: str = "") -> None:
        """Note an event of a node."""
        self.add(Event(_target(state), reason, message, pod, particulars))

    def block_pool(self, pool: str, reason: str) -> None:
        """Note that no node of a pool may be disrupted."""
        message = f"No allowed disruptions for disruption reason {reason} due to blocking budget"
        self.add(Event(f"nodepool/{pool}", BLOCKED, message))

    def propose(self, state: StateNode, command: str, savings: float) -> None:
        self.note(state, CANDIDATE, f"Consolidation candidate: {command} (savings: ${savings:.2f})")

    def reject(self, state: StateNode, command: str, reason: str, savings: float) -> None:
        """Note that a command was not valid any more."""
        message = f"Consolidation rejected: {command}, reason: {reason} (savings: ${savings:.2f})"
        self.note(state, REJECTED, message)

    def by_target(self) -> dict[str, list[str]]:
        """Return the events as texts, by target."""
        texts: dict[str, list[str]] = {}
        for event in self.list:
            texts.setdefault(event.target, []).append(f"{event.reason}: {event.message}")
        return texts

    def about(self, node: str) -> Sequence[Event]:
        """Return the events of a node."""
        return [event for event in self.list if event.target == f"node/{node}"]


def _target(state: StateNode) -> str:
    return f"nodeclaim/{state.name}" if state.node is None else f"node/{state.node.metadata.name}"


_UNDERUTILIZED, _EMPTY = "WhenEmptyOrUnderutilized", "WhenEmpty"
_VALIDATION_DELAY = 15 * 10**6
"""A command is looked at again after so many microseconds."""


class Candidate(msgspec.Struct, frozen=True):
    """A node that may be disrupted.

    Attributes
    ----------
    cost : of its pods, and of its remaining lifetime
    move_cost : of draining it and evicting `pods`
    price : what it costs; None if unknown
    rank : those of the lowest rank go first
    pods : those that need a place elsewhere
    is_buffer : it keeps room free for a CapacityBuffer
    type_index : the number of its instance type; None if the catalogue does not have it
    """

    state: StateNode
    claim: NodeClaim
    pool: NodePool
    columns: Columns
    type_index: int | None
    cost: float
    move_cost: float
    price: float | None
    rank: float
    is_empty: bool
    pods: tuple[Pod, ...]
    is_buffer: bool
    condition: ClaimState

    @property
    def name(self) -> str:
        """The name of its node."""
        return self.state.name

    @property
    def pool_name(self) -> str:
        return self.pool.metadata.name

    @property
    def is_static(self) -> bool:
        """Whether its pool has replicas."""
        return self.pool.spec.replicas is not None

    @property
    def capacity_type(self) -> str:
        """Its capacity type; empty if its labels do not tell."""
        return self.state.labels.get(CAPACITY_TYPE, "")

    def lowest_price(self) -> float | None:
        """Return the lowest price of an offering, available or not, that its labels allow; None for none."""
        return self.columns.node_price(self.state.labels)


def price_of(candidates: Iterable[Candidate]) -> float:
    """Return the price of several nodes; 0 where that of any is unknown."""
    total = 0.0
    for candidate in candidates:
        if candidate.price is None:
            return 0.0
        total += candidate.price
    return total


Filter = Callable[[Candidate, Events], bool]
"""Tells whether a method concerns itself with a node."""


class Question(msgspec.Struct, frozen=True, dict=True):
    """The cluster at a moment, about which a method is asked."""

    prepared: Prepared
    conditions: Mapping[str, ClaimState]
    events: Events
    now: int  #: microseconds since 1970
    is_eventual: bool = False  #: pods do not block nodes whose claims have a termination grace period

    @cached_property
    def budgets(self) -> Budgets:
        """The pod disruption budgets."""
        return Budgets(self.prepared.snapshot.pod_disruption_budgets, self.now)

    def later(self) -> Question:
        """Return the question at the moment when a command is looked at again."""
        return Question(self.prepared, self.conditions, self.events, self.now + _VALIDATION_DELAY)

    @cached_property
    def every(self) -> list[Candidate]:
        """The nodes that nothing blocks, by name."""
        return [one for one in map(self._candidate, self.prepared.state.nodes) if one is not None]

    @cached_property
    def spared(self) -> frozenset[str]:
        """The nodes to which consolidation moves no pods."""
        return spared_nodes(self.prepared, self.now)

    def candidates(self, concerns: Filter) -> list[Candidate]:
        """Return the nodes that a method may disrupt, by name."""
        return [one for one in self.every if concerns(one, self.events)]

    def _candidate(self, state: StateNode) -> Candidate | None:
        prepared, claim = self.prepared, state.claim
        if claim is None:
            return None
        blocked, pod = _why_blocked(state), ""
        if not blocked and not (state.pool in prepared.pools and prepared.columns[state.pool].types):
            blocked = f"NodePool not found (NodePool={state.pool})"
        if not blocked and not (self.is_eventual and claim.spec.termination_grace_period is not None):
            blocked, pod = _why_held(state, self.budgets, self.now)
        if blocked:
            self.events.note(state, BLOCKED, blocked, pod=pod)
            return None
        columns, release = prepared.columns[state.pool], prepared.release
        pods = tuple(pod for pod in state.pods if is_reschedulable(pod))
        cost, moving = disruption_cost(state.pods, claim, self.now), move_cost(pods)
        price = columns.listed_price(state.labels) if release.prices_by_zone else columns.node_price(state.labels)
        return Candidate(
            state=state,
            claim=claim,
            pool=prepared.pools[state.pool],
            columns=columns,
            type_index=columns.number_of(state.labels.get(INSTANCE_TYPE)),
            cost=cost,
            move_cost=moving,
            price=price,
            rank=-(price or 0.0) / moving if release.ranks_by_savings else cost,
            is_empty=moving <= NODE_COST if release.empties_costless else not pods,
            pods=pods,
            is_buffer=state.name in prepared.buffer_nodes,
            condition=self.conditions.get(claim.metadata.name, ClaimState()),
        )

    def allowed(self, reason: str) -> dict[str, int]:
        """Return how many nodes of each pool budgets let go for a reason."""
        allowed, blocked = allowed_disruptions(self.prepared, reason, self.now)
        for pool in blocked:
            self.events.block_pool(pool, reason)
        return allowed


def _why_blocked(state: StateNode) -> str:
    if state.node is None:
        return "Nodeclaim does not have an associated node"
    if not state.is_initialized:
        return "Node isn't initialized"
    if state.is_deleting:
        return "Node is deleting or marked for deletion"
    if state.is_nominated:
        return "Node is nominated for a pending pod"
    if state.do_not_disrupt == "true":
        return f'Disruption is blocked through the "{DO_NOT_DISRUPT}" annotation'
    return "" if NODEPOOL in state.labels else f"Node doesn't have required label (label={NODEPOOL})"


def _why_held(state: StateNode, budgets: Budgets, now: int) -> tuple[str, str]:
    """Return why a pod holds a node, and the pod; empty where none does."""
    for pod in state.pods:
        if not is_disruptable(pod, now):
            return f'Pod has "{DO_NOT_DISRUPT}" annotation (Pod={pod.metadata.key})', pod.metadata.key
    for pod in state.pods:
        blocking = budgets.blocking(pod)
        if len(blocking) > 1:
            named = f"(PodDisruptionBudget(s)=[{' '.join(blocking)}])"
            return f"Eviction does not support multiple PDBs {named}", pod.metadata.key
        if blocking:
            return f"Pdb prevents pod evictions (PodDisruptionBudget=[{blocking[0]}])", pod.metadata.key
    return "", ""


def has_consolidation(candidate: Candidate, events: Events) -> bool:
    """Tell whether the pool of a node removes nodes that are not needed."""
    if candidate.pool.spec.disruption.consolidate_after in (None, NEVER):
        events.note(candidate.state, UNCONSOLIDATABLE, f'NodePool "{candidate.pool_name}" has consolidation disabled')
        return False
    return True


def concerns_emptiness(candidate: Candidate, events: Events) -> bool:
    """Tell whether a node may go because it is empty."""
    if candidate.is_static or not has_consolidation(candidate, events):
        return False
    if candidate.is_buffer:
        events.note(candidate.state, UNCONSOLIDATABLE, f'Node "{candidate.name}" has buffer pods')
        return False
    return candidate.is_empty and candidate.condition.is_consolidatable


def concerns_static_drift(candidate: Candidate, _events: Events) -> bool:
    """Tell whether a node of a pool with replicas differs from its pool."""
    return candidate.is_static and candidate.condition.is_drifted


def concerns_drift(candidate: Candidate, _events: Events) -> bool:
    """Tell whether a node differs from its pool."""
    return not candidate.is_static and candidate.condition.is_drifted


def concerns_consolidation(release: Release) -> Filter:
    """Return what tells whether a node may be removed or replaced to save money."""

    def concerns(candidate: Candidate, events: Events) -> bool:
        if candidate.is_static:
            return False
        why = _why_unpriced(candidate)
        if why:
            events.note(candidate.state, UNCONSOLIDATABLE, why)
            return False
        if not has_consolidation(candidate, events):
            return False
        if release.empties_costless and candidate.is_empty:
            return False
        policy = candidate.pool.spec.disruption.consolidation_policy
        if policy == _EMPTY if release.balances else policy != _UNDERUTILIZED:
            why = "consolidation policy WhenEmpty, but node is not empty"
            why = why if release.balances else "non-empty consolidation disabled"
            events.note(candidate.state, UNCONSOLIDATABLE, f'NodePool "{candidate.pool_name}" has {why}')
            return False
        return candidate.condition.is_consolidatable

    return concerns


def _why_unpriced(candidate: Candidate) -> str:
    """Return why the price of a node cannot be compared; empty if it can."""
    labels = candidate.state.labels
    if candidate.type_index is None:
        return f'Instance Type "{labels.get(INSTANCE_TYPE, "")}" not found'
    missing = next((key for key in (CAPACITY_TYPE, ZONE) if key not in labels), None)
    return "" if missing is None else f'Node does not have label "{missing}"'
