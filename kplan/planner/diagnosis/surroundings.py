"""What the cluster could do for a pod: nodes taken into use or added, pods moved, a priority at which it evicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.meta import controller_of
from kplan.documents import remedy as r
from kplan.documents.details import ForeignAntiAffinity, InsufficientResource, TakenHostPort
from kplan.framework.cycle import CycleResult
from kplan.framework.session import Session
from kplan.planner.diagnosis.near import Near
from kplan.planner.diagnosis.trials import Trials
from kplan.planner.node_shapes import NodeShape, added_nodes, node_shapes
from kplan.rules.resources import PODS

_FIT, _TAINTS, _CORDON = "NodeResourcesFit", "TaintToleration", "NodeUnschedulable"
_PODS, _PORTS = "InterPodAffinity", "NodePorts"
_OF_ONE_NODE = frozenset(
    {_FIT, _TAINTS, _CORDON, _PORTS, "NodeAffinity", "NodeName", "NodeVolumeLimits", "NodeDeclaredFeatures"}
)
"""Plugins whose verdict on a node depends on no other node."""

_MOST_TRIED = 3
_MOST_ON_ONE = 50
"""So many pods are tried on a new node."""

_MOST_LOOKED_AT = 50
_MOST_PODS_FOR_ALL = 3000
"""With more pods than this, a new node is tried only where no rule of the pod looks at other nodes."""
_SYSTEM_CLASSES = "system-"


def uncordon(trials: Trials, near: Near) -> Iterator[r.Remedy]:
    """Take a node into use again on which nothing else is in the way."""
    table = trials.live.cluster.nodes
    positions = near.only(_CORDON, _TAINTS)
    cordoned = [int(row) for row in near.rows[positions] if table.unschedulable[row]]
    for row in cordoned[:_MOST_TRIED]:
        name = table.names[row]
        if trials.node_for(trials.pod, trials.uncordoned(row)) == name:
            remedy = r.Uncordon(change=r.NodeChange(node=name), then=name)
            trials.tried[remedy] = partial(_uncordoned, trials, row)
            yield remedy
            return


def _uncordoned(trials: Trials, row: int) -> tuple[Pod, Session]:
    return trials.pod, trials.uncordoned(row)


def add(trials: Trials, near: Near, pending: int) -> Iterator[r.Remedy]:
    """Add nodes like one that there is, as many as so many pods take that wait and are alike."""
    alone = near.rejecting() <= _OF_ONE_NODE
    if not alone and len(trials.live.cluster.pods.infos) > _MOST_PODS_FOR_ALL:
        return
    for shape in node_shapes(trials.live.listers.snapshot)[:_MOST_TRIED]:
        name = _added(trials, shape, trials.pod, alone=alone)
        if name is None:
            continue
        like = shape.like.metadata.name
        number, helped = _enough(trials, shape, pending, alone=alone) if pending > 1 else (1, 1)
        change = r.NodeAddition(nodes=number, like=like)
        helps = r.Helped(helped, pending) if pending > 1 and helped else UNSET
        yield r.AddNodes(change=change, then=name, helps=helps)
        return


def relax_and_add(trials: Trials, relaxed: Pod, change: r.RuleChange) -> Iterator[r.Remedy]:
    """Relax a rule where that alone is not enough, and add a node like one that there is."""
    if len(trials.live.cluster.pods.infos) > _MOST_PODS_FOR_ALL:
        return
    for shape in node_shapes(trials.live.listers.snapshot)[:_MOST_TRIED]:
        name = _added(trials, shape, relaxed, alone=False)
        if name is not None:
            addition = r.NodeAddition(nodes=1, like=shape.like.metadata.name)
            yield r.RelaxRule(change=change, with_nodes=addition, then=name)
            return


def _added(trials: Trials, shape: NodeShape, pod: Pod, *, alone: bool) -> str | None:
    """Return the name of a new node of a shape, if a pod goes there."""
    nodes, daemons = added_nodes(shape, 1, trials.live.listers.snapshot)
    name = nodes[0].metadata.name
    return name if trials.node_for(pod, trials.with_nodes(nodes, daemons, alone=alone)) == name else None


def _enough(trials: Trials, shape: NodeShape, pending: int, *, alone: bool) -> tuple[int, int]:
    """Return how many new nodes let in so many pods that are alike, and how many they let in."""
    world = trials.live.listers.snapshot

    def let_in(number: int, pods: int) -> int:
        return trials.placed(trials.pod, pods, trials.with_nodes(*added_nodes(shape, number, world), alone=alone))

    on_one = let_in(1, min(pending, _MOST_ON_ONE))
    number = -(-pending // on_one) if on_one else 1
    if number == 1 or pending > trials.left_to_place:
        return 1, on_one
    helped = let_in(number, pending)
    return (number, helped) if helped > on_one else (1, on_one)


def move(trials: Trials, near: Near) -> Iterator[r.Remedy]:
    """Free a node of a pod that fits elsewhere."""
    cluster = trials.live.cluster
    for other in islice(dict.fromkeys(_in_the_way(trials, near)), 2 * _MOST_TRIED):
        row = cluster.node_of[other]
        found = trials.moved(other)
        if found is not None:
            node, goes_to = found
            info = cluster.pods.infos[other]
            change = r.MovedPod(pod=info.key, node=cluster.nodes.names[row], goes_to=goes_to)
            yield r.MovePod(change=change, then=node)
            return


def _in_the_way(trials: Trials, near: Near) -> Iterator[int]:
    """Yield pods without which a node that is out for one thing alone may take the pod, the smallest first."""
    cluster = trials.live.cluster
    for position, missing in near.short_of_one(_FIT):
        row = int(near.rows[position])
        for each in near.verdicts[_FIT].reasons_at(position):
            for detail in each.details(position) if each.details is not None else ():
                if isinstance(detail, InsufficientResource):
                    resource = detail.resource
                    large = [
                        other
                        for other in _movable(trials, cluster.pods_on[row])
                        if resource == PODS or cluster.pods.infos[other].requests.get(resource, 0) >= missing
                    ]
                    yield from sorted(large, key=lambda o: cluster.pods.infos[o].requests.get(resource, 0))
    for plugin in (_PORTS, _PODS):
        for position in near.only(plugin)[:_MOST_LOOKED_AT].tolist():
            for each in near.verdicts[plugin].reasons_at(position):
                for detail in each.details(position) if each.details is not None else ():
                    if isinstance(detail, TakenHostPort | ForeignAntiAffinity):
                        rows = (trials.live.find(key) for key in detail.pods)
                        yield from _movable(trials, [other for other in rows if other is not None])


def _movable(trials: Trials, pods: Iterable[int]) -> Iterator[int]:
    """Yield pods that somebody recreates, and that may run elsewhere."""
    for other in pods:
        pod = trials.live.cluster.pods.infos[other].pod
        owner = controller_of(pod.metadata)
        if owner is not None and owner.kind not in ("DaemonSet", "Node") and other != trials.row:
            yield other


def raise_priority(trials: Trials, result: CycleResult) -> Iterator[r.Remedy]:
    """Give the pod the lowest priority class at which it evicts others, where it evicts none now."""
    found = result.post_filter
    spec = trials.pod.spec
    if spec.preemption_policy == "Never" or (found is not None and found.nominated_row is not None):
        return
    classes = sorted(trials.live.listers.snapshot.priority_classes, key=lambda each: (each.value, each.metadata.name))
    higher = [
        priority_class
        for priority_class in classes
        if priority_class.value > trials.info.priority
        and priority_class.preemption_policy != "Never"
        and not priority_class.metadata.name.startswith(_SYSTEM_CLASSES)
    ]
    for each in higher[:_MOST_TRIED]:
        name = each.metadata.name
        raised = replace(trials.pod, spec=replace(spec, priority=each.value, priority_class_name=name))
        made = trials.victims_of(raised)
        if made is not None:
            node, victims = made
            change = r.PriorityChange(old=trials.info.priority, to=each.value, priority_class=name, evicts=victims)
            yield r.RaisePriority(change=change, then=node)
            return
