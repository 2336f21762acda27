"""How many nodes pools are to have or may have: their replicas, whatever the pods, and the limits that are in the way.

To see what would help more pods, a pool is tried without its limits, or without one of its requirements; what Karpenter
would make then says how high the limits have to be, and which further values of a label are needed.

Upstream: controllers/static/provisioning, controllers/static/deprovisioning, controllers/state/statenodepool.go.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from kplan.api.core import Node
from kplan.api.provisioning import NodePool
from kplan.api.quantity import parse
from kplan.autoscaling.karpenter.amounts import NODEPOOL, NODES, ONE, amounts_of, text_of, total_of
from kplan.autoscaling.karpenter.cluster import StateNode
from kplan.autoscaling.karpenter.planned import Planned, new_node
from kplan.autoscaling.karpenter.pods import disruption_cost, holds_its_node, is_of_daemon_set
from kplan.autoscaling.karpenter.pools import is_ready
from kplan.autoscaling.karpenter.prepared import Prepared, Simulated
from kplan.changes.values import Admitted, Pool
from kplan.facts import LimitChange
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


MOST_TRIED = 40
"""So many pools without their limits, or without one of their requirements, are tried."""

_LISTS = ("In", "NotIn")


class Widening:
    """Looks for changes of the pools of a cluster.

    Parameters
    ----------
    prepared : the cluster; is not changed
    """

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._left = MOST_TRIED
        self._n_waiting = _n_waiting(prepared.provisioned)

    def changes(self) -> Iterator[tuple[Pool, ...]]:
        """Yield changes that help more pods: one by itself, or several of a pool that help only together."""
        if not self._n_waiting:
            return
        for pool in self._prepared.usable_pools:
            lists = [
                index for index, wanted in enumerate(pool.spec.template.spec.requirements) if wanted.operator in _LISTS
            ]
            alone: list[Pool] = [*self._limits(pool), *self._one_by_one(pool, lists)]
            if alone:
                for change in alone:
                    yield (change,)
                continue
            planned = self._tried(_without(replace(pool, spec=replace(pool.spec, limits={})), lists))
            admitted = [change for index in lists for change in _admitted(pool, index, self._made(planned))]
            for at_most in (False, True) if planned else ():
                yield (*admitted, *self._limits_for(pool, planned, at_most=at_most))

    def _one_by_one(self, pool: NodePool, lists: Sequence[int]) -> Iterator[Pool]:
        for index in lists:
            yield from _admitted(pool, index, self._made(self._tried(_without(pool, [index]))))

    def _tried(self, pool: NodePool) -> list[Planned]:
        """Return the nodes of a changed pool with which more pods are helped; none where no more are."""
        if not self._left:
            return []
        self._left -= 1
        snapshot = self._prepared.snapshot
        pools = tuple(pool if other.metadata.name == pool.metadata.name else other for other in snapshot.node_pools)
        other = dataclasses.replace(snapshot, node_pools=pools)
        provisioned = self._prepared.of(other).provisioned
        if _n_waiting(provisioned) >= self._n_waiting:
            return []
        return [planned for planned in provisioned.nodes if planned.template.name == pool.metadata.name]

    def _limits(self, pool: NodePool) -> Iterator[Pool]:
        """Yield limits that have room for new nodes: as the provider makes them, and at the most."""
        if pool.spec.limits:
            planned = self._tried(replace(pool, spec=replace(pool.spec, limits={})))
            yield from self._limits_for(pool, planned, at_most=False)
            yield from self._limits_for(pool, planned, at_most=True)

    def _limits_for(self, pool: NodePool, planned: Sequence[Planned], *, at_most: bool) -> Iterator[Pool]:
        """Yield the limits that planned nodes need, where they are above those of the pool.

        Parameters
        ----------
        at_most : count every node as the largest that it may become, as Karpenter does until it is made
        """
        if at_most:
            capacities = [node.template.columns.most_capacity(node.types) for node in planned]
        else:
            capacities = [amounts_of(node.status.capacity) for node in self._made(planned)]
        used = self._prepared.state.used_by(pool.metadata.name)
        needed = total_of((used, *({**capacity, NODES: ONE} for capacity in capacities)))
        limits = amounts_of(pool.spec.limits)
        higher = tuple(
            LimitChange(name, str(pool.spec.limits[name]), text_of(name, needed[name]))
            for name in limits
            if planned and needed.get(name, 0) > limits[name]
        )
        if higher:
            yield Pool(pool.metadata.name, higher)

    def _made(self, planned: Iterable[Planned]) -> list[Node]:
        now = self._prepared.now
        return [new_node(node, node.template.name, (), has_prices=False, now=now).node for node in planned]


def _without(pool: NodePool, indexes: Collection[int]) -> NodePool:
    template = pool.spec.template
    left = tuple(wanted for index, wanted in enumerate(template.spec.requirements) if index not in indexes)
    changed = replace(template, spec=replace(template.spec, requirements=left))
    return replace(pool, spec=replace(pool.spec, template=changed))


def _admitted(pool: NodePool, index: int, nodes: Iterable[Node]) -> Iterator[Pool]:
    """Yield the values of a requirement's label that nodes have, as far as it does not admit them."""
    wanted = pool.spec.template.spec.requirements[index]
    labels = {node.metadata.labels.get(wanted.key, "") for node in nodes} - {""}
    if wanted.operator == "In":
        values = tuple(sorted(labels.difference(wanted.values)))
        if values:
            yield Pool(pool.metadata.name, admits=Admitted(wanted.key, "In", values, index))
    else:
        at = tuple(number for number, value in enumerate(wanted.values) if value in labels)
        if at and len(at) < len(wanted.values):  # an empty list is refused
            values = tuple(wanted.values[number] for number in at)
            yield Pool(pool.metadata.name, admits=Admitted(wanted.key, "NotIn", values, index, at))


def _n_waiting(provisioned: Simulated) -> int:
    return len(provisioned.errors) + len(provisioned.waiting)
