"""Which claims are consolidatable or drifted at a moment, and how many nodes of each pool may be disrupted then.

Upstream: controllers/nodeclaim/disruption: controller.go, consolidation.go, drift.go; apis/v1/nodepool.go
GetAllowedDisruptionsByReason, controllers/disruption/helpers.go BuildDisruptionBudgetMapping.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from kplan.admission.validation.jobs import parse_schedule
from kplan.api.core import NodeCondition
from kplan.api.labels import parse_int64
from kplan.api.provisioning import HASH, HASH_VERSION, NEVER, Budget, NodeClaim, NodePool
from kplan.api.time import parse_duration, to_micros
from kplan.autoscaling.karpenter.names import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    NODEPOOL,
    ON_DEMAND,
    RESERVATION_IDS,
    RESERVED,
)
from kplan.autoscaling.karpenter.pools import is_true, pool_requirements
from kplan.autoscaling.karpenter.prepared import Prepared

_HOUR = 3600 * 10**6

CONSOLIDATABLE = "Consolidatable"
DRIFTED = "Drifted"


class ClaimState(msgspec.Struct, frozen=True):
    """What may be done to a node, and why.

    Attributes
    ----------
    drifted : why it differs from its pool; empty if it does not, or if the reason is not known
    drifted_since : microseconds since 1970
    """

    is_consolidatable: bool = False
    is_drifted: bool = False
    drifted: str = ""
    drifted_since: int = 0


def claim_states(prepared: Prepared) -> dict[str, ClaimState]:
    return {
        claim.metadata.name: _derived(prepared, claim) if prepared.options.derive_conditions else _as_is(claim)
        for claim in prepared.snapshot.node_claims
    }


def _condition(claim: NodeClaim, name: str) -> NodeCondition | None:
    return next((condition for condition in claim.status.conditions if condition.type == name), None)


def _as_is(claim: NodeClaim) -> ClaimState:
    drifted = _condition(claim, DRIFTED)
    return ClaimState(
        is_consolidatable=is_true(claim.status.conditions, CONSOLIDATABLE),
        is_drifted=drifted is not None and drifted.status == "True",
        drifted="" if drifted is None else drifted.reason,
        drifted_since=_moment(None if drifted is None else drifted.last_transition_time),
    )


def _moment(text: str | None) -> int:
    return 0 if text is None else to_micros(text)


def _derived(prepared: Prepared, claim: NodeClaim) -> ClaimState:
    pool = prepared.pools.get(claim.metadata.labels.get(NODEPOOL, ""))
    if pool is None or claim.metadata.deletion_timestamp is not None:
        return _as_is(claim)
    reason = drift_reason(prepared, pool, claim) if is_true(claim.status.conditions, "Launched") else ""
    before = _condition(claim, DRIFTED)
    was_drifted = before is not None and before.status == "True"
    return ClaimState(
        is_consolidatable=_as_is(claim).is_consolidatable
        if pool.spec.replicas is not None
        else _is_consolidatable(pool, claim, prepared.now),
        is_drifted=bool(reason),
        drifted=reason,
        drifted_since=_as_is(claim).drifted_since if was_drifted else prepared.now,
    )


def _is_consolidatable(pool: NodePool, claim: NodeClaim, now: int) -> bool:
    after = pool.spec.disruption.consolidate_after
    duration = None if after in (None, NEVER) else parse_duration(after or "")
    initialized = _condition(claim, "Initialized")
    if duration is None or initialized is None or initialized.status != "True":
        return False
    since = claim.status.last_pod_event_time or initialized.last_transition_time
    return (now - _moment(since)) * 1000 >= duration


def spared_nodes(prepared: Prepared, now: int) -> frozenset[str]:
    """Return the nodes to which consolidation moves no pods: their pools' consolidateAfter has not passed yet.

    Upstream: utils/disruption/disruption.go IsUnderConsolidateAfter.
    """
    if not prepared.release.spares_young:
        return frozenset()
    pools = {template.name: template.pool for template in prepared.templates}
    return frozenset(
        state.name
        for state in prepared.state.active
        if state.claim is not None and state.pool in pools and _is_young(pools[state.pool], state.claim, now)
    )


def _is_young(pool: NodePool, claim: NodeClaim, now: int) -> bool:
    is_waiting = pool.spec.disruption.consolidate_after not in (None, NEVER)
    is_initialized = is_true(claim.status.conditions, "Initialized")
    return is_waiting and is_initialized and not _is_consolidatable(pool, claim, now)


def drift_reason(prepared: Prepared, pool: NodePool, claim: NodeClaim) -> str:
    """Return in what a node differs from its pool, in Karpenter's word; empty for nothing."""
    if _differs(pool.metadata.annotations, claim.metadata.annotations):
        return "NodePoolDrifted"
    known = prepared.known
    labels = known.of_labels(claim.metadata.labels)
    if known.misfits(labels, pool_requirements(pool, known), allows_well_known=False):
        return "RequirementsDrifted"
    if prepared.now - _moment(claim.metadata.creation_timestamp) > _HOUR and not _is_offered(prepared, pool, claim):
        return "InstanceTypeNotFound"
    return ""


