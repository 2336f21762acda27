"""What the cluster-autoscaler does, in the terms that all autoscalers share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from kplan.api.core import Node, Pod
from kplan.api.wellknown import BETA_ZONE, ZONE
from kplan.autoscaling.cluster_autoscaler.estimator import Estimate
from kplan.autoscaling.cluster_autoscaler.expanders import Prices
from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup, groups_by_node
from kplan.autoscaling.cluster_autoscaler.results import Classes, LoopResult, event_text, loop_detail
from kplan.autoscaling.cluster_autoscaler.scale_down import Removable, Stays
from kplan.autoscaling.cluster_autoscaler.scale_up import FAILED, SUCCESSFUL, ScaleUp
from kplan.autoscaling.cluster_autoscaler.setup import Setup
from kplan.autoscaling.cluster_autoscaler.templates import TEMPLATE_LABEL, Template
from kplan.autoscaling.seam import Advice, Namer, NewNode, Removal, Stay
from kplan.documents.base import InputWarning
from kplan.rules.group_names import as_part_of_node_name
from kplan.snapshot.model import Snapshot

EMPTY = "Empty"
UNDERUTILIZED = "Underutilized"
NOT_AUTOSCALED = "NotAutoscaled"
AT_LEAST_SIZE = "NodeGroupMinSizeReached"
IN_COOLDOWN = "ScaleDownInCooldown"
NOT_LOOKED_AT = "NotUnneededOtherReason"
_USED = "NotUnderutilized"
NOT_AGAIN = "RecentlyUnremovable"

_INSTANCE_TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_SPOT = (
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("cloud.google.com/gke-spot", "true"),
    ("cloud.google.com/gke-preemptible", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
)


def advice_of(
    snapshot: Snapshot, setup: Setup, results: Sequence[LoopResult], *, full: bool, used_names: Iterable[str] = ()
) -> Advice:
    """Return the advice of some loops; new nodes get no name of nodes in the snapshot, and none of `used_names`."""
    prices = _Prices(setup)
    adds = tuple(_Adding({*snapshot.node_by_name, *used_names}, prices).nodes(results))
    removes = tuple(
        removal for result in results for removal in _removals(result, groups_by_node(setup.groups), prices, snapshot)
    )
    gone = {name for removal in removes for name in removal.nodes}
    before = prices.of_nodes(snapshot.nodes)
    after = prices.of_nodes(node for node in snapshot.nodes if node.metadata.name not in gone)
    unhelped = {
        pod.pod.metadata.key: {**pod.skipped, **pod.rejected} for outcome in _last(results) for pod in outcome.unhelped
    }
    events = {
        pod.pod.metadata.key: event_text(pod)
        for outcome in _last(results)
        if outcome.result not in (SUCCESSFUL, FAILED)
        for pod in outcome.unhelped
    }
    classes = Classes(snapshot.pods)
    return Advice(
        adds=adds,
        existing=_existing(results),
        unhelped=unhelped,
        events=events,
        removes=removes,
        stays=tuple(_stays(snapshot, setup, results, gone)),
        price_before=before,
        price_after=None if after is None else after + sum(new.price or 0 for new in adds),
        warnings=(*setup.warnings, *_warnings(results)),
        detail={"loops": [loop_detail(result, classes) for result in results]} if full else {},
    )


def _warnings(results: Iterable[LoopResult]) -> Iterator[InputWarning]:
    """Yield what goes wrong, in the words of the autoscaler's events."""
    for result in results:
        for reason, text in (*result.events, *result.group_events):
            yield InputWarning(reason, "cluster-autoscaler", text)


def _last(results: Sequence[LoopResult]) -> list[ScaleUp]:
    """Return the scale-ups of the last loop."""
    return results[-1].scale_ups


class _Prices:
    """Prices of nodes: that of their group, else by their type."""

    def __init__(self, setup: Setup) -> None:
        self._by_type = None if setup.prices is None else Prices(setup.prices)
        self._group_of = groups_by_node(setup.groups)

    def of(self, node: Node, group: NodeGroup | None) -> float | None:
        """Return the price of a node; None if unknown."""
        if group is not None and group.price is not None:
            return group.price
        return None if self._by_type is None else self._by_type.of_node(node)

    def by_name(self, nodes: Iterable[Node]) -> dict[str, float]:
        """Return the prices of nodes whose price is known."""
        prices = {name: self.of(node, self._group_of.get(name)) for node in nodes for name in (node.metadata.name,)}
        return {name: price for name, price in prices.items() if price is not None}

    def of_nodes(self, nodes: Iterable[Node]) -> float | None:
        """Return the price of the nodes whose price is known; None if none is."""
        known = self.by_name(nodes)
        return sum(known.values()) if known else None


def prices_of(nodes: Iterable[Node], setup: Setup) -> dict[str, float]:
    """Return the prices of nodes whose price is known, by name."""
    return _Prices(setup).by_name(nodes)


