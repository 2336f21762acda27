"""A scheduling pass: pods, the largest first, go to present nodes, to new ones, or open another new node.

A new node starts with daemon pods, and a present one still has to get some. Karpenter gives up alternatives of a
daemon's node affinity for good: what one pool made it drop, later pools and nodes do not know any more.

Upstream: provisioning/scheduling/scheduler.go, queue.go; provisioning/provisioner.go getDaemonSetPods.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec.structs import replace

from kplan.api.affinity import required_node_affinity
from kplan.api.core import Container, Pod, PodSpec
from kplan.api.meta import ResourceList, controller_of
from kplan.api.pod import PodMeta
from kplan.api.quantity import nanos_of
from kplan.autoscaling.karpenter.amounts import NODES, Amounts, less, total_of
from kplan.autoscaling.karpenter.claims import Basis, DaemonGroup, ExistingNodes, Fit, NewClaim, Pass, Reservations
from kplan.autoscaling.karpenter.cluster import StateNode, Template
from kplan.autoscaling.karpenter.devices import Devices
from kplan.autoscaling.karpenter.pod_requirements import (
    Entrant,
    pod_requirements_of,
    queue_order,
    tolerating_preferences,
)
from kplan.autoscaling.karpenter.pods import HostPort, PodFacts, host_ports, untolerated
from kplan.autoscaling.karpenter.requirements import bits_of
from kplan.autoscaling.karpenter.texts import ClaimMissing, Plain, PoolRefusal
from kplan.autoscaling.karpenter.topology import Surroundings, Topology
from kplan.preemption.go_sort import go_sorted
from kplan.rules.resources import NANO, PODS
from kplan.workloads.new_pods import requiring


class Daemon:
    """A pod of a daemon set, with the alternatives that are still considered."""

    def __init__(self, pod: Pod, facts: PodFacts) -> None:
        self.key = pod.metadata.key  #: NAMESPACE/NAME; the same for all without names
        self.requests = facts.requests(pod)
        self.ports = host_ports(pod)
        self._known, self._constraints = facts.known, pod_requirements_of(pod.spec)

    def runs_on_new(self, template: Template, index: int | None = None) -> bool:
        """Tell whether new nodes of a pool, of an instance type, get it; drops alternatives on the way."""
        own = self._constraints
        own = self._constraints = replace(own, tolerations=tolerating_preferences(own.tolerations) or own.tolerations)
        if untolerated(own.tolerations, template.taints):
            return False
        while True:
            wanted = own.requirements(self._known, strict=True)
            suits_pool = not self._known.misfits(template.requirements, wanted, allows_well_known=True)
            if suits_pool and (index is None or template.columns.matching(wanted) >> index & 1):
                return True
            if own.required is None or len(own.required) <= 1:
                return False
            own = self._constraints = replace(own, required=own.required[1:])

    def runs_on(self, state: StateNode) -> bool:
        own, labels = self._constraints, self._known.of_labels(state.labels)
        misfits = self._known.misfits(labels, own.requirements(self._known, strict=True), allows_well_known=False)
        return not misfits and not untolerated(own.tolerations, state.taints)


def _daemons_of(facts: PodFacts) -> Iterator[Daemon]:
    """Yield a pod for every daemon set: its newest one, or else one as its template says."""
    newest: dict[str, Pod] = {}
    for pod in facts.snapshot.pods:
        owner = controller_of(pod.metadata)
        if owner is None or owner.kind != "DaemonSet":
            continue
        known = newest.get(owner.uid)
        if known is None or (pod.metadata.creation_timestamp or "") > (known.metadata.creation_timestamp or ""):
            newest[owner.uid] = pod
    for daemon_set in sorted(facts.snapshot.daemon_sets, key=lambda entry: entry.metadata.key):
        template = daemon_set.spec.template
        live = newest.get(daemon_set.metadata.uid) if daemon_set.metadata.uid else None
        spec = with_limits_as_requests(template.spec) if live is None else live.spec
        required = required_node_affinity(template.spec.affinity)
        spec = spec if required is None else requiring(spec, required)
        own = daemon_set.metadata
        named = PodMeta(name=own.name, namespace=own.namespace) if facts.release.daemons_by_type else PodMeta()
        pod = Pod(metadata=named, spec=spec) if live is None else replace(live, spec=spec)
        if not (facts.options.ignore_dra_requests and facts.uses_claims(pod)):
            yield Daemon(pod, facts)


def with_limits_as_requests(spec: PodSpec) -> PodSpec:
    """Return a template with the requests that an API server fills in."""

    def filled(container: Container) -> Container:
        resources = container.resources
        requests: ResourceList = {**resources.limits, **resources.requests}
        return replace(container, resources=replace(resources, requests=requests))

    containers, init_containers = (tuple(map(filled, own)) for own in (spec.containers, spec.init_containers))
    return replace(spec, containers=containers, init_containers=init_containers)


class DaemonPlan:
    """The daemons of new nodes of each pool, and of present nodes."""

    def __init__(self, facts: PodFacts, templates: Sequence[Template]) -> None:
        self._known, self.templates = facts.known, templates
        daemons = self._daemons = list(_daemons_of(facts))
        self.groups: list[list[DaemonGroup]]  #: of new nodes, by the number of the template
        if facts.release.daemons_by_type:
            self.groups = [self._by_type(template) for template in templates]
            return
        requests = [_requests([one for one in daemons if one.runs_on_new(template)]) for template in templates]
        # By now the daemons have dropped alternatives for the pools at the end, which those at the beginning notice.
        ports = [_ports(one for one in daemons if one.runs_on_new(template)) for template in templates]
        whole = zip(templates, requests, ports, strict=True)
        self.groups = [[DaemonGroup(template.types, own, taking)] for template, own, taking in whole]

    def _by_type(self, template: Template) -> list[DaemonGroup]:
        """Return the groups of types with the same daemons, by the names of these; those without daemons first."""
        types: dict[str, int] = {}
        daemons: dict[str, list[Daemon]] = {}
        for index in bits_of(template.types):
            own = [daemon for daemon in self._daemons if daemon.runs_on_new(template, index)]
            key = ",".join(sorted(daemon.key for daemon in own))
            types[key] = types.get(key, 0) | 1 << index
            daemons.setdefault(key, own)
        return [
            DaemonGroup(types[key], _requests(daemons[key]) if daemons[key] else {}, _ports(daemons[key]))
            for key in sorted(types)
        ]

    def basis(self, state: StateNode) -> Basis:
        """Return what a node offers once it has all its daemons."""
        wanted = _requests([daemon for daemon in self._daemons if daemon.runs_on(state)])
        present, known = state.usage.daemon_requests, self._known
        missing = {name: max(0, amount - present.get(name, 0)) for name, amount in wanted.items()}
        return Basis(state, known.hostless(known.of_labels(state.labels)), less(state.available, missing))


def _requests(daemons: Sequence[Daemon]) -> Amounts:
    return {**total_of(daemon.requests for daemon in daemons), PODS: len(daemons) * NANO}


def _ports(daemons: Iterable[Daemon]) -> Mapping[str, tuple[HostPort, ...]]:
    """Return the host ports of daemons; of those without names only the last one's count, as upstream."""
    return {daemon.key: daemon.ports for daemon in daemons}


