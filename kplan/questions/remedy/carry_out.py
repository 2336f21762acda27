"""Carry out a set of actions as a whole, and tell which pods wait at the end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.api.affinity import Taint
from kplan.api.kinds import POD_MAKERS
from kplan.api.meta import controller_of
from kplan.api.names import PodKey, WorkloadRef
from kplan.autoscaling.seam import PreparedCluster
from kplan.changes import values as c
from kplan.changes.limits import LoosenBudget, Pool, RaiseQuota
from kplan.changes.remedy import Remedy
from kplan.changes.sets import Changes, by_rank, with_joined_moves
from kplan.cluster.base import Base, Progress
from kplan.cluster.incoming import with_objects
from kplan.course.beginning import begin, carry_on_known, watched
from kplan.course.edits import patched
from kplan.course.growth import Growth, prices_of
from kplan.course.provisioning import Growing, growth_of
from kplan.course.simulation.applying import Applying
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.owners import DaemonSetState, StatefulSetState
from kplan.course.simulation.updates import Update, update_of
from kplan.course.what_if import changed
from kplan.documents.change import StepEvent
from kplan.engine.mappings import Recent
from kplan.remedies import room
from kplan.snapshot.model import Snapshot
from kplan.workloads.autoscalers import Bounds

Waiting = Mapping[str, frozenset[str]]
"""KIND/NAMESPACE/NAME of a workload -> NAMESPACE/NAME of its pods that wait for a node."""

_GONE = (StepEvent.EVICTED, StepEvent.DELETED)
_MOST_UNMADE = 1000
_MOST_HELD = 5_000  #: nodes and pods of all ends that are held, as several searches come by the same sets
_MOST_AT_REST = 4  #: so many clusters are kept of which copies are made
_NEW_WITH_POD = ("Pod", "Job", "PersistentVolumeClaim")
"""Kinds whose pods cannot be changed in place: they are created again."""


class Played(msgspec.Struct, frozen=True):
    """The end of a set of actions that was carried out."""

    simulation: Simulation
    base: Base  #: of the cluster with new nodes and new pods
    waiting: Waiting
    moved_to: Mapping[str, str]  #: NAMESPACE/NAME of a deleted pod -> the node of the next one
    disturbed: tuple[str, ...]  #: NAMESPACE/NAME of pods that ran and were deleted, in order
    refused: str = ""  #: why an action cannot be carried out; empty where all were

    @property
    def growth(self) -> Growth | None:
        """The nodes that the autoscaler adds; None where none is followed."""
        return growth_of(self.simulation)


class Goal:
    """Pods that are to run, NAMESPACE/NAME, while no other pod loses its node.

    `anyway` is what waits without any action when the scheduler has tried all pods again. Of the pods `asleep`, that no
    action lets run, only targets are told, even where others of their workload are to run.
    """

    def __init__(
        self, start: Waiting, anyway: Waiting, targets: Iterable[str], asleep: Collection[str] = frozenset()
    ) -> None:
        targets = frozenset(targets)
        named, self._asleep = targets.difference(asleep), asleep
        self._staying = sorted(targets.intersection(asleep))
        self.start: dict[str, int] = {}  #: workload -> how many of its pods wait
        self.wanted: dict[str, int] = {}  #: workload -> how many of those are to run
        for workload in dict.fromkeys((*start, *anyway)):
            now, then = (waiting.get(workload, frozenset()) for waiting in (start, anyway))
            self.start[workload] = max(len(now), len(then))
            if wanted := (now | then) & named:
                self.wanted[workload] = min(len(wanted), self.start[workload])
        self.of = sum(self.wanted.values())
        self.known: dict[Changes, tuple[int, bool]] = {}  #: of sets that were carried out what `runs`, if not refused

    def runs(self, played: Played) -> int:
        """Return how many of the pods run at the end; -1 where an action is refused or another pod waits then."""
        if played.refused or played.simulation.circle:
            return -1
        number = 0
        for workload in {*self.start, *played.waiting}:
            before, after = self.start.get(workload, 0), len(played.waiting.get(workload, ()))
            if after > before:
                return -1
            number += min(before - after, self.wanted.get(workload, 0))
        return number

    def left(self, played: Played) -> list[str]:
        """Return the pods of the workloads in question that wait at the end; first those that an action may help."""
        there = {pod.key for pod in played.simulation.pods.values()}.difference(self._asleep)
        left = (pod for workload in self.wanted for pod in played.waiting.get(workload, ()) if pod in there)
        return [*sorted(left), *self._staying]


class Playing:
    """Carries out sets of actions, each from the same start: with quotas raised, and the pods that they kept away.

    Where it `carries_on`, controllers go on before with what they have yet to do, as in a plan of all pods.
    """

    def __init__(
        self,
        base: Base,
        quotas: tuple[RaiseQuota, ...] = (),
        progress: Progress | None = None,
        *,
        carries_on: bool = True,
    ) -> None:
        self.base = base
        self.quotas = quotas
        self.raised_in = {PodKey.parse(raised.quota).namespace for raised in quotas}  #: namespaces
        self.n_tried = 0  #: one set after the other, also where its end is known
        #: what `explain` names after some actions for a workload; "" for all groups of pods
        self.offered: dict[tuple[Changes, str], tuple[Changes, ...]] = {}
        self.beside: dict[Remedy, None] = {}  #: what it names that is no action: to wait, to create, to repair
        self._progress, self._carries_on = progress, carries_on
        self._bases: dict[Changes, Base] = {(): base}
        self._last: Changes | None = None
        most_played = _MOST_HELD // (len(base.objects.nodes) + len(base.objects.pods) + 1) + 1
        self._played: Recent[Played] = Recent(most_played)  # by actions
        self._at_rest: Recent[tuple[Base, Simulation]] = Recent(_MOST_AT_REST)  # likewise
        self._updates: dict[c.Change, Update] = {}
        self._widening: dict[tuple[Changes, frozenset[tuple[str, frozenset[str]]]], tuple[tuple[Pool, ...], ...]] = {}

    @cached_property
    def prices(self) -> Mapping[str, float]:
        """The prices of the cluster's nodes, by name, where the autoscaler knows them."""
        return prices_of(self.base)

    def price(self, acts: Changes, played: Played | None = None) -> float | None:
        """Return the price of the nodes that actions add, those of an autoscaler as `played`; None if it is unknown."""
        growth = None if played is None else played.growth
        prices: list[float | None] = [new.facts.price for new in growth.adds] if growth is not None else []
        new = [act for act in acts if isinstance(act, c.AddNodes) for _ in range(act.nodes)]
        prices += [None if act.labels or act.room else self.prices.get(act.like) for act in new]
        known = [price for price in prices if price is not None]
        return None if len(known) < len(prices) else sum(known)

    @cached_property
    def pool_taints(self) -> tuple[tuple[Taint, ...], ...]:
        """The taints of the nodes that the autoscaler may add, those of a pool or group together."""
        base, followed = self.base, self.base.followed
        if followed is None:
            return ()
        return tuple(dict.fromkeys(followed.taints(PreparedCluster(base.objects, base.session, base.now))))

    def widening(self, played: Played, acts: Changes) -> tuple[tuple[Pool, ...], ...]:
        """Return changes of what the autoscaler may add with which it would help pods that wait after some actions."""
        provisioner = played.simulation.provisioner
        if not isinstance(provisioner, Growing) or not played.waiting:
            return ()
        pools = tuple(act for act in acts if isinstance(act, Pool))
        wanted = pools, frozenset(played.waiting.items())
        if wanted not in self._widening:
            cluster = provisioner.sight()
            self._widening[wanted] = tuple(provisioner.growth.autoscaler.widening(cluster))
        return self._widening[wanted]

    def play(self, acts: Changes) -> Played:
        """Carry out actions in their order; between two of them the cluster comes to rest."""
        if self._last != acts:
            self._last, self.n_tried = acts, self.n_tried + 1
            if self._progress is not None:
                self._progress(self.n_tried, None)
        return self._played.get(acts, lambda: self._play(acts))

    def begin(self, begun: Changes = ()) -> tuple[Base, Simulation]:
        """Return the cluster after what is done before anything moves, with the pods that quotas kept away before."""
        base = self._base_of((*self.quotas, *begun))
        simulation = begin(base)
        for namespace in self.raised_in:
            for owner in simulation.workloads.all(namespace):
                simulation.enqueue(owner)
        if self._carries_on:
            carry_on_known(simulation, base.objects, None)
        simulation.controllers.run()
        return base, simulation

    def _play(self, acts: Changes) -> Played:
        ordered = by_rank(acts)
        begun = tuple(filter(_is_of_cluster, ordered))
        base, simulation = self._tried(begun)
        trial = _Trial(base, simulation, self._updates)
        for act in with_joined_moves(act for act in ordered if isinstance(act, c.AddNodes) or not _is_of_cluster(act)):
            if isinstance(act, c.AddNodes):  # they are there from the start, and cordoned until it is their turn
                trial.uncordon(self._names_of(act, begun))
            else:
                trial.carry_out(act)
            if trial.refused:
                break
        pods = base.objects.pod_by_key
        gone = dict.fromkeys(step.pod for step in simulation.log.steps if step.event in _GONE and step.node)
        disturbed = tuple(key for key in gone if key in pods and pods[key].spec.node_name)
        return Played(simulation, base, waiting_of(simulation), trial.moved_to, disturbed, trial.refused)

    def _tried(self, begun: Changes) -> tuple[Base, Simulation]:
        """Return the cluster in which the scheduler has tried all pods again; where that moved nothing it is copied."""
        at_rest = self._at_rest.find(begun)
        if at_rest is None:
            base, simulation = self.begin(begun)
            simulation.retry_pending()
            simulation.run()
            # A copy goes on as the simulation does where nothing has moved, and nothing is drawn or counted on.
            has_moved = bool(simulation.queue.has_groups or simulation.log.steps)
            if has_moved or simulation.provisioner is not None or not simulation.session.is_certain:
                return base, simulation
            at_rest = self._at_rest.put(begun, (base, simulation))
        base, simulation = at_rest
        return base, watched(simulation.fork(base.objects), base)

    def _base_of(self, acts: Changes) -> Base:
        if acts not in self._bases:
            self._bases[acts] = _changed_base(self._base_of(acts[:-1]), acts[-1])
        return self._bases[acts]

    def _names_of(self, act: c.AddNodes, begun: Changes) -> list[str]:
        acts = (*self.quotas, *begun)
        number = acts.index(act)
        before = self._base_of(acts[:number]).objects.node_by_name
        return [name for name in self._base_of(acts[: number + 1]).objects.node_by_name if name not in before]


