"""Karpenter behind the seam: its decisions as advice, and changes of pools that would help more.

For changes a pool is tried without its limits, or without one of its requirements; what Karpenter would make then says
how high the limits have to be, and which further values of a label are needed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Self

import msgspec
from msgspec.structs import replace

from kplan.api.affinity import Taint
from kplan.api.core import Node
from kplan.api.labels import INSTANCE_TYPE, NODEPOOL, ZONE
from kplan.api.provisioning import NodePool
from kplan.api.quantity import listing, nanos_of
from kplan.autoscaling.karpenter.amounts import NODES, total_of
from kplan.autoscaling.karpenter.candidates import claim_states, consolidatable_at
from kplan.autoscaling.karpenter.catalogue import learned_catalogue, read_catalogue
from kplan.autoscaling.karpenter.commands import Command, scale_static_pools
from kplan.autoscaling.karpenter.detail import FAILED, detail_of, ignored
from kplan.autoscaling.karpenter.disruption import METHODS, stays
from kplan.autoscaling.karpenter.instance_types import InstanceType
from kplan.autoscaling.karpenter.options import NEWEST, Options, Release, read_options, release_in, release_named
from kplan.autoscaling.karpenter.planned import Planned, new_node
from kplan.autoscaling.karpenter.pods import lifetime_remaining
from kplan.autoscaling.karpenter.prepared import Prepared, Simulated, limits_text
from kplan.autoscaling.karpenter.texts import Plain
from kplan.autoscaling.seam import (
    Advice,
    Namer,
    NewNode,
    NodeRemoval,
    Patience,
    PreparedCluster,
    RemovalTimes,
    Round,
    prices_around,
    rounded,
)
from kplan.autoscaling.settings import Karpenter, with_requirements
from kplan.changes.limits import Admitted, Pool
from kplan.documents.nodes import AutoscalerName, RemovedNodes
from kplan.errors import UsageError
from kplan.facts import InputWarning, LimitChange
from kplan.framework.listers import by_name
from kplan.rules.resources import NANO, nano_text
from kplan.snapshot.model import Snapshot

_MOST_NAMED = 3


class KarpenterAutoscaler(msgspec.Struct, frozen=True, kw_only=True):
    """Karpenter, set up with a catalogue."""

    entries: Sequence[InstanceType]
    options: Options
    source: str  #: where the catalogue comes from
    has_prices: bool  #: whether its prices are prices
    release: Release = NEWEST
    notes: tuple[InputWarning, ...] = ()  #: about its release
    used_names: frozenset[str] = frozenset()  #: it gives none of these to a node

    name: ClassVar[AutoscalerName] = "karpenter"
    usual_loops: ClassVar[Sequence[float]] = (0.0,)  #: it does not look in loops of a fixed time
    wait: ClassVar[float] = 1.0  #: it gathers pods until none has come for so long; BATCH_IDLE_DURATION, by default
    #: Upstream: controllers/disruption/{controller,validation}.go, controllers/node/termination/controller.go.
    removal: ClassVar[RemovalTimes] = RemovalTimes(
        poll=10.0, validation=15.0, patience=Patience(first=0.0, retry=10.0, poll=1.0), least=5.0, after=5.0
    )

    @property
    def version(self) -> str:
        return self.release.name

    def watch(self, cluster: PreparedCluster) -> KarpenterWatch:
        return KarpenterWatch(self, cluster)

    def grown(self, adds: Sequence[NewNode]) -> Self:
        del adds
        return self

    def provision(self, cluster: PreparedCluster) -> Advice:
        return self._provisioned(self._prepared(cluster))

    def widening(self, cluster: PreparedCluster) -> Iterator[tuple[Pool, ...]]:
        """Yield higher limits, and requirements that admit more, with which more pods would be helped."""
        return Widening(self._prepared(cluster)).changes()

    def taints(self, cluster: PreparedCluster) -> Iterator[tuple[Taint, ...]]:
        for pool in self._prepared(cluster).usable_pools:
            yield pool.spec.template.spec.taints

    def manages(self, node: Node) -> bool:
        return NODEPOOL in node.metadata.labels

    def prices(self, cluster: PreparedCluster) -> Mapping[str, float]:
        return self._prices(self._prepared(cluster))

    def look(self, cluster: PreparedCluster, *, loops: Sequence[float]) -> Advice:  # noqa: ARG002 - of the seam
        prepared = self._prepared(cluster)
        advice = self._provisioned(prepared)
        conditions = claim_states(prepared)
        outcomes = {method.name: method.ask(prepared, conditions) for method in METHODS}
        acting = next((method for method in METHODS if outcomes[method.name].commands), None)
        namer = Namer([*prepared.snapshot.node_by_name, *self.used_names, *(new.facts.name for new in advice.adds)])
        commands = () if acting is None else outcomes[acting.name].commands
        reason = "" if acting is None else acting.reason
        removes = tuple(self._removal(prepared, command, reason, namer) for command in commands)
        gone = frozenset(candidate.name for command in commands for candidate in command.candidates)
        prices = self._prices(prepared)
        replacements = [replacement for removal in removes for replacement in removal.replacements]
        return replace(
            advice,
            removes=removes,
            stays=dict(stays(prepared, conditions, outcomes, gone)),
            price=prices_around(prices, [*advice.adds, *replacements], gone),
            warnings=(*advice.warnings, *_unlaunchable(replacements), *_taken_for_empty(commands)),
            detail=partial(detail_of, prepared, conditions, outcomes),
        )

    def _prepared(self, cluster: PreparedCluster) -> Prepared:
        return Prepared(cluster.snapshot, self.entries, self.options, cluster.now, self.release)

    def _provisioned(self, prepared: Prepared) -> Advice:
        provisioned, texts = prepared.provisioned, prepared.texts
        namer = Namer([*prepared.snapshot.node_by_name, *self.used_names])
        scalings = scale_static_pools(prepared).values() if self.options.is_on("StaticCapacity") else ()
        static = (prepared.static_node(scaling.pool) for scaling in scalings for _ in range(scaling.create))
        adds = tuple(self._new([*provisioned.nodes, *static], prepared, namer))
        prices = self._prices(prepared)
        return Advice(
            adds=adds,
            price=prices_around(prices, adds),
            existing={node: tuple(pod.metadata.key for pod in pods) for node, pods in provisioned.existing.items()},
            unhelped=partial(_unhelped, prepared),
            could_help=partial(_beyond_limits, prepared),
            events={
                pod: FAILED + "; ".join(texts.of_pools(refused))
                for pod, refused in provisioned.errors.items()
                if pod not in prepared.buffer_pods and not any(one.is_deferred for one in refused)
            }
            | ignored(prepared),
            warnings=(*self._warnings(prepared), *_unlaunchable(adds)),
        )

    def _new(self, nodes: Iterable[Planned], prepared: Prepared, namer: Namer) -> list[NewNode]:
        daemon_sets = prepared.snapshot.daemon_sets
        named = ((planned, namer.name(planned.template.name)) for planned in nodes)
        return [new_node(node, name, daemon_sets, has_prices=self.has_prices, now=prepared.now) for node, name in named]

    def _removal(self, prepared: Prepared, command: Command, reason: str, namer: Namer) -> NodeRemoval:
        replacements = tuple(self._new(command.replacements, prepared, namer))
        moves = {pod: new.facts.name for new in replacements for pod in new.facts.pods}
        moves |= {pod.metadata.key: node for node, pods in command.existing.items() for pod in pods}
        moving = {pod.metadata.key for candidate in command.candidates for pod in candidate.pods}
        facts = RemovedNodes(
            nodes=tuple(candidate.name for candidate in command.candidates),
            reason=reason,
            replacements=tuple(new.facts for new in replacements),
            moves={pod: node for pod, node in moves.items() if pod in moving},
            saves=rounded(command.savings) if command.consolidates and self.has_prices else None,
        )
        return NodeRemoval(facts=facts, replacements=replacements)

    def _prices(self, prepared: Prepared) -> dict[str, float]:
        own = [state for state in prepared.state.nodes if self.has_prices and state.claim is not None]
        prices = {state.name: prepared.machines(state.labels.get(NODEPOOL)).node_price(state.labels) for state in own}
        return {name: price for name, price in prices.items() if price is not None}

    def _warnings(self, prepared: Prepared) -> Iterable[InputWarning]:
        yield from self.notes
        if not self.entries:
            message = "none is known, so that no node can be added: give them with --instance-types FILE"
            yield InputWarning("NoInstanceTypes", "instance types", message)
        elif not self.has_prices:
            message = "prices are unknown: the smallest machines are taken for the cheapest"
            yield InputWarning("NoPrices", "instance types", message)
        for state in prepared.state.active:
            if state.claim is not None and not lifetime_remaining(state.claim, prepared.now):
                message = "older than its expireAfter: Karpenter deletes it, whatever budgets say; this is not followed"
                yield InputWarning("Expired", state.name, message)
        for pool, why in prepared.foreign.items():
            yield InputWarning("OtherProvider", pool, f"{why}: it is passed over (supportedNodeClasses changes that)")
        yield from _buffer_warnings(prepared)
        for entry in self.entries:
            if not entry.offerings:
                yield InputWarning("OfferedNowhere", entry.name, "the instance type has no offerings: no node gets it")
        present = {entry.name for entry in self.entries}
        used = {state.labels.get(INSTANCE_TYPE, "") for state in prepared.state.nodes if state.claim is not None}
        for name in sorted(used - present - {""}):
            yield InputWarning("UnknownInstanceType", name, "the catalogue does not have the type of a node")
        if not any(ZONE in state.labels for state in prepared.state.nodes) and prepared.state.nodes:
            yield InputWarning("NoZones", "nodes", "no node has a label for its zone")


def _unhelped(prepared: Prepared) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return why pools do not help pods; under an empty name what keeps all of them from it."""
    provisioned, buffers = prepared.provisioned, prepared.buffer_pods
    unready: dict[str, tuple[str, ...]] = {pool: (why,) for pool, why in prepared.unready_pools.items()}
    unhelped: dict[str, dict[str, tuple[str, ...]]] = {}
    for pod, refused in provisioned.errors.items():
        if pod in buffers:
            continue
        words: dict[str, tuple[str, ...]] = {}
        for one in refused:
            is_limited = one.refusal in _LIMITED
            own = (limits_text(prepared, one.pool, provisioned.nodes),) if is_limited else prepared.texts.words_of(one)
            words[one.pool] = (*words.get(one.pool, ()), *own)
        unhelped[pod] = words | unready
    unhelped |= {pod: {"": problems} for pod, problems in prepared.rejected.items() if problems}
    no_pool = unready or {"": ("the cluster has no NodePool that gets nodes for pods",)}
    return unhelped | {pod: no_pool for pod in provisioned.waiting if pod not in buffers}


