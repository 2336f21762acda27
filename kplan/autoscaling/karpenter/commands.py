"""Commands: nodes that go together, and the nodes that are made first; and how many nodes pools with replicas get.

Upstream: controllers/disruption/types.go Command, consolidation.go computeConsolidation,
multinodeconsolidation.go filterOutSameInstanceType; controllers/static/{provisioning,deprovisioning},
controllers/state/statenodepool.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.labels import NODEPOOL
from kplan.api.provisioning import NodePool
from kplan.api.quantity import parse
from kplan.autoscaling.karpenter.amounts import NODES
from kplan.autoscaling.karpenter.candidates import (
    CANDIDATE,
    UNCONSOLIDATABLE,
    Candidate,
    DisruptableCluster,
    Events,
    price_of,
)
from kplan.autoscaling.karpenter.cluster import StateNode, why_not_ready
from kplan.autoscaling.karpenter.instance_types import Columns
from kplan.autoscaling.karpenter.planned import Planned
from kplan.autoscaling.karpenter.pods import disruption_cost, holds_its_node, is_of_daemon_set, is_provisionable
from kplan.autoscaling.karpenter.prepared import Prepared, Simulated, leaving_pods
from kplan.autoscaling.karpenter.requirements import CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT, Requirements
from kplan.autoscaling.karpenter.texts import PoolRefusal, Uninitialized
from kplan.preemption.go_sort import go_sorted
from kplan.rules.resources import NANO

_LEAST_SPOT_TYPES = 15  #: a spot node is replaced by another only if so many cheaper instance types could do

_UNPRICED = float("inf")
NO_PLACE = "Not all pods would schedule"


class Command(msgspec.Struct, frozen=True):
    """Nodes that go, and nodes that come for them."""

    candidates: tuple[Candidate, ...]
    replacements: tuple[Planned, ...] = ()
    existing: Mapping[str, tuple[Pod, ...]] = {}  #: node -> the pods that go there
    consolidates: bool = True  #: whether it is to save money, so that savings are told
    #: a new node costs what the cheapest offering does that it may have; else that its type has
    saves_by_requirements: bool = True

    @property
    def decision(self) -> Literal["delete", "replace"]:
        return "replace" if self.replacements else "delete"

    @property
    def savings(self) -> float:
        """What Karpenter expects to save: by the cheapest offering of the cheapest new type."""
        price = price_of(self.candidates)
        for node in self.replacements:
            if node.types:
                columns, first = node.template.columns, node.types[0]
                wanted = node.requirements if self.saves_by_requirements else None
                offerings = columns.offerings_of(first, wanted, available=self.saves_by_requirements)
                price -= min((one.price for one in offerings), default=0.0)
        return price

    def text_for(self, candidate: Candidate) -> str:
        """Return the command in Karpenter's words, as events about one of its nodes have it."""
        text, n_new = f"{self.decision}: [{candidate.name}]", len(self.replacements)
        if len(self.candidates) > 1:
            return f"{text} (part of {len(self.candidates)}-node consolidation)"
        return f"{text} -> [{n_new} replacement{'' if n_new == 1 else 's'}]" if n_new else text

    def note(self, events: Events, event: str, words: str, why: str = "") -> None:
        for candidate in self.candidates:
            text = f"{words}: {self.text_for(candidate)}{why} (savings: ${self.savings:.2f})"
            events.note(candidate.state, event, text)


def simulate_without(
    cluster: DisruptableCluster, candidates: Sequence[Candidate], *, consolidates: bool = True
) -> Simulated | None:
    """Run a pass without some nodes, with their pods; None where there is no pool that gets nodes.

    The errors are those of pods other than pending ones.
    """
    prepared, budgets = cluster.prepared, cluster.budgets
    names = {candidate.name for candidate in candidates}
    states = [state for state in prepared.state.active if state.name not in names]
    leaving = leaving_pods(prepared, budgets)
    moving = [pod for candidate in candidates for pod in candidate.pods if budgets.lets_move(pod)]
    spared = cluster.spared if consolidates else frozenset()
    result = prepared.simulate([*prepared.pending, *moving, *leaving], states, is_strict=False, spared=spared)
    if result is None:
        return None
    errors = dict(result.errors)
    exempt = {pod.metadata.key for pod in leaving}
    for state in states:
        for pod in () if state.is_initialized else result.existing.get(state.name, ()):
            if pod.metadata.key not in exempt:
                claim, node = ("" if one is None else one.metadata.name for one in (state.claim, state.node))
                errors[pod.metadata.key] = (PoolRefusal("", Uninitialized(claim, node)),)
    pods = {pod.metadata.key: pod for pod in (*moving, *leaving)}
    unplaced = {key: refused for key, refused in errors.items() if key in pods and not is_provisionable(pods[key])}
    return replace(result, errors=unplaced)