class _Adding:
    """Makes up the new nodes."""

    def __init__(self, names: Iterable[str], prices: _Prices) -> None:
        self._namer = Namer(names)
        self._prices = prices

    def nodes(self, results: Iterable[LoopResult]) -> Iterator[NewNode]:
        """Yield the nodes that are added, in order."""
        for result in results:
            for outcome in result.scale_ups:
                yield from self._of(outcome, result.templates)

    def _of(self, outcome: ScaleUp, templates: Mapping[str, Template]) -> Iterator[NewNode]:
        tied: tuple[str, ...] = ()
        placement: list[tuple[str, list[Pod]]] = []
        if outcome.choice is not None:
            best = outcome.choice.best.group.name
            tied = tuple(name for name in outcome.choice.tied if name != best)
            placement = outcome.estimates.get(best, Estimate(0, [], [])).placement
        waiting = iter(placement)
        for growth in outcome.growths:
            for _ in range(growth.wanted - growth.current):
                _, pods = next(waiting, ("", []))
                yield self._node(growth.group, templates[growth.group.name], pods, tied)

    def _node(self, group: NodeGroup, template: Template, pods: Iterable[Pod], tied: tuple[str, ...]) -> NewNode:
        name = self._namer.name(as_part_of_node_name(group.name))
        node, daemons = template.node_named(name)
        labels = {key: text for key, text in node.metadata.labels.items() if key != TEMPLATE_LABEL}
        node = replace(node, metadata=replace(node.metadata, labels=labels))
        return NewNode(
            node=node,
            daemons=tuple(replace(pod, spec=replace(pod.spec, node_name=name)) for pod in daemons),
            group=group.name,
            instance_type=next((labels[key] for key in _INSTANCE_TYPES if labels.get(key)), ""),
            zone=labels.get(ZONE) or labels.get(BETA_ZONE, ""),
            capacity_type="spot" if any(labels.get(key) == text for key, text in _SPOT) else "",
            price=self._prices.of(node, group),
            pods=tuple(pod.metadata.key for pod in pods),
            options=tied,
        )


def _existing(results: Iterable[LoopResult]) -> dict[str, tuple[str, ...]]:
    """Return the pods that the first loop has room for, by node."""
    existing: dict[str, tuple[str, ...]] = {}
    for result in results:
        for pod, node in result.filtered.placements.items():
            existing[node] = (*existing.get(node, ()), pod)
        break
    return existing


def _removals(
    result: LoopResult, group_of: Mapping[str, NodeGroup], prices: _Prices, snapshot: Snapshot
) -> Iterator[Removal]:
    for removable in result.scale_down.removed:
        yield _removal(removable, result.at, group_of, prices, snapshot)


def _removal(
    removable: Removable, at: float, group_of: Mapping[str, NodeGroup], prices: _Prices, snapshot: Snapshot
) -> Removal:
    name = removable.node.metadata.name
    return Removal(
        nodes=(name,),
        reason=UNDERUTILIZED if removable.move.pods else EMPTY,
        moves=removable.placements,
        saves=prices.of(snapshot.node_by_name[name], group_of.get(name)),
        after=at,
    )


def _stays(snapshot: Snapshot, setup: Setup, results: Sequence[LoopResult], gone: set[str]) -> Iterator[Stay]:
    """Yield why each node that is not removed stays, in the order of the nodes."""
    group_of, last = groups_by_node(setup.groups), results[-1]
    outcome = last.scale_down
    reasons: dict[str, Stays] = {}
    for result in results:
        for name, why in result.scale_down.stays.items():
            # A node that was found to stay is not looked at again for some time: the reason is that of the first look.
            if why.reason != NOT_AGAIN or name not in reasons:
                reasons[name] = why
    for node in snapshot.nodes:
        name = node.metadata.name
        known = reasons.get(name)
        if name in gone:
            continue
        if known is not None:
            blocked, pod = known.blocked, known.pod
            yield Stay(
                node=name,
                reason=known.reason if blocked is None else blocked.reason,
                message=_use_of(name, known, results) if blocked is None else blocked.message,
                pod="" if pod is None else pod.metadata.key,
            )
        elif name not in group_of:
            yield Stay(node=name, reason=NOT_AUTOSCALED)
        elif last.targets.get(group_of[name].name, 0) <= group_of[name].least:
            yield Stay(node=name, reason=AT_LEAST_SIZE)
        elif outcome.result == IN_COOLDOWN:
            yield Stay(node=name, reason=IN_COOLDOWN)
        else:
            yield Stay(node=name, reason=NOT_LOOKED_AT)


def _use_of(name: str, why: Stays, results: Sequence[LoopResult]) -> str:
    """Return how much of a node is used that stays for it; empty for another reason."""
    uses = [result.scale_down.utilization[name] for result in results if name in result.scale_down.utilization]
    if why.reason != _USED or not uses:
        return ""
    share = f"{uses[-1].share * 100:.6g}% of allocatable"
    return f"{uses[-1].resource} requested ({share}) is above the scale-down utilization threshold"
