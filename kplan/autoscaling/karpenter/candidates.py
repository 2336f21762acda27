"""Nodes that may be disrupted, how many of each pool, why others may not, and what Karpenter writes of them.

Upstream: controllers/disruption: types.go NewCandidate, helpers.go BuildDisruptionBudgetMapping, events/events.go;
controllers/state/statenode.go ValidateNodeDisruptable; controllers/nodeclaim/disruption: controller.go,
consolidation.go, drift.go; apis/v1/nodepool.go GetAllowedDisruptionsByReason.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from kplan.admission.schedules import parse_schedule
from kplan.api.core import Pod
from kplan.api.labels import INSTANCE_TYPE, NODEPOOL, parse_int64
from kplan.api.meta import condition_of, is_true
from kplan.api.provisioning import DRIFTED, HASH, HASH_VERSION, NEVER, Budget, NodeClaim, NodePool
from kplan.api.time import EPOCH, parse_duration, to_micros, utc
from kplan.autoscaling.karpenter.amounts import added
from kplan.autoscaling.karpenter.cluster import StateNode, pool_requirements
from kplan.autoscaling.karpenter.instance_types import Columns
from kplan.autoscaling.karpenter.pods import (
    NODE_COST,
    BudgetLimits,
    disruption_cost,
    is_disruptable,
    is_reschedulable,
    move_cost,
)
from kplan.autoscaling.karpenter.prepared import Prepared
from kplan.autoscaling.karpenter.requirements import CAPACITY_TYPE, DO_NOT_DISRUPT, ON_DEMAND, RESERVATION_IDS, RESERVED

BLOCKED = "DisruptionBlocked"
UNCONSOLIDATABLE = "Unconsolidatable"
CANDIDATE = "ConsolidationCandidate"


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
        if event not in self.list:
            self.list.append(event)

    def note(self, state: StateNode, reason: str, message: str, *, pod: str = "", particulars: str = "") -> None:
        target = f"nodeclaim/{state.name}" if state.node is None else f"node/{state.node.metadata.name}"
        self.add(Event(target, reason, message, pod, particulars))

    def about(self, node: str) -> Sequence[Event]:
        return [event for event in self.list if event.target == f"node/{node}"]


def no_budget(reason: str) -> str:
    return f"No allowed disruptions for disruption reason {reason} due to blocking budget"


_VALIDATION_DELAY = 15 * 10**6  #: a command is looked at again after so many microseconds
CONSOLIDATABLE = "Consolidatable"


class ClaimState(msgspec.Struct, frozen=True):
    """What may be done to a node, and why."""

    is_consolidatable: bool = False
    #: why it differs from its pool, empty if the reason is not known; None if it does not differ
    drift: str | None = None
    drifted_since: int = 0  #: microseconds since 1970


class Candidate(msgspec.Struct, frozen=True):
    """A node that may be disrupted."""

    state: StateNode
    pool: NodePool
    columns: Columns
    type_index: int | None  #: the number of its instance type; None if the catalogue does not have it
    cost: float  #: of its pods, and of its remaining lifetime
    move_cost: float  #: of draining it and evicting `pods`
    price: float | None  #: what it costs; None if unknown
    rank: float  #: those of the lowest rank go first
    is_empty: bool
    pods: tuple[Pod, ...]  #: those that need a place elsewhere
    condition: ClaimState

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def pool_name(self) -> str:
        return self.pool.metadata.name

    @property
    def is_static(self) -> bool:
        return self.pool.spec.replicas is not None

    @property
    def is_drifted(self) -> bool:
        return self.condition.drift is not None


def price_of(candidates: Iterable[Candidate]) -> float:
    """Return the price of several nodes; 0 where that of any is unknown."""
    prices = [candidate.price for candidate in candidates]
    known = [price for price in prices if price is not None]
    return added(known) if len(known) == len(prices) else 0.0


class DisruptableCluster(msgspec.Struct, frozen=True, dict=True):
    """The cluster at a moment, about which a method is asked."""

    prepared: Prepared
    conditions: Mapping[str, ClaimState]
    events: Events
    now: int  #: microseconds since 1970
    is_eventual: bool = False  #: pods do not block nodes whose claims have a termination grace period

    @cached_property
    def budgets(self) -> BudgetLimits:
        return BudgetLimits(self.prepared.snapshot.pod_disruption_budgets, self.now)

    def later(self, before: Iterable[Candidate], concerns: Filter) -> tuple[DisruptableCluster, list[Candidate]]:
        """Return the cluster when a command is looked at again, and which of some candidates still are."""
        later = DisruptableCluster(self.prepared, self.conditions, self.events, self.now + _VALIDATION_DELAY)
        names = {candidate.name for candidate in before}
        return later, [one for one in later.candidates(concerns) if one.name in names]

    @cached_property
    def every(self) -> list[Candidate]:
        """The nodes that nothing blocks, by name."""
        return [one for one in map(self._candidate, self.prepared.state.nodes) if one is not None]

    @cached_property
    def spared(self) -> frozenset[str]:
        """The nodes to which consolidation moves no pods: their pools' consolidateAfter has not passed yet.

        Upstream: utils/disruption/disruption.go IsUnderConsolidateAfter.
        """
        if not self.prepared.release.spares_young:
            return frozenset()
        pools = {pool.metadata.name: pool for pool in self.prepared.usable_pools}
        return frozenset(
            state.name
            for state in self.prepared.state.active
            if state.claim is not None
            and state.pool in pools
            and pools[state.pool].spec.disruption.consolidate_after not in (None, NEVER)
            and is_true(state.claim.status.conditions, "Initialized")
            and consolidatable_at(pools[state.pool], state.claim) > self.now
        )

    def candidates(self, concerns: Filter) -> list[Candidate]:
        """Return the nodes that a method may disrupt, by name."""
        return [one for one in self.every if concerns(one, self)]

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
            pool=prepared.pools[state.pool],
            columns=columns,
            type_index=columns.numbers.get(state.labels.get(INSTANCE_TYPE)),
            cost=cost,
            move_cost=moving,
            price=price,
            rank=-(price or 0.0) / moving if release.ranks_by_savings else cost,
            is_empty=moving <= NODE_COST if release.empties_costless else not pods,
            pods=pods,
            condition=self.conditions.get(claim.metadata.name, ClaimState()),
        )

    def allowed(self, reason: str) -> dict[str, int]:
        """Return how many nodes of each pool budgets let go for a reason."""
        nodes, disrupting = Counter[str](), Counter[str]()
        for state in self.prepared.state.nodes:
            if state.claim is None or state.node is None or not state.is_initialized:
                continue
            if is_true(state.claim.status.conditions, "InstanceTerminating"):
                continue
            nodes[state.pool] += 1
            disrupting[state.pool] += not is_true(state.node.status.conditions, "Ready") or state.is_deleting
        allowed: dict[str, int] = {}
        for name, pool in sorted(self.prepared.pools.items()):
            most = allowed_of(pool, nodes[name], reason, self.now)
            allowed[name] = max(0, most - disrupting[name])
            if nodes[name] and not most:
                self.events.add(Event(f"nodepool/{name}", BLOCKED, no_budget(reason)))
        return allowed


Filter = Callable[[Candidate, DisruptableCluster], bool]  #: tells whether a method concerns itself with a node


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


def _why_held(state: StateNode, budgets: BudgetLimits, now: int) -> tuple[str, str]:
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


def claim_states(prepared: Prepared) -> dict[str, ClaimState]:
    """Return what may be done to the node of each claim: as its conditions say, or as they have to be at the moment."""
    states, now = {}, prepared.now
    for claim in prepared.snapshot.node_claims:
        drifted, conditions = condition_of(claim.status.conditions, DRIFTED), claim.status.conditions
        is_consolidatable, drift, since = is_true(conditions, CONSOLIDATABLE), None, now
        if drifted is not None and drifted.status == "True":
            drift, since = drifted.reason, to_micros(drifted.last_transition_time or EPOCH)
        pool = prepared.pools.get(claim.metadata.labels.get(NODEPOOL, ""))
        if prepared.options.derive_conditions and pool is not None and claim.metadata.deletion_timestamp is None:
            drift = (drift_reason(prepared, pool, claim) or None) if is_true(conditions, "Launched") else None
            if pool.spec.replicas is None:
                is_consolidatable = consolidatable_at(pool, claim) <= now
        states[claim.metadata.name] = ClaimState(is_consolidatable, drift, since)
    return states


def consolidatable_at(pool: NodePool, claim: NodeClaim) -> float:
    """Return when a node becomes consolidatable, in microseconds since 1970; infinity for never.

    That is its pool's consolidateAfter after a pod last came or went, or else after it was initialized.
    """
    after = pool.spec.disruption.consolidate_after
    duration = None if after in (None, NEVER) else parse_duration(after or "")
    initialized = condition_of(claim.status.conditions, "Initialized")
    if duration is None or initialized is None or initialized.status != "True":
        return math.inf
    since = claim.status.last_pod_event_time or initialized.last_transition_time
    return to_micros(since or EPOCH) + -(-duration // 1000)


def drift_reason(prepared: Prepared, pool: NodePool, claim: NodeClaim) -> str:
    """Return in what a node differs from its pool, in Karpenter's word; empty for nothing."""
    model, marks = pool.metadata.annotations, claim.metadata.annotations
    are_hashed = HASH in model and HASH in marks and HASH_VERSION in model
    if are_hashed and model[HASH_VERSION] == marks.get(HASH_VERSION) and model[HASH] != marks[HASH]:
        return "NodePoolDrifted"
    known, labels = prepared.known, claim.metadata.labels
    wanted = known.of_labels(labels)
    if known.misfits(wanted, pool_requirements(pool, known), allows_well_known=False):
        return "RequirementsDrifted"
    if prepared.now - to_micros(claim.metadata.creation_timestamp or EPOCH) <= 3600 * 10**6:
        return ""
    # Its instance type has to exist, in its zone and capacity type.
    columns = prepared.columns[pool.metadata.name]
    index = columns.numbers.get(labels.get(INSTANCE_TYPE))
    if labels.get(CAPACITY_TYPE) == RESERVED:
        # A node whose reservation has ended runs on, on demand.
        rest = {key: value for key, value in labels.items() if key not in {CAPACITY_TYPE, *RESERVATION_IDS}}
        either = known.of([known.requirement(CAPACITY_TYPE, "In", (RESERVED, ON_DEMAND))])
        wanted = known.join(known.of_labels(rest), either)
    is_offered = index is not None and columns.offerings_of(index, wanted, available=False)
    return "" if is_offered else "InstanceTypeNotFound"