def movable(simulation: Simulation) -> list[ObservedPod]:
    """List the running pods of the snapshot that a controller creates again and that may run elsewhere, by name."""
    infos = simulation.infos
    pods = []
    for row in room.movable(simulation.session, simulation.pods):
        pod, spec = simulation.pods[row], infos[row].pod.spec
        # One without a node in the snapshot waited before, and runs only since then.
        if not pod.is_new and spec.node_name and not isinstance(simulation.owner(pod), DaemonSetState | None):
            pods.append(pod)
    return sorted(pods, key=lambda pod: pod.key)


def _is_of_cluster(act: c.Change) -> bool:
    """Tell whether an action changes what there is before anything moves: nodes, and pods that are created again."""
    return isinstance(act, c.AwaitNodes | c.AddNodes | Pool | LoosenBudget | RaiseQuota) or (
        isinstance(act, c.Patch) and WorkloadRef.parse(act.object).kind in _NEW_WITH_POD
    )


class _Trial:
    """A cluster in which changes are tried one after the other; between two of them it comes to rest."""

    def __init__(self, base: Base, simulation: Simulation, updates: dict[c.Change, Update]) -> None:
        self._base, self._simulation = base, simulation
        self._updates = updates  #: what changes of workloads are, which no other change alters
        self._applying = Applying(simulation)
        self.moved_to: dict[str, str] = {}  #: NAMESPACE/NAME of a deleted pod -> the node of the next one
        self.refused = ""  #: why a change cannot be carried out; empty where all were

    def carry_out(self, change: c.Change) -> None:
        match change:
            case c.Patch():
                self._patch(change)
            case c.Scale():
                self._scale(change)
            case c.Move():
                self.refused = _move(self._simulation, change, self.moved_to)
            case c.Uncordon():
                self.uncordon(change.nodes)
            case _:
                raise change.refused("in a trial")

    def uncordon(self, nodes: Sequence[str]) -> None:
        for node in nodes:
            self._simulation.life.uncordon(node)
        self._simulation.run()

    def _patch(self, change: c.Patch) -> None:
        self._apply(self._update(change, change.object, {"template": {"spec": change.spec}}))
        self._simulation.run()
        for pod in waiting_of_set(self._simulation, change.object):
            self._simulation.life.remove(pod, StepEvent.DELETED, "is created again from the changed template")
        self._simulation.run()

    def _scale(self, change: c.Scale) -> None:
        before, replicas = _broken(self._simulation), change.replicas
        self._apply(self._update(change, change.workload, {"replicas": replicas}))
        if change.autoscaler:
            bounds = Bounds(change.autoscaler, min(change.lowest, replicas), replicas)
            self._simulation.note_bounds(change.workload, bounds)
        self._simulation.run()
        broken = _broken(self._simulation) - before
        self.refused = self.refused or (f"breaks budget {min(broken)}" if broken else "")

    def _update(self, change: c.Change, workload: str, spec: Mapping[str, Any]) -> Update:
        if change not in self._updates:
            self._updates[change] = _update(self._base, workload, spec)
        return self._updates[change]

    def _apply(self, update: Update) -> None:
        self.refused = self._applying.apply(update).update.refused