def first_unplaced(prepared: Prepared, simulated: Simulated) -> tuple[str, str]:
    """Return the first pod by name that finds no place, and why."""
    pod = min(simulated.errors)
    return pod, "; ".join(text for one in simulated.errors[pod] for text in prepared.texts.of_pool(one))


def consolidation(cluster: DisruptableCluster, candidates: Sequence[Candidate]) -> Command | None:
    """Return how to do without some nodes, or with a cheaper one; None if neither is possible."""
    by_requirements = cluster.prepared.release.saves_by_requirements
    result = simulate_without(cluster, candidates)
    if result is None:
        return None
    if result.errors:
        pod, particulars = first_unplaced(cluster.prepared, result)
        _keep(cluster, candidates, NO_PLACE, pod, particulars)
        return None
    if not result.nodes:
        return Command(tuple(candidates), (), result.existing, saves_by_requirements=by_requirements)
    if len(result.nodes) > 1:
        _keep(cluster, candidates, f"Can't remove without creating {len(result.nodes)} candidates")
        return None
    replacement = _replacement(cluster, candidates, result.nodes[0])
    if replacement is None:
        return None
    command = Command(tuple(candidates), (replacement,), result.existing, saves_by_requirements=by_requirements)
    command.note(cluster.events, CANDIDATE, "Consolidation candidate")
    return command


def _keep(
    cluster: DisruptableCluster, candidates: Sequence[Candidate], message: str, pod: str = "", particulars: str = ""
) -> None:
    """Note why a node cannot be consolidated, if it is asked about alone."""
    if len(candidates) == 1:
        cluster.events.note(candidates[0].state, UNCONSOLIDATABLE, message, pod=pod, particulars=particulars)


def _replacement(cluster: DisruptableCluster, candidates: Sequence[Candidate], node: Planned) -> Planned | None:
    known = cluster.prepared.known
    wanted = node.requirements.items.get(CAPACITY_TYPE)
    allows = {name: wanted is None or known.has(wanted, name) for name in (SPOT, ON_DEMAND)}
    from_spot_to_spot = allows[SPOT] and all(one.state.labels.get(CAPACITY_TYPE) == SPOT for one in candidates)
    columns = node.template.columns
    only_spot = known.join(node.requirements, known.of([known.requirement(CAPACITY_TYPE, "In", (SPOT,))]))
    if from_spot_to_spot:
        if not cluster.prepared.options.is_on("SpotToSpotConsolidation"):
            message = "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"
            _keep(cluster, candidates, message)
            return None
        types = [index for index in node.types if columns.offerings_of(index, only_spot)]
        node = replace(node, types=tuple(types), requirements=only_spot)
    cheaper, lacking = cheaper_types(node, price_of(candidates))
    if lacking:
        labels = " ".join(sorted(lacking))
        message = f"Filtering by price: minValues requirement is not met for label(s) (label(s)=[{labels}])"
        _keep(cluster, candidates, message)
        return None
    if not cheaper:
        _keep(cluster, candidates, "Can't replace with a cheaper node")
        return None
    if not from_spot_to_spot:
        both = allows[SPOT] and allows[ON_DEMAND]
        return replace(node, types=tuple(cheaper), requirements=only_spot if both else node.requirements)
    if len(candidates) == 1:
        # A spot node that replaces one keeps the cheapest types; there must be enough of them to choose from.
        if len(cheaper) < _LEAST_SPOT_TYPES:
            message = f"SpotToSpotConsolidation requires {_LEAST_SPOT_TYPES} cheaper instance type options than the"
            _keep(cluster, candidates, f"{message} current candidate to consolidate, got {len(cheaper)}")
            return None
        needed, _ = columns.needed_for_min_values(cheaper, node.requirements)
        cheaper = cheaper[: max(_LEAST_SPOT_TYPES, needed)]
    return replace(node, types=tuple(cheaper))


