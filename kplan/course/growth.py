"""Nodes that an autoscaler adds, look by look, and the cluster as it finds it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.core import Node, Pod
from kplan.api.names import object_name
from kplan.api.pod import SCHEDULED
from kplan.autoscaling.seam import Advice, Autoscaler, NewNode, NodeRemoval, PreparedCluster
from kplan.cluster.base import Base
from kplan.cluster.incoming import with_objects
from kplan.documents.nodes import AutoscalerRef, NodeChanges, NodePrices
from kplan.facts import InputWarning
from kplan.framework.pod_groups import WORKLOAD_GATE, group_of
from kplan.framework.session import Session
from kplan.rules.nodes import UNSCHEDULABLE_TAINT, cordoned
from kplan.rules.pod_info import PodInfo, unschedulable
from kplan.snapshot.model import Snapshot

MOST_LOOKS = 1_000  #: so often an autoscaler looks at most; one that adds nodes without end is stopped


class Growth(msgspec.Struct):
    """What an autoscaler has added so far."""

    autoscaler: Autoscaler  #: as it is by now
    adds: list[NewNode] = []  #: in the order in which it decided
    advice: Advice = msgspec.field(default_factory=Advice)  #: what it decided last
    last_sight: PreparedCluster | None = None  #: the cluster at which it looked last
    warnings: dict[InputWarning, None] = {}
    price_before: float | None = None  #: of the nodes that were there at first; None if none is known
    n_looks: int = 0
    node_claims: frozenset[str] = frozenset()  #: those whose nodes have not registered, when it looked last
    removes: list[NodeRemoval] = []  #: in a cluster in motion, the nodes that it has removed; `after` in seconds

    @staticmethod
    def of(base: Base) -> Growth | None:
        """Return the growth of a cluster that has an autoscaler, before it has looked; None without one."""
        return None if base.followed is None else Growth(base.followed)

    @property
    def price_after(self) -> float | None:
        """The price of all nodes whose price is known; None if none is."""
        prices = [price for new in self.adds if (price := new.facts.price) is not None]
        if not prices and self.price_before is None:
            return None
        # What a removal saves is what its nodes cost, less what those that come for them cost.
        gone = sum(removal.facts.saves or 0.0 for removal in self.removes)
        gone += sum(new.facts.price or 0.0 for removal in self.removes for new in removal.replacements)
        return round((self.price_before or 0.0) + sum(prices) - gone, 9)

    def as_seen(self, snapshot: Snapshot, session: Session) -> Snapshot:
        """Return a cluster with what it has added, as the autoscaler finds it once the scheduler is done."""
        there = [obj for new in self.adds for obj in (*new.daemons, *new.objects)]
        return as_waiting(with_objects(snapshot, there), session.cluster.nodes.nodes)

    def look(self, snapshot: Snapshot, session: Session, pending: Iterable[int], now: int) -> Sequence[NewNode]:
        """Have the autoscaler look at a cluster that holds what it has added, and return what it adds.

        `now`: microseconds since 1970, at the start of the question.
        """
        self._note_groups(session, pending)
        self.n_looks += 1
        claims = (one for one in snapshot.node_claims if one.status.node_name not in snapshot.node_by_name)
        self.node_claims = frozenset(one.metadata.name for one in claims)
        waited = int(self.autoscaler.wait * 1_000_000) * self.n_looks
        self.last_sight = PreparedCluster(snapshot, session, now + waited)
        advice = self.autoscaler.provision(self.last_sight)
        self.note(advice)
        self.autoscaler = self.autoscaler.grown(advice.adds)
        return advice.adds

    def _note_groups(self, session: Session, pending: Iterable[int]) -> None:
        """Warn that the autoscaler knows nothing of the groups of pods that wait.

        Upstream: neither the cluster-autoscaler nor Karpenter reads PodGroups. Both take every pod whose condition
        PodScheduled says Unschedulable, which the scheduler writes for all members of a group that waits, also for
        those that fit; both look for room for each on its own. Pods that are kept out of the queue have no such
        condition.
        """
        if not session.config.release.is_on(WORKLOAD_GATE):
            return
        infos = session.cluster.pods.infos
        for key in dict.fromkeys(key for row in pending if (key := group_of(infos[row])) is not None):
            name = object_name("PodGroup", *key)
            unknown = "knows neither its minCount nor its topology"
            message = f"{self.autoscaler.name} looks at its pods one by one, and {unknown}"
            self.warnings[InputWarning("GroupSeenApart", name, message)] = None

    def note(self, advice: Advice) -> None:
        if self.price_before is None and not self.adds:
            self.price_before = advice.price.before
        self.advice = advice
        self.warnings |= dict.fromkeys(advice.warnings)
        self.adds += advice.adds

    @property
    def is_stopped(self) -> bool:
        return self.n_looks >= MOST_LOOKS

    @property
    def all_warnings(self) -> Iterator[InputWarning]:
        yield from self.warnings
        if self.is_stopped:
            message = f"it was still adding nodes after {MOST_LOOKS} looks; what it does then is not followed"
            yield InputWarning("AutoscalerStopped", self.autoscaler.name, message)

    def changes(self, node_of: Mapping[str, str]) -> NodeChanges:
        """Return the document about the nodes; `node_of`: NAMESPACE/NAME of a pod at the end -> its node, or empty."""
        advice = self.advice
        planned = ((pod, new.facts.name) for new in self.adds for pod in new.facts.pods)
        elsewhere = {pod: node_of[pod] or None for pod, name in planned if node_of.get(pod, name) != name}
        waiting = (
            (node, tuple(pod for pod in pods if not node_of.get(pod, node))) for node, pods in advice.existing.items()
        )
        existing = {node: pods for node, pods in waiting if pods}
        return NodeChanges(
            autoscaler=ref_to(self.autoscaler),
            added=tuple(new.facts for new in self.adds),
            unhelped={pod: dict(why) for pod, why in advice.unhelped().items() if not node_of.get(pod)},
            could_help={pod: own for pod, own in advice.could_help().items() if own and not node_of.get(pod)} or UNSET,
            events={pod: text for pod, text in advice.events.items() if not node_of.get(pod)},
            existing=existing,
            node_claims=tuple(node for node in existing if node in self.node_claims) or UNSET,
            elsewhere=elsewhere,
            price=NodePrices(before=self.price_before, after=self.price_after),
        )


def prices_of(base: Base) -> Mapping[str, float]:
    """Return the prices of a cluster's nodes, by name, where its autoscaler knows them."""
    followed = base.followed
    return {} if followed is None else followed.prices(PreparedCluster(base.objects, base.session, base.now))


