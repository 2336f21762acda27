"""A cluster, a catalogue and settings, made ready for any number of passes; and what Karpenter makes for pending pods.

Upstream: provisioning/provisioner.go NewScheduler, GetPendingPods, Schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import msgspec

from kplan.api.affinity import PREFER_NO_SCHEDULE, NodeSelectorRequirement
from kplan.api.core import Pod
from kplan.api.labels import NODEPOOL
from kplan.api.provisioning import NodePool
from kplan.api.quantity import nanos_of
from kplan.autoscaling.karpenter.buffers import Buffer, buffers_of
from kplan.autoscaling.karpenter.claims import Basis
from kplan.autoscaling.karpenter.cluster import (
    SIMULATED,
    StateNode,
    Template,
    cluster_state,
    domain_groups,
    own_part,
    pool_requirements,
    why_unusable,
)
from kplan.autoscaling.karpenter.devices import DeviceCatalogue, Devices
from kplan.autoscaling.karpenter.instance_types import Columns, InstanceType, Overlaid, overlay, well_known_of
from kplan.autoscaling.karpenter.options import Options, Release
from kplan.autoscaling.karpenter.planned import Planned, planned_of, static_node
from kplan.autoscaling.karpenter.pod_requirements import Entrant, pod_requirements_of
from kplan.autoscaling.karpenter.pods import BudgetLimits, PodFacts, is_pending, is_provisionable
from kplan.autoscaling.karpenter.requirements import Vocabulary, bits_of
from kplan.autoscaling.karpenter.scheduler import DaemonPlan, Refused, Scheduler
from kplan.autoscaling.karpenter.texts import Texts
from kplan.autoscaling.karpenter.topology import PlacedPods, Surroundings
from kplan.rules.resources import nano_text
from kplan.snapshot.model import Snapshot


class Simulated(msgspec.Struct, frozen=True):
    """What a pass comes to."""

    nodes: list[Planned]
    existing: Mapping[str, tuple[Pod, ...]]  #: node -> the pods that go there, in order
    errors: Mapping[str, Refused]  #: pod -> why it has no place
    waiting: tuple[str, ...] = ()  #: pods for which there is no pool at all
    devices: Devices | None = None  #: as the pass leaves them; None where pods get none


class Prepared:
    """A cluster as Karpenter knows it, at one moment (microseconds since 1970)."""

    def __init__(
        self, snapshot: Snapshot, entries: Sequence[InstanceType], options: Options, now: int, release: Release
    ) -> None:
        self._types, self.release, self.options, self.now = tuple(entries), release, options, now
        snapshot, self.foreign = own_part(snapshot, options)  #: pool -> why it is passed over
        self.snapshot = snapshot
        groups = {pool.spec.template.spec.node_class_ref.group for pool in snapshot.node_pools}
        self.known = Vocabulary(well_known_of(entries), filter(None, groups))
        self.facts, self.texts = PodFacts(snapshot, self.known, options, release), Texts(self.known)
        self.pools = {pool.metadata.name: pool for pool in snapshot.node_pools}
        self._columns: list[tuple[tuple[InstanceType, ...], Columns]] = []
        self.state = cluster_state(self.facts)

    def of(self, snapshot: Snapshot) -> Prepared:
        """Return another cluster, with the same catalogue and settings and at the same moment."""
        return Prepared(snapshot, self._types, self.options, self.now, self.release)

    @cached_property
    def overlaid(self) -> Overlaid:
        """The instance types of each pool, and what became of the overlays."""
        pools = [self.pools[name] for name in sorted(self.pools)]
        if not self.options.is_on("NodeOverlay"):
            return Overlaid(self._provided, {})
        return overlay(self.snapshot.node_overlays, pools, self._provided, self.known)

    @cached_property
    def _provided(self) -> dict[str, tuple[InstanceType, ...]]:
        """Pool -> the instance types that its node class has."""
        class_of = {name: pool.spec.template.spec.node_class_ref.name for name, pool in self.pools.items()}
        types_of = {
            own: tuple(one for one in self._types if not one.node_classes or own in one.node_classes)
            for own in set(class_of.values())
        }
        return {name: types_of[own] for name, own in class_of.items()}

    def machines(self, pool: str | None) -> Columns:
        """Return the instance types of a pool as their provider knows them; of no known pool, all."""
        return self._columns_of(self._provided.get(pool or "", self._types))

    @cached_property
    def columns(self) -> Mapping[str, Columns]:
        """The instance types of each pool as columns, with overlays."""
        return {name: self._columns_of(types) for name, types in self.overlaid.types.items()}

    def _columns_of(self, types: tuple[InstanceType, ...]) -> Columns:
        """Return columns, which pools with the same types share."""
        known = next((columns for own, columns in self._columns if own is types or own == types), None)
        if known is None:
            known = Columns(types, self.known, varies_by_offering=self.release.varies_by_offering)
            self._columns.append((types, known))
        return known

    @cached_property
    def usable_pools(self) -> list[NodePool]:
        """The pools that get nodes for pods, in the order in which they are tried."""
        usable = (pool for pool in self.pools.values() if not why_unusable(pool))
        return sorted(usable, key=lambda pool: (pool.spec.weight or 0, pool.metadata.name), reverse=True)

    @property
    def unready_pools(self) -> dict[str, str]:
        """Pool -> why it gets no nodes for pods, by name; without those that have replicas, which never do."""
        own = {name: why_unusable(pool) for name, pool in sorted(self.pools.items()) if pool.spec.replicas is None}
        return {name: why for name, why in (own | self.foreign).items() if why}

    @cached_property
    def all_templates(self) -> list[Template]:
        """The templates of `usable_pools`; some may have no instance type."""
        relaxes = self.options.relaxes_min_values
        return [self.template_of(pool, relaxes_min_values=relaxes) for pool in self.usable_pools]

    def static_node(self, pool: NodePool) -> Planned:
        """Return a new node of a pool that has as many as its replicas say."""
        return static_node(self.template_of(pool, relaxes_min_values=False))

    def template_of(self, pool: NodePool, *, relaxes_min_values: bool) -> Template:
        """Return the template of a pool, with the instance types that its requirements leave."""
        known, name, spec = self.known, pool.metadata.name, pool.spec.template.spec
        columns, node_class = self.columns[name], spec.node_class_ref
        labels = {**pool.spec.template.metadata.labels, NODEPOOL: name}
        labels[f"{node_class.group}/{node_class.kind.lower()}"] = node_class.name
        requirements = known.join(pool_requirements(pool, known), known.of_labels(labels))
        if self.release.daemons_find_ready:
            requirements = known.join(requirements, known.of_labels(dict.fromkeys(SIMULATED, "true")))
        types = columns.matching(requirements) & columns.fitting({}, requirements)
        lacking = {} if relaxes_min_values else columns.needed_for_min_values([*bits_of(types)], requirements)[1]
        return Template(
            pool=pool,
            name=name,
            requirements=requirements,
            labels=labels,
            taints=spec.taints,
            columns=columns,
            machines=self.machines(name),
            types=0 if lacking else types,
            lacks_min_values=bool(lacking),
        )

    @cached_property
    def templates(self) -> list[Template]:
        return [template for template in self.all_templates if template.types]

    @cached_property
    def surroundings(self) -> Surroundings:
        pods = sorted(self.snapshot.pods, key=lambda pod: pod.metadata.key)
        taints = (taint for pool in self.usable_pools for taint in pool.spec.template.spec.taints)
        return Surroundings(
            self.facts,
            domains=domain_groups(self.usable_pools, self.overlaid.types, self.known),
            placed=PlacedPods(pods, self.snapshot.node_by_name, self.state),
            tolerates_preferences=any(taint.effect == PREFER_NO_SCHEDULE for taint in taints),
        )

    @cached_property
    def _provisionable(self) -> dict[str, Pod]:
        pods = {pod.metadata.key: pod for pod in self.snapshot.pods if is_provisionable(pod)}
        return dict(sorted(pods.items()))

    @cached_property
    def buffers(self) -> list[Buffer]:
        return list(buffers_of(self.snapshot, self.now)) if self.options.is_on("CapacityBuffer") else []

    @cached_property
    def buffer_pods(self) -> frozenset[str]:
        """The pods, NAMESPACE/NAME, that are only room to keep free."""
        return frozenset(pod.metadata.key for buffer in self.buffers for pod in buffer.pods)

    @cached_property
    def pending(self) -> list[Pod]:
        """The pods that need a place, and those that are only room to keep free."""
        own = [pod for key, pod in self._provisionable.items() if key not in self.rejected]
        return own + [pod for buffer in self.buffers for pod in buffer.pods]

    @cached_property
    def provisioned(self) -> Simulated:
        """The places of all pending pods, and of those of nodes that are going away."""
        budgets = BudgetLimits(self.snapshot.pod_disruption_budgets, self.now)
        pods = [*self.pending, *leaving_pods(self, budgets)]
        if not pods:
            return Simulated([], {}, {})
        simulated = self.simulate(pods, self.state.active, is_strict=True)
        return simulated or Simulated([], {}, {}, waiting=tuple(pod.metadata.key for pod in pods))

    @cached_property
    def buffer_nodes(self) -> frozenset[str]:
        """The nodes that keep room free for buffers."""
        if not self.buffer_pods:
            return frozenset()
        existing = self.provisioned.existing.items()
        return frozenset(node for node, pods in existing for pod in pods if pod.metadata.key in self.buffer_pods)

    @cached_property
    def rejected(self) -> Mapping[str, tuple[str, ...]]:
        """Pod -> why Karpenter does not look at it; nothing for pods that want no node of Karpenter's."""
        judged = {key: self._problems(pod) for key, pod in self._provisionable.items()}
        return {
            key: () if avoids else tuple(problems) for key, (avoids, problems) in judged.items() if avoids or problems
        }

    def _problems(self, pod: Pod) -> tuple[bool, list[str]]:
        """Tell whether a pod avoids Karpenter's nodes, and what is wrong with it (upstream Validate)."""
        constraints = pod_requirements_of(pod.spec)
        wanted = constraints.requirements(self.known, strict=False).items.get(NODEPOOL)
        avoids = wanted is not None and wanted.operator == "DoesNotExist"
        problems: list[str] = []
        for key, value in sorted(pod.spec.node_selector.items()):
            expression = NodeSelectorRequirement(key=key, operator="In", values=(value,))
            problems += self.known.problems(expression)
        for term in constraints.required or ():
            if term.match_fields:
                problems.append("node selector term with matchFields is not supported")
            for expression in term.match_expressions:
                problems += self.known.problems(expression)
        return avoids, problems + self.facts.volume_problems(pod)

    @cached_property
    def _daemons(self) -> DaemonPlan:
        return DaemonPlan(self.facts, self.templates)

    @cached_property
    def _devices(self) -> DeviceCatalogue:
        return DeviceCatalogue(self.snapshot, {entry.name: entry.dynamic_resources for entry in self._types})

    @cached_property
    def _bases(self) -> dict[str, Basis]:
        return {state.name: self._daemons.basis(state) for state in self.state.nodes}

    def simulate(
        self, pods: Iterable[Pod], states: Sequence[StateNode], *, is_strict: bool, spared: frozenset[str] = frozenset()
    ) -> Simulated | None:
        """Run a pass; None where there is no pool that gets nodes.

        With `is_strict` pods wait for reserved capacity instead of falling back to other. Nodes that are `spared` get
        none but pending pods, and pods of nodes that are going away.
        """
        if not self.usable_pools:
            return None
        options, pods = self.options, list(pods)
        alternatives = [self.facts.alternatives(pod) for pod in pods]
        entrants = [Entrant(pod, self.facts, own or ()) for pod, own in zip(pods, alternatives, strict=True)]
        # Until it is refused a place, the constraints of a pod whose volumes cannot be looked up do not count: the
        # topology is made without it (upstream NewScheduler), and it is placed all the same (Schedule).
        known = [entrant for entrant, own in zip(entrants, alternatives, strict=True) if own is not None]
        devices = None
        if self.release.allocates_devices and not options.ignore_dra_requests:
            published = {state.name for state in states if state.node is not None and state.is_initialized}
            moving = {pod.metadata.uid for pod in pods if pod.spec.node_name}
            devices = Devices(self._devices, self.known, published, moving)
        leaving = {state.name for state in self.state.deleting}
        scheduler = Scheduler(
            self.surroundings,
            self._daemons,
            [self._bases[state.name] for state in states],
            known,
            is_strict=is_strict,
            devices=devices,
            spared=spared,
            exempt={pod.uid for pod in entrants if is_pending(pod.pod) or pod.pod.spec.node_name in leaving},
        )
        errors = scheduler.solve(entrants)
        planned = list(planned_of(scheduler, errors))
        used = (node for node in scheduler.existing.nodes if node.pods)
        existing = {node.state.name: tuple(entrant.pod for entrant in node.pods) for node in used}
        return Simulated(planned, existing, errors, devices=devices)


