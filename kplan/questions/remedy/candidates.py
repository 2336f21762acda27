"""Actions that may help the pods that still wait after others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import msgspec

from kplan.actions.actions import Act, Acts, Fewer, Move, NewNodes, Patch, UncordonNode, Widen, is_patched, kind_of
from kplan.actions.carry_out import Goal, Playing, movable
from kplan.actions.patches import patch_of
from kplan.api.core import Pod
from kplan.api.kinds import POD_MAKERS, SCALED
from kplan.api.references import WorkloadRef
from kplan.autoscaling.seam import WiderRequirement
from kplan.diagnosis.near_misses import NearMisses
from kplan.diagnosis.node_shapes import NodeShape, node_shapes
from kplan.diagnosis.remedies import changed_pods
from kplan.documents.remedies import Kind
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.rules.resources import PODS
from kplan.simulation.controllers.observed import ObservedPod
from kplan.simulation.deployments import DeploymentState
from kplan.simulation.jobs import JobState
from kplan.simulation.loop import Simulation
from kplan.simulation.owners import DaemonSetState
from kplan.snapshot.model import Snapshot

MOST_SINGLE_MOVES = 40
"""So many different pods are tried alone; in a larger cluster those whose room is just enough for a waiting pod."""

_MOST_WAITING = 4
_MOST_CORDONED = 30
_MOST_SHAPES = 6
_MOST_NODES, _MOST_PODS, _MOST_TOGETHER, _MOST_GROUPS = 40, 10, 4, 24


class Candidates:
    """What may be done after some actions.

    Parameters
    ----------
    playing : the end of the actions is used, and not to be played on
    by_hand : nodes are added by hand also where an autoscaler sets their number
    """

    def __init__(self, playing: Playing, acts: Acts, goal: Goal, *, by_hand: bool) -> None:
        self._playing, self._acts, self._goal, self._by_hand = playing, acts, goal, by_hand
        self._played = played = playing.play(acts)
        self._simulation = played.simulation
        self.is_complete = True  #: nothing was left out because there is too much
        self._decided: list[tuple[int, CycleResult]] = []

    def of(self, kinds: Collection[Kind]) -> list[Acts]:
        """Return groups of actions, one of which is added; those that need no trial first."""
        groups: list[Acts] = []
        if "uncordon" in kinds:
            groups += ((act,) for act in self._uncordon())
        if "moves" in kinds:
            groups += self.moves()
        if "pools" in kinds:
            groups += self._pools()
        if "nodes" in kinds:
            groups += ((act,) for act in self._nodes())
        if "scale" in kinds:
            groups += ((act,) for act in self._fewer())
        groups += ((act,) for act in self._patches() if kind_of(act) in kinds)
        return groups

    def moves(self) -> list[Acts]:
        """Return pods to move: each alone in a small cluster, and groups that make room for a waiting pod."""
        moved = {act.pod for act in self._acts if isinstance(act, Move)}
        others = [pod for pod in movable(self._simulation) if pod.key not in moved]
        alike: dict[Any, ObservedPod] = {}
        infos = self._simulation.session.cluster.pods.infos
        for pod in others:
            own = pod.key if infos[pod.row].pod.spec.volumes else ""
            alike.setdefault((pod.node, infos[pod.row].shape, own), pod)
        singles = [pod for pod in alike.values() if not self._simulation.disruptions.refusal(pod)]
        groups = self._groups(others)
        if len(singles) <= MOST_SINGLE_MOVES:
            groups += [(Move(pod.key, pod.node),) for pod in singles]
        else:
            self.is_complete = False
        return list(dict.fromkeys(groups))

    def _waiting(self) -> list[tuple[int, CycleResult]]:
        """Return the first waiting pod of some workloads, each with the scheduler's decision about it."""
        if not self._decided:
            waiting = {
                key for workload in self._goal.wanted for key in sorted(self._played.waiting.get(workload, ()))[:1]
            }
            rows = [row for row, pod in self._simulation.pods.items() if pod.key in waiting]
            session = self._simulation.session
            for row in rows[:_MOST_WAITING]:
                result = schedule_pod(session, row, looks_for_victims=False)
                if result.row is not None and result.framework is not None and result.cycle is not None:
                    result.framework.run_unreserve(result.cycle, result.row)
                self._decided.append((row, result))
            self.is_complete &= len(rows) <= _MOST_WAITING
        return self._decided

    def _uncordon(self) -> Iterator[Act]:
        nodes = self._simulation.session.cluster.nodes
        names = [name for row, name in enumerate(nodes.names) if nodes.unschedulable[row]]
        self.is_complete &= len(names) <= _MOST_CORDONED
        yield from (UncordonNode(name) for name in names[:_MOST_CORDONED])

    def _pools(self) -> Iterator[Acts]:
        """Yield what lets an autoscaler add more; a list of excluded values is not changed twice."""
        excluded = {
            (act.change.pool, act.change.index)
            for act in self._acts
            if isinstance(act, Widen) and isinstance(act.change, WiderRequirement) and act.change.operator != "In"
        }
        for changes in self._playing.widening(self._played, self._acts):
            again = [change for change in changes if isinstance(change, WiderRequirement)]
            if excluded.isdisjoint((change.pool, change.index) for change in again):
                yield tuple(map(Widen, changes))

    def _nodes(self) -> Iterator[Act]:
        followed = None if self._by_hand else self._played.base.followed
        infos = self._simulation.session.cluster.pods.infos
        nodes = self._played.base.session.cluster.nodes
        waiting = [infos[row].requests for row, _ in self._waiting()]

        def is_large_enough(shape: NodeShape) -> bool:
            row = nodes.row_of[shape.like.metadata.name]
            return any(
                all(amount <= int(nodes.allocatable(name)[row]) for name, amount in requests.items() if amount)
                for requests in waiting
            )

        shapes = [
            shape
            for shape in node_shapes(self._played.base.objects)
            if is_large_enough(shape) and not (followed is not None and followed.manages(shape.like))
        ]
        self.is_complete &= len(shapes) <= _MOST_SHAPES
        added = {act.like for act in self._acts if isinstance(act, NewNodes)}
        for shape in shapes[:_MOST_SHAPES]:
            if shape.like.metadata.name not in added:
                yield NewNodes(1, shape.like.metadata.name)

    def _fewer(self) -> Iterator[Act]:
        for workload in self._goal.wanted:
            waiting = len(self._played.waiting.get(workload, ()))
            owner = self._simulation.workloads.find(workload)
            if not waiting or owner is None or WorkloadRef.parse(workload).kind not in SCALED:
                continue
            old = owner.wanted.replicas if isinstance(owner, DeploymentState) else owner.scale
            if old > waiting and _object_of(self._played.base.objects, workload) is not None:
                yield Fewer(workload, old, old - waiting)

    def _patches(self) -> Iterator[Patch]:
        patched = {act.target for act in self._acts if isinstance(act, Patch)}
        infos = self._simulation.session.cluster.pods.infos
        for row, result in self._waiting():
            owner = self._simulation.owner(row)
            target = f"Pod/{infos[row].key}" if owner is None else owner.workload.key
            obj = infos[row].pod if owner is None else _object_of(self._played.base.objects, target)
            if target in patched or obj is None or isinstance(owner, DaemonSetState):
                continue
            if isinstance(owner, JobState) and any(pod.node for pod in owner.pods.values()):
                continue  # its template cannot change while its pods run
            template = obj if isinstance(obj, Pod) else obj.spec.template
            for remedy, changed in changed_pods(self._simulation.session, result):
                patch = patch_of(infos[row].pod, changed, template) if is_patched(remedy) else {}
                if patch:
                    yield Patch(target, msgspec.json.encode(patch).decode(), remedy)  # type: ignore[arg-type] # as is_patched says

    def _groups(self, pods: Sequence[ObservedPod]) -> list[Acts]:
        """Return groups of pods of one node whose room, with what is free there, is enough for a waiting pod."""
        on: dict[str, list[ObservedPod]] = {}
        for pod in pods:
            if not self._simulation.disruptions.refusal(pod):
                on.setdefault(pod.node, []).append(pod)
        ranked: list[tuple[int, float, Acts]] = []
        for row, result in self._waiting():
            if result.filter is None or result.filter.pre_filter_status is not None:
                continue
            misses = NearMisses(result.filter)
            rows = misses.rows[misses.only("NodeResourcesFit")].tolist()
            ranked += [
                entry for node in rows for entry in _enough(self._simulation, row, node, on.get(self._name(node), ()))
            ]
        ranked.sort(
            key=lambda entry: (entry[0], entry[1], [(act.pod if isinstance(act, Move) else "") for act in entry[2]])
        )
        return [acts for _, _, acts in ranked[:_MOST_GROUPS]]

    def _name(self, row: int) -> str:
        return self._simulation.session.cluster.nodes.names[row]


