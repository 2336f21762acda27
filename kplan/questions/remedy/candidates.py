"""Actions that may help the pods that still wait after others; those of a group that waits are tried together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.affinity import untolerated
from kplan.api.core import Pod
from kplan.api.kinds import POD_MAKERS, SCALED
from kplan.api.names import WorkloadRef, controller_name
from kplan.api.quantity import grouped
from kplan.changes import remedy as r
from kplan.changes.limits import LoosenBudget, Pool
from kplan.changes.sets import Changes, Kind, is_patched, kinds_of
from kplan.changes.values import AddNodes, AwaitNodes, Change, Move, Patch, Place, Scale, Uncordon
from kplan.cluster.base import Base
from kplan.course.answers.pod_groups import share_of
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.disruption import VIOLATED, loosened
from kplan.course.simulation.jobs import JobState
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.owners import DeploymentState
from kplan.diagnosis.gather import gather
from kplan.diagnosis.intended import states_condition
from kplan.engine.matching import is_hard
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.health.nodes import nodes_health
from kplan.questions.remedy.carry_out import Goal, Playing, movable, waiting_of_set
from kplan.remedies.node_shapes import NodeShape, node_shapes
from kplan.remedies.replicas import owned_replicas
from kplan.remedies.room import making_room
from kplan.remedies.trials import Offer, as_one_like
from kplan.remedies.variants import tolerating
from kplan.remedies.ways import offers_for_group, offers_for_pod
from kplan.snapshot.model import Snapshot
from kplan.workloads.autoscalers import bounds_in
from kplan.workloads.merging import patch_of

MOST_SINGLE_MOVES = 40
"""So many different pods are tried alone; in a larger cluster those whose room is just enough for a waiting pod."""

_MOST_WAITING = 4
_MOST_CORDONED = 30
_MOST_SHAPES = 6

_ACTIONS = (r.Uncordon, r.AddNodes, r.MovePod, r.LowerReplicas)
"""Remedies that are actions, unless somebody else does them, or forbids them."""

R = TypeVar("R", bound=r.RemedyBase)


class Candidates:
    """What may be done after some actions: what `explain` names for the pods that wait, in its order, and more beside.

    The end of the actions in `playing` is used, and not to be played on. With `by_hand` nodes are added also where an
    autoscaler sets their number. Pods of `unhelped` workloads, which nothing was found to help, are looked at last.
    """

    def __init__(
        self, playing: Playing, acts: Changes, goal: Goal, *, by_hand: bool, unhelped: frozenset[str] = frozenset()
    ) -> None:
        self._playing, self._acts, self._goal, self._by_hand = playing, acts, goal, by_hand
        self._unhelped = unhelped
        self._played = played = playing.play(acts)
        self._simulation = played.simulation
        self.is_complete = True  #: nothing was left out because there is too much

    def of(self, kinds: Collection[Kind]) -> list[Changes]:
        """Return groups of actions, one of which is added."""
        groups = [acts for acts in self.offered() if {*kinds_of(acts)} <= {*kinds}]
        further: Sequence[tuple[set[Kind], Callable[[], Iterable[Changes]]]] = (
            ({"wait"}, self._awaited),
            ({"uncordon"}, self._uncordon),
            ({"moves"}, self.moves),
            ({"moves", "budgets"}, self._guarded_moves),
            ({"pools"}, self._pools),
            ({"nodes"}, self._nodes),
            ({"nodes"}, self._other_nodes),
            ({"scale"}, self._fewer),
            ({"tolerations"}, self._tolerating),
        )
        for needed, offer in further:
            if needed.issubset(kinds):
                groups += offer()
        return list(dict.fromkeys(groups))

    def offered(self) -> Sequence[Changes]:
        """Return what `explain` names for the pods that wait, each for itself; after other actions what pods say."""
        offered: list[Changes] = []
        if not self._acts and self._simulation.queue.has_groups:
            offered += self._once("", self._of_groups)
        for row, result in self._waiting:
            offered += self._once(self._workload_of(row), partial(self._offers, row, result))
        return offered

    def _once(self, of: str, offer: Callable[[], Iterable[Changes]]) -> tuple[Changes, ...]:
        known, key = self._playing.offered, (self._acts, of)
        if key not in known:
            known[key] = tuple(offer())
        return known[key]

    @property
    def looked_at(self) -> frozenset[str]:
        """The workloads of the waiting pods for which there are actions."""
        return frozenset(self._workload_of(row) for row, _ in self._waiting)

    def _workload_of(self, row: int) -> str:
        return self._simulation.workload_of(self._simulation.pods[row])

    def _offers(self, row: int, result: CycleResult) -> Iterator[Changes]:
        session = self._simulation.session
        replicas, causes = owned_replicas(session, row), gather(session, result)
        for offer in offers_for_pod(session, result, causes, replicas, only_pod=bool(self._acts)):
            if acts := tuple(self._acts_of(offer, [row])):
                yield acts
            elif not self._acts and not isinstance(offer.remedy, _ACTIONS):
                self._playing.beside[replace(offer.remedy, members=UNSET)] = None

    def moves(self) -> list[Changes]:
        """Return pods to move: each alone in a small cluster, and groups that make room for a waiting pod."""
        disruptions = self._simulation.disruptions
        free = [pod for pod in self._others if not disruptions.refusal(pod)]
        alike: dict[Any, ObservedPod] = {}
        infos = self._simulation.infos
        for pod in free:
            own = pod.key if infos[pod.row].pod.spec.volumes else ""
            alike.setdefault((pod.node, infos[pod.row].shape, own), pod)
        groups = [moved(self._simulation, group) for group in self._making_room(free)]
        if len(alike) <= MOST_SINGLE_MOVES:
            groups += [moved(self._simulation, [pod]) for pod in alike.values()]
        else:
            self.is_complete = False
        return list(dict.fromkeys(groups))

    def _making_room(self, pods: Iterable[ObservedPod]) -> list[list[ObservedPod]]:
        """Return groups of some pods without which there is room for a waiting pod."""
        rows = {pod.row: pod for pod in pods}
        session = self._simulation.session
        groups = making_room(session, self._waiting, lambda on_node: [row for row in on_node if row in rows])
        return [[rows[row] for row in group] for group in groups]

    @cached_property
    def _others(self) -> list[ObservedPod]:
        """The pods that may be moved, and are not yet."""
        done = {place.pod for act in self._acts if isinstance(act, Move) for place in act.pods}
        return [pod for pod in movable(self._simulation) if pod.key not in done]

    def _guarded_moves(self) -> Iterator[Changes]:
        """Yield groups that make room, some of whose pods a budget keeps where they are until it allows more."""
        loosened = {pod.key: loosened_budget(self._simulation, self._played.base, pod) for pod in self._others}
        disruptions = self._simulation.disruptions
        pods = [pod for pod in self._others if loosened[pod.key] is not None or not disruptions.refusal(pod)]
        for group in self._making_room(pods):
            budgets = tuple(dict.fromkeys(act for pod in group if (act := loosened[pod.key]) is not None))
            if budgets:
                yield (*budgets, *moved(self._simulation, group))

    @cached_property
    def _waiting(self) -> list[tuple[int, CycleResult]]:
        """The first waiting pod of some workloads, each with the scheduler's decision about it."""
        session, decided = self._simulation.session, list[tuple[int, CycleResult]]()
        there = self._simulation.waiting()
        waiting = {key for workload in self._goal.wanted for key in sorted(there.get(workload, ()))[:1]}
        rows = [row for row, pod in self._simulation.pods.items() if pod.key in waiting]
        rows.sort(key=lambda row: self._workload_of(row) in self._unhelped)
        start = session.sampling.start_index
        for row in rows[:_MOST_WAITING]:
            result = schedule_pod(session, row, looks_for_victims=False)
            if result.row is not None and result.framework is not None and result.cycle is not None:
                result.framework.run_unreserve(result.cycle, result.row)
            decided.append((row, result))
        session.sampling.start_index = start  # the end stays as it is for whoever comes by it again
        self.is_complete &= len(rows) <= _MOST_WAITING
        return decided

    def _acts_of(self, offer: Offer, rows: Sequence[int]) -> Iterator[Change]:
        """Yield what carries a remedy for pods in some rows out; nothing for one that no action does."""
        remedy, simulation = offer.remedy, self._simulation
        match remedy:
            case r.Await(change=change) if change.what == "node":
                yield AwaitNodes((change.name,), change.because)
            case r.Uncordon(change=change):
                yield from (Uncordon((one.node,)) for one in (change, *(remedy.also or ())))
            case r.AddNodes(change=change):
                yield from self._added(change)
            case r.MovePod(change=change):
                by_key = {pod.key: pod for pod in simulation.pods.values()}
                yield from moved(simulation, [by_key[one.pod] for one in (change, *(remedy.also or ()))])
            case r.LowerReplicas():
                yield from self._without_waiting(simulation.workload_of(simulation.pods[rows[0]]))
            case r.CorrectName(change=change) if change.of.startswith("PersistentVolumeClaim "):
                text = msgspec.json.encode({"storageClassName": change.to}).decode()
                yield Patch(WorkloadRef.of_title(change.of).key, text, _plain(remedy))
            case r.Together(changes=changes) if offer.pod is not None:
                of_pods = tuple(one for one in changes if is_patched(one))
                others = [tuple(self._acts_of(Offer(one), rows)) for one in changes if not is_patched(one)]
                if of_pods and all(others):
                    patched = of_pods[0] if len(of_pods) == 1 else r.Together(changes=of_pods, then=None)
                    yield from self._patches(rows, patched, offer.pod)
                    yield from chain.from_iterable(others)
            case _ if offer.pod is not None and is_patched(remedy):
                yield from self._patches(rows, remedy, offer.pod)
            case _:
                return

    def _added(self, addition: r.NodeAddition) -> Iterator[Change]:
        followed, objects = self._played.base.followed, self._played.base.objects
        is_managed = followed is not None and followed.manages(objects.node_by_name[addition.like])
        if self._by_hand or not is_managed:
            devices = bool(addition.devices)
            yield AddNodes(addition.nodes, addition.like, devices, addition.labels, addition.room)

    def _awaited(self) -> Iterator[Changes]:
        for name, health in nodes_health(self._played.base.objects).items():
            if health.is_coming and health.startup_taints:
                yield (AwaitNodes((name,), tuple(sorted(health.startup_taints))),)

    def _uncordon(self) -> Iterator[Changes]:
        nodes = self._simulation.cluster.nodes
        rows = (row for row, node in enumerate(nodes.nodes) if not node.metadata.deletion_timestamp)
        names = [nodes.names[row] for row in rows if nodes.unschedulable[row]]
        self.is_complete &= len(names) <= _MOST_CORDONED
        yield from ((Uncordon((name,)),) for name in names[:_MOST_CORDONED])

    def _pools(self) -> Iterator[Changes]:
        """Yield what lets an autoscaler add more; a list of excluded values is not changed twice."""
        pools = (act for act in self._acts if isinstance(act, Pool))
        excluded = {act.part for act in pools if act.admits is not None and act.admits.operator != "In"}
        for changes in self._playing.widening(self._played, self._acts):
            if excluded.isdisjoint(change.part for change in changes):
                yield changes

    def _nodes(self) -> Iterator[Changes]:
        followed = None if self._by_hand else self._played.base.followed
        infos = self._simulation.infos
        nodes = self._played.base.session.cluster.nodes
        waiting = [infos[row].requests for row, _ in self._waiting]

        def is_large_enough(shape: NodeShape) -> bool:
            row = nodes.row_of[shape.like.metadata.name]
            return any(
                all(amount <= int(nodes.allocatable(name)[row]) for name, amount in requests.items() if amount)
                for requests in waiting
            )

        shapes = list(filter(is_large_enough, node_shapes(self._played.base.objects)))
        if followed is not None:
            shapes = [shape for shape in shapes if not followed.manages(shape.like)]
        self.is_complete &= len(shapes) <= _MOST_SHAPES
        devices = any(infos[row].pod.spec.resource_claims for row, _ in self._waiting)
        for shape in shapes[:_MOST_SHAPES]:
            node = AddNodes(1, shape.like.metadata.name)
            if node not in self._added_kinds:
                yield (replace(node, devices=devices),)

    def _other_nodes(self) -> Iterator[Changes]:
        """Yield new nodes that equal none: those that are offered before anything is done, for pods that wait yet."""
        if not self._acts:
            return
        known, own = self._playing.offered, self.looked_at
        if any(((), workload) not in known for workload in own):
            later = frozenset(self._goal.wanted.keys() - own)
            Candidates(self._playing, (), self._goal, by_hand=self._by_hand, unhelped=later).offered()
        for acts in chain.from_iterable(known.get(((), workload), ()) for workload in sorted(own)):
            nodes = (act for act in acts if isinstance(act, AddNodes) and (act.labels or act.room))
            others = [replace(act, nodes=1, devices=False) for act in nodes]
            if len(others) == len(acts) and self._added_kinds.isdisjoint(others):
                yield acts

    @cached_property
    def _added_kinds(self) -> set[AddNodes]:
        """The kinds of nodes that are added, each as a single node."""
        return {replace(act, nodes=1, devices=False) for act in self._acts if isinstance(act, AddNodes)}

    def _fewer(self) -> Iterator[Changes]:
        """Yield fewer replicas of the workloads that wait, and of others whose pods make room."""
        objects = self._played.base.objects
        for workload in self._goal.wanted:
            yield from ((act,) for act in self._without_waiting(workload))
        changed = {act.workload for act in self._acts if isinstance(act, Scale)} | set(self._goal.wanted)
        running = [pod for pod in self._simulation.pods.values() if pod.node and not pod.is_terminating]
        for group in self._making_room(running):
            numbers = Counter(self._simulation.workload_of(pod) for pod in group)
            scaled = (fewer(self._simulation, objects, name, number, stops=number) for name, number in numbers.items())
            acts = tuple(act for act in scaled if act is not None)
            if changed.isdisjoint(numbers) and len(acts) == len(numbers):
                yield acts

    def _without_waiting(self, workload: str) -> Iterator[Scale]:
        """Yield that a workload runs as many replicas fewer as wait."""
        waiting = len(self._played.waiting.get(workload, ()))
        act = fewer(self._simulation, self._played.base.objects, workload, waiting, stops=0) if waiting else None
        yield from () if act is None else (act,)

    def _of_groups(self) -> Iterator[Changes]:
        """Yield what the pods of a group that waits need together; each set of actions lets the whole group run."""
        simulation = self._simulation
        wanted = {key for workload in self._goal.wanted for key in self._played.waiting.get(workload, ())}
        members = ((simulation.queue.key_of(row), row) for row, pod in simulation.pods.items() if not pod.node)
        waiting = grouped((key, row) for key, row in members if key is not None)
        for key, rows in waiting.items():
            if any(simulation.pods[row].key in wanted for row in rows):
                for offer in offers_for_group(simulation.session, key, rows, share_of(len(waiting))):
                    helps = offer.remedy.helps
                    acts = tuple(self._acts_of(offer, rows)) if not helps or helps.pods == helps.of else ()
                    if acts:
                        yield acts

    def _patches(self, rows: Sequence[int], remedy: r.Remedy, changed: Pod) -> Iterator[Patch]:
        infos, targets = self._simulation.infos, set()
        for row in rows:
            if remedy.members and infos[row].key not in remedy.members:
                continue
            pod = changed if len(rows) == 1 else as_one_like(changed)(infos[row].pod)
            patch = self._patch_of(row, _plain(remedy), pod)
            if patch is not None and patch.object not in targets:
                targets.add(patch.object)
                yield patch

    def _patch_of(self, row: int, remedy: r.Remedy, changed: Pod) -> Patch | None:
        """Return the patch of a waiting pod's workload with which the pod is as `changed`; None where there is none."""
        infos, owner = self._simulation.infos, self._simulation.owner(self._simulation.pods[row])
        target = f"Pod/{infos[row].key}" if owner is None else owner.workload.key
        obj = infos[row].pod if owner is None else object_of(self._played.base.objects, target)
        is_patched_already = any(isinstance(act, Patch) and act.object == target for act in self._acts)
        if is_patched_already or obj is None:
            return None
        if isinstance(owner, JobState) and any(pod.node for pod in owner.pods.values()):
            return None  # its template cannot change while its pods run
        template = obj if isinstance(obj, Pod) else obj.spec.template
        if not (patch := patch_of(infos[row].pod, changed, template)):
            return None
        text = msgspec.json.encode(patch).decode()
        restarts = tuple(sorted(pod.key for pod in waiting_of_set(self._simulation, target)))
        # Running pods of its workload are replaced, and none with a bare pod.
        of_workload = () if owner is None else self._simulation.pods.values()
        n_running = sum(bool(pod.node) and self._simulation.workload_of(pod) == target for pod in of_workload)
        kind, _, name = controller_name(obj.metadata).partition("/")
        cron_jobs = self._played.base.objects.cron_jobs if kind == "CronJob" else ()
        asks_again = any(
            one.metadata.key == name and one.spec.job_template.spec.template.spec == template.spec for one in cron_jobs
        )
        return Patch(target, text, remedy, n_running, restarts, name if asks_again else "")

    def _tolerating(self) -> Iterator[Changes]:
        for row, _ in self._waiting:
            pod = self._simulation.infos[row].pod
            for taints in self._playing.pool_taints:
                missing = [taint for taint in untolerated(pod.spec.tolerations, taints) if is_hard(taint)]
                if missing and not any(states_condition(taint.key) for taint in missing):
                    texts = tuple(taint.text for taint in missing)
                    remedy = r.TolerateTaint(change=r.TolerationChange(taints=texts), then=None, checked=True)
                    patch = self._patch_of(row, remedy, tolerating(pod, missing))
                    yield from () if patch is None else ((patch,),)


