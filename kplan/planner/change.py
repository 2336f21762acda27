"""The answers of `Planner.roll_out` and `Planner.drain`: what moves when manifests are applied or nodes are drained."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from kplan.documents.base import InputWarning
from kplan.documents.change import Change, Obstacle, PodAtRest, Step, WorkloadChange
from kplan.engine.cluster import Cluster
from kplan.planner.base import Base
from kplan.planner.decisions import Decisions
from kplan.planner.incoming import with_objects
from kplan.planner.not_found import no_node
from kplan.simulation.applying import Applied, Applying, Rollout
from kplan.simulation.draining import Drain, DrainOptions
from kplan.simulation.loop import Simulation
from kplan.simulation.outcome import pods_at_rest, workload_changes
from kplan.simulation.start import fork, start
from kplan.simulation.updates import CHANGED_IN_PLACE, update_of
from kplan.snapshot.defaults import DEFAULT_NAMESPACE
from kplan.workloads.autoscalers import Autoscalers
from kplan.workloads.changes import Manifest, WrittenWorkload, read_changes


@dataclass(frozen=True)
class ChangePlan:
    """What a change set in motion, to the end."""

    simulation: Simulation = field(repr=False)  #: the cluster as it stands at the end; not to be changed
    origin: Base = field(repr=False)  #: the cluster before anything moved; not to be changed
    applied: Sequence[Applied] = field(default=(), repr=False)  #: what each manifest meant, in the order given
    blocked: Mapping[str, str] = field(default_factory=dict)  #: NAMESPACE/NAME -> why a pod may not be evicted
    obstacles: tuple[Obstacle, ...] = ()  #: the same, with the budgets that cover the pod
    left_out: tuple[InputWarning, ...] = ()  #: of which manifests no pods are made here

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
    base: Base, manifests: Iterable[Manifest], *, namespace: str | None = None, rollout: Rollout = "auto"
) -> ChangePlan:
    """Apply manifests one after the other, each followed to rest; see `Planner.roll_out`."""
    workloads, additions = read_changes(manifests, namespace or DEFAULT_NAMESPACE)
    return carry_out(base, workloads, additions, rollout)


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
    simulation = start(base.session_for(world), world) if additions else begin(base)
    applying = Applying(simulation, world.nodes, rollout)
    applied: list[Applied] = []
    left_out: list[InputWarning] = []
    for target, content in workloads:
        if target not in CHANGED_IN_PLACE:
            left_out.append(_not_started(target.__name__, content["metadata"]))
            continue
        update = update_of(target, content, base.world, autoscalers, is_on=base.release.is_on)
        one = applying.apply(dataclasses.replace(update, obj=base.as_stored(update.obj)))
        applied.append(one)
        if decisions is not None and one.change is Change.NEW:
            decisions.watch(simulation, one)
        if one.change is not Change.NONE or simulation.is_asked:
            simulation.run()
        simulation.on_decision = None
    return ChangePlan(simulation, base, applied, left_out=tuple(left_out))


def _leaving(names: Sequence[str]) -> Iterator[InputWarning]:
    """Say which pods were being deleted already."""
    if names:
        some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        yield InputWarning("BeingDeleted", "", f"pods that are being deleted already count as gone: {some}")


def _not_started(kind: str, metadata: Mapping[str, Any]) -> InputWarning:
    """Say of an object that only makes pods at another time that none are made here."""
    when = "when their time comes" if kind == "CronJob" else "when something asks for them"
    name = f"{kind}/{metadata['namespace']}/{metadata['name']}"
    return InputWarning("NotStarted", name, f"its pods come {when}; none is made here")


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
    for name in nodes:
        if name not in base.world.node_by_name:
            raise no_node([name], base.world.node_by_name)
    if lost:
        return _lose(base, nodes)
    simulation = begin(base)
    work = Drain(simulation, options or DrainOptions())
    if rolling or replace:
        work.one_after_another(nodes, replaced=replace)
        return ChangePlan(simulation, base, blocked=work.blocked, obstacles=tuple(work.obstacles))
    simulation.cordon(nodes)
    pods = work.leaving(nodes)
    if one_by_one:
        work.one_by_one(pods)
    else:
        work.together(pods)
    return ChangePlan(simulation, base, blocked=work.blocked, obstacles=tuple(work.obstacles))


def _lose(base: Base, nodes: Sequence[str]) -> ChangePlan:
    """Let nodes be gone at once, with all their pods."""
    gone = frozenset(nodes)
    left = tuple(node for node in base.world.nodes if node.metadata.name not in gone)
    world = dataclasses.replace(base.world, nodes=left)
    other = base.with_snapshot(world)
    simulation = start(other.session_for(world), world)
    Drain(simulation).lose(nodes, "its node is lost")
    return ChangePlan(simulation, other)


def begin(base: Base) -> Simulation:
    """Return a simulation of its own of the planner's cluster, before anything has moved."""
    return fork(base.at_rest, base.world)