_LIMITED = (Plain.LIMITS, Plain.NODE_LIMIT)


def _beyond_limits(prepared: Prepared) -> dict[str, tuple[str, ...]]:
    """Return the pools that would help pods if they had no limits, which are looked at before all else.

    Where no pool is ready, one of them would, as far as is known.
    """
    errors, snapshot = prepared.provisioned.errors, prepared.snapshot
    limited = {one.pool for refused in errors.values() for one in refused if one.refusal in _LIMITED}
    if not limited:
        return dict.fromkeys(prepared.provisioned.waiting, tuple(prepared.unready_pools))
    pools = tuple(_unlimited(pool) if pool.metadata.name in limited else pool for pool in snapshot.node_pools)
    new = prepared.of(replace(snapshot, node_pools=pools)).provisioned.nodes
    homes = {pod: node.template.name for node in new for pod in node.pods}
    return {pod: (homes[pod],) for pod in errors if homes.get(pod) in limited}


def _unlimited(pool: NodePool) -> NodePool:
    return replace(pool, spec=replace(pool.spec, limits={}))


def _buffer_warnings(prepared: Prepared) -> Iterable[InputWarning]:
    """Warn of buffers for which no room is kept, or too little."""
    errors, waiting = prepared.provisioned.errors, prepared.provisioned.waiting
    for buffer in prepared.buffers:
        if buffer.replicas is None:
            yield InputWarning("BufferWithoutPods", buffer.key, f"no room is kept for the buffer: {buffer.reason}")
            continue
        if buffer.replicas > len(buffer.pods):
            message = f"asks for {buffer.replicas:,} pods; followed for {len(buffer.pods):,}"
            yield InputWarning("BufferTooLarge", buffer.key, message)
        lacking = sum(pod.metadata.key in errors or pod.metadata.key in waiting for pod in buffer.pods)
        if lacking:
            message = f"no pool makes room for {lacking:,} of the {len(buffer.pods):,} pods of the buffer"
            yield InputWarning("BufferWithoutRoom", buffer.key, message)