def _plain(remedy: R) -> R:
    """Return a remedy as part of an action, which says itself for whom it is, and what it achieves."""
    return replace(remedy, members=UNSET, helps=UNSET)


def moved(simulation: Simulation, pods: Iterable[ObservedPod]) -> Changes:
    owners = {pod: simulation.workload_of(pod) for pod in pods}
    ready = Counter(simulation.workload_of(pod) for pod in simulation.pods.values() if pod.is_ready)
    return tuple(Move(pod.node, (Place(pod.key, workload=own, ready=ready[own]),)) for pod, own in owners.items())


def loosened_budget(simulation: Simulation, base: Base, pod: ObservedPod) -> LoosenBudget | None:
    """Return how the budget that forbids the eviction of a pod lets it go; None where it is not for a single budget."""
    if simulation.disruptions.refusal(pod) != VIOLATED:
        return None
    (state,) = simulation.disruptions.covering(pod)
    budgets = base.objects.pod_disruption_budgets
    budget = next((held for held in budgets if held.metadata.key == state.key), None)
    if budget is None or state.expected is None:
        return None
    missing = max(state.desired - state.healthy, 0) + 1
    return LoosenBudget.between(state.key, budget.spec, next(loosened(budget.spec, missing, state.expected)))


def fewer(simulation: Simulation, objects: Snapshot, workload: str, number: int, *, stops: int) -> Scale | None:
    """Return that a workload runs fewer replicas, `stops` of them running ones; None if it cannot, or none is left."""
    owner, ref = simulation.workloads.find(workload), WorkloadRef.parse(workload)
    obj = object_of(objects, workload) if owner is not None and ref.kind in SCALED else None
    if owner is None or obj is None:
        return None
    old = owner.wanted.replicas if isinstance(owner, DeploymentState) else owner.scale
    if old <= number:
        return None
    scale, bounds = Scale(workload, old - number, old, stops=stops), bounds_in(objects, ref)
    if bounds is None:
        return scale
    return replace(scale, autoscaler=bounds.name, lowest=bounds.lowest, **bounds.to_keep(old, scale.replicas))


def object_of(snapshot: Snapshot, workload: str) -> Any:
    ref = WorkloadRef.parse(workload)
    kind = POD_MAKERS.get(ref.kind)
    objects = () if kind is None or kind.name == "CronJob" else getattr(snapshot, kind.attribute)
    return next((obj for obj in objects if obj.metadata.key == ref.path), None)
