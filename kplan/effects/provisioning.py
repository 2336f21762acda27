"""Nodes that an autoscaler makes in the course of a simulation."""

from __future__ import annotations

from collections.abc import Sequence

from kplan.autoscaling.seam import NewNode, PreparedCluster
from kplan.cluster.growth import Growth, as_waiting
from kplan.effects.nodes_in_time import joining
from kplan.effects.snapshots import snapshot_of
from kplan.simulation.joining import join
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
        self._seen: object = None

    def look(self, simulation: Simulation) -> bool:
        """Have nodes join a cluster at rest, at once; tell whether any do."""
        adds = self._adds(simulation)
        if adds:
            join(simulation, [*map(joining, adds)])
        return bool(adds)

    def note_pending(self, simulation: Simulation) -> None:
        """Do nothing: without a clock it looks when all is at rest."""

    def _adds(self, simulation: Simulation) -> Sequence[NewNode]:
        if self.growth.is_stopped or not any(not pod.node for pod in simulation.pods.values()):
            return ()
        pending = frozenset((row, simulation.messages.get(row)) for row, pod in simulation.pods.items() if not pod.node)
        state = (len(simulation.steps), pending)
        if state == self._seen:
            return ()
        self._seen = state
        cluster = self.sight(simulation)
        self.growth.note_groups(simulation.session, (row for row, pod in simulation.pods.items() if not pod.node))
        adds = self.growth.look(cluster.snapshot, cluster.session, cluster.now)
        self._snapshot = with_objects(self._snapshot, [obj for new in adds for obj in new.objects])
        return adds

    def sight(self, simulation: Simulation) -> PreparedCluster:
        """Return the cluster as the autoscaler sees it now."""
        nodes = simulation.session.cluster.nodes.nodes
        snapshot = as_waiting(snapshot_of(simulation, self._snapshot), nodes)
        # The simulation's time goes on while pods back off; a pod that seems to be of the future is not looked at.
        now = max(self._now, int(simulation.now * 1_000_000))
        return PreparedCluster(snapshot, simulation.session, now)