def _unlaunchable(nodes: Iterable[NewNode]) -> Iterable[InputWarning]:
    """Warn of nodes that no provider can make: Karpenter may ask for spot capacity that no instance type offers."""
    for new in nodes:
        if new.facts.options and not new.facts.instance_type:
            message = "none of its instance types is offered as it is asked for: its launch fails"
            yield InputWarning("LaunchFails", new.facts.name, message)


def _taken_for_empty(commands: Iterable[Command]) -> Iterable[InputWarning]:
    """Warn of nodes that go as empty, with pods for which no other place was looked for."""
    for command in commands:
        for candidate in command.candidates:
            if candidate.is_empty and candidate.pods:
                pods = listing([pod.metadata.key for pod in candidate.pods], most=_MOST_NAMED)
                message = f"it goes as empty, wherever its pods find a place: a low deletion cost is no cost ({pods})"
                yield InputWarning("TakenForEmpty", candidate.name, message)


def set_up(settings: Karpenter, snapshot: Snapshot) -> KarpenterAutoscaler:
    """Set Karpenter up for a cluster; errors as for `kplan.autoscaling.settings.set_up`."""
    options, types = read_options(settings.options), settings.instance_types
    source = "the nodes and node claims of the cluster" if types is None else "a list"
    release, notes = release_in(snapshot) if settings.version is None else (release_named(settings.version), ())
    if "CapacityBuffer" in options.feature_gates and not release.buffers:
        raise UsageError(f"karpenter {release.name} has no feature gate 'CapacityBuffer'", hint="1.14 has it")
    return KarpenterAutoscaler(
        entries=learned_catalogue(snapshot) if types is None else content_of(settings),
        options=options,
        source=str(types) if isinstance(types, str | Path) else source,
        has_prices=types is not None,
        release=release,
        notes=notes,
    )


