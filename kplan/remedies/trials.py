"""Schedule a pod again with something changed, each time in a fork of the session."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.api.core import Node, Pod
from kplan.changes import remedy as r
from kplan.cluster.incoming import with_objects
from kplan.engine.arrays import Int64Array, RowArray
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.engine.details import Detail
from kplan.engine.node_table import NodeTable
from kplan.engine.verdicts import Verdicts
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.diagnosis import FilterOutcome
from kplan.framework.listers import WORKLOAD_GATE, Listers, group_of
from kplan.framework.results import Outcome
from kplan.framework.session import Session
from kplan.plugins.node_unschedulable import UNSCHEDULABLE_TAINT
from kplan.preemption.default_preemption import preemptors
from kplan.preemption.dry_run import Budgets
from kplan.rules.pod_info import PodInfo

MOST_TRIALS = 32
"""At most this many decisions about one pod."""

MOST_PLACED = 160
"""At most this many decisions about its replicas, over all remedies."""


R = TypeVar("R", bound=r.RemedyBase)


class Trials:
    """Tries a pod that has no node again.

    Parameters
    ----------
    live : the session in which the pod has no node; it is only forked
    row : the pod
    """

    def __init__(self, live: Session, row: int) -> None:
        self.live = live
        self.row = row
        self.info = live.cluster.pods.infos[row]
        self.left = MOST_TRIALS
        self.left_to_place = MOST_PLACED
        #: remedy -> the changed pod and a fresh session, so that the remedy can be tried with all replicas
        self.tried: dict[r.RemedyBase, Callable[[], tuple[Pod, Session]]] = {}

    @property
    def pod(self) -> Pod:
        """The pod without any change."""
        return self.info.pod

    def fork(self, listers: Listers | None = None, nodes: NodeTable | None = None) -> Session:
        session = self.live.fork(listers, nodes)
        session.nominator.drop(self.row)
        for plugin in preemptors(session):
            plugin.budgets = self.budgets
        return session

    @cached_property
    def budgets(self) -> Budgets:
        """The disruption budgets, with what they allow now."""
        return budgets_of(self.live)

    @cached_property
    def _unchanged(self) -> Session:
        return self.fork()

    def node_for(self, pod: Pod, session: Session | None = None) -> str | None:
        """Return the node that a pod gets; None for none, and after the last trial that is allowed."""
        trial = self._unchanged if session is None else session
        result = self._decide(trial, pod, looks_for_victims=False)
        return None if result is None or result.row is None else trial.cluster.nodes.names[result.row]

    def victims_of(self, pod: Pod) -> tuple[str, tuple[int, ...], tuple[str, ...]] | None:
        """Return the node that preemption nominates for a pod, its victims, and the budgets that count one of them.

        None where it helps on no node, or only against a budget.
        """
        result = self._decide(self._unchanged, pod, looks_for_victims=True)
        post_filter = None if result is None else result.post_filter
        if post_filter is None or post_filter.nominated_row is None:
            return None
        findings, cluster = post_filter.findings, self._unchanged.cluster
        if findings is not None and any(victim.pdb_violation for victim in findings.victims()):
            return None
        budgets = self.budgets
        covering = {name: None for victim in post_filter.victims for name in budgets.covering(cluster.pods, victim)}
        return cluster.nodes.names[post_filter.nominated_row], tuple(post_filter.victims), tuple(covering)

    def finds_place(self, session: Session, row: int) -> bool:
        """Return whether a pod that has left its node finds another one, and let it run there."""
        pod = session.cluster.pods.infos[row].pod
        again = session.add_pod(PodInfo(replace(pod, spec=replace(pod.spec, node_name=""))))
        self.left -= 1
        result = schedule_pod(session, again, looks_for_victims=False)
        if result.row is None or self.left < 0:
            return False
        session.bind(again, result.row)
        return True

    def _decide(self, session: Session, pod: Pod, *, looks_for_victims: bool) -> CycleResult | None:
        if self.left <= 0:
            return None
        self.left -= 1
        result = _schedule(session, session.add_pod(PodInfo(pod)), looks_for_victims=looks_for_victims)
        if result.row is not None and result.framework is not None and result.cycle is not None:
            result.framework.run_unreserve(result.cycle, result.row)
        return result

    def placed(self, pod: Pod, number: int, session: Session) -> int:
        """Place a number of copies of a pod in a session of their own, and return how many get a node.

        Returns 0 when this takes more decisions than are allowed.
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

    def offered(self, make: Callable[..., R], pod: Pod, **fields: Any) -> R | None:
        """Return the remedy that changes the pod so, tried with it; None where the pod gets no node even then.

        Parameters
        ----------
        make : the kind of remedy
        pod : the changed pod
        fields : of the remedy, besides the node
        """
        node = self.node_for(pod)
        return None if node is None else self.by_change(make(then=node, **fields), pod)

    def by_change(self, remedy: R, pod: Pod) -> R:
        """Return the remedy, and remember its changed pod in `tried`."""
        self.tried[remedy] = lambda: (pod, self.fork())
        return remedy

    def with_object(self, obj: msgspec.Struct) -> str | None:
        """Return the node that the pod gets when an object is replaced by this one, or added."""
        listers = Listers(with_objects(self.live.listers.snapshot, [obj]))
        return self.node_for(self.pod, self.fork(listers))

    def without_taints(self, row: int, keys: Collection[str]) -> Session:
        return self.fork(nodes=without_taints(self.live, [row], keys))

    def moved(self, other: int) -> tuple[str, str] | None:
        """Return the node of the pod without another pod, then the node of that one; None unless both get one."""
        session = self.fork()
        session.evict(other)
        self.left -= 1
        if self.left < 0:
            return None
        mine = schedule_pod(session, self.row, looks_for_victims=False)
        if mine.outcome is not Outcome.SCHEDULED or mine.row is None:
            return None
        session.bind(self.row, mine.row)
        names = session.cluster.nodes.names
        other_pod = session.cluster.pods.infos[other].pod
        evicted = replace(other_pod, spec=replace(other_pod.spec, node_name=""))
        goes_to = self.node_for(evicted, session)
        return None if goes_to is None else (names[mine.row], goes_to)

    def with_nodes(self, nodes: Sequence[Node], pods: Iterable[Pod], *, alone: bool) -> Session:
        """Return a session with new nodes and the daemon pods that run on them.

        Parameters
        ----------
        alone : leave out all other nodes; only where no rule of the pod depends on them
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


def without_taints(session: Session, rows: Iterable[int], keys: Collection[str]) -> NodeTable:
    """Return the nodes of a session, some without the taints with these keys; without that of a cordon, open."""
    nodes = [*session.cluster.nodes.nodes]
    for row in rows:
        spec = nodes[row].spec
        taints = tuple(taint for taint in spec.taints if taint.key not in keys)
        is_cordoned = spec.unschedulable and UNSCHEDULABLE_TAINT.key not in keys
        nodes[row] = replace(nodes[row], spec=replace(spec, unschedulable=is_cordoned, taints=taints))
    return NodeTable(nodes)


def budgets_of(session: Session) -> Budgets:
    """Return the disruption budgets, with what they allow now."""
    known = (plugin.budgets for plugin in preemptors(session))
    return next(known, None) or Budgets(session.listers.pod_disruption_budgets)


def _schedule(session: Session, row: int, *, looks_for_victims: bool) -> CycleResult:
    """Schedule a pod; one of a group as in its group's cycle, in which it does not wait for the others."""
    is_member = session.config.release.is_on(WORKLOAD_GATE) and group_of(session.cluster.pods.infos[row]) is not None
    return schedule_pod(session, row, looks_for_victims=looks_for_victims, is_member=is_member)