def _differs(pool: Mapping[str, str], claim: Mapping[str, str]) -> bool:
    if not all(key in annotations for key in (HASH, HASH_VERSION) for annotations in (pool, claim)):
        return False
    return pool[HASH_VERSION] == claim[HASH_VERSION] and pool[HASH] != claim[HASH]


def _is_offered(prepared: Prepared, pool: NodePool, claim: NodeClaim) -> bool:
    """Tell whether a node's instance type still exists, in its zone and capacity type."""
    columns, known = prepared.columns[pool.metadata.name], prepared.known
    labels = claim.metadata.labels
    index = columns.number_of(labels.get(INSTANCE_TYPE))
    if index is None:
        return False
    wanted = known.of_labels(labels)
    if labels.get(CAPACITY_TYPE) == RESERVED:
        # A node whose reservation has ended runs on, on demand.
        rest = {key: value for key, value in labels.items() if key not in {CAPACITY_TYPE, *RESERVATION_IDS}}
        either = known.of([known.requirement(CAPACITY_TYPE, "In", (RESERVED, ON_DEMAND))])
        wanted = known.join(known.of_labels(rest), either)
    return bool(columns.offerings_of(index, wanted, available=False))


UNBOUNDED = 2**31 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PERCENT = re.compile(r"([+-]?[0-9]{1,18})%", re.ASCII)


def allowed_disruptions(prepared: Prepared, reason: str, now: int) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return how many nodes of each pool may go, and the pools of which a budget lets none go."""
    nodes: dict[str, int] = {}
    disrupting: dict[str, int] = {}
    for state in prepared.state.nodes:
        if state.claim is None or state.node is None or not state.is_initialized:
            continue
        if is_true(state.claim.status.conditions, "InstanceTerminating"):
            continue
        nodes[state.pool] = nodes.get(state.pool, 0) + 1
        ready = next((entry.status for entry in state.node.status.conditions if entry.type == "Ready"), "")
        if ready != "True" or state.is_deleting:
            disrupting[state.pool] = disrupting.get(state.pool, 0) + 1
    allowed: dict[str, int] = {}
    blocked = []
    for name in sorted(prepared.pools):
        count = nodes.get(name, 0)
        most = allowed_of(prepared.pools[name], count, reason, now)
        allowed[name] = max(0, most - disrupting.get(name, 0))
        if count and not most:
            blocked.append(name)
    return allowed, tuple(blocked)


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
    hit = schedule.next_after(_EPOCH + timedelta(microseconds=now - duration // 1000))
    return hit is None or hit <= _EPOCH + timedelta(microseconds=now)
