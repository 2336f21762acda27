"""The NodesReport: which nodes an autoscaler adds, removes and keeps, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import UnsetType

from kplan.api.quantity import count, grouped, listing
from kplan.documents.change import Timeline
from kplan.documents.nodes import RemovedNodes, new_node_text
from kplan.documents.remedies import NodesReport
from kplan.report import new_nodes
from kplan.report.blocks import Block, Cell, Heading, Line, Span, line
from kplan.report.options import ReportOptions
from kplan.report.timeline import end_line, step_blocks, timeline_blocks
from kplan.report.view import Case, Metric, View, state_of
from kplan.report.words import name_ranges, seconds_text
from kplan.rules.nodes import short_group_name

_MOST_ROWS = 20
_MOST_NAMES = 3
_NONE = "-"


def _body(document: NodesReport, options: ReportOptions) -> Iterator[Block]:
    yield new_nodes.followed_line(document.autoscaler)
    is_whole = options.shows_all
    yield from new_nodes.added_blocks(document.adds, document.autoscaler, is_whole=is_whole)
    if document.existing:
        n_pods, most = sum(map(len, document.existing.values())), None if is_whole else _MOST_NAMES
        fits = count(n_pods, "pending pod fits", "pending pods fit")
        yield Heading((f"{fits} on nodes that are there or on their way",))
        rows = [(node, name_ranges(pods, most)) for node, pods in document.existing.items()]
        yield new_nodes.node_table(["NODE", "PODS"], rows, is_whole=is_whole)
    yield from new_nodes.unhelped_blocks(document.unhelped, is_whole=is_whole)
    yield from _removes(document, is_whole=is_whole)
    yield from _stays(document, is_whole=is_whole)
    yield from new_nodes.price_blocks(document.price, document.autoscaler)
    if isinstance(document.timeline, Timeline):
        steps = () if isinstance(document.steps, UnsetType) else document.steps
        yield Heading(("The course",))
        yield end_line(document.timeline)
        yield from timeline_blocks(steps, document.timeline)
        if options.is_wide:
            yield from step_blocks(steps)


def _sentence(document: NodesReport) -> str:
    who, adds, removes = document.autoscaler.name, document.adds, document.removes
    kinds = grouped((new_node_text(new), new) for new in adds)
    added = [f"{count(len(nodes), 'node')} ({kind})" for kind, nodes in kinds.items()]
    parts = [f"adds {listing(added, most=2)}"] if added else []
    new = sum(len(removal.replacements) for removal in removes)
    gone = name_ranges([name for removal in removes for name in removal.nodes], most=_MOST_NAMES)
    if gone:
        parts.append(f"removes {gone}" + (f" for {count(new, 'new node')}" if new else ""))
    texts = [f"{who} {' and '.join(parts)}" if parts else f"{who} adds and removes no node"]
    if document.unhelped:
        (first, reasons), *others = document.unhelped.items()
        more = f" (and {count(len(others), 'other pod')} too)" if others else ""
        texts.append(f"{first} gets none{more}: {next(_reason_texts(reasons))}")
    if document.stays:
        texts.append(count(len(document.stays), "node stays", "nodes stay"))
    return "; ".join(texts)


def _reason_texts(reasons: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for home, why in reasons.items():
        yield f"{short_group_name(home)}: {', '.join(why)}" if home else ", ".join(why)


def _removes(document: NodesReport, *, is_whole: bool) -> Iterator[Block]:
    if not document.removes:
        return
    gone = sum(len(removal.nodes) for removal in document.removes)
    yield Heading((f"{count(gone, 'node')} removed",))
    has_new = any(removal.replacements for removal in document.removes)
    header = ["NODE", "WHY", "WHEN", "PODS MOVED", "SAVES", *(["REPLACED BY"] if has_new else [])]
    rows: list[tuple[Cell, ...]] = []
    for removal in document.removes:
        moves = ", ".join(_places(removal)) if is_whole else str(len(removal.moves))
        moves = moves if removal.moves else "none"
        texts = (removal.reason, _when(removal), moves, new_nodes.price_text(removal.saves))
        kinds = name_ranges([f"{new.instance_type or new.name} {new.zone}".strip() for new in removal.replacements])
        rows.append((Span(name_ranges(removal.nodes), "warn"), *texts, *([kinds or _NONE] if has_new else [])))
    yield new_nodes.node_table(header, rows, is_whole=is_whole)


def _when(removal: RemovedNodes) -> str:
    return f"in {seconds_text(removal.after)}" if removal.after else "now"


def _places(removal: RemovedNodes) -> list[str]:
    return [f"{pod} -> {node or 'open'}" for pod, node in removal.moves.items()]


def _stays(document: NodesReport, *, is_whole: bool) -> Iterator[Block]:
    if not (stays := document.stays):
        return
    yield Heading((count(len(stays), "node stays", "nodes stay"),))
    if is_whole:
        rows = [(name, stay.reason, stay.pod or _NONE, new_nodes.stay_words(stay)) for name, stay in stays.items()]
        yield new_nodes.node_table(["NODE", "WHY", "POD", "WORDS"], rows, is_whole=True)
    together = grouped(((stay.reason, new_nodes.stay_reason(stay)), name) for name, stay in stays.items())
    for (reason, words), nodes in together.items():
        if not is_whole:
            pod, names = stays[nodes[0]].pod, name_ranges(nodes, _MOST_NAMES)
            such = f", such as {pod} of {nodes[0]}" if pod else ""
            yield line(f"{count(len(nodes), 'node')}: {words}{such} ({names})", is_item=True)
        if remedy := new_nodes.way_out(reason):
            lead = f"{reason}: " if is_whole else ""
            would_free = Span(f"{lead}What would free {'it' if len(nodes) == 1 else 'them'}", "strong")
            yield Line((would_free, f": {remedy}."), 2)


def _cases(document: NodesReport, options: ReportOptions) -> Iterator[Case]:
    yield from new_nodes.added_cases(document.new_nodes, document.verdict)
    for removal in document.removes:
        for name in removal.nodes:
            message = f"removed: {removal.reason}, {_when(removal)}"
            yield Case(name, "passed", "Removed", message, "\n".join(_places(removal)), kind="node")
    for pod, reasons in document.unhelped.items():
        message, state = "; ".join(_reason_texts(reasons)), state_of(document.verdict, pod)
        yield Case(pod, state, "Unschedulable", message, more=f"kplan explain {pod}")
    for name, stay in document.stays.items():
        meaning, message = new_nodes.stay_reason(stay), f"stays: {new_nodes.stay_words(stay)}"
        of, helps = stay.reason if meaning == stay.message else meaning, new_nodes.way_out(stay.reason)
        yield Case(name, "skipped", "Kept", message, stay.pod, workload=of, would_help=helps, kind="node")


def _names(document: NodesReport) -> Iterator[str]:
    for new in document.adds:
        yield f"add {new.name}"
    for removal in document.removes:
        yield from (f"remove {name}" for name in removal.nodes)
        yield from (f"add {new.name}" for new in removal.replacements)


def _metrics(document: NodesReport) -> Iterator[Metric]:
    yield Metric("nodes_added", "Nodes that the autoscaler adds.", len(document.adds))
    pools = Counter(node.pool or node.group or "" for node in document.adds)
    for pool, number in sorted(pools.items()):
        yield Metric("pool_nodes_added", "Nodes that it adds to a pool or group.", number, {"pool": pool})
    yield Metric("nodes_removed", "Nodes that it removes.", sum(len(removal.nodes) for removal in document.removes))
    yield Metric("nodes_staying", "Nodes that stay.", len(document.stays))
    yield Metric("pods_unhelped", "Pending pods that no new node helps.", len(document.unhelped))
    for when, price in (("before", document.price.before), ("after", document.price.after)):
        if price is not None:
            yield Metric("nodes_price", "The price of all nodes whose price is known.", price, {"when": when})


VIEW = View[NodesReport](
    _sentence,
    _body,
    _cases,
    _names,
    metrics=_metrics,
    style=lambda one: (
        "bad" if one.verdict.exit_code else "good" if (one.adds or one.removes) and not one.unhelped else ""
    ),
    moments={"after": "The cluster with its new nodes"},
    marks=lambda document: {
        name: Span(f"leaves: {removal.reason}", "bad") for removal in document.removes for name in removal.nodes
    },
)
