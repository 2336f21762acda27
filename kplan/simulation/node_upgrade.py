"""An upgrade of nodes: they are drained a few at a time, and come back new, as the clouds' node pools do it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import msgspec

from kplan.documents.change import StepEvent
from kplan.simulation.draining import Drain, DrainOptions, is_cordoned
from kplan.simulation.loop import Simulation
from kplan.simulation.timed_drain import TimedDrain


class Upgrade(msgspec.Struct, frozen=True):
    """How nodes are upgraded."""

    is_replaced: bool = True  #: an empty new node takes the place of each; else the node itself comes back
    surge: Sequence[str] = ()  #: further nodes that join first, and take pods while nodes are drained
    max_unavailable: int = 0  #: how many more nodes are drained at a time; at least one is in any case
    node_start: float = 0.0  #: seconds until a new node takes pods
    timeout: float = math.inf  #: seconds after which the drain of a node is given up
    is_forced: bool = False  #: then its pods are deleted; else the upgrade ends


class NodeUpgrade:
    """Drains nodes, at most so many at a time, and has each come back.

    Parameters
    ----------
    drains : receives the drain of each node
    """

    def __init__(
        self,
        simulation: Simulation,
        nodes: Sequence[str],
        upgrade: Upgrade,
        options: DrainOptions | None,
        drains: list[TimedDrain],
    ) -> None:
        self._simulation = simulation
        self._left = list(nodes)
        self._upgrade = upgrade
        self._options = options
        self._drains = drains
        self._has_failed = False

    def begin(self) -> None:
        """Have the further nodes join, then start with the first nodes."""
        simulation, upgrade = self._simulation, self._upgrade
        simulation.cordon(upgrade.surge)
        ready_at = simulation.now + (upgrade.node_start if upgrade.surge else 0.0)
        for name in upgrade.surge:
            self._log(StepEvent.REQUESTED, name, "a further node while others are upgraded")
            simulation.timers.post(ready_at, partial(self._join, name))
        for _ in range(max(len(upgrade.surge) + upgrade.max_unavailable, 1)):
            simulation.timers.post(ready_at, self._next)

    def _log(self, event: StepEvent, name: str, because: str = "") -> None:
        self._simulation.log(event, node=name, workload=f"Node/{name}", because=because)

    def _join(self, name: str) -> None:
        self._simulation.uncordon(name)
        self._log(StepEvent.ADDED, name)

    def _next(self) -> None:
        if self._has_failed or not self._left:
            return
        name = self._left.pop(0)
        was_cordoned = is_cordoned(self._simulation, name)
        drain = TimedDrain(
            self._simulation,
            [name],
            self._options,
            timeout=self._upgrade.timeout,
            on_end=partial(self._ended, was_cordoned=was_cordoned),
        )
        self._drains.append(drain)
        drain.begin()

    def _ended(self, name: str, *, is_empty: bool, was_cordoned: bool) -> None:
        simulation, upgrade = self._simulation, self._upgrade
        if not is_empty and not upgrade.is_forced:
            self._has_failed = True
            self._drains[-1].work.not_reached = tuple(self._left)
            return
        if upgrade.is_replaced or not is_empty:
            for pod in Drain(simulation).on([name]):
                if not pod.is_terminating:
                    simulation.remove(pod, StepEvent.DELETED, "its node is replaced")
            self._log(StepEvent.REMOVED, name, "an empty node takes its place")
        simulation.timers.post(
            simulation.now + (upgrade.node_start if upgrade.is_replaced else 0.0),
            partial(self._return, name, stays_cordoned=was_cordoned and not upgrade.is_replaced),
        )

    def _return(self, name: str, *, stays_cordoned: bool) -> None:
        if not stays_cordoned:
            self._simulation.uncordon(name)
            self._log(StepEvent.ADDED, name)
        self._simulation.note_change()
        self._next()
