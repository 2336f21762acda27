"""Nodes that an autoscaler adds, the pods that it does not help, and why it keeps a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import msgspec
from msgspec import UnsetType

from kplan.api.quantity import count, grouped, listing
from kplan.documents.base import Verdict
from kplan.documents.nodes import AddedNode, AutoscalerRef, KeptNode, NewNodeRef, NodeChanges, NodePrices, RightSizing
from kplan.facts import grouped
from kplan.report.blocks import Block, Cell, Heading, Line, Span, Table, line
from kplan.report.view import Case, State
from kplan.report.words import left_out, name_ranges
from kplan.rules.nodes import short_group_name, short_group_names

_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"


class StayReason(msgspec.Struct, frozen=True):
    """What a reason means."""

    words: str
    remedy: str = ""  #: empty where there is nothing to do


_REASONS: Mapping[str, StayReason] = {
    "NotReplicated": StayReason(
        "a pod has no controller that would make it again",
        f'run the pod from a workload, or annotate it with {_EVICT}: "true"',
    ),
    "NotEnoughPdb": StayReason(
        "a disruption budget does not allow the eviction of a pod",
        "add replicas, or let the budget allow one disruption",
    ),
    "LocalStorageRequested": StayReason(
        "a pod has a volume on the node's disk",
        f"name the volume in the pod's annotation {_VOLUMES}, or set --skip-nodes-with-local-storage=false",
    ),
    "UnmovableKubeSystemPod": StayReason(
        "a pod of kube-system has no disruption budget",
        "give the pod a PodDisruptionBudget, or set --skip-nodes-with-system-pods=false",
    ),
    "NotSafeToEvictAnnotation": StayReason(
        'a pod is annotated with safe-to-evict: "false"', f"remove the annotation {_EVICT} from the pod"
    ),
    "ControllerNotFound": StayReason(
        "the controller of a pod no longer exists", "delete the pod, as nothing would make it again"
    ),
    "MinReplicasReached": StayReason(
        "the controller of a pod has too few replicas", "add replicas, or lower --min-replica-count"
    ),
    "BlockedByOnCompletionPod": StayReason("a pod is to be waited for until it ends"),
    "ScaleDownDisabledAnnotation": StayReason(
        "the node is annotated so that it is not removed", f"kubectl annotate node NODE {_DISABLED}-"
    ),
    "NotUnderutilized": StayReason(
        "the node is used too much", "raise --scale-down-utilization-threshold, if its pods should move closer together"
    ),
    "NoPlaceToMovePods": StayReason(
        "its pods fit on no other node", "kplan drain NODE shows which pods, and what would help"
    ),
    "NodeGroupMinSizeReached": StayReason("its group has its minimum size", "lower the minimum size of the group"),
    "MinimalResourceLimitExceeded": StayReason(
        "the cluster would fall below a limit", "lower --min-nodes-total, --cores-total or --memory-total"
    ),
    "NotAutoscaled": StayReason("it belongs to no node group"),
    "NotUnneededLongEnough": StayReason(
        "it has not been unneeded for long enough", "wait, or lower --scale-down-unneeded-time"
    ),
    "NotUnreadyLongEnough": StayReason(
        "it has not been unready for long enough", "wait, or lower --scale-down-unready-time"
    ),
    "ScaleDownUnreadyDisabled": StayReason("unready nodes are not removed", "set --scale-down-unready-enabled"),
    "AtomicScaleDownFailed": StayReason(
        "its group is removed as a whole or not at all, and another node stays", "free the other nodes of the group"
    ),
    "CurrentlyBeingDeleted": StayReason("it is being deleted already"),
    "ScaleDownInCooldown": StayReason(
        "nodes were added, removed or failed to go shortly before", "wait, or lower --scale-down-delay-after-add"
    ),
    "RecentlyUnremovable": StayReason("it was found shortly before that it has to stay", "wait five minutes"),
    "NotUnneededOtherReason": StayReason("it was not looked at"),
    "UnexpectedError": StayReason("its utilisation cannot be told"),
}


_MESSAGES: Mapping[str, StayReason] = {
    "Node isn't managed by karpenter": StayReason("it is not one of Karpenter's nodes"),
}
"""Messages of Karpenter, in plain words; most of its others name the pod or the numbers, and stay as they are."""


def stay_reason(stay: KeptNode) -> StayReason:
    """Return why a node stays: what the reason or the message means, else the message, or the reason itself."""
    return _REASONS.get(stay.reason) or _MESSAGES.get(stay.message) or StayReason(stay.message or stay.reason)


def stay_words(stay: KeptNode) -> str:
    """Return why a node stays, with the numbers of the cluster-autoscaler's message."""
    return stay.message if stay.message and stay.message not in _MESSAGES else stay_reason(stay).words


