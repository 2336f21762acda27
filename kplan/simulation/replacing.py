"""Pods that controllers create in place of others, one at a time, in a simulation that is not run."""

from __future__ import annotations

from kplan.rules.pod_info import PodInfo
from kplan.simulation.controllers.observed import Create, ObservedPod
from kplan.simulation.jobs import JobState
from kplan.simulation.loop import Simulation
from kplan.simulation.owners import ON_EACH_NODE, DaemonSetState, ForeignState, Owner, StatefulSetState


def is_replaced(simulation: Simulation, row: int) -> bool:
    """Tell whether a controller creates a pod, on whichever node, if this one is lost with its node."""
    owner, pod = simulation.owner(row), simulation.pods.get(row)
    if owner is None or pod is None or owner.ref.kind == ON_EACH_NODE:
        return False
    if not isinstance(owner, JobState):
        return True
    left = owner.copy()
    left.leave(pod)
    left.failed(pod, simulation.now)
    return left.desired > len(left.pods)


def replacement(simulation: Simulation, row: int) -> PodInfo:
    """Return the pod that the controller of a lost one creates, whose claims are then in the listers.

    Parameters
    ----------
    simulation : must not be run afterwards, since it counts the new pod among those that exist
    """
    owner = simulation.owner(row)
    if owner is None:
        raise ValueError("no controller replaces the pod")
    return simulation.make_again(owner, _create(owner, simulation.pods[row]), row)


def _create(owner: Owner, pod: ObservedPod) -> Create:
    has_revision = isinstance(owner, StatefulSetState | DaemonSetState | ForeignState)
    return Create("", pod.revision if has_revision else "", pod.index, pod.target)
