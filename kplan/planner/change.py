"""The answers of `Planner.roll_out` and `Planner.drain`: what moves when manifests are applied or nodes are drained."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.documents.base import InputWarning
from kplan.documents.change import Change, Obstacle, PodAtRest, Step, WorkloadChange
from kplan.engine.cluster import Cluster
from kplan.errors import NotFoundError
from kplan.framework.cycle import schedule_pod
from kplan.planner.base import Base
from kplan.planner.decisions import Decisions
from kplan.planner.incoming import accepted_objects, with_objects
from kplan.planner.not_found import meant, no_node
from kplan.planner.placement import Placement, last_placement
from kplan.simulation.applying import Applied, Applying, Rollout
from kplan.simulation.draining import Drain, DrainOptions
from kplan.simulation.loop import Simulation
from kplan.simulation.outcome import note_stuck, pods_at_rest, workload_change, workload_changes
from kplan.simulation.start import elsewhere, fork, start
from kplan.simulation.updates import CHANGED_IN_PLACE, Update, update_of
from kplan.snapshot.defaults import DEFAULT_NAMESPACE
from kplan.workloads.autoscalers import Autoscalers
from kplan.workloads.changes import Manifest, WrittenWorkload, read_changes
from kplan.workloads.started import not_started, with_runs


@dataclass(frozen=True)
class ChangePlan:
    """What a change set in motion, to the end."""

    simulation: Simulation = field(repr=False)  #: the cluster as it stands at the end; not to be changed
    origin: Base = field(repr=False)  #: the cluster before anything moved; not to be changed
    applied: Sequence[Applied] = field(default=(), repr=False)  #: what each manifest meant, in the order given
    blocked: Mapping[str, str] = field(default_factory=dict)  #: NAMESPACE/NAME -> why a pod may not be evicted
    obstacles: tuple[Obstacle, ...] = ()  #: the same, with the budgets that cover the pod
    left_out: tuple[InputWarning, ...] = ()  #: of which manifests no pods are made here, or nothing at all

    @property
    def started_from(self) -> Cluster:
        """The cluster before anything moved, without nodes that were lost; not to be changed."""
        return self.origin.session.cluster

    @property
    def warnings(self) -> tuple[InputWarning, ...]:
        """What else is to be known about what was applied."""
        own = (warning for each in self.applied for warning in each.update.warnings)
        return (*self.simulation.warnings, *own, *self.left_out, *_leaving(self.simulation.already_leaving))

    @property
    def steps(self) -> Sequence[Step]:
        """Everything that happened, in order."""
        return self.simulation.steps

    @cached_property
    def after(self) -> tuple[PodAtRest, ...]:
        """Every pod at rest, by namespace and name."""
        return pods_at_rest(self.simulation)

    @cached_property
    def workloads(self) -> tuple[WorkloadChange, ...]:
        """Those that the change is about, in the order given, then those that it moved."""
        return workload_changes(self.simulation, self.applied)

    def placement(self, pod: str) -> Placement:
        """Say why a pod that stays pending is taken by no node, as everything stands at rest.

        Raises NotFoundError when no such pod is pending.
        """
        session = self.simulation.session
        waiting = {each.key: row for row, each in self.simulation.pods.items() if not each.node}
        if pod not in waiting:
            hint = meant([pod], waiting) or "placement(POD) is about the pods of `after` that have no node"
            raise NotFoundError(f"no pod {pod} stays pending", hint=hint)
        return last_placement(session, schedule_pod(session, waiting[pod]))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "steps": [step.to_dict() for step in self.steps],
            "after": [pod.to_dict() for pod in self.after],
            "workloads": [workload.to_dict() for workload in self.workloads],
            "blocked": dict(self.blocked),
            "warnings": [warning.to_dict() for warning in self.warnings],
        }


def roll_out(
    base: Base,
    manifests: Iterable[Manifest],
    *,
    namespace: str | None = None,
    rollout: Rollout = "auto",
    run_cron_jobs: bool = False,
) -> ChangePlan:
    """Apply manifests one after the other, each followed to rest; see `Planner.roll_out`."""
    written = read_written(base, manifests, namespace, run_cron_jobs=run_cron_jobs)
    change = carry_out(base, written.workloads, written.additions, rollout)
    return dataclasses.replace(change, left_out=(*written.warnings, *change.left_out))


class Written(msgspec.Struct, frozen=True):
    """Manifests as they are applied."""

    workloads: list[WrittenWorkload]
    additions: list[msgspec.Struct]  #: the other objects that the API server takes
    warnings: tuple[InputWarning, ...]  #: which objects it does not take, and why


def read_written(
    base: Base, manifests: Iterable[Manifest], namespace: str | None, *, run_cron_jobs: bool = False
) -> Written:
    """Read manifests, and judge what comes with the workloads as the API server does; parameters as for `roll_out`."""
    workloads, objects = read_changes(manifests, namespace or DEFAULT_NAMESPACE)
    admitting, additions = accepted_objects(objects, base.world, base.release.number)
    return Written(with_runs(workloads) if run_cron_jobs else workloads, additions, tuple(admitting.warnings))


def carry_out(
    base: Base,
    workloads: Sequence[WrittenWorkload],
    additions: Sequence[msgspec.Struct] = (),
    rollout: Rollout = "auto",
    decisions: Decisions | None = None,
) -> ChangePlan:
    """Apply workloads one after the other, each followed to rest.

    Parameters
    ----------
    additions : other objects that are applied with them
    decisions : keeps why the pods of new workloads go where they go
    """
    world = with_objects(base.world, additions)
    autoscalers = Autoscalers(world.horizontal_pod_autoscalers)
    simulation = watched(start(base.session_for(world), world), base) if additions else begin(base)
    return follow(simulation, base, updates_of(base, workloads, autoscalers), rollout, decisions)


class Updates(msgspec.Struct, frozen=True):
    """Manifests held against the cluster."""

    all: tuple[Update, ...]
    left_out: tuple[InputWarning, ...]  #: of which manifests no pods are made


def updates_of(base: Base, workloads: Iterable[WrittenWorkload], autoscalers: Autoscalers) -> Updates:
    """Hold manifests against the cluster, to be applied in the same order."""
    found: list[Update] = []
    left_out: list[InputWarning] = []
    for target, content in workloads:
        if target not in CHANGED_IN_PLACE:
            metadata = content["metadata"]
            left_out.append(not_started(target.__name__, metadata["namespace"], metadata["name"]))
            continue
        update = update_of(target, content, base.world, autoscalers, is_on=base.release.is_on)
        found.append(replace(update, obj=base.as_stored(update.obj)))
    return Updates(tuple(found), tuple(left_out))


def follow(
    simulation: Simulation, base: Base, updates: Updates, rollout: Rollout, decisions: Decisions | None = None
) -> ChangePlan:
    """Apply manifests to a cluster in which nothing has moved yet, each followed to rest."""
    applying = Applying(simulation, base.world.nodes, rollout)
    applied: list[Applied] = []
    for update in updates.all:
        n_before = len(simulation.steps)
        one = applying.apply(update)
        applied.append(one)
        if decisions is not None and (one.change is Change.NEW or decisions.tells_all):
            decisions.watch(simulation, one)
        if one.change is not Change.NONE or simulation.has_pending_sync:
            simulation.run()
        if len(simulation.steps) > n_before:
            note_stuck(simulation, [workload_change(simulation, one)])
        simulation.on_decision = None
    return ChangePlan(simulation, base, applied, left_out=updates.left_out)


def _leaving(names: Sequence[str]) -> Iterator[InputWarning]:
    """Say which pods were being deleted already."""
    if names:
        some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        yield InputWarning("BeingDeleted", "", f"pods that are being deleted already count as gone: {some}")


def drain(
    base: Base,
    nodes: Sequence[str],
    *,
    lost: bool = False,
    one_by_one: bool = False,
    rolling: bool = False,
    replace: bool = False,
    options: DrainOptions | None = None,
) -> ChangePlan:
    """Cordon nodes and take their pods off them; see `Planner.drain`."""
    check_nodes(base, nodes)
    if lost:
        other = without_nodes(base, nodes)
        return lose(begin(other), other, nodes)
    return empty(begin(base), base, nodes, one_by_one=one_by_one, rolling=rolling, replace=replace, options=options)


def check_nodes(base: Base, nodes: Iterable[str]) -> None:
    """Raise NotFoundError for a name that no node has."""
    for name in nodes:
        if name not in base.world.node_by_name:
            raise no_node([name], base.world.node_by_name)


def empty(
    simulation: Simulation,
    base: Base,
    nodes: Sequence[str],
    *,
    one_by_one: bool = False,
    rolling: bool = False,
    replace: bool = False,
    options: DrainOptions | None = None,
) -> ChangePlan:
    """Drain nodes of a cluster in which nothing has moved yet."""
    work = Drain(simulation, options or DrainOptions())
    if rolling or replace:
        work.node_by_node(nodes, replaced=replace)
    else:
        simulation.cordon(nodes)
        pods = work.leaving(nodes)
        if one_by_one:
            work.one_by_one(pods)
        else:
            work.together(pods)
    because = "its turn does not come, as a node before it cannot be emptied"
    left_out = tuple(InputWarning("NodeNotReached", f"Node/{name}", because) for name in work.not_reached)
    return _at_rest(
        ChangePlan(simulation, base, blocked=work.blocked, obstacles=tuple(work.obstacles), left_out=left_out)
    )


def _at_rest(change: ChangePlan) -> ChangePlan:
    """Return a drain with the workloads noted that it leaves without all their pods."""
    note_stuck(change.simulation, change.workloads)
    return change


def without_nodes(base: Base, nodes: Iterable[str]) -> Base:
    """Return the planner of a cluster in which nodes are gone; their pods are not yet."""
    gone = frozenset(nodes)
    left = tuple(node for node in base.world.nodes if node.metadata.name not in gone)
    other = base.with_snapshot(dataclasses.replace(base.world, nodes=left))
    other.at_rest = elsewhere(base.at_rest, other.session_for(other.world), other.world)
    return other


def lose(simulation: Simulation, other: Base, nodes: Sequence[str]) -> ChangePlan:
    """Let all pods of nodes be gone; `other` is the cluster without these nodes."""
    Drain(simulation).lose(nodes, "its node is lost")
    return _at_rest(ChangePlan(simulation, other))


def begin(base: Base, random: Random | None = None) -> Simulation:
    """Return a simulation of its own of the planner's cluster, before anything has moved.

    Parameters
    ----------
    random : draws of another origin than the planner's own
    """
    return watched(fork(base.at_rest, base.world, random), base)


def watched(simulation: Simulation, base: Base) -> Simulation:
    """Return the simulation, whose steps are told to whoever follows the planner's progress."""
    tell = base.on_progress
    if tell is not None:
        simulation.on_step = lambda done: tell(done, None)
    return simulation