def _broken(simulation: Simulation) -> set[str]:
    """Return the budgets that fewer pods are healthy of than they ask for."""
    return {budget.key for budget in simulation.disruptions.budgets if budget.healthy < budget.desired}


def _update(base: Base, workload: str, spec: Mapping[str, Any]) -> Update:
    ref = WorkloadRef.parse(workload)
    content = {"metadata": {"namespace": ref.namespace, "name": ref.name}, "spec": spec}
    update = update_of(POD_MAKERS[ref.kind].type, content, base.objects, release=base.release)
    return replace(update, obj=base.as_stored(update.obj))


def _move(simulation: Simulation, move: c.Move, moved_to: dict[str, str]) -> str:
    """Delete pods of a node, one after another, while it is cordoned."""
    node = move.node
    was_cordoned = simulation.is_cordoned(node)
    if not was_cordoned:
        simulation.life.cordon([node])
    for key in (place.pod for place in move.pods):
        pod = next((known for known in simulation.pods.values() if known.key == key and known.node == node), None)
        if pod is None:
            return f"{key} is not on {node} any more"
        if refusal := simulation.disruptions.refusal(pod):
            return refusal
        owner, known = simulation.workload_of(pod), set(simulation.pods)
        n_waiting = sum(not other.node for other in simulation.pods.values())
        simulation.life.remove(pod, StepEvent.DELETED, f"moved away from {node}")
        simulation.run()
        if sum(not other.node for other in simulation.pods.values()) > n_waiting:
            return f"the pod after {key} finds no node"
        for row in simulation.pods.keys() - known:
            if simulation.workload_of(simulation.pods[row]) == owner and simulation.pods[row].node:
                moved_to[key] = simulation.pods[row].node
        if key not in moved_to:
            return f"no pod takes the place of {key}"
    if not was_cordoned:
        simulation.life.uncordon(node)
        simulation.run()
    return ""


