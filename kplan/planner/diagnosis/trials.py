"""Decides again about a pod with something changed, each time in a world that nobody else has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kplan.api.core import Node, Pod
from kplan.documents import remedy as r
from kplan.documents.placement import Outcome
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.engine.node_table import NodeTable
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.listers import Listers
from kplan.framework.session import Session
from kplan.planner.incoming import with_objects
from kplan.plugins.node_unschedulable import UNSCHEDULABLE_TAINT
from kplan.rules.pod_info import PodInfo

MOST_TRIALS = 32
"""Of one pod, so many decisions at most."""

MOST_PLACED = 160
"""Of its replicas, so many decisions in all."""


R = TypeVar("R", bound=r.RemedyBase)


class Trials:
    """A pod that has no node, to be tried again.

    Parameters
    ----------
    live : the session in which it has none; only forked
    row : the pod
    """

    def __init__(self, live: Session, row: int) -> None:
        self.live = live
        self.row = row
        self.info = live.cluster.pods.infos[row]
        self.left = MOST_TRIALS
        self.left_to_place = MOST_PLACED
        #: what was tried for a remedy: the pod, and a session of its own, so that its replicas can be tried, too
        self.tried: dict[r.RemedyBase, Callable[[], tuple[Pod, Session]]] = {}

    @property
    def pod(self) -> Pod:
        """The pod as it is."""
        return self.info.pod

    def world(self, listers: Listers | None = None, nodes: NodeTable | None = None) -> Session:
        """Return a session of its own, in which nothing is promised to the pod."""
        session = self.live.fork(listers, nodes)
        session.nominator.drop(self.row)
        return session

    @cached_property
    def _same_world(self) -> Session:
        return self.world()

    def node_for(self, pod: Pod, session: Session | None = None) -> str | None:
        """Return the node that a pod goes to; None for none, and when enough has been tried."""
        world = self._same_world if session is None else session
        found = self._decide(world, pod, looks_for_victims=False)
        return None if found is None or found.row is None else world.cluster.nodes.names[found.row]

    def victims_of(self, pod: Pod) -> tuple[str, tuple[str, ...]] | None:
        """Return the node on which a pod would make room, and whom it would evict there; None for none."""
        found = self._decide(self._same_world, pod, looks_for_victims=True)
        post_filter = None if found is None else found.post_filter
        if post_filter is None or post_filter.nominated_row is None:
            return None
        cluster = self._same_world.cluster
        victims = tuple(cluster.pods.infos[victim].key for victim in post_filter.victims)
        return cluster.nodes.names[post_filter.nominated_row], victims

    def _decide(self, session: Session, pod: Pod, *, looks_for_victims: bool) -> CycleResult | None:
        if self.left <= 0:
            return None
        self.left -= 1
        result = schedule_pod(session, session.add_pod(PodInfo(pod)), looks_for_victims=looks_for_victims)
        if result.row is not None and result.framework is not None and result.cycle is not None:
            result.framework.run_unreserve(result.cycle, result.row)
        return result

    def placed(self, pod: Pod, number: int, session: Session) -> int:
        """Put so many pods like one on nodes of a session of its own, and return how many found one.

        Returns 0 when more decisions than may be made do not tell.
        """
        allowed = min(number, self.left_to_place)
        for done in range(allowed):
            self.left_to_place -= 1
            metadata = replace(pod.metadata, name=f"{pod.metadata.name}-{done}", uid=f"{pod.metadata.uid}-{done}")
            row = session.add_pod(PodInfo(replace(pod, metadata=metadata)))
            result = schedule_pod(session, row, looks_for_victims=False)
            if result.row is None:
                return done
            session.bind(row, result.row)
        return number if allowed == number else 0

    def by_change(self, remedy: R, pod: Pod) -> R:
        """Keep the changed pod of a remedy, and return the remedy."""
        self.tried[remedy] = lambda: (pod, self.world())
        return remedy

    def with_object(self, obj: msgspec.Struct) -> str | None:
        """Return the node that the pod goes to when an object is as given."""
        listers = Listers(with_objects(self.live.listers.snapshot, [obj]))
        return self.node_for(self.pod, self.world(listers))

    def uncordoned(self, row: int) -> Session:
        """Return a session of its own in which a node is taken into use again."""
        table = self.live.cluster.nodes
        node = table.nodes[row]
        taints = tuple(taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE_TAINT.key)
        nodes = [*table.nodes]
        nodes[row] = replace(node, spec=replace(node.spec, unschedulable=False, taints=taints))
        return self.world(nodes=NodeTable(nodes))

    def moved(self, other: int) -> tuple[str, str] | None:
        """Return where the pod goes without another one, and where that one goes then; None unless both fit."""
        session = self.world()
        session.evict(other)
        self.left -= 1
        if self.left < 0:
            return None
        mine = schedule_pod(session, self.row, looks_for_victims=False)
        if mine.outcome is not Outcome.SCHEDULED or mine.row is None:
            return None
        session.bind(self.row, mine.row)
        names = session.cluster.nodes.names
        pending = session.cluster.pods.infos[other].pod
        again = replace(pending, spec=replace(pending.spec, node_name=""))
        goes_to = self.node_for(again, session)
        return None if goes_to is None else (names[mine.row], goes_to)

    def with_nodes(self, nodes: Sequence[Node], pods: Iterable[Pod], *, alone: bool) -> Session:
        """Return a session with new nodes, and with the pods that come with them.

        With `alone` all other nodes are left out, which no rule of the pod looks at.
        """
        live = self.live
        infos = [PodInfo(pod) for pod in pods]
        if alone:
            cluster = Cluster.build(NodeTable(nodes), infos)
        else:
            known = live.cluster
            cluster = Cluster.build(NodeTable([*known.nodes.nodes, *nodes]), [*known.pods.infos, *infos])
            _as_placed(cluster, known)
        return Session(cluster, live.listers, live.config, live.make_plugins, live.options)


def _as_placed(cluster: Cluster, known: Cluster) -> None:
    """Put pods where another cluster has them; its own they may have left, or come to, since it was read."""
    for pod, row in enumerate(known.node_of):
        wanted = NOWHERE if row == NOWHERE else cluster.nodes.row_of[known.nodes.names[row]]
        if cluster.node_of[pod] != wanted:
            if cluster.node_of[pod] != NOWHERE:
                cluster.unbind(pod)
            if wanted != NOWHERE:
                cluster.bind(pod, wanted)
