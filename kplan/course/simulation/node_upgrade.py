"""An upgrade of nodes: they are drained a few at a time, and come back new, as the clouds' node pools do it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from kplan.autoscaling.seam import RemovalTimes
from kplan.changes.values import DrainOptions, Upgrade
from kplan.course.simulation.draining import Drain, is_cordoned
from kplan.course.simulation.loop import Simulation
from kplan.course.simulation.nodes import Departure, depart
from kplan.documents.change import StepEvent


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
        drains: list[Drain],
    ) -> None:
        self._simulation = simulation
        self._left = list(nodes)
        self._n_out = len(nodes)  # how many nodes have not come back yet
        self._upgrade = upgrade
        self._options = options
        self._drains = drains
        self._has_failed = False

    def begin(self) -> None:
        """Have the further nodes join, then start with the first nodes."""
        simulation, upgrade = self._simulation, self._upgrade
        simulation.life.cordon(upgrade.surge)
        ready_at = simulation.now + (upgrade.node_start if upgrade.surge else 0.0)
        simulation.kubelets.expect(upgrade.surge, ready_at)
        for name in upgrade.surge:
            simulation.log.add_node(StepEvent.REQUESTED, name, "a further node while others are upgraded")
            simulation.timers.post(ready_at, partial(self._join, name))
        if upgrade.cordons_all:
            simulation.timers.post(ready_at, partial(simulation.life.cordon, tuple(self._left)))
        for _ in range(max(upgrade.parallel, 1)):
            simulation.timers.post(ready_at, self._next)

    def _join(self, name: str) -> None:
        self._simulation.life.uncordon(name)
        self._simulation.log.add_node(StepEvent.ADDED, name, of_time=True)

    def _next(self) -> None:
        if self._has_failed or not self._left:
            return
        name = self._left.pop(0)
        was_cordoned = is_cordoned(self._simulation, name) and not self._upgrade.cordons_all
        drain = Drain(
            self._simulation,
            self._options,
            [name],
            afterwards=self._left,
            timeout=math.inf if self._upgrade.timeout is None else self._upgrade.timeout,
            on_end=partial(self._ended, was_cordoned=was_cordoned),
        )
        self._drains.append(drain)
        drain.begin()

    def _ended(self, name: str, *, is_empty: bool, was_cordoned: bool) -> None:
        simulation, upgrade = self._simulation, self._upgrade
        if not is_empty and not upgrade.is_forced:
            self._has_failed = True
            self._drains[-1].not_reached = tuple(self._left)
            if upgrade.uncordons_failed:
                simulation.life.uncordon(name)
                simulation.log.add_node(StepEvent.NEEDED, name, "it cannot be emptied in time")
            return
        simulation.later(upgrade.pause, partial(self._replace, name, is_empty=is_empty, was_cordoned=was_cordoned))

    def _replace(self, name: str, *, is_empty: bool, was_cordoned: bool) -> None:
        simulation, upgrade = self._simulation, self._upgrade
        if upgrade.is_replaced or not is_empty:
            for pod in Drain(simulation).on([name]):
                if not pod.is_terminating:
                    simulation.life.remove(pod, StepEvent.DELETED, "its node is replaced")
            simulation.log.add_node(StepEvent.REMOVED, name, "an empty node takes its place", of_time=True)
        if upgrade.keeps_surge and len(self._left) < len(upgrade.surge):
            depart(simulation, name, "a further node has taken its place", is_logged=False)
            self._n_out -= 1
            simulation.later(0.0, self._next)
            return
        simulation.later(
            upgrade.node_start if upgrade.is_replaced else 0.0,
            partial(self._return, name, stays_cordoned=was_cordoned and not upgrade.is_replaced),
        )
        if not upgrade.waits_for_nodes:
            simulation.later(0.0, self._next)

    def _return(self, name: str, *, stays_cordoned: bool) -> None:
        if not stays_cordoned:
            self._join(name)
        self._simulation.log.note_change()
        self._n_out -= 1
        if self._upgrade.waits_for_nodes:
            self._simulation.later(0.0, self._next)  # first, pods that wait may go to the node
        if not self._n_out and not self._upgrade.keeps_surge:
            self._remove_surge()

    def _remove_surge(self) -> None:
        """Empty and remove the further nodes, once all others are back."""
        surge = self._upgrade.surge
        self._simulation.life.cordon(surge)
        for name in surge:
            times = RemovalTimes(timeout=math.inf if self._upgrade.timeout is None else self._upgrade.timeout)
            departure = Departure(self._simulation, name, times, "the upgrade is through", _ignore)
            departure.begin()


def _ignore(name: str, *, is_gone: bool) -> None:
    """Take no note of a further node that is gone."""
