"""The NodesReport: which nodes an autoscaler adds, removes and keeps, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from kplan.documents.nodes import AddedNode, NodesReport, RemovedNodes
from kplan.questions.nodes.stay_reasons import stay_reason
from kplan.report.blocks import Block, Cell, Heading, Line, Span, Style, Table, line
from kplan.report.options import ReportOptions
from kplan.report.view import Case, View
from kplan.report.words import count, left_out, name_ranges

_MOST_ROWS = 20
_MOST_NAMES = 3
_NONE = "-"


def _body(document: NodesReport, options: ReportOptions) -> Iterator[Block]:
    ref = document.autoscaler
    yield line(f"Decided as {ref.name} {ref.version} does; {_known_from(document)} from {ref.source}.")
    is_whole = options.top is None or options.is_wide
    yield from _adds(document, is_whole=is_whole)
    yield from _existing(document, is_whole=is_whole)
    yield from _unhelped(document, is_whole=is_whole)
    yield from _removes(document, is_whole=is_whole)
    yield from _stays(document, is_whole=is_whole)
    price = document.price
    if price.before is not None and price.after is not None:
        yield line(f"Price of the nodes whose price is known: {_price(price.before)} -> {_price(price.after)}.")


def _known_from(document: NodesReport) -> str:
    return "instance types" if document.autoscaler.name == "karpenter" else "node groups"


def _answer(document: NodesReport) -> Cell:
    changes = document.adds or document.removes
    style: Style = "bad" if document.verdict.exit_code else "good" if changes and not document.unhelped else ""
    return Span(_sentence(document), style)


def _sentence(document: NodesReport) -> str:
    gone = sum(len(removal.nodes) for removal in document.removes)
    new = [*document.adds, *(node for removal in document.removes for node in removal.replacements)]
    parts = [f"{count(len(new), 'node')} added"] if new else []
    parts += [f"{gone} removed" if parts else f"{count(gone, 'node')} removed"] if gone else []
    if not parts:
        parts = ["No node added or removed"]
    if document.unhelped:
        parts.append(f"{count(len(document.unhelped), 'pending pod')} not helped")
    if document.stays:
        n_stays = len(document.stays)
        parts.append(f"{count(n_stays, 'node')} {'stays' if n_stays == 1 else 'stay'}")
    return ", ".join(parts)


def _price(price: float | None) -> str:
    return _NONE if price is None else f"{price:.4f}".rstrip("0").rstrip(".")


def _home(node: AddedNode) -> str:
    return node.pool or node.group or _NONE


def _kind(node: AddedNode) -> tuple[str, ...]:
    """Return what nodes that share a row have in common."""
    return (_home(node), node.instance_type, node.zone, node.capacity_type, _price(node.price), *node.options)


def _adds(document: NodesReport, *, is_whole: bool) -> Iterator[Block]:
    if not document.adds:
        return
    home = "POOL" if document.autoscaler.name == "karpenter" else "GROUP"
    yield Heading((f"{count(len(document.adds), 'node')} added",))
    rows: list[tuple[Cell, ...]] = []
    for _, alike in groupby(document.adds, key=lambda node: (node.name,) if is_whole else _kind(node)):
        nodes = list(alike)
        first, names = nodes[0], name_ranges([node.name for node in nodes])
        pods = [pod for node in nodes for pod in node.pods]
        rows.append(
            (
                Span(names, "good"),
                _home(first),
                first.instance_type or _NONE,
                first.zone or _NONE,
                first.capacity_type or _NONE,
                _price(first.price),
                name_ranges(pods, most=None if is_whole else _MOST_NAMES) or _NONE,
            )
        )
    header = ["NEW NODE", home, "TYPE", "ZONE", "CAPACITY", "PRICE", "FOR PODS"]
    yield _table(header, rows, is_whole=is_whole)
    for home_name, alike in groupby(document.adds, key=_home):
        first = next(alike)
        others = [name for name in first.options if name != first.instance_type]
        names = name_ranges(others, most=None if is_whole else _MOST_NAMES)
        if others and document.autoscaler.name == "karpenter":
            choice = f"{home_name}: the cheapest type is shown; the cloud may choose {names} instead."
            yield line(choice, is_item=True)
        elif others:
            choice = f"{home_name} is one of several equally good choices"
            yield line(f"{choice}; {document.autoscaler.name} may take {names} as well.", is_item=True)


def _existing(document: NodesReport, *, is_whole: bool) -> Iterator[Block]:
    if not document.existing:
        return
    n_pods = sum(map(len, document.existing.values()))
    fits = "fits" if n_pods == 1 else "fit"
    yield Heading((f"{count(n_pods, 'pending pod')} {fits} on nodes that are there or on their way",))
    rows = [
        (node, name_ranges(pods, most=None if is_whole else _MOST_NAMES)) for node, pods in document.existing.items()
    ]
    yield _table(["NODE", "PODS"], rows, is_whole=is_whole)


def _unhelped(document: NodesReport, *, is_whole: bool) -> Iterator[Block]:
    if not document.unhelped:
        return
    yield Heading((Span(f"{count(len(document.unhelped), 'pending pod')} not helped", "bad"),))
    together: dict[tuple[tuple[str, tuple[str, ...]], ...], list[str]] = {}
    for pod, reasons in document.unhelped.items():
        together.setdefault(tuple(reasons.items()), []).append(pod)
    shown = list(together.items())
    limit = len(shown) if is_whole else _MOST_ROWS
    for reasons_of, pods in shown[:limit]:
        yield line(Span(name_ranges(pods, most=_MOST_NAMES), "strong"), is_item=True)
        if not reasons_of:
            event = document.events.get(pods[0], "")
            yield Line((event or "no reason is told",), 2)
        by_reason: dict[tuple[str, ...], list[str]] = {}
        for home, why in reasons_of:
            by_reason.setdefault(why, []).append(home)
        for why, homes in by_reason.items():
            names = name_ranges(homes, most=None if is_whole else _MOST_NAMES)
            yield Line((f"{names}: {', '.join(why)}",), 2, is_item=True)
    note = left_out(sum(len(pods) for _, pods in shown[limit:]), "pod")
    if note:
        yield line(*note)


def _removes(document: NodesReport, *, is_whole: bool) -> Iterator[Block]:
    if not document.removes:
        return
    gone = sum(len(removal.nodes) for removal in document.removes)
    yield Heading((f"{count(gone, 'node')} removed",))
    has_new = any(removal.replacements for removal in document.removes)
    header = ["NODE", "WHY", "WHEN", "PODS MOVED", "SAVES", *(["REPLACED BY"] if has_new else [])]
    rows: list[tuple[Cell, ...]] = [
        (
            Span(name_ranges(removal.nodes), "warn"),
            removal.reason,
            _when(removal),
            _moves(removal, is_whole=is_whole),
            _price(removal.saves),
            *([name_ranges([_replacement(new) for new in removal.replacements]) or _NONE] if has_new else []),
        )
        for removal in document.removes
    ]
    yield _table(header, rows, is_whole=is_whole)


def _when(removal: RemovedNodes) -> str:
    return f"in {removal.after:.0f} s" if removal.after else "now"


def _replacement(new: AddedNode) -> str:
    return f"{new.instance_type or new.name} {new.zone}".strip()


def _moves(removal: RemovedNodes, *, is_whole: bool) -> str:
    if not removal.moves:
        return "none"
    if not is_whole:
        return str(len(removal.moves))
    return ", ".join(f"{pod} -> {node or 'open'}" for pod, node in removal.moves.items())


def _stays(document: NodesReport, *, is_whole: bool) -> Iterator[Block]:
    """Yield why the other nodes stay: counted by reason, or a row for each node."""
    stays = document.stays
    if not stays:
        return
    yield Heading((f"{count(len(stays), 'node')} {'stays' if len(stays) == 1 else 'stay'}",))
    if is_whole:
        rows = [
            (name, stay.reason, stay.pod or _NONE, stay.message or stay_reason(stay.reason).words)
            for name, stay in stays.items()
        ]
        yield _table(["NODE", "WHY", "POD", "WORDS"], rows, is_whole=True)
    together: dict[tuple[str, str], list[str]] = {}
    for name, stay in stays.items():
        # Some reasons say little without their message.
        is_telling = stay_reason(stay.reason).words != stay.reason
        together.setdefault((stay.reason, "" if is_telling else stay.message), []).append(name)
    for (reason, _), nodes in together.items():
        meaning, first = stay_reason(reason), stays[nodes[0]]
        such = f", such as {first.pod} of {nodes[0]}" if first.pod else ""
        words = meaning.words if meaning.words != reason or not first.message else first.message
        if not is_whole:
            yield line(
                f"{count(len(nodes), 'node')}: {words}{such} ({name_ranges(nodes, most=_MOST_NAMES)})", is_item=True
            )
        if meaning.remedy:
            lead = f"{reason}: " if is_whole else ""
            yield Line(
                (
                    Span(f"{lead}What would free {'it' if len(nodes) == 1 else 'them'}", "strong"),
                    f": {meaning.remedy}.",
                ),
                2,
            )


def _table(header: Iterable[str], rows: Sequence[tuple[Cell, ...]], *, is_whole: bool) -> Table:
    columns = tuple(header)
    shown = rows if is_whole else rows[:_MOST_ROWS]
    return Table(columns, tuple(shown), "<" * len(columns), note=left_out(len(rows) - len(shown)))


def _cases(document: NodesReport, options: ReportOptions) -> Iterator[Case]:
    for new in [*document.adds, *(node for removal in document.removes for node in removal.replacements)]:
        counted = document.verdict.counted_of(new.name)
        where = " ".join(text for text in (_home(new), new.instance_type, new.zone, new.capacity_type) if text)
        message = f"added: {where}, for {count(len(new.pods), 'pod')}"
        detail = "\n".join(new.pods)
        yield Case(new.name, "failed" if counted else "passed", "NewNode", message, detail, kind="node")
    for removal in document.removes:
        for name in removal.nodes:
            detail = "\n".join(f"{pod} -> {node or 'open'}" for pod, node in removal.moves.items())
            message = f"removed: {removal.reason}, {_when(removal)}"
            yield Case(name, "passed", "Removed", message, detail, kind="node")
    for pod, reasons in document.unhelped.items():
        counted = document.verdict.counted_of(pod)
        message = document.events.get(pod) or "; ".join(f"{home}: {', '.join(why)}" for home, why in reasons.items())
        yield Case(
            pod,
            "failed" if counted else "skipped",
            "Unschedulable",
            message or "the autoscaler does not help it",
            more=f"kplan explain {pod}",
        )
    for name, stay in document.stays.items():
        meaning = stay_reason(stay.reason)
        words = stay.message or meaning.words
        yield Case(
            name,
            "skipped",
            "Kept",
            f"stays: {words}",
            stay.pod,
            workload=meaning.words,
            would_help=meaning.remedy,
            kind="node",
        )


def _names(document: NodesReport) -> Iterator[str]:
    for new in document.adds:
        yield f"add {new.name}"
    for removal in document.removes:
        yield from (f"remove {name}" for name in removal.nodes)
        yield from (f"add {new.name}" for new in removal.replacements)


VIEW = View("nodes", _answer, _body, _cases, _names)