def _enough(
    simulation: Simulation, row: int, node: int, pods: Sequence[ObservedPod]
) -> Iterator[tuple[int, float, Acts]]:
    """Yield the smallest groups of pods of a node without which a pod has enough of every resource there."""
    cluster = simulation.session.cluster
    infos, nodes = cluster.pods.infos, cluster.nodes
    wanted = {**infos[row].requests, PODS: 1}
    missing = {}
    for resource, amount in wanted.items():
        total, used = (
            (nodes.allowed_pods[node], cluster.pod_count[node])
            if resource == PODS
            else (nodes.allocatable(resource)[node], cluster.requested(resource)[node])
        )
        if amount and amount + int(used) > int(total):
            missing[resource] = amount + int(used) - int(total)
    if not missing:
        return
    frees = {pod.key: {name: _freed(infos[pod.row].requests, name) for name in missing} for pod in pods}
    sizes = {key: sum(freed[name] / missing[name] for name in missing) for key, freed in frees.items()}
    useful = sorted((pod for pod in pods if sizes[pod.key]), key=lambda pod: (-min(sizes[pod.key], 1), sizes[pod.key]))
    for number in range(1, _MOST_TOGETHER + 1):
        enough = [
            (number, sum(sizes[pod.key] for pod in group), tuple(Move(pod.key, pod.node) for pod in group))
            for group in combinations(useful[:_MOST_PODS], number)
            if all(sum(frees[pod.key][name] for pod in group) >= amount for name, amount in missing.items())
        ]
        if enough:
            yield from sorted(enough, key=lambda entry: entry[:2])[:_MOST_TOGETHER]
            return


def _freed(requests: Mapping[str, int], resource: str) -> int:
    return 1 if resource == PODS else requests.get(resource, 0)


def _object_of(snapshot: Snapshot, workload: str) -> Any:
    """Return the object of a workload; None where the snapshot does not have it."""
    ref = WorkloadRef.parse(workload)
    kind = POD_MAKERS.get(ref.kind)
    objects = () if kind is None or kind.name == "CronJob" else getattr(snapshot, kind.attribute)
    return next((obj for obj in objects if obj.metadata.key == ref.path), None)
