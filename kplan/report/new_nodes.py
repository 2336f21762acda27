"""Nodes that an autoscaler adds, the pods that it does not help, and why it keeps a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pkgutil import get_data
from shlex import quote

import msgspec
from msgspec import UnsetType

from kplan.api.quantity import count, grouped, listing
from kplan.documents.base import Verdict
from kplan.documents.nodes import AddedNode, AutoscalerRef, KeptNode, NodeChanges, NodePrices, RightSizing
from kplan.report.blocks import Block, Cell, Heading, Line, Span, Table, line
from kplan.report.options import ReportOptions
from kplan.report.view import Case, state_of
from kplan.report.words import left_out, name_ranges
from kplan.rules.nodes import short_group_name, short_group_names


class _Reason(msgspec.Struct, frozen=True):
    """Why the cluster-autoscaler keeps a node."""

    means: str = ""  #: said of one node or of several
    way_out: str = ""  #: what there is to do about it; empty where nothing is to be done


_REASONS = msgspec.json.decode(get_data("kplan.report", "reasons.json") or b"", type=dict[str, _Reason])
_OTHER = _Reason()
_MESSAGES: Mapping[str, str] = {"Node isn't managed by karpenter": "not one of Karpenter's nodes"}
"""Messages of Karpenter, in plain words; most of its others name the pod or the numbers, and stay as they are."""


def stay_reason(stay: KeptNode) -> str:
    """Return why a node stays: what the reason or the message means, else the message, or the reason itself."""
    return _REASONS.get(stay.reason, _OTHER).means or _MESSAGES.get(stay.message) or stay.message or stay.reason


def way_out(reason: str) -> str:
    """Return what there is to do so that a node that stays for a reason may go; empty for nothing."""
    return _REASONS.get(reason, _OTHER).way_out


def stay_words(stay: KeptNode) -> str:
    """Return why a node stays, with the numbers of the cluster-autoscaler's message."""
    return stay.message if stay.message and stay.message not in _MESSAGES else stay_reason(stay)


_MOST_ROWS = 20
_MOST_NAMES = 3
_NONE = "-"
_HOURS = 730  #: of a month, as clouds count


def growth_blocks(changes: NodeChanges, options: ReportOptions) -> Iterator[Block]:
    if not (changes.added or changes.unhelped or changes.existing):
        return
    most = None if options.tells_all else _MOST_NAMES
    yield from added_blocks(changes.added, changes.autoscaler, is_whole=options.tells_all)
    yield from unhelped_blocks(changes.unhelped, is_whole=options.tells_all)
    yield followed_line(changes.autoscaler)
    for node, pods in changes.existing.items():
        names = name_ranges(pods, most)
        why = f"it finds room on {node}, where kube-scheduler puts no pod of these"
        if node in (changes.node_claims or ()):
            look = f"kubectl describe nodeclaim {quote(node)}"
            why = f"NodeClaim {node} has room, but its node has not registered: {look}"
        yield line(f"It adds no node for {names}: {why}.")
    if changes.elsewhere:
        destinations = [f"{pod} {f'on {node}' if node else 'nowhere'}" for pod, node in changes.elsewhere.items()]
        names = listing(destinations, most=most)
        yield line(f"kube-scheduler has the last word: it puts {names}.")
    if changes.added:
        yield from price_blocks(changes.price, changes.autoscaler)


def added_cases(adds: Iterable[AddedNode], verdict: Verdict) -> Iterator[Case]:
    for new in adds:
        where = " ".join(filter(None, (home_of(new), new.instance_type, new.zone, new.capacity_type)))
        message, state = f"added: {where}, for {count(len(new.pods), 'pod')}", state_of(verdict, new.name, is_well=True)
        yield Case(new.name, state, "NewNode", message, "\n".join(new.pods), kind="node")


def added_text(changes: NodeChanges | UnsetType) -> str:
    """Return how many nodes are added, to follow other numbers; empty for none."""
    return f", {count(len(changes.added), 'node')} added" if changes and changes.added else ""


def followed_line(ref: AutoscalerRef) -> Line:
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
    freed, nodes = right_sizing.freed, count(right_sizing.nodes, "node")
    names = f": {name_ranges(freed, most=_MOST_NAMES)}; kplan capacity --shrink shows how" if freed else ""
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


def added_blocks(adds: Sequence[AddedNode], ref: AutoscalerRef, *, is_whole: bool) -> Iterator[Block]:
    if not adds:
        return
    most, home = None if is_whole else _MOST_NAMES, "POOL" if ref.name == "karpenter" else "GROUP"
    groups = short_group_names(name for new in adds if new.group for name in (new.group, *new.options))

    def columns(node: AddedNode) -> tuple[str, ...]:
        facts = (groups.get(node.group or "", home_of(node)), node.instance_type, node.zone, node.capacity_type)
        return (*(fact or _NONE for fact in facts), price_text(node.price))

    yield Heading((f"{count(len(adds), 'node')} added",))
    rows: list[tuple[Cell, ...]] = []
    for _, alike in groupby(adds, key=lambda node: (node.name,) if is_whole else (*columns(node), *node.options)):
        nodes = list(alike)
        pods = name_ranges([pod for node in nodes for pod in node.pods], most) or _NONE
        rows.append((Span(name_ranges([node.name for node in nodes]), "good"), *columns(nodes[0]), pods))
    yield node_table(["NEW NODE", home, "TYPE", "ZONE", "CAPACITY", "PRICE", "FOR PODS"], rows, is_whole=is_whole)
    for home_name, alike in groupby(adds, key=lambda node: columns(node)[0]):
        first = next(alike)
        others = [groups.get(name, name) for name in first.options if name != first.instance_type]
        names = name_ranges(others, most)
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
    names_of = short_group_names(home for reasons in unhelped.values() for home in reasons)
    shown = list(grouped((tuple(reasons.items()), pod) for pod, reasons in unhelped.items()).items())
    limit = len(shown) if is_whole else _MOST_ROWS
    for reasons_of, pods in shown[:limit]:
        yield line(Span(name_ranges(pods, most=_MOST_NAMES), "strong"), is_item=True)
        for why, homes in grouped((why, names_of[home]) for home, why in reasons_of).items():
            names = name_ranges(homes, most=None if is_whole else _MOST_NAMES)
            yield Line((f"{names}: {', '.join(why)}" if names else ", ".join(why),), 2, is_item=True)
    if note := left_out(sum(len(pods) for _, pods in shown[limit:]), "pod"):
        yield line(*note)


def node_table(header: Iterable[str], rows: Sequence[tuple[Cell, ...]], *, is_whole: bool) -> Table:
    """Return a table of nodes, shortened unless it is whole."""
    columns, shown = tuple(header), rows if is_whole else rows[:_MOST_ROWS]
    return Table(columns, tuple(shown), "<" * len(columns), note=left_out(len(rows) - len(shown)))
