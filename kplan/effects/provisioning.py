"""Nodes that an autoscaler makes in the course of a simulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from kplan.autoscaling.seam import NewNode, PreparedCluster
from kplan.cluster.growth import Growth, as_waiting, with_new
from kplan.rules.group_names import short_group_name
from kplan.simulation.durations import Durations
from kplan.simulation.joining import Joining, join
from kplan.simulation.loop import Simulation
from kplan.snapshot.model import Snapshot
from kplan.subjects.incoming import with_objects


class Growing:
    """The nodes that an autoscaler makes in the course of a simulation.

    Parameters
    ----------
    growth : receives what is added
    snapshot : the cluster of the simulation at the start, with all applied objects other than workloads
    now : its moment, in microseconds since 1970
    """

    def __init__(self, growth: Growth, snapshot: Snapshot, now: int) -> None:
        self.growth = growth
        self._snapshot, self._now = snapshot, now
        self._coming: list[NewNode] = []
        self._seen: object = None

    def look(self, simulation: Simulation) -> bool:
        """Have nodes join a cluster at rest, at once; tell whether any do."""
        adds = self._adds(simulation)
        if adds:
            join(simulation, [*map(_joining, adds)])
        return bool(adds)

    def note_pending(self, simulation: Simulation) -> None:
        """Have the autoscaler look some time from now."""
        if not simulation.timers.has(_LOOK):
            at = simulation.now + self.growth.autoscaler.wait
            simulation.timers.post(at, partial(self._look_in_time, simulation), _LOOK)

    def _look_in_time(self, simulation: Simulation) -> None:
        adds = self._adds(simulation)
        for seconds, nodes in _by_start(adds, simulation.durations).items():
            simulation.timers.post(simulation.now + seconds, partial(self._arrive, simulation, nodes))
        self._coming += adds
        if adds:
            self.note_pending(simulation)

    def _arrive(self, simulation: Simulation, nodes: Sequence[NewNode]) -> None:
        self._coming = [new for new in self._coming if new not in nodes]
        join(simulation, [*map(_joining, nodes)])

    def _adds(self, simulation: Simulation) -> Sequence[NewNode]:
        if self.growth.is_stopped or not any(not pod.node for pod in simulation.pods.values()):
            return ()
        pending = frozenset((row, simulation.messages.get(row)) for row, pod in simulation.pods.items() if not pod.node)
        state = (len(simulation.steps), pending, len(self._coming))
        if state == self._seen:
            return ()
        self._seen = state
        cluster = self.sight(simulation)
        adds = self.growth.look(cluster.snapshot, cluster.session, cluster.now)
        self._snapshot = with_objects(self._snapshot, [obj for new in adds for obj in new.objects])
        return adds

    def sight(self, simulation: Simulation) -> PreparedCluster:
        """Return the cluster as the autoscaler sees it now."""
        from kplan.effects.settle import snapshot_of

        nodes = simulation.session.cluster.nodes.nodes
        snapshot = with_new(as_waiting(snapshot_of(simulation, self._snapshot), nodes), self._coming)
        # The simulation's time goes on while pods back off; a pod that seems to be of the future is not looked at.
        now = max(self._now, int(simulation.now * 1_000_000))
        return PreparedCluster(snapshot, simulation.session, now)


_LOOK = "look of the autoscaler"


def _by_start(adds: Iterable[NewNode], durations: Durations | None) -> dict[float, list[NewNode]]:
    """Return new nodes by the seconds until they are ready."""
    by_start: dict[float, list[NewNode]] = {}
    for new in adds:
        seconds = 0.0 if durations is None else durations.of_node(new.pool or new.group).seconds
        by_start.setdefault(seconds, []).append(new)
    return by_start


def _joining(new: NewNode) -> Joining:
    home = f"pool {new.pool}" if new.pool else f"group {short_group_name(new.group)}"
    return Joining(new.node, new.daemons, ", ".join(text for text in (home, new.instance_type, new.zone) if text))