def content_of(settings: Karpenter) -> list[InstanceType]:
    """Return the catalogue; raises InputError with all its problems."""
    if settings.content is not None:
        entries: list[InstanceType] = settings.content
        return entries
    return [] if settings.instance_types is None else read_catalogue(settings.instance_types)


class KarpenterWatch:
    """A running Karpenter, from the cluster on at which it looks first."""

    def __init__(self, karpenter: KarpenterAutoscaler, cluster: PreparedCluster) -> None:
        self._karpenter = karpenter
        self._used_names = set(cluster.snapshot.node_by_name)

    def look(
        self,
        cluster: PreparedCluster,
        leaving: Collection[str],
        *,
        removes: bool,
        has_changed: bool,  # noqa: ARG002 - it remembers nothing that a change would make void
    ) -> Round:
        options = self._karpenter.options
        there = sorted(name for name in leaving if name in cluster.snapshot.node_by_name)
        options = replace(options, marked_for_deletion=(*options.marked_for_deletion, *there))
        karpenter = replace(self._karpenter, options=options, used_names=frozenset(self._used_names))
        advice = karpenter.look(cluster, loops=(0.0,)) if removes else karpenter.provision(cluster)
        self._used_names.update(node.facts.name for node in advice.all_new)
        # Look again when the next node becomes consolidatable.
        again, pools = math.inf, by_name(cluster.snapshot.node_pools)
        for claim in cluster.snapshot.node_claims if removes else ():
            pool = pools.get(claim.metadata.labels.get(NODEPOOL, ""))
            at = math.inf if pool is None else consolidatable_at(pool, claim)
            if at > cluster.now:
                again = min(again, (at - cluster.now) / 1e6)
        return Round(advice=advice, unneeded=frozenset(advice.gone), again=again)

    def keep(self, node: str, now: int) -> None:
        """Take no note: it will look at the node again."""


