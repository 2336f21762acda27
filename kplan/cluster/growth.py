"""What an autoscaler adds to a cluster, look by look.

kube-scheduler decides first. For the pods that then fit nowhere the autoscaler makes nodes, as it decides by itself,
and kube-scheduler binds pods to them, which may come out differently: the scheduler has the last word.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kplan.answers.new_nodes import added_node
from kplan.api.affinity import NO_SCHEDULE, Taint
from kplan.api.core import Node, Pod
from kplan.api.labels import UNSCHEDULABLE
from kplan.api.names import object_name
from kplan.autoscaling.seam import Advice, Autoscaler, NewNode, PreparedCluster, Removal
from kplan.cluster.base import Base
from kplan.documents.nodes import AutoscalerRef, NodeChanges, NodePrices
from kplan.facts import InputWarning
from kplan.framework.listers import WORKLOAD_GATE, group_of
from kplan.framework.session import Session
from kplan.snapshot.model import Snapshot

MOST_LOOKS = 1_000
"""So often an autoscaler looks at most; one that adds nodes without end is stopped."""


class Growth(msgspec.Struct):
    """What an autoscaler has added so far."""

    autoscaler: Autoscaler  #: as it is by now
    adds: list[NewNode] = []  #: in the order in which it decided
    advice: Advice = msgspec.field(default_factory=Advice)  #: what it decided last
    warnings: dict[InputWarning, None] = {}
    price_before: float | None = None  #: of the nodes that were there at first; None if none is known
    n_looks: int = 0
    removes: list[Removal] = []  #: in a cluster in motion, the nodes that it has removed; `after` in seconds

    @property
    def price_after(self) -> float | None:
        """The price of all nodes whose price is known; None if none is."""
        prices = [new.price for new in self.adds if new.price is not None]
        if not prices and self.price_before is None:
            return None
        # What a removal saves is what its nodes cost, less what those that come for them cost.
        gone = sum((removal.saves or 0.0) + _price(removal.replacements) for removal in self.removes)
        return round((self.price_before or 0.0) + sum(prices) - gone, 9)

    def look(self, snapshot: Snapshot, session: Session, now: int) -> Sequence[NewNode]:
        """Have the autoscaler look at a cluster that holds what it has added, and return what it adds.

        Parameters
        ----------
        now : microseconds since 1970, at the start of the question
        """
        self.n_looks += 1
        waited = int(self.autoscaler.wait * 1_000_000) * self.n_looks
        advice = self.autoscaler.provision(PreparedCluster(snapshot, session, now + waited))
        self.note(advice)
        self.autoscaler = self.autoscaler.grown(advice.adds)
        return advice.adds

    def note_groups(self, session: Session, pending: Iterable[int]) -> None:
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
        if self.price_before is None:
            self.price_before = advice.price_before
        self.advice = advice
        self.warnings |= dict.fromkeys(advice.warnings)
        self.adds += advice.adds

    @property
    def is_stopped(self) -> bool:
        """Whether it looks no more, because it has looked too often."""
        return self.n_looks >= MOST_LOOKS

    @property
    def all_warnings(self) -> Iterator[InputWarning]:
        yield from self.warnings
        if self.is_stopped:
            message = f"it was still adding nodes after {MOST_LOOKS} looks; what it does then is not followed"
            yield InputWarning("AutoscalerStopped", self.autoscaler.name, message)


def _price(nodes: Iterable[NewNode]) -> float:
    return sum(new.price or 0.0 for new in nodes)


def node_changes(growth: Growth, node_of: Mapping[str, str]) -> NodeChanges:
    """Return the document about the nodes that an autoscaler has added.

    Parameters
    ----------
    node_of : NAMESPACE/NAME of a pod at the end -> its node; empty for none
    """
    advice = growth.advice
    elsewhere = {
        pod: node_of[pod] or None
        for new in growth.adds
        for pod in new.pods
        if node_of.get(pod, new.node.metadata.name) != new.node.metadata.name
    }
    waiting = {node: tuple(pod for pod in pods if not node_of.get(pod, node)) for node, pods in advice.existing.items()}
    existing = {node: pods for node, pods in waiting.items() if pods}
    return NodeChanges(
        autoscaler=ref_to(growth.autoscaler),
        added=tuple(map(added_node, growth.adds)),
        unhelped={pod: dict(why) for pod, why in advice.unhelped.items() if not node_of.get(pod)},
        events={pod: text for pod, text in advice.events.items() if not node_of.get(pod)},
        existing=existing,
        elsewhere=elsewhere,
        price=NodePrices(before=growth.price_before, after=growth.price_after),
    )


def prices_of(base: Base) -> Mapping[str, float]:
    """Return the prices of a cluster's nodes, by name, where its autoscaler knows them."""
    followed = base.followed
    return {} if followed is None else followed.prices(PreparedCluster(base.objects, base.session, base.now))


def ref_of(base: Base) -> AutoscalerRef | None:
    """Return the document about the autoscaler of a cluster; None without one."""
    return None if base.followed is None else ref_to(base.followed)


def ref_to(autoscaler: Autoscaler) -> AutoscalerRef:
    return AutoscalerRef(name=autoscaler.name, version=autoscaler.version, source=autoscaler.source)


def growth_of(base: Base) -> Growth | None:
    """Return the growth of a cluster that has an autoscaler, before it has looked; None without one."""
    followed = base.followed
    return None if followed is None else Growth(followed)


def as_waiting(snapshot: Snapshot, nodes: Sequence[Node]) -> Snapshot:
    """Return a cluster as an autoscaler finds it once the scheduler is done.

    Parameters
    ----------
    nodes : the nodes as they are by now
    """
    now = {node.metadata.name: node for node in nodes}
    there = {node.metadata.name for node in snapshot.nodes}
    held = [now[node.metadata.name] for node in snapshot.nodes if node.metadata.name in now]
    held += [node for node in nodes if node.metadata.name not in there]
    return dataclasses.replace(snapshot, pods=unconditioned_pods(snapshot), nodes=tuple(map(_with_cordon, held)))


def unconditioned_pods(snapshot: Snapshot) -> tuple[Pod, ...]:
    """Return the pods of a cluster, gated ones without the condition that an autoscaler looks for."""
    return tuple(_without_condition(pod) if pod.spec.scheduling_gates else pod for pod in snapshot.pods)


def _with_cordon(node: Node) -> Node:
    taints = node.spec.taints
    if not node.spec.unschedulable or any(taint.key == UNSCHEDULABLE for taint in taints):
        return node
    return replace(node, spec=replace(node.spec, taints=(*taints, Taint(key=UNSCHEDULABLE, effect=NO_SCHEDULE))))


def _without_condition(pod: Pod) -> Pod:
    conditions = tuple(condition for condition in pod.status.conditions if condition.type != "PodScheduled")
    return replace(pod, status=replace(pod.status, conditions=conditions))
