"""Changes of node pools with which Karpenter would help more pods: higher limits, and requirements that admit more.

A pool is tried without its limits, or without one of its requirements; what Karpenter would make then says how high the
limits have to be, and which further values of a label are needed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from kplan.api.core import Node
from kplan.api.provisioning import NodePool
from kplan.autoscaling.karpenter.amounts import ONE, amounts_of, text_of, total_of
from kplan.autoscaling.karpenter.names import NODES
from kplan.autoscaling.karpenter.planned import Planned, new_node
from kplan.autoscaling.karpenter.prepared import Prepared, Simulated
from kplan.changes.values import Admitted, Pool
from kplan.facts import LimitChange

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