Refused = tuple[PoolRefusal, ...]  #: why pools have no node for a pod; a refusal without a pool holds for all


class Scheduler:
    """One pass over pods, which are added to some nodes, and to new ones of the first pool that can."""

    def __init__(
        self,
        around: Surroundings,
        daemons: DaemonPlan,
        nodes: Sequence[Basis],
        entrants: Sequence[Entrant],
        *,
        is_strict: bool,
        devices: Devices | None,
        spared: frozenset[str],
        exempt: Collection[str],
    ) -> None:
        self._daemons, self._templates, self._options = daemons, daemons.templates, around.facts.options
        self._tolerates_preferences = around.tolerates_preferences
        self._topology = Topology(around, [basis.state for basis in nodes], entrants)
        reservations = Reservations(template.columns for template in daemons.templates)
        self.shared = Pass(around.facts, self._topology, reservations, is_strict, devices)
        #: pool -> what its limits leave
        self._remaining = {template.name: nanos_of(template.pool.spec.limits) for template in daemons.templates}
        for basis in nodes:
            self._topology.register_host(basis.state.hostname)
            left = self._remaining.get(basis.state.pool, {})
            for name in left:
                left[name] -= basis.state.capacity.get(name, 0)
        self.existing = ExistingNodes(nodes, self.shared)
        self.claims: list[NewClaim] = []  #: the new nodes
        self._made = 0
        #: pool -> whether its last new node has fewer values of a label than it asks for
        self.is_relaxed: dict[str, bool] = {}
        self._spared, self._exempt = spared, exempt  # these nodes get no pods but those of the UIDs that are exempt

    def solve(self, entrants: Sequence[Entrant]) -> dict[str, Refused]:
        """Find places, until a round over the pods that are left finds none; return why these have none."""
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
            if entrant.constraints is not entrant.first_requirements:
                entrant.require(entrant.first_requirements)
            self._topology.update(entrant)
            queue.append(entrant)
            last_length[entrant.uid] = len(queue)
        return errors

    def _try(self, entrant: Entrant) -> Refused | None:
        """Find a place for a pod, and give up its preferences one by one."""
        while True:
            refused = self._add(entrant)
            # Reserved capacity may come, and devices do not: giving up preferences would not help.
            if refused is None or any(one.is_deferred or one.refusal is Plain.CLAIMS for one in refused):
                return refused
            relaxed = entrant.constraints.relaxed(tolerates_preferences=self._tolerates_preferences)
            if relaxed is None:
                return refused
            entrant.require(relaxed)
            self._topology.update(entrant)

    def _add(self, entrant: Entrant) -> Refused | None:
        if entrant.has_claims and (why := self._why_unclaimed(entrant)):
            return (PoolRefusal("", why),)
        groups = self._topology.concerning(entrant)
        for index in self.existing.candidates(entrant):
            node = self.existing.nodes[index]
            if node.state.name in self._spared and entrant.uid not in self._exempt:
                continue
            room = node.can_take(entrant, groups)
            if room is not None:
                self.existing.take(index, entrant, room)
                return None
        # New nodes with the fewest pods come first; Go's sort is not stable.
        counts = [len(claim.pods) for claim in self.claims]
        if any(one > other for one, other in pairwise(counts)):
            self.claims = go_sorted(self.claims, counts)
        for claim in self.claims:
            if claim.is_too_full(entrant.requests):
                continue
            fit = claim.can_take(entrant, groups)
            if isinstance(fit, Fit):
                claim.take(entrant, fit)
                return None
        return self._open(entrant) if self._templates else (PoolRefusal("", Plain.NO_TEMPLATE),)

    def _why_unclaimed(self, entrant: Entrant) -> Plain | ClaimMissing | None:
        if self._options.ignore_dra_requests:
            return Plain.CLAIMS
        claims = () if self.shared.devices is None else self.shared.devices.claims_of(entrant.pod)
        return claims if isinstance(claims, ClaimMissing) else None

    def _open(self, entrant: Entrant) -> Refused | None:
        """Open a new node for a pod, in the first pool that can (upstream addToNewNodeClaim)."""
        groups = self._topology.concerning(entrant)
        refused: list[PoolRefusal] = []
        for index, template in enumerate(self._templates):
            types, remaining = template.types, self._remaining[template.name]
            if remaining:
                if remaining.get(NODES) == 0:
                    refused.append(PoolRefusal(template.name, Plain.NODE_LIMIT))
                    continue
                types = template.columns.within(types, remaining)
                if not types:
                    refused.append(PoolRefusal(template.name, Plain.LIMITS))
                    continue
            self._made += 1
            hostname, daemons = f"hostname-placeholder-{self._made:04d}", self._daemons.groups[index]
            claim = NewClaim(template, hostname, types, daemons=daemons, shared=self.shared)
            fit = claim.can_take(entrant, groups, relaxes_min_values=self._options.relaxes_min_values)
            if isinstance(fit, Fit):
                own = fit.requirements.items
                self.is_relaxed[template.name] = any(
                    wanted.min_values is not None and key in own and (own[key].min_values or 0) < wanted.min_values
                    for key, wanted in template.requirements.items.items()
                )
                claim.take(entrant, fit)
                self.claims.append(claim)
                used = template.columns.most_capacity(bits_of(claim.types)) if remaining else {}
                for name in remaining:
                    remaining[name] -= used.get(name, 0)
                return None
            refused.append(PoolRefusal(template.name, fit))
            if refused[-1].is_deferred:
                break
        return tuple(refused)
