"""Simulations that report their progress, and in which autoscalers make nodes."""

from __future__ import annotations

from kplan.cluster.base import Base
from kplan.cluster.growth import growth_of
from kplan.effects.nodes_in_time import NodesInTime
from kplan.effects.provisioning import Growing
from kplan.simulation.loop import Simulation
from kplan.snapshot.model import Snapshot


def watched(simulation: Simulation, base: Base, snapshot: Snapshot | None = None) -> Simulation:
    """Return the simulation, with its steps reported to the planner's progress callback, and its autoscaler's nodes.

    Parameters
    ----------
    snapshot : the cluster of the simulation; None for the planner's
    """
    growth = growth_of(base)
    if growth is not None:
        followed = Growing if simulation.durations is None else NodesInTime
        simulation.provisioner = followed(growth, base.objects if snapshot is None else snapshot, base.now)
    report = base.on_progress
    if report is not None:
        simulation.on_step = lambda done: report(done, None)
    return simulation
