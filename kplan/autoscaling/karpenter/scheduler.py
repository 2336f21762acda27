"""A scheduling pass: pods, the largest first, go to present nodes, to new ones, or open another new node.

Upstream: provisioning/scheduling/scheduler.go, queue.go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

from kplan.autoscaling.karpenter.amounts import Amounts
from kplan.autoscaling.karpenter.claims import Fit, InFlight, Pass, Reservations, Rules
from kplan.autoscaling.karpenter.daemons import DaemonPlan
from kplan.autoscaling.karpenter.existing_nodes import Basis, ExistingNode, ExistingNodes
from kplan.autoscaling.karpenter.names import NODES
from kplan.autoscaling.karpenter.pools import Template
from kplan.autoscaling.karpenter.requirements import bits_of
from kplan.autoscaling.karpenter.texts import Plain, PoolRefusal
from kplan.autoscaling.karpenter.topology import Surroundings, Topology
from kplan.autoscaling.karpenter.wishes import Entrant, queue_order
from kplan.preemption.go_sort import go_sort

Refused = tuple[PoolRefusal, ...]
"""Why pools have no node for a pod; a refusal without a pool holds for all."""


class PassResult(msgspec.Struct, frozen=True):
    """What a pass comes to.

    Attributes
    ----------
    errors : for each pod without a place, why; in the order in which they were given up first
    relaxed : the pools whose last new node has fewer values of a label than they ask for
    """

    claims: list[InFlight]
    existing: list[ExistingNode]
    errors: dict[str, Refused]
    relaxed: frozenset[str]


class Scheduler:
    """One pass over pods.

    Parameters
    ----------
    templates : of the pools, in the order in which they are tried
    limits : pool -> what its limits leave without any node; pools without limits are not in it
    nodes : those that pods may be added to
    """

    def __init__(
        self,
        around: Surroundings,
        templates: Sequence[Template],
        nodes: Sequence[Basis],
        entrants: Sequence[Entrant],
        *,
        limits: Mapping[str, Amounts],
        daemons: DaemonPlan,
        rules: Rules,
    ) -> None:
        self._known = around.vocabulary
        self._templates = templates
        self._rules = rules
        self._topology = Topology(around, [basis.state for basis in nodes], entrants)
        self._shared = Pass(
            vocabulary=around.vocabulary,
            topology=self._topology,
            reservations=Reservations(template.columns for template in templates),
            rules=rules,
        )
        self._daemons = daemons
        self._remaining = {pool: dict(amounts) for pool, amounts in limits.items()}
        for basis in nodes:
            self._topology.register_host(basis.hostname)
            left = self._remaining.get(basis.state.pool, {})
            for name in left:
                left[name] -= basis.state.capacity.get(name, 0)
        self._existing = ExistingNodes(nodes, self._known)
        self._claims: list[InFlight] = []
        self._made = 0
        self._relaxed: dict[str, bool] = {}

    def solve(self, entrants: Sequence[Entrant]) -> PassResult:
        """Find places, until a round over the pods that are left finds none."""
        queue = deque(sorted(entrants, key=queue_order))
        last_length: dict[str, int] = {}
        errors: dict[str, Refused] = {}
        while queue and last_length.get(queue[0].uid) != len(queue):
            entrant = queue.popleft()
            refused = self._try(entrant)
            if refused is None:
                errors.pop(entrant.key, None)
                continue
            errors[entrant.key] = refused
            if entrant.wishes is not entrant.first_wishes:
                entrant.wish(entrant.first_wishes)
            self._topology.update(entrant)
            queue.append(entrant)
            last_length[entrant.uid] = len(queue)
        relaxed = frozenset(pool for pool, is_relaxed in self._relaxed.items() if is_relaxed)
        return PassResult(self._claims, self._existing.nodes, errors, relaxed)

    def _try(self, entrant: Entrant) -> Refused | None:
        """Find a place for a pod, and give up its preferences one by one."""
        while True:
            refused = self._add(entrant)
            if refused is None or any(_ends_attempt(one) for one in refused):
                return refused
            relaxed = entrant.wishes.relaxed(tolerates_preferences=self._rules.tolerates_preferences)
            if relaxed is None:
                return refused
            entrant.wish(relaxed)
            self._topology.update(entrant)

    def _add(self, entrant: Entrant) -> Refused | None:
        if entrant.has_claims and self._rules.ignores_claims:
            return (PoolRefusal("", Plain.CLAIMS),)
        groups = self._topology.concerning(entrant)
        for index in self._existing.candidates(entrant):
            node = self._existing.nodes[index]
            requirements = node.can_take(entrant, groups, self._topology, self._known)
            if requirements is not None:
                self._existing.take(index, entrant, requirements, self._topology)
                return None
        self._sort_claims()
        for claim in self._claims:
            if claim.is_too_full(entrant.requests):
                continue
            fit = claim.can_take(entrant, groups)
            if isinstance(fit, Fit):
                claim.take(entrant, fit)
                return None
        if not self._templates:
            return (PoolRefusal("", Plain.NO_TEMPLATE),)
        return self._open(entrant)

    def _sort_claims(self) -> None:
        """Bring new nodes with the fewest pods to the front; Go's sort is not stable."""
        counts = [len(claim.pods) for claim in self._claims]
        if any(one > other for one, other in pairwise(counts)):
            self._claims = [self._claims[index] for index in go_sort(counts, counts)]

    def _open(self, entrant: Entrant) -> Refused | None:
        """Open a new node for a pod, in the first pool that can (upstream addToNewNodeClaim)."""
        groups = self._topology.concerning(entrant)
        refused: list[PoolRefusal] = []
        for index, template in enumerate(self._templates):
            types = template.types
            remaining = self._remaining.get(template.name)
            if remaining:
                if remaining.get(NODES) == 0:
                    refused.append(PoolRefusal(template.name, Plain.NODE_LIMIT))
                    continue
                types = template.columns.within(types, remaining)
                if not types:
                    refused.append(PoolRefusal(template.name, Plain.LIMITS))
                    continue
            self._made += 1
            claim = InFlight(
                template,
                f"hostname-placeholder-{self._made:04d}",
                types,
                daemon_requests=self._daemons.requests[index],
                daemon_ports=self._daemons.ports[index],
                shared=self._shared,
            )
            fit = claim.can_take(entrant, groups, relaxes_min_values=self._rules.relaxes_min_values)
            if isinstance(fit, Fit):
                self._relaxed[template.name] = _is_relaxed(template, fit)
                claim.take(entrant, fit)
                self._claims.append(claim)
                if remaining:
                    used = template.columns.most_capacity(bits_of(claim.types))
                    for name in remaining:
                        remaining[name] -= used.get(name, 0)
                return None
            refused.append(PoolRefusal(template.name, fit))
            if isinstance(fit, Plain) and fit.is_deferred:
                break
        return tuple(refused)


def _is_relaxed(template: Template, fit: Fit) -> bool:
    """Tell whether fewer values of a label stay possible than the pool asks for."""
    changed = fit.requirements.items
    return any(
        wanted.min_values is not None and key in changed and (changed[key].min_values or 0) < wanted.min_values
        for key, wanted in template.requirements.items.items()
    )


def _ends_attempt(refused: PoolRefusal) -> bool:
    """Tell whether giving up preferences would not help."""
    refusal = refused.refusal
    return refusal is Plain.CLAIMS or (isinstance(refusal, Plain) and refusal.is_deferred)