MOST_TRIED = 40  #: so many pools without their limits, or without one of their requirements, are tried


class Widening:
    """Looks for changes of the pools of a cluster, which is not changed."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._left = MOST_TRIED
        self._n_waiting = _n_waiting(prepared.provisioned)

    def changes(self) -> Iterator[tuple[Pool, ...]]:
        """Yield changes that help more pods: one by itself, or several of a pool that help only together."""
        if not self._n_waiting:
            return
        for pool in self._prepared.usable_pools:
            requirements = enumerate(pool.spec.template.spec.requirements)
            lists = [index for index, wanted in requirements if wanted.operator in ("In", "NotIn")]
            unlimited = _unlimited(pool)
            # Limits that have room for new nodes: as the provider makes them, and at the most.
            planned = self._tried(unlimited) if pool.spec.limits else []
            alone = [change for at_most in (False, True) for change in self._limits_for(pool, planned, at_most=at_most)]
            for index in lists:
                alone += _admitted(pool, index, self._made(self._tried(_without(pool, [index]))))
            if alone:
                for change in alone:
                    yield (change,)
                continue
            planned = self._tried(_without(unlimited, lists))
            admitted = [change for index in lists for change in _admitted(pool, index, self._made(planned))]
            for at_most in (False, True) if planned else ():
                yield (*admitted, *self._limits_for(pool, planned, at_most=at_most))

    def _tried(self, pool: NodePool) -> list[Planned]:
        """Return the nodes of a changed pool with which more pods are helped; none where no more are."""
        if not self._left:
            return []
        self._left -= 1
        snapshot = self._prepared.snapshot
        pools = tuple(pool if other.metadata.name == pool.metadata.name else other for other in snapshot.node_pools)
        other = replace(snapshot, node_pools=pools)
        provisioned = self._prepared.of(other).provisioned
        if _n_waiting(provisioned) >= self._n_waiting:
            return []
        return [planned for planned in provisioned.nodes if planned.template.name == pool.metadata.name]

    def _limits_for(self, pool: NodePool, planned: Sequence[Planned], *, at_most: bool) -> Iterator[Pool]:
        """Yield the limits that planned nodes need, where they are above those of the pool.

        With `at_most` every node counts as the largest that it may become, as with Karpenter until it is made.
        """
        capacities = [node.template.columns.most_capacity(node.types) for node in planned if at_most]
        capacities += [] if at_most else [nanos_of(node.status.capacity) for node in self._made(planned)]
        used = self._prepared.state.used_by(pool.metadata.name)
        needed = total_of((used, *({**capacity, NODES: NANO} for capacity in capacities)))
        limits = nanos_of(pool.spec.limits)
        higher = tuple(
            LimitChange(name, str(pool.spec.limits[name]), nano_text(name, needed[name]))
            for name in limits
            if planned and needed.get(name, 0) > limits[name]
        )
        if higher:
            yield Pool(pool.metadata.name, higher)

    def _made(self, planned: Iterable[Planned]) -> list[Node]:
        now = self._prepared.now
        return [new_node(node, node.template.name, (), has_prices=False, now=now).node for node in planned]


def _without(pool: NodePool, indexes: Collection[int]) -> NodePool:
    requirements = pool.spec.template.spec.requirements
    return with_requirements(pool, [one for index, one in enumerate(requirements) if index not in indexes])


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