def leaving_pods(prepared: Prepared, budgets: BudgetLimits) -> list[Pod]:
    """Return the pods of nodes that are going away, as far as they can be moved at present."""
    return [pod for state in prepared.state.deleting for pod in state.pods if budgets.lets_move(pod)]


def exceeded_limit(prepared: Prepared, pool: str) -> str | None:
    """Return why Karpenter would not make a node of a pool: its nodes are above its limits already."""
    used, limits = prepared.state.used_by(pool), nanos_of(prepared.pools[pool].spec.limits)
    for name in sorted(limits):
        if used.get(name, 0) > limits[name]:
            usage, limit = nano_text(name, used[name]), nano_text(name, limits[name])
            return f"resource usage exceeds limit (limit={limit}, resource-name={name}, usage={usage})"
    return None


def limits_text(prepared: Prepared, pool: str, new: Iterable[Planned]) -> str:
    """Return how far the limits of a pool are used up, by its nodes and those that are made now."""
    used, limits = prepared.state.used_by(pool), nanos_of(prepared.pools[pool].spec.limits)
    amounts = (
        f"{name} {nano_text(name, limit)}, {nano_text(name, used.get(name, 0))} in use"
        for name, limit in limits.items()
    )
    beside = " beside those added now" if any(node.template.name == pool for node in new) else ""
    return f"its limits ({'; '.join(sorted(amounts))}) leave room for no further node{beside}"