UNBOUNDED = 2**31 - 1
_PERCENT = re.compile(r"([+-]?[0-9]{1,18})%", re.ASCII)


def allowed_of(pool: NodePool, nodes: int, reason: str, now: int) -> int:
    """Return the smallest number that a budget for a reason allows; 0 where any budget cannot be read."""
    allowed = UNBOUNDED
    for budget in pool.spec.disruption.budgets or ():
        number = _allowed(budget, nodes, now)
        if number is None:
            return 0
        if budget.reasons is None or reason in budget.reasons:
            allowed = min(allowed, number)
    return allowed


def _allowed(budget: Budget, nodes: int, now: int) -> int | None:
    active = is_active(budget, now)
    if active is None:
        return None
    if not active:
        return UNBOUNDED
    number = parse_int64(budget.nodes) if budget.nodes else None
    if number is not None:
        return number
    percent = _PERCENT.fullmatch(budget.nodes)
    return None if percent is None else math.ceil(int(percent[1]) * nodes / 100)


def is_active(budget: Budget, now: int) -> bool | None:
    """Tell whether a budget counts at a moment; None where its schedule cannot be read."""
    if budget.schedule is None and budget.duration is None:
        return True
    duration = parse_duration(budget.duration) if budget.duration else 0
    schedule = parse_schedule(f"TZ=UTC {budget.schedule}")
    if schedule is None or duration is None:
        return None
    hit = schedule.next_after(utc(now - duration // 1000))
    return hit is None or hit <= utc(now)
