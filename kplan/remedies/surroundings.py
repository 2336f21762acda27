"""Remedies that change what surrounds a pod: uncordon or add nodes, move another pod, give the pod more priority."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from shlex import quote
from typing import Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kplan.api.affinity import COMPARISON_GATE
from kplan.api.core import Pod
from kplan.api.kinds import DAEMON_SET
from kplan.api.meta import controller_of
from kplan.api.quantity import listing, value
from kplan.api.scheduling import PriorityClass
from kplan.changes import remedy as r
from kplan.diagnosis.intended import SYSTEM_TAINTS, untolerated
from kplan.engine.details import ForeignAntiAffinity, InsufficientResource, TakenHostPort
from kplan.engine.node_table import NodeTable
from kplan.framework.cycle import CycleResult
from kplan.framework.session import Session
from kplan.plugins.node_unschedulable import UNSCHEDULABLE_TAINT
from kplan.remedies.node_shapes import NodeShape, added_nodes, node_shapes
from kplan.remedies.replicas import workload_of
from kplan.remedies.trials import NearMisses, Trials
from kplan.rules.nodes import ends_soon, moment_of_snapshot, starting_taints
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import PODS

_FIT, _TAINTS, _CORDON = "NodeResourcesFit", "TaintToleration", "NodeUnschedulable"
_PODS, _PORTS = "InterPodAffinity", "NodePorts"
_NODE_LOCAL = frozenset(
    {_FIT, _TAINTS, _CORDON, _PORTS, "NodeAffinity", "NodeName", "NodeVolumeLimits", "NodeDeclaredFeatures"}
)
"""Plugins whose verdict on a node does not depend on other nodes."""

_MOST_TRIED = 3
_MOST_REPAIRED = 10
_MOST_LEAVING = 100
_MOST_PER_NODE = 50
"""At most this many pods are tried on a new node."""

_MOST_POSITIONS = 50
_MOST_PODS_FOR_ALL = 3000
"""In a cluster of more pods, new nodes are tried only for pods whose rules do not depend on other nodes."""
_SYSTEM_CLASSES, _NODE_CRITICAL = "system-", "system-node-critical"


def uncordon(trials: Trials, misses: NearMisses) -> Iterator[r.Remedy]:
    """Uncordon a node that is rejected for nothing else."""
    possible = set(misses.rows[misses.only(_CORDON, _TAINTS)].tolist())
    cordoned = [row for row in cordoned_rows(trials.live) if row in possible]
    for row in cordoned[:_MOST_TRIED]:
        name = trials.live.cluster.nodes.names[row]
        remedy = r.Uncordon(change=r.NodeChange(node=name), then=name)
        if _helps(trials, remedy, row, {UNSCHEDULABLE_TAINT.key}):
            yield remedy
            return


def await_nodes(trials: Trials, misses: NearMisses) -> Iterator[r.Remedy]:
    """Wait for a node that is rejected only for what it has while it is set up."""
    table, snapshot = trials.live.cluster.nodes, trials.live.listers.snapshot
    compares = trials.live.config.release.is_on(COMPARISON_GATE)
    moment: int | None = None
    for row in misses.rows[misses.only(_TAINTS)].tolist()[:_MOST_REPAIRED]:
        taints = {taint.key for taint in untolerated(trials.pod, table.nodes[row], compares=compares)}
        moment = moment_of_snapshot(snapshot) if moment is None else moment
        starting = starting_taints(table.nodes[row], snapshot, moment)
        if not taints or not taints <= starting:
            continue
        name = table.names[row]
        awaited = r.Awaited(what="node", name=name, because=tuple(sorted(taints)))
        remedy = r.Await(change=awaited, command=f"kubectl get node {quote(name)} -w", then=name)
        if _helps(trials, remedy, row, starting):
            yield remedy
            return


def await_pods(trials: Trials, misses: NearMisses) -> Iterator[r.Remedy]:
    """Wait for pods that are being deleted, where nodes have room without them; not for those that hang."""
    cluster, infos = trials.live.cluster, trials.live.cluster.pods.infos
    rows = misses.rows[misses.only(_FIT, _PORTS)]
    leaving = [other for row in rows.tolist() for other in cluster.pods_on[row] if infos[other].is_terminating]
    if not leaving:
        return
    moment = moment_of_snapshot(trials.live.listers.snapshot)
    leaving = [other for other in leaving if ends_soon(infos[other].pod, moment)][:_MOST_LEAVING]

    def without() -> Session:
        session = trials.fork()
        for other in leaving:
            session.evict(other)
        return session

    node = trials.node_for(trials.pod, without()) if leaving else None
    mine = [other for other in leaving if node == cluster.nodes.names[cluster.node_of[other]]]
    if node is None or not mine:
        return
    names = [infos[other].key for other in mine]
    namespace, _, name = names[0].partition("/")
    command = f"kubectl wait --for=delete pod/{quote(name)} -n {quote(namespace)}"
    awaited = r.Awaited(what="pod", name=listing(names, most=_MOST_TRIED), because=(node,))
    remedy = r.Await(change=awaited, command=command, then=node)
    trials.tried[remedy] = lambda: (trials.pod, without())
    yield remedy


def repair(trials: Trials, misses: NearMisses) -> Iterator[r.Remedy]:
    """Repair a node that is rejected only for taints that state what is wrong with it."""
    table = trials.live.cluster.nodes
    compares = trials.live.config.release.is_on(COMPARISON_GATE)
    for row in misses.rows[misses.only(_TAINTS)].tolist()[:_MOST_REPAIRED]:
        taints = {taint.key for taint in untolerated(trials.pod, table.nodes[row], compares=compares)}
        if UNSCHEDULABLE_TAINT.key in taints or not all(key.startswith(SYSTEM_TAINTS) for key in taints):
            continue
        name = table.names[row]
        remedy = r.RepairNode(change=r.NodeRepair(node=name, taints=tuple(sorted(taints))), then=name)
        if _helps(trials, remedy, row, taints):
            yield remedy
            return


def repair_devices(trials: Trials, misses: NearMisses) -> Iterator[r.Remedy]:
    """Repair the device plugin of a node that has resources of which none is allocatable."""
    table = trials.live.cluster.nodes
    for resource, amount in trials.info.requests.items():
        if amount <= 0 or "/" not in resource:
            continue
        rows = misses.rows[misses.only(_FIT)]
        for row in rows[table.allocatable(resource)[rows] == 0].tolist()[:_MOST_REPAIRED]:
            node = table.nodes[row]
            capacity = node.status.capacity.get(resource)
            if capacity is None or value(capacity) < amount:
                continue
            whole = replace(node.status, allocatable={**node.status.allocatable, resource: capacity})
            repaired = NodeTable([*table.nodes[:row], replace(node, status=whole), *table.nodes[row + 1 :]])
            name = table.names[row]
            if trials.node_for(trials.pod, trials.fork(nodes=repaired)) == name:
                broken = r.NodeRepair(node=name, taints=(), resource=resource, capacity=str(capacity))
                remedy = r.RepairNode(change=broken, then=name)
                trials.tried[remedy] = partial(_with_nodes, trials, repaired)
                yield remedy
                return


def _with_nodes(trials: Trials, nodes: NodeTable) -> tuple[Pod, Session]:
    return trials.pod, trials.fork(nodes=nodes)


def _helps(trials: Trials, remedy: r.Uncordon | r.RepairNode | r.Await, row: int, taints: Collection[str]) -> bool:
    """Return whether the pod gets a node without these taints, and remember the remedy then."""
    is_helpful = trials.node_for(trials.pod, trials.without_taints(row, taints)) == remedy.then
    if is_helpful:
        trials.tried[remedy] = lambda: (trials.pod, trials.without_taints(row, taints))
    return is_helpful


def cordoned_rows(session: Session) -> tuple[int, ...]:
    """Return the nodes that may be uncordoned; those that the question cordons stay so: that is what it asks."""
    table, snapshot = session.cluster.nodes, session.listers.snapshot
    on_purpose = {change.what for change in snapshot.changes if change.change == "cordon"} | session.cordoned
    return tuple(row for row, name in enumerate(table.names) if table.unschedulable[row] and name not in on_purpose)


def add(trials: Trials, misses: NearMisses, pending: int) -> Iterator[r.Remedy]:
    """Add nodes like one of the cluster, as many as the pending replicas need."""
    for addition, name, helps in _additions(trials, trials.pod, pending, alone=misses.rejecting <= _NODE_LOCAL):
        yield r.AddNodes(change=addition, then=name, helps=helps)


def relax_and_add(trials: Trials, relaxed: Pod, change: r.RuleChange, pending: int) -> Iterator[r.Remedy]:
    """Relax a rule of the pod and also add a node like one of the cluster."""
    for addition, name, helps in _additions(trials, relaxed, pending, alone=False):
        yield r.RelaxRule(change=change, with_nodes=addition, then=name, helps=helps)


def _additions(
    trials: Trials, pod: Pod, pending: int, *, alone: bool
) -> Iterator[tuple[r.NodeAddition, str, r.Helped | UnsetType]]:
    """Yield nodes to add so that a pod runs, at most once, with the pod's new node and the replicas that it helps."""
    if not alone and len(trials.live.cluster.pods.infos) > _MOST_PODS_FOR_ALL:
        return
    for shape in node_shapes(trials.live.listers.snapshot)[:_MOST_TRIED]:
        name = _added(trials, shape, pod, alone=alone)
        if name is not None:
            number, helped = _enough_nodes(trials, shape, pod, pending, alone=alone) if pending > 1 else (1, 1)
            helps = r.Helped(helped, pending) if pending > 1 and helped else UNSET
            devices: Literal[True] | UnsetType = True if pod.spec.resource_claims else UNSET
            yield r.NodeAddition(nodes=number, like=shape.like.metadata.name, devices=devices), name, helps
            return