_MOST_ROWS = 20
_MOST_NAMES = 3
_NONE = "-"
_HOURS = 730  #: of a month, as clouds count


def growth_blocks(changes: NodeChanges, *, is_whole: bool) -> Iterator[Block]:
    """Yield what an autoscaler adds in the course of an answer."""
    if not (changes.added or changes.unhelped or changes.existing):
        return
    yield from added_blocks(changes.added, changes.autoscaler, is_whole=is_whole)
    yield from unhelped_blocks(changes.unhelped, is_whole=is_whole)
    yield followed_line(changes.autoscaler)
    for node, pods in changes.existing.items():
        names = name_ranges(pods, most=None if is_whole else _MOST_NAMES)
        yield line(f"It adds no node for {names}: it finds room on {node}, where kube-scheduler puts no pod of these.")
    if changes.elsewhere:
        destinations = [f"{pod} {f'on {node}' if node else 'nowhere'}" for pod, node in changes.elsewhere.items()]
        names = listing(destinations, most=len(destinations) if is_whole else _MOST_NAMES)
        yield line(f"kube-scheduler has the last word: it puts {names}.")
    if changes.added:
        yield from price_blocks(changes.price, changes.autoscaler)


def added_cases(adds: Iterable[AddedNode], verdict: Verdict) -> Iterator[Case]:
    for new in adds:
        where = " ".join(text for text in (home_of(new), new.instance_type, new.zone, new.capacity_type) if text)
        message = f"added: {where}, for {count(len(new.pods), 'pod')}"
        state: State = "failed" if verdict.counted_of(new.name) else "passed"
        yield Case(new.name, state, "NewNode", message, "\n".join(new.pods), kind="node")


def new_node_text(node: NewNodeRef | AddedNode) -> str:
    home = f"pool {node.pool}" if node.pool else f"group {short_group_name(node.group or '') or '?'}"
    return ", ".join(text for text in (home, node.instance_type, node.zone) if text)


def added_text(changes: NodeChanges | UnsetType) -> str:
    """Return how many nodes are added, to follow other numbers; empty for none."""
    return f", {count(len(changes.added), 'node')} added" if changes and changes.added else ""


def followed_line(ref: AutoscalerRef) -> Line:
    """Return the line that says which autoscaler is followed, and where it is known from what it may add."""
    known = "instance types" if ref.name == "karpenter" else "node groups"
    return line(f"Decided as {ref.name} {ref.version} does; {known} from {ref.source}.")


def price_blocks(price: NodePrices, ref: AutoscalerRef) -> Iterator[Block]:
    """Yield the price of the nodes before and after, where both are known, and what is saved."""
    if price.before is not None and price.after is not None:
        saved = price.before - price.after
        saves = f", saves {cost_text(saved, ref)}" if saved > 0 else ""
        both = f"{price_text(price.before)} -> {price_text(price.after)}"
        yield line(f"Price of the nodes whose price is known: {both}{saves}.")


def right_sizing_blocks(right_sizing: RightSizing | UnsetType) -> Iterator[Block]:
    """Yield which nodes are not needed any more with recommended requests, and what that saves."""
    if not right_sizing:
        return
    freed = right_sizing.freed
    names = f": {name_ranges(freed, most=_MOST_NAMES)}; kplan capacity --shrink shows how" if freed else ""
    nodes = count(right_sizing.nodes, "node")
    yield line(f"With the recommended requests {len(freed) or 'none'} of {nodes} can go{names}.")
    if right_sizing.autoscaler:
        yield from price_blocks(right_sizing.price, right_sizing.autoscaler)


