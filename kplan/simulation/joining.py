"""Nodes that join a cluster in motion, as an autoscaler makes them.

A node joins when it is ready for all pods. Pods of daemon sets tolerate a node that is not ready yet, so they are there
before the scheduler gives the node other pods.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kplan.api.core import Node, Pod
from kplan.api.meta import controller_of
from kplan.documents.change import StepEvent
from kplan.rules.pod_info import PodInfo
from kplan.simulation.controllers.observed import Create, ObservedPod
from kplan.simulation.loop import Simulation
from kplan.simulation.objects import eligible_nodes
from kplan.simulation.owners import DaemonSetState
from kplan.snapshot.model import Warning as InputWarning

_FORGOTTEN = "the devices of its extended resources count as free once a node joins, because no claim names them"


class Joining(msgspec.Struct, frozen=True):
    """A node that joins."""

    node: Node  #: as it is once it is ready
    pods: tuple[Pod, ...] = ()  #: the pods that it starts with, bound to it; those of known daemon sets are made anew
    because: str = ""  #: why it joins


def join(simulation: Simulation, joining: Sequence[Joining]) -> None:
    """Have nodes join."""
    session, nodes = simulation.session, [one.node for one in joining]
    for identity in sorted(session.grow(nodes)):
        simulation.warn(InputWarning("UnsettledClaims", f"Pod/{identity}", _FORGOTTEN))
    simulation.note_joined(nodes)
    for one in joining:
        name = one.node.metadata.name
        simulation.log(StepEvent.ADDED, node=name, workload=f"Node/{name}", because=one.because)
    for key in simulation.workloads.keys():  # noqa: SIM118 - not a mapping
        owner = simulation.workloads.owner(key) if key.startswith("DaemonSet/") else None
        if isinstance(owner, DaemonSetState):
            template = owner.templates[owner.wanted.revision]
            eligible = eligible_nodes(template, nodes)
            owner.nodes = {**owner.nodes, **eligible}
            if any(node.should_run for node in eligible.values()):
                simulation.enqueue(owner)
    for one in joining:
        for pod in one.pods:
            reference = controller_of(pod.metadata)
            name = "" if reference is None else f"{reference.kind}/{pod.metadata.namespace}/{reference.name}"
            if not isinstance(simulation.workloads.owner(name), DaemonSetState):
                _start(simulation, pod)


def comes_with_node(simulation: Simulation, pod: ObservedPod) -> bool:
    """Return whether a pod is one of those that a node that has joined starts with."""
    row_of, n_joined = simulation.session.cluster.nodes.row_of, len(simulation.joined)
    is_there = bool(pod.target) and pod.node == pod.target
    return is_there and row_of[pod.node] >= len(row_of) - n_joined


def _start(simulation: Simulation, pod: Pod) -> None:
    """Have a pod run that no controller of the simulation makes, such as a static pod."""
    info = PodInfo(pod)
    if info.key in simulation.session.pod_ids:
        return
    row = simulation.session.add_pod(info)
    node = info.pod.spec.node_name
    observed = ObservedPod.created_as(info, row, simulation.now, Create("", node=node), order=row)
    simulation.pods[row] = observed
    simulation.newcomers.append(row)
    simulation.disruptions.join(observed, info, None)
    simulation.bind(row, simulation.session.cluster.nodes.row_of[node])
