"""Pools with replicas, which have as many nodes as they say, whatever the pods.

Upstream: controllers/static/provisioning, controllers/static/deprovisioning, controllers/state/statenodepool.go.
"""

from __future__ import annotations

import msgspec

from kplan.api.provisioning import NodePool
from kplan.api.quantity import parse
from kplan.autoscaling.karpenter.amounts import ONE
from kplan.autoscaling.karpenter.cluster import StateNode
from kplan.autoscaling.karpenter.names import NODEPOOL, NODES
from kplan.autoscaling.karpenter.pods import disruption_cost, holds_its_node, is_of_daemon_set
from kplan.autoscaling.karpenter.pools import is_ready
from kplan.autoscaling.karpenter.prepared import Prepared
from kplan.preemption.go_sort import go_sorted

_NO_LIMIT = 2**63 - 1


class Scaling(msgspec.Struct, frozen=True):
    """What becomes of a pool with replicas: nodes that are added, or the claims that are deleted."""

    pool: NodePool
    create: int = 0
    delete: tuple[str, ...] = ()


class Count(msgspec.Struct):
    """The claims of a pool that stay, and that are being deleted."""

    active: int = 0
    deleting: int = 0


def counts_of(prepared: Prepared) -> dict[str, Count]:
    """Return the number of claims of each pool."""
    leaving = {state.claim.metadata.name for state in prepared.state.deleting if state.claim is not None}
    counts: dict[str, Count] = {}
    for claim in prepared.snapshot.node_claims:
        count = counts.setdefault(claim.metadata.labels.get(NODEPOOL, ""), Count())
        if claim.metadata.name in leaving:
            count.deleting += 1
        else:
            count.active += 1
    return counts


def reservable_nodes(pool: NodePool, count: Count, wanted: int) -> int:
    """Return how many of the wanted nodes the pool's limit of nodes leaves (upstream ReserveNodeCount)."""
    limit = -(-parse(pool.spec.limits[NODES]).nanos // ONE) if NODES in pool.spec.limits else _NO_LIMIT
    left = limit - count.active - count.deleting
    return max(0, min(wanted, left))


def scale_static_pools(prepared: Prepared) -> dict[str, Scaling]:
    """Return what becomes of every pool with replicas."""
    counts = counts_of(prepared)
    scalings: dict[str, Scaling] = {}
    for name in sorted(prepared.pools):
        pool = prepared.pools[name]
        replicas = pool.spec.replicas
        if replicas is None or pool.metadata.deletion_timestamp is not None:
            continue
        count = counts.get(name, Count())
        missing = replicas - count.active
        create = reservable_nodes(pool, count, missing) if missing > 0 and is_ready(pool) else 0
        delete = _to_delete(prepared, name, -missing) if missing < 0 else ()
        scalings[name] = Scaling(pool, create, delete)
    return scalings


def _to_delete(prepared: Prepared, pool: str, count: int) -> tuple[str, ...]:
    """Return claims to delete: those without a machine, then empty nodes, then those that cost least."""
    own = sorted(
        (claim for claim in prepared.snapshot.node_claims if claim.metadata.labels.get(NODEPOOL) == pool),
        key=lambda claim: claim.metadata.name,
    )
    chosen = [
        claim.metadata.name
        for claim in own
        if not claim.status.provider_id and claim.metadata.deletion_timestamp is None
    ][:count]
    nodes = [(state, state.claim) for state in prepared.state.active if state.pool == pool and state.claim is not None]
    empty = [claim.metadata.name for state, claim in nodes if _is_empty(state, prepared.now)]
    chosen += empty[: count - len(chosen)]
    occupied = [(state, claim) for state, claim in nodes if not _is_empty(state, prepared.now)]
    weights = (
        (
            any(holds_its_node(pod, prepared.now) for pod in state.pods),
            disruption_cost(state.pods, claim, prepared.now),
        )
        for state, claim in occupied
    )
    return (*chosen, *(claim.metadata.name for _, claim in go_sorted(occupied, weights)[: count - len(chosen)]))


def _is_empty(state: StateNode, now: int) -> bool:
    return all(is_of_daemon_set(pod) and not holds_its_node(pod, now) for pod in state.pods)
