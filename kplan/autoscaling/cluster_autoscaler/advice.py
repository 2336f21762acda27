"""What the cluster-autoscaler does, in the terms that all autoscalers share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.wellknown import BETA_ZONE, ZONE
from kplan.autoscaling.cluster_autoscaler.estimator import Estimate
from kplan.autoscaling.cluster_autoscaler.finding import Setup
from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup
from kplan.autoscaling.cluster_autoscaler.results import Classes, LoopResult, event_text, loop_detail
from kplan.autoscaling.cluster_autoscaler.scale_down import Stays
from kplan.autoscaling.cluster_autoscaler.scale_up import FAILED, SUCCESSFUL
from kplan.autoscaling.cluster_autoscaler.templates import TEMPLATE_LABEL, Template
from kplan.autoscaling.seam import Advice, Namer, NewNode, Removal, Stay
from kplan.facts import InputWarning
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
    snapshot: Snapshot, setup: Setup, results: Sequence[LoopResult], used_names: Iterable[str] = ()
) -> Advice:
    """Return the advice of some loops; new nodes get no name of nodes in the snapshot, and none of `used_names`."""
    adds = tuple(_adds(results, setup, Namer({*snapshot.node_by_name, *used_names})))
    removes = tuple(_removals(results, setup, snapshot))
    gone = {name for removal in removes for name in removal.nodes}
    prices = setup.prices_of(snapshot.nodes)
    after = [price for name, price in prices.items() if name not in gone]
    last = results[-1].scale_ups
    unhelped = {pod.pod.metadata.key: {**pod.skipped, **pod.rejected} for outcome in last for pod in outcome.unhelped}
    events = {
        pod.pod.metadata.key: event_text(pod)
        for outcome in last
        if outcome.result not in (SUCCESSFUL, FAILED)
        for pod in outcome.unhelped
    }
    return Advice(
        adds=adds,
        existing=_existing(results),
        unhelped=unhelped,
        events=events,
        removes=removes,
        stays=tuple(_stays(snapshot, setup, results, gone)),
        price_before=sum(prices.values()) if prices else None,
        price_after=sum(after) + sum(new.price or 0 for new in adds) if after else None,
        warnings=(*setup.warnings, *_warnings(results)),
        detail=partial(_detail, snapshot, results),
    )


def _detail(snapshot: Snapshot, results: Iterable[LoopResult]) -> dict[str, Any]:
    classes = Classes(snapshot.pods)
    return {"loops": [loop_detail(result, classes) for result in results]}


def _warnings(results: Iterable[LoopResult]) -> Iterator[InputWarning]:
    """Yield what goes wrong, in the words of the autoscaler's events."""
    for result in results:
        for reason, text in (*result.events, *result.group_events):
            yield InputWarning(reason, "cluster-autoscaler", text)


def _adds(results: Iterable[LoopResult], setup: Setup, namer: Namer) -> Iterator[NewNode]:
    """Yield the nodes that are added, in order."""
    for templates, outcome in ((loop.templates, outcome) for loop in results for outcome in loop.scale_ups):
        tied: tuple[str, ...] = ()
        placement: list[tuple[str, list[Pod]]] = []
        if outcome.choice is not None:
            best = outcome.choice.best.group.name
            tied = tuple(name for name in outcome.choice.tied if name != best)
            placement = outcome.estimates.get(best, Estimate(0, [], [])).placement
        waiting = iter(placement)
        for group, number in ((growth.group, growth.wanted - growth.current) for growth in outcome.growths):
            for _ in range(number):
                _, pods = next(waiting, ("", []))
                new = _new_node(templates[group.name], namer.name(as_part_of_node_name(group.name)), group, setup)
                yield replace(new, pods=tuple(pod.metadata.key for pod in pods), options=tied)


def _new_node(template: Template, name: str, group: NodeGroup, setup: Setup) -> NewNode:
    node, daemons = template.node_named(name)
    labels = {key: text for key, text in node.metadata.labels.items() if key != TEMPLATE_LABEL}
    return NewNode(
        node=replace(node, metadata=replace(node.metadata, labels=labels)),
        daemons=tuple(replace(pod, spec=replace(pod.spec, node_name=name)) for pod in daemons),
        group=group.name,
        instance_type=next((labels[key] for key in _INSTANCE_TYPES if labels.get(key)), ""),
        zone=labels.get(ZONE) or labels.get(BETA_ZONE, ""),
        capacity_type="spot" if any(labels.get(key) == text for key, text in _SPOT) else "",
        price=setup.price(node, group),
    )


def _existing(results: Iterable[LoopResult]) -> dict[str, tuple[str, ...]]:
    """Return the pods that the first loop has room for, by node."""
    existing: dict[str, tuple[str, ...]] = {}
    for result in results:
        for pod, node in result.filtered.placements.items():
            existing[node] = (*existing.get(node, ()), pod)
        break
    return existing


def _removals(results: Iterable[LoopResult], setup: Setup, snapshot: Snapshot) -> Iterator[Removal]:
    for result in results:
        for removable in result.scale_down.removed:
            name = removable.node.metadata.name
            yield Removal(
                nodes=(name,),
                reason=UNDERUTILIZED if removable.move.pods else EMPTY,
                moves=removable.placements,
                saves=setup.price(snapshot.node_by_name[name], setup.group_of.get(name)),
                after=result.at,
            )


def _stays(snapshot: Snapshot, setup: Setup, results: Sequence[LoopResult], gone: set[str]) -> Iterator[Stay]:
    """Yield why each node that is not removed stays, in the order of the nodes."""
    group_of, last = setup.group_of, results[-1]
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
