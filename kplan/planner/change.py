"""The answers of `Planner.roll_out` and `Planner.drain`: what moves when manifests are applied or nodes are drained."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kplan.documents.change import PodAtRest, Step, WorkloadChange
from kplan.framework.listers import Listers
from kplan.planner.base import Base
from kplan.planner.incoming import with_objects
from kplan.planner.not_found import no_node
from kplan.simulation.applying import Applied, Applying, Rollout
from kplan.simulation.draining import Drain
from kplan.simulation.loop import Simulation
from kplan.simulation.outcome import at_rest, workload_changes
from kplan.simulation.start import start
from kplan.simulation.updates import update_of
from kplan.snapshot.defaults import DEFAULT_NAMESPACE
from kplan.workloads.changes import Manifest, read_changes


@dataclass(frozen=True)
class ChangePlan:
    """What a change set in motion, to the end.

    Attributes
    ----------
    steps : everything that happened, in order
    after : every pod at rest, by namespace and name
    workloads : those that the change is about, in the order given, then those that it moved
    blocked : NAMESPACE/NAME -> why a pod may not be evicted
    simulation : the cluster as it stands at the end; not to be changed
    """

    steps: tuple[Step, ...]
    after: tuple[PodAtRest, ...]
    workloads: tuple[WorkloadChange, ...]
    blocked: Mapping[str, str]
    simulation: Simulation = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "steps": [step.to_dict() for step in self.steps],
            "after": [pod.to_dict() for pod in self.after],
            "workloads": [workload.to_dict() for workload in self.workloads],
            "blocked": dict(self.blocked),
        }


def roll_out(
    base: Base, manifests: Iterable[Manifest], *, namespace: str | None = None, rollout: Rollout = "auto"
) -> ChangePlan:
    """Apply manifests one after the other, each followed to rest; see `Planner.roll_out`."""
    workloads, additions = read_changes(manifests, namespace or DEFAULT_NAMESPACE)
    world = with_objects(base.world, additions)
    simulation = start(_session(base, world), world)
    applying = Applying(simulation, world.nodes, rollout)
    applied: list[Applied] = []
    for target, content in workloads:
        applied.append(applying.apply(update_of(target, content, base.world)))
        simulation.run()
    return _told(simulation, applied, {})


def drain(
    base: Base,
    nodes: Sequence[str],
    *,
    lost: bool = False,
    one_by_one: bool = False,
    rolling: bool = False,
    replace: bool = False,
) -> ChangePlan:
    """Cordon nodes and take their pods off them; see `Planner.drain`."""
    for name in nodes:
        if name not in base.world.node_by_name:
            raise no_node([name], base.world.node_by_name)
    if lost:
        return _lose(base, nodes)
    simulation = start(_session(base, base.world), base.world)
    work = Drain(simulation)
    if rolling or replace:
        work.one_after_another(nodes, replaced=replace)
        return _told(simulation, [], work.blocked)
    simulation.cordon(nodes)
    pods = work.leaving(nodes)
    if one_by_one:
        work.one_by_one(pods)
    else:
        work.together(pods)
    return _told(simulation, [], work.blocked)


def _lose(base: Base, nodes: Sequence[str]) -> ChangePlan:
    """Let nodes be gone at once, with all their pods."""
    gone = frozenset(nodes)
    left = tuple(node for node in base.world.nodes if node.metadata.name not in gone)
    world = dataclasses.replace(base.world, nodes=left)
    other = base.with_world(world)
    simulation = start(_session(other, world), world)
    Drain(simulation).lose(nodes, "its node is lost")
    return _told(simulation, [], {})


def _session(base: Base, world: Any) -> Any:
    session = base.fork(listers=Listers(world))
    session.nominate_from_status(base.pending().rows)
    return session


def _told(simulation: Simulation, applied: Sequence[Applied], blocked: Mapping[str, str]) -> ChangePlan:
    workloads = workload_changes(simulation, applied)
    return ChangePlan(tuple(simulation.steps), at_rest(simulation), workloads, dict(blocked), simulation)