def waiting_of(simulation: Simulation) -> Waiting:
    """Return the pods that wait for a node, and those of stateful sets that are made only when the one before runs."""
    waiting = simulation.waiting()
    for workload in waiting:
        owner = simulation.workloads.find(workload)
        if isinstance(owner, StatefulSetState) and owner.wanted.is_ordered:
            own = {pod.key for pod in owner.pods.values()}
            ordinals = range(owner.wanted.start, owner.wanted.start + min(owner.wanted.replicas, _MOST_UNMADE))
            unmade = {f"{owner.ref.namespace}/{owner.ref.name}-{ordinal}" for ordinal in ordinals} - own
            waiting[workload] |= unmade
    return waiting


def waiting_of_set(simulation: Simulation, workload: str) -> list[ObservedPod]:
    """Return the waiting pods of a StatefulSet, which it does not replace by itself when its template changes."""
    if not workload.startswith("StatefulSet/"):
        return []
    pods = simulation.pods.values()
    return [pod for pod in pods if not pod.node and not pod.is_new and simulation.workload_of(pod) == workload]


def _changed_base(base: Base, act: c.Change) -> Base:
    match act:
        case Pool():
            return base.with_pool(act)
        case c.Patch():
            return base.with_snapshot(_with_patch(base.snapshot, act))
        case c.AddNodes():  # cordoned until it is their turn
            larger = changed(base, [act])
            names = [name for name in larger.snapshot.node_by_name if name not in base.snapshot.node_by_name]
            return changed(larger, [c.Cordon(tuple(names))])
        case _:
            return changed(base, [act])


def _with_patch(snapshot: Snapshot, act: c.Patch) -> Snapshot:
    target = WorkloadRef.parse(act.object)
    if target.kind == "Pod":
        return with_objects(snapshot, [patched(snapshot.pod_by_key[target.path], act.spec)])
    if target.kind == "PersistentVolumeClaim":
        claims = (held for held in snapshot.persistent_volume_claims if held.metadata.key == target.path)
        return with_objects(snapshot, [patched(claim, act.spec) for claim in claims])
    changed_objects: list[Any] = [
        replace(job, spec=replace(job.spec, template=patched(job.spec.template, act.spec)))
        for job in snapshot.jobs
        if job.metadata.key == target.path
    ]
    for pod in snapshot.pods:
        owner = controller_of(pod.metadata)
        own = None if owner is None else (owner.kind, pod.metadata.namespace, owner.name)
        if own == target.parts and not pod.spec.node_name:
            changed_objects.append(patched(pod, act.spec))
    return with_objects(snapshot, changed_objects)
