"""Nodes that leave a cluster in motion: an autoscaler empties and removes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from kplan.documents.change import StepEvent
from kplan.simulation.draining import Drain, DrainOptions
from kplan.simulation.loop import Simulation
from kplan.simulation.owners import DaemonSetState
from kplan.simulation.timed_drain import Patience, TimedDrain

_EVICT_ALL = DrainOptions(force=True, delete_emptydir_data=True)


class RemovalTimes(msgspec.Struct, frozen=True):
    """What an autoscaler waits for while it removes a node; in seconds."""

    poll: float = 10.0  #: between two looks for nodes to remove
    validation: float = 0.0  #: from the decision to save nodes to its second check, after which it is carried out
    delay: float = 0.0  #: from the taint that keeps pods away to the first eviction
    patience: Patience = Patience()  #: how evictions are tried again
    timeout: float = math.inf  #: after which a node that cannot be emptied stays
    least: float = 0.0  #: a drain takes so long at least
    after: float = 0.0  #: from an empty node to one that is gone


def depart(simulation: Simulation, name: str, because: str, *, is_logged: bool = True) -> None:
    """Have a node leave at once, and with it the pods that are still there.

    Parameters
    ----------
    is_logged : append a step about the node
    """
    for pod in Drain(simulation).on([name]):
        if not pod.is_terminating:
            simulation.remove(pod, StepEvent.DELETED, because)
        if pod.row in simulation.pods:
            simulation.end(pod.row)
    for key in simulation.workloads.keys():  # noqa: SIM118 - not a mapping
        owner = simulation.workloads.owner(key) if key.startswith("DaemonSet/") else None
        if isinstance(owner, DaemonSetState) and name in owner.nodes:
            owner.nodes = {node: eligible for node, eligible in owner.nodes.items() if node != name}
            simulation.enqueue(owner)
    simulation.session.remove_node(simulation.session.cluster.nodes.row_of[name])
    if is_logged:
        log_node(simulation, StepEvent.REMOVED, name, because)


def log_node(simulation: Simulation, event: StepEvent, name: str, because: str = "") -> None:
    """Append a step about a node."""
    simulation.log(event, node=name, workload=f"Node/{name}", because=because)


class OnDeparture(Protocol):
    """Listens for the end of a node's removal."""

    def __call__(self, name: str, *, is_gone: bool) -> None:
        """Receive the name of a node, and whether it has left; else it stays."""


class Departure:
    """A node that is emptied and then leaves; one that cannot be emptied in time stays.

    Parameters
    ----------
    on_end : called when the node has left, or stays
    """

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        times: RemovalTimes,
        because: str,
        on_end: OnDeparture,
    ) -> None:
        self._simulation, self._name, self._times = simulation, name, times
        self._because, self._on_end = because, on_end
        self._began = 0.0

    def begin(self) -> None:
        """Keep further pods away from the node, and then evict its own."""
        simulation = self._simulation
        self._began = simulation.now
        simulation.cordon([self._name])
        drain = TimedDrain(
            simulation,
            [self._name],
            _EVICT_ALL,
            timeout=self._times.timeout,
            on_end=self._ended,
            patience=self._times.patience,
        )
        self._later(self._times.delay, drain.begin)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        self._simulation.timers.post(self._simulation.now + seconds, act)

    def _ended(self, name: str, *, is_empty: bool) -> None:
        if not is_empty:
            self._simulation.uncordon(name)
            log_node(self._simulation, StepEvent.NEEDED, name, "it cannot be emptied in time")
            self._on_end(name, is_gone=False)
            return
        rest = max(self._began + self._times.least - self._simulation.now, 0.0)
        self._later(rest + self._times.after, partial(self._leave, name))

    def _leave(self, name: str) -> None:
        depart(self._simulation, name, self._because)
        self._on_end(name, is_gone=True)