def _added(trials: Trials, shape: NodeShape, pod: Pod, *, alone: bool) -> str | None:
    """Return the name of a new node of a shape when the pod goes to that node."""
    nodes, daemons = added_nodes(shape, 1, trials.live.listers.snapshot)
    name = nodes[0].metadata.name
    return name if trials.node_for(pod, trials.with_nodes(nodes, daemons, alone=alone)) == name else None


def _enough_nodes(trials: Trials, shape: NodeShape, pod: Pod, pending: int, *, alone: bool) -> tuple[int, int]:
    """Return how many new nodes the pending replicas need, and how many of the replicas run then."""
    snapshot = trials.live.listers.snapshot

    def placed(number: int, pods: int) -> int:
        return trials.placed(pod, pods, trials.with_nodes(*added_nodes(shape, number, snapshot), alone=alone))

    per_node = placed(1, min(pending, _MOST_PER_NODE))
    number = -(-pending // per_node) if per_node else 1
    if number == 1 or pending > trials.left_to_place:
        return 1, per_node
    helped = placed(number, pending)
    return (number, helped) if helped > per_node else (1, per_node)


def move(trials: Trials, misses: NearMisses) -> Iterator[r.Remedy]:
    """Move another pod that fits elsewhere, so that this one gets its node."""
    cluster = trials.live.cluster
    budgets = trials.budgets
    for other in islice(dict.fromkeys(obstructing(trials, misses)), 2 * _MOST_TRIED):
        if budgets.forbids(cluster.pods, other):
            continue
        row = cluster.node_of[other]
        nodes = trials.moved(other)
        if nodes is not None:
            node, goes_to = nodes
            info = cluster.pods.infos[other]
            change = r.MovedPod(
                pod=info.key,
                node=cluster.nodes.names[row],
                goes_to=goes_to,
                budgets=tuple(budgets.covering(cluster.pods, other)),
            )
            yield r.MovePod(change=change, then=node)
            return


def obstructing(trials: Trials, misses: NearMisses) -> Iterator[int]:
    """Yield running pods that alone make a node reject the pod; of those that use resources the smallest first."""
    cluster = trials.live.cluster
    for position, missing in misses.by_single_reason(_FIT):
        row = int(misses.rows[position])
        for detail in misses.details_at(_FIT, position):
            if isinstance(detail, InsufficientResource):
                resource = detail.resource
                large = [
                    other
                    for other in _movable(trials, cluster.pods_on[row])
                    if resource == PODS or cluster.pods.infos[other].requests.get(resource, 0) >= missing
                ]
                yield from sorted(large, key=lambda o: cluster.pods.infos[o].requests.get(resource, 0))
    for plugin in (_PORTS, _PODS):
        for position in misses.only(plugin)[:_MOST_POSITIONS].tolist():
            for detail in misses.details_at(plugin, position):
                if isinstance(detail, TakenHostPort | ForeignAntiAffinity):
                    rows = (trials.live.find(key) for key in detail.pods)
                    yield from _movable(trials, [other for other in rows if other is not None])


def _movable(trials: Trials, pods: Iterable[int]) -> Iterator[int]:
    """Yield the pods that a controller recreates, and that may run on other nodes."""
    for other in pods:
        pod = trials.live.cluster.pods.infos[other].pod
        owner = controller_of(pod.metadata)
        if owner is not None and owner.kind not in (DAEMON_SET, "Node") and other != trials.row:
            yield other


def raise_priority(trials: Trials, result: CycleResult) -> Iterator[r.Remedy]:
    """Give a pod that evicts no other pod the lowest priority class with which it does."""
    post_filter = result.post_filter
    spec = trials.pod.spec
    if spec.preemption_policy == "Never" or (post_filter is not None and post_filter.nominated_row is not None):
        return
    owner = controller_of(trials.pod.metadata)
    is_daemon = owner is not None and owner.kind == DAEMON_SET
    for priority_class in higher_classes(trials.live, trials.info.priority, is_daemon=is_daemon)[:_MOST_TRIED]:
        name, priority = priority_class.metadata.name, priority_class.value
        raised = replace(trials.pod, spec=replace(spec, priority=priority, priority_class_name=name))
        preemption = trials.victims_of(raised)
        if preemption is not None:
            node, rows, budgets = preemption
            if not _is_gain(trials, raised, node, rows, is_daemon=is_daemon):
                return
            victims = tuple(trials.live.cluster.pods.infos[row].key for row in rows)
            change = r.PriorityChange(
                old=trials.info.priority, to=priority, priority_class=name, evicts=victims, budgets=budgets
            )
            yield r.RaisePriority(change=change, then=node)
            return


def _is_gain(trials: Trials, raised: Pod, node: str, victims: Sequence[int], *, is_daemon: bool) -> bool:
    """Return whether an eviction does more than move the trouble: to a sibling, whose class rises too, or another team.

    A daemon is to run on every node, so whoever makes room for it runs elsewhere, or not at all.
    """
    infos = trials.live.cluster.pods.infos
    mine = workload_of(trials.live, trials.info)
    if any(workload_of(trials.live, infos[victim]) == mine for victim in victims):
        return False
    others = [victim for victim in victims if infos[victim].namespace != trials.info.namespace]
    if is_daemon or not others:
        return True
    session = trials.fork()
    for victim in victims:
        session.evict(victim)
    session.bind(session.add_pod(PodInfo(raised)), session.cluster.nodes.row_of[node])
    return all(trials.finds_place(session, victim) for victim in others)


def higher_classes(session: Session, priority: int, *, is_daemon: bool = False) -> list[PriorityClass]:
    """Return the priority classes above a priority with which a pod may evict others, the lowest first."""
    higher = [
        priority_class
        for priority_class in session.listers.snapshot.priority_classes
        if priority_class.value > priority
        and priority_class.preemption_policy != "Never"
        and (is_daemon or not priority_class.metadata.name.startswith(_SYSTEM_CLASSES))
    ]
    higher.sort(
        key=lambda priority_class: (
            # Daemons that every node needs have the class that exists for them.
            is_daemon and priority_class.metadata.name != _NODE_CRITICAL,
            priority_class.value,
            priority_class.metadata.name,
        )
    )
    return higher