def cheaper_types(node: Planned, price: float) -> tuple[list[int], dict[str, int]]:
    """Return the types whose dearest zone costs less than a price; and the labels that then have too few values."""
    columns = node.template.columns
    types = [index for index in node.types if _worst_price(columns, index, node.requirements) < price]
    _, lacking = columns.needed_for_min_values(types, node.requirements)
    return types, lacking


def _worst_price(columns: Columns, index: int, requirements: Requirements) -> float:
    """Return what a type costs in the dearest zone, of the capacity type that would be used."""
    offerings = columns.offerings_of(index, requirements)
    for capacity_type in (RESERVED, SPOT, ON_DEMAND):
        prices = [offering.price for offering in offerings if offering.capacity_type == capacity_type]
        if prices:
            return max(prices)
    return _UNPRICED


def without_same_types(command: Command) -> Command | None:
    """Return a command that does not replace several nodes by one of the same type at the same price."""
    node = command.replacements[0]
    columns = node.template.columns
    lowest: dict[str, float] = {}
    present = set()
    for candidate in command.candidates:
        if candidate.type_index is None:
            continue
        name = candidate.columns.types[candidate.type_index].name
        present.add(name)
        price = candidate.columns.node_price(candidate.state.labels)
        if price is not None and price < lowest.get(name, _UNPRICED):
            lowest[name] = price
    shared = [columns.types[index].name for index in node.types if columns.types[index].name in present]
    cheaper, lacking = cheaper_types(node, min((lowest.get(name, 0.0) for name in shared), default=_UNPRICED))
    if lacking or not cheaper:
        return None
    return replace(command, replacements=(replace(node, types=tuple(cheaper)),))


class Scaling(msgspec.Struct, frozen=True):
    """What becomes of a pool with replicas: nodes that are added, or the claims that are deleted."""

    pool: NodePool
    create: int = 0
    delete: tuple[str, ...] = ()


def counts_of(prepared: Prepared) -> tuple[Counter[str], Counter[str]]:
    """Return how many claims each pool has, and how many of them stay."""
    leaving = {state.claim.metadata.name for state in prepared.state.deleting if state.claim is not None}
    claims = [(one.metadata.labels.get(NODEPOOL, ""), one.metadata.name) for one in prepared.snapshot.node_claims]
    return Counter(pool for pool, _ in claims), Counter(pool for pool, name in claims if name not in leaving)


def reservable_nodes(pool: NodePool, n_claims: int, wanted: int) -> int:
    """Return how many of the wanted nodes the pool's limit of nodes leaves (upstream ReserveNodeCount)."""
    if NODES in pool.spec.limits:
        wanted = min(wanted, -(-parse(pool.spec.limits[NODES]).nanos // NANO) - n_claims)
    return max(0, wanted)


def scale_static_pools(prepared: Prepared) -> dict[str, Scaling]:
    present, staying = counts_of(prepared)
    scalings: dict[str, Scaling] = {}
    for name in sorted(prepared.pools):
        pool = prepared.pools[name]
        replicas = pool.spec.replicas
        if replicas is None or pool.metadata.deletion_timestamp is not None:
            continue
        missing = replicas - staying[name]
        create = reservable_nodes(pool, present[name], missing) if missing > 0 and not why_not_ready(pool) else 0
        delete = _to_delete(prepared, name, -missing) if missing < 0 else ()
        scalings[name] = Scaling(pool, create, delete)
    return scalings


def _to_delete(prepared: Prepared, pool: str, count: int) -> tuple[str, ...]:
    """Return claims to delete: those without a machine, then empty nodes, then those that cost least."""
    now = prepared.now
    unmade = sorted(
        claim.metadata.name
        for claim in prepared.snapshot.node_claims
        if claim.metadata.labels.get(NODEPOOL) == pool
        and not claim.status.provider_id
        and claim.metadata.deletion_timestamp is None
    )
    nodes = [(state, state.claim) for state in prepared.state.active if state.pool == pool and state.claim is not None]
    empty = [claim.metadata.name for state, claim in nodes if _is_empty(state, now)]
    occupied = [(state, claim) for state, claim in nodes if not _is_empty(state, now)]
    weights = (
        (any(holds_its_node(pod, now) for pod in state.pods), disruption_cost(state.pods, claim, now))
        for state, claim in occupied
    )
    return (*unmade, *empty, *(claim.metadata.name for _, claim in go_sorted(occupied, weights)))[:count]


def _is_empty(state: StateNode, now: int) -> bool:
    return all(is_of_daemon_set(pod) and not holds_its_node(pod, now) for pod in state.pods)