def _as_placed(cluster: Cluster, known: Cluster) -> None:
    """Move pods to where another cluster has them, when they have been bound or evicted since the snapshot."""
    for pod, row in enumerate(known.node_of):
        wanted = NOWHERE if row == NOWHERE else cluster.nodes.row_of[known.nodes.names[row]]
        if cluster.node_of[pod] != wanted:
            if cluster.node_of[pod] != NOWHERE:
                cluster.unbind(pod)
            if wanted != NOWHERE:
                cluster.bind(pod, wanted)


class NearMisses:
    """The verdicts of the filters on a pod, by plugin; live as long as the decision is.

    Attributes
    ----------
    rows : node row of each position in the verdicts
    verdicts : plugin -> its verdicts
    """

    def __init__(self, outcome: FilterOutcome) -> None:
        self.rows: RowArray = np.arange(outcome.n_nodes) if outcome.rows is None else outcome.rows
        self.verdicts: dict[str, Verdicts] = dict(outcome.verdicts)

    @cached_property
    def _n_rejecting(self) -> Int64Array:
        total = np.zeros(len(self.rows), np.int64)
        for verdict in self.verdicts.values():
            total += verdict.bits != 0
        return total

    def only(self, *plugins: str) -> RowArray:
        """Return the positions that one or more of these plugins reject and no other plugin does."""
        rejecting = np.zeros(len(self.rows), np.int64)
        for name in plugins:
            if name in self.verdicts:
                rejecting += self.verdicts[name].bits != 0
        return np.flatnonzero((rejecting > 0) & (rejecting == self._n_rejecting))

    @cached_property
    def rejecting(self) -> set[str]:
        """The plugins that reject any node."""
        return {name for name, verdict in self.verdicts.items() if verdict.bits.any()}

    def details_at(self, plugin: str, position: int) -> Iterator[Detail]:
        for reason in self.verdicts[plugin].reasons_at(position):
            yield from () if reason.details is None else reason.details(position)

    def by_single_reason(self, plugin: str) -> list[tuple[int, int]]:
        """List the closest node for each reason of a plugin, where the node is rejected for this reason alone.

        Returns
        -------
        (position, shortfall) of these nodes; reasons whose shortfall cannot be measured are left out
        """
        verdict = self.verdicts.get(plugin)
        if verdict is None:
            return []
        positions = self.only(plugin)
        closest = []
        for k, reason in enumerate(verdict.reasons):
            rejected = positions[verdict.bits[positions] == 1 << k]
            if reason.shortfall is not None and len(rejected):
                missing = reason.shortfall(rejected)
                best = int(missing.argmin())
                closest.append((int(rejected[best]), int(missing[best])))
        return closest