def ref_to(autoscaler: Autoscaler) -> AutoscalerRef:
    return AutoscalerRef(name=autoscaler.name, version=autoscaler.version, source=autoscaler.source)


def as_waiting(snapshot: Snapshot, nodes: Sequence[Node]) -> Snapshot:
    """Return a cluster as an autoscaler finds it once the scheduler is done; `nodes`: the nodes as they are by now."""
    now = {node.metadata.name: node for node in nodes}
    there = {node.metadata.name for node in snapshot.nodes}
    held = [now[node.metadata.name] for node in snapshot.nodes if node.metadata.name in now]
    held += [node for node in nodes if node.metadata.name not in there]
    return replace(snapshot, pods=unconditioned_pods(snapshot), nodes=tuple(map(_with_cordon, held)))


def unconditioned_pods(snapshot: Snapshot) -> tuple[Pod, ...]:
    """Return the pods of a cluster, gated ones without the condition that an autoscaler looks for."""
    return tuple(
        with_message(pod, "", pod.status.nominated_node_name) if pod.spec.scheduling_gates else pod
        for pod in snapshot.pods
    )


def with_message(pod: Pod, message: str, promise: str) -> Pod:
    """Return a pending pod with the scheduler's message about it, if any, and the node that it nominates, or ""."""
    others = (condition for condition in pod.status.conditions if condition.type != SCHEDULED)
    scheduled = (unschedulable(message),) if message else ()
    return replace(pod, status=replace(pod.status, nominated_node_name=promise, conditions=(*others, *scheduled)))


def _with_cordon(node: Node) -> Node:
    has_taint = any(taint.key == UNSCHEDULABLE_TAINT.key for taint in node.spec.taints)
    return cordoned(node) if node.spec.unschedulable and not has_taint else node


def join_nodes(session: Session, adds: Sequence[NewNode]) -> None:
    """Add nodes with the daemon pods that they start with."""
    if not adds:
        return
    session.listers = session.listers.fork()
    session.grow([new.node for new in adds], [obj for new in adds for obj in new.objects])
    for new in adds:
        place = session.cluster.nodes.row_of[new.facts.name]
        for pod in new.daemons:
            info = PodInfo(pod)
            if info.key not in session.pod_ids:
                session.bind(session.add_pod(info), place)