def cost_text(amount: float, ref: AutoscalerRef | UnsetType) -> str:
    """Return an amount of money; only the prices of Karpenter's instance types are known to be for an hour."""
    if ref and ref.name == "karpenter":
        return f"{price_text(amount)} an hour ({amount * _HOURS:.2f} a month)"
    return price_text(amount)


def price_text(price: float | None) -> str:
    """Return a price as text; a dash for none."""
    return _NONE if price is None else f"{price:.4f}".rstrip("0").rstrip(".")


def home_of(node: AddedNode) -> str:
    return node.pool or short_group_name(node.group or "") or _NONE


def _kind(node: AddedNode) -> tuple[str, ...]:
    return (home_of(node), node.instance_type, node.zone, node.capacity_type, price_text(node.price), *node.options)


def added_blocks(adds: Sequence[AddedNode], ref: AutoscalerRef, *, is_whole: bool) -> Iterator[Block]:
    """Yield a table of new nodes, and what they may become instead."""
    if not adds:
        return
    home = "POOL" if ref.name == "karpenter" else "GROUP"
    groups = short_group_names(name for new in adds if new.group for name in (new.group, *new.options))
    yield Heading((f"{count(len(adds), 'node')} added",))
    rows: list[tuple[Cell, ...]] = []
    for _, alike in groupby(adds, key=lambda node: (node.name,) if is_whole else _kind(node)):
        nodes = list(alike)
        first, names = nodes[0], name_ranges([node.name for node in nodes])
        pods = [pod for node in nodes for pod in node.pods]
        rows.append(
            (
                Span(names, "good"),
                groups.get(first.group or "", home_of(first)),
                first.instance_type or _NONE,
                first.zone or _NONE,
                first.capacity_type or _NONE,
                price_text(first.price),
                name_ranges(pods, most=None if is_whole else _MOST_NAMES) or _NONE,
            )
        )
    header = ["NEW NODE", home, "TYPE", "ZONE", "CAPACITY", "PRICE", "FOR PODS"]
    yield node_table(header, rows, is_whole=is_whole)
    for home_name, alike in groupby(adds, key=lambda node: groups.get(node.group or "", home_of(node))):
        first = next(alike)
        others = [name for name in first.options if name != first.instance_type]
        others = [groups.get(name, name) for name in others]
        names = name_ranges(others, most=None if is_whole else _MOST_NAMES)
        if others and ref.name == "karpenter":
            choice = f"{home_name}: the cheapest type is shown; the cloud may choose {names} instead."
            yield line(choice, is_item=True)
        elif others:
            choice = f"{home_name} is one of several equally good choices"
            yield line(f"{choice}; {ref.name} may take {names} as well.", is_item=True)


def unhelped_blocks(unhelped: Mapping[str, Mapping[str, tuple[str, ...]]], *, is_whole: bool) -> Iterator[Block]:
    """Yield why the autoscaler has no node for pods, once for all that share a reason."""
    if not unhelped:
        return
    yield Heading((Span(f"{count(len(unhelped), 'pending pod')} not helped", "bad"),))
    together = grouped((tuple(reasons.items()), pod) for pod, reasons in unhelped.items())
    names_of = short_group_names(home for reasons in unhelped.values() for home in reasons)
    shown = list(together.items())
    limit = len(shown) if is_whole else _MOST_ROWS
    for reasons_of, pods in shown[:limit]:
        yield line(Span(name_ranges(pods, most=_MOST_NAMES), "strong"), is_item=True)
        by_reason = grouped((why, names_of[home]) for home, why in reasons_of)
        for why, homes in by_reason.items():
            names = name_ranges(homes, most=None if is_whole else _MOST_NAMES)
            yield Line((f"{names}: {', '.join(why)}" if names else ", ".join(why),), 2, is_item=True)
    note = left_out(sum(len(pods) for _, pods in shown[limit:]), "pod")
    if note:
        yield line(*note)


def node_table(header: Iterable[str], rows: Sequence[tuple[Cell, ...]], *, is_whole: bool) -> Table:
    """Return a table of nodes, shortened unless it is whole."""
    columns = tuple(header)
    shown = rows if is_whole else rows[:_MOST_ROWS]
    return Table(columns, tuple(shown), "<" * len(columns), note=left_out(len(rows) - len(shown)))
