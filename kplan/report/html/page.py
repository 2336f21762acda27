"""The page: the verdict, a picture of the cluster, the report, all nodes as a table, and the document as JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from html import escape
from pkgutil import get_data
from string import Template
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from kplan.documents.base import Report
from kplan.documents.change import Timeline
from kplan.documents.nodes import ClusterMap, NodeLoad
from kplan.documents.placement import PodPlacement
from kplan.report.blocks import Block, Cell, Heading, Line, Preformatted, Span, Table, plain
from kplan.report.html.course import timeline_figures
from kplan.report.html.picture import node_anchor, picture, pod_anchor, pod_link, share
from kplan.report.pipelines import is_failure
from kplan.report.view import Case, CaseReport, View, alike, numbered
from kplan.visible import encode, escape_json

MOST_LISTED = 20  #: at most so many pods that come to a node, or leave it, are named


_MANY = 40  #: a table of more nodes scrolls within the page


def nodes_table(cluster: ClusterMap, described: Collection[str], marks: Mapping[str, Span]) -> str:
    """Return a table with a row for each node: its group, how full it is before and after, which pods come and go.

    `described`: pods that have a heading of their own on the page; links to other pods lead to this table.
    `marks`: node -> what the report says about it, in place of the pods that come and go.
    """
    placed = set(described)
    groups = ["Group"] if cluster.group_label is not None else []
    names = ("Node", *groups, *cluster.resources, "Verdict" if marks else "Pods that come and go")
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    lines = []
    for index, node in enumerate(cluster.nodes):
        name = escape(node.name) + (" (cordoned)" if node.cordoned else "") + (" (new)" if node.new else "")
        cells = [f"<td>{name}</td>", *(f"<td>{escape(node.group)}</td>" for _ in groups)]
        cells += [_share(node, position) for position in range(len(cluster.resources))]
        if (mark := marks.get(node.name)) is None:
            last = "<br>".join([*_listed("+", node.arriving, placed), *_listed("\u2212", node.leaving, placed)])
        else:
            last = f'<span class="{mark.style}">{escape(mark.text)}</span>'
        lines.append(f'<tr id="{node_anchor(index)}">{"".join(cells)}<td>{last}</td></tr>')
    rows = "\n".join(lines)
    table = f'<table class="data"><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>'
    when = "" if marks else ", before and after"
    note = f'<p class="note">Shares of what a node offers that are requested{when}.</p>'
    long = " long" if len(cluster.nodes) > _MANY else ""
    opening = f'<div class="scroll{long}" tabindex="0" role="region" aria-labelledby="nodes">'
    return f'<h2 id="nodes">Nodes</h2>{note}{opening}{table}</div>'


def _share(node: NodeLoad, position: int) -> str:
    if not (node.allocatable[position] or node.before[position] or node.after[position]):
        return '<td class="right"></td>'
    then, now = (f"{100 * share(node, position, moment):.0f}%" for moment in ("before", "after"))
    text = now if then == now else f"{then} \u2192 {now}"
    sort = f' data-value="{100 * share(node, position, "after"):.1f}"' if then != now else ""
    return f'<td class="right"{sort}>{text}</td>'


def _listed(sign: str, pods: Sequence[str], placed: set[str]) -> Iterator[str]:
    """Yield the pods that come or go; those in `placed` have an anchor already."""
    for pod in pods[:MOST_LISTED]:
        if pod in placed:
            yield f"{sign} {pod_link(pod)}"
        else:
            placed.add(pod)
            yield f'{sign} <span id="{pod_anchor(pod)}">{escape(pod)}</span>'
    if len(pods) > MOST_LISTED:
        yield f"{sign} {len(pods) - MOST_LISTED} more"


MAX_EMBEDDED = 400_000  #: a page with a longer document, in characters, leaves its JSON out
_MOST_BYTES = 4  #: of a character
_MANY_NODES = 60  #: a table of more rows is folded

_escaped = lru_cache(maxsize=8192)(escape)  #: cells of tables say the same over and over


def render_html(
    blocks: Iterable[Block], view: View[Any], document: Report, whole: str, cases: Iterable[Case], *, command: str
) -> str:
    """Return the page.

    `blocks` and `document`: with every text made visible.
    `view`: of the document.
    `whole`: the document at the end of the page, from `embedded`.
    `cases`: for the verdict at its top.
    `command`: that makes it; empty where it is not known.
    """
    names = ("page.html", "page.css", "page.js")
    page, style, script = ((get_data("kplan.report.html", name) or b"").decode() for name in names)
    cluster = _map_of(document)
    inner = _Inside(cluster, document, has_bars=view.has_bars)
    title, marks = document.sentence, view.marks(document)
    moments = view.moments
    if cluster is not None and not moments:
        is_left = any(node.leaving for node in cluster.nodes)
        moments = {"before": "Before", "after": "After"} if is_left else {"after": "The cluster with the new pods"}
    timeline = getattr(document, "timeline", UNSET)
    parts = [
        verdict_box(document, cases),
        "" if cluster is None else f"<h2>The cluster</h2>{picture(cluster, moments, marks)}",
        timeline_figures(timeline, getattr(document, "steps", ())) if isinstance(timeline, Timeline) else "",
        "<h2>What was decided</h2>",
        "\n".join(inner.body(blocks)),
        scores_by_plugin(getattr(document, "placements", ())),
        "" if cluster is None else nodes_table(cluster, inner.anchored, marks),
        _facts(document, command),
        whole,
    ]
    # The tag of the page's own script is in capitals, so that a search for ``<script`` finds only injected ones.
    return Template(page).substitute(title=escape(title), style=style, body="".join(parts), script=script)


def _map_of(document: Report) -> ClusterMap | None:
    cluster = getattr(document, "cluster", UNSET)
    return cluster if isinstance(cluster, ClusterMap) and cluster.nodes else None


def _facts(document: Report, command: str) -> str:
    snapshot, scheduler = document.snapshot, document.scheduler
    facts = [
        ("Command", command),
        ("Cluster", f"{snapshot.source} ({snapshot.nodes} nodes, {snapshot.pods} pods)"),
        ("Snapshot", f"{snapshot.digest}{', taken ' + snapshot.taken_at if snapshot.taken_at else ''}"),
        ("Scheduler", f"v{scheduler.kubernetes_version}, configuration {scheduler.config_source}"),
        ("Generated", document.generated_at),
    ]
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts if value)
    return f"<h2>About this report</h2><dl>{items}</dl>"


def embedded(document: Report, encoded: bytes) -> str:
    """Return a document but for its map of the cluster as HTML; `encoded`: it in JSON, as it is."""
    if _map_of(document) is not None:
        encoded = encode(replace(document, cluster=UNSET))
    is_short = len(encoded) <= _MOST_BYTES * MAX_EMBEDDED  # else it is surely too long, and need not be laid out
    text = escape_json(msgspec.json.format(encoded).decode()) if is_short else ""
    if not is_short or len(text) > MAX_EMBEDDED:
        return '<p class="note">The whole document is too large to repeat here; -o json prints it.</p>'
    return f'<details><summary>The whole document as JSON</summary><pre id="document">{escape(text)}</pre></details>'


class _Inside:
    """The report's blocks as HTML, with links between pods and nodes.

    `cluster`: the nodes that the page has a table of.
    `document`: whose placements have a heading each.
    `has_bars`: numbers of tables are drawn as bars.
    """

    def __init__(self, cluster: ClusterMap | None, document: Report, *, has_bars: bool) -> None:
        self._nodes = {} if cluster is None else {node.name: index for index, node in enumerate(cluster.nodes)}
        self._pods = {placement.pod.key for placement in getattr(document, "placements", ())}
        self.anchored: set[str] = set()  #: pods that have a heading of their own, once the body is written
        self._has_bars = has_bars

    def body(self, blocks: Iterable[Block]) -> Iterator[str]:
        """Yield the blocks as HTML; items that follow each other make one list."""
        in_list = False
        for block in blocks:
            is_item = isinstance(block, Line) and block.is_item
            if is_item != in_list:
                yield "<ul>" if is_item else "</ul>"
            in_list = is_item
            yield self._block(block)
        if in_list:
            yield "</ul>"

    def _block(self, block: Block) -> str:
        match block:
            case Heading(level=0):
                return ""
            case Heading(spans, level):
                tag = f"h{level + 2}"
                return f"<{tag}{self._id(plain(spans))}>{self._inline(spans)}</{tag}>"
            case Line(spans, _, is_item, is_task):
                tag = "li" if is_item else "p"
                box = '<input type="checkbox"> ' if is_task else ""
                return f"<{tag}>{box}{self._inline(spans)}</{tag}>"
            case Preformatted("", text, _):
                return f"<pre>{escape(text)}</pre>"
            case Preformatted(label, text, _):
                return f"<details open><summary>{escape(label)}</summary><pre>{escape(text)}</pre></details>"
            case Table():
                return self._table(block)

    def _id(self, heading: str) -> str:
        """Return the id attribute for the first heading about a pod, where links lead; empty for other headings."""
        key = heading.split(" ", 1)[0].removesuffix(":")
        if key not in self._pods or key in self.anchored:
            return ""
        self.anchored.add(key)
        return f' id="{pod_anchor(key)}"'

    def _table(self, table: Table) -> str:
        sides = [' class="right"' if side == ">" else "" for side in table.align]
        heads = zip(table.header, sides, strict=True)
        head = "".join(f'<th scope="col"{side}>{escape(text)}</th>' for text, side in heads)
        labels = [f' data-label="{escape(text)}"' if text else "" for text in table.header]
        columns = map(self._column, zip(*table.rows, strict=True), sides, labels)
        rows = "\n".join(f"<tr>{''.join(cells)}</tr>" for cells in zip(*columns, strict=True))
        note = f'<p class="note">{escape(plain(table.note))}</p>' if table.note else ""
        body = f'<table class="data"><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>'
        if len(table.rows) > _MANY_NODES:
            summary = f"All {len(table.rows)} rows"
            return f'<details><summary>{summary}</summary><div class="scroll">{body}</div></details>{note}'
        return f'<div class="scroll">{body}</div>{note}'

    def _column(self, cells: Sequence[Cell], side: str, label: str) -> list[str]:
        """Return the cells of a column; numbers get bars where the page draws them."""
        texts = list(map(self._styled, cells))
        has_bars = self._has_bars and len(cells) > 1 and all(plain(cell).isdecimal() for cell in cells)
        numbers = [int(plain(cell)) for cell in cells] if has_bars else []
        if not (most := max(numbers, default=0)):
            return [f"<td{side}{label}>{text}</td>" for text in texts]
        start = f'<td{label} class="right amount" style="--part:'
        return [f'{start}{100 * number / most:.4g}%">{text}</td>' for number, text in zip(numbers, texts, strict=True)]

    def _inline(self, cells: Iterable[Cell]) -> str:
        return "".join(self._styled(cell) for cell in cells)

    def _styled(self, cell: Cell) -> str:
        name = cell if isinstance(cell, str) else cell.text
        text = _escaped(name)
        if name in self._nodes:
            text = f'<a href="#{node_anchor(self._nodes[name])}">{text}</a>'
        return f'<span class="{cell.style}">{text}</span>' if isinstance(cell, Span) and cell.style else text


MOST_PLACEMENTS = 20
MOST_NODES = 12


def scores_by_plugin(placements: Sequence[PodPlacement]) -> str:
    """Return a table of scores for each placement that has them; equal tables are shown once."""
    first: dict[str, str] = {}  # table -> the first pod that has it
    for placement in placements:
        if placement.scores and len(first) < MOST_PLACEMENTS:
            first.setdefault(_table(placement), placement.pod.key)
    drawn = "".join(f"<details><summary>{escape(key)}</summary>{table}</details>" for table, key in first.items())
    return f"<h2>Scores by plugin</h2>{drawn}" if drawn else ""


def _table(placement: PodPlacement) -> str:
    best = sorted(placement.scores.items(), key=lambda item: (-item[1].total, item[0]))[:MOST_NODES]
    plugins = sorted({plugin for _, score in best for plugin in score.plugins})
    most = {plugin: max(abs(score.plugins.get(plugin, 0)) for _, score in best) or 1 for plugin in plugins}
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("Node", *plugins, "Total"))
    rows = ""
    for node, score in best:
        cells = "".join(_cell(score.plugins.get(plugin, 0), most[plugin]) for plugin in plugins)
        rows += f'<tr><th scope="row">{escape(node)}</th>{cells}<td class="right">{score.total}</td></tr>'
    table = f'<table class="data scores"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div class="scroll">{table}</div>'


def _cell(value: int, most: int) -> str:
    width = f"{100 * max(value, 0) / most:.4g}"
    bar = f'<rect class="room" width="100" height="8"/><rect class="kept" width="{width}" height="8"/>'
    svg = f'<svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">{bar}</svg>'
    return f'<td class="score" data-value="{value}">{value}{svg}</td>'


_MOST = 5


def verdict_box(document: Report, cases: Iterable[Case]) -> str:
    verdict = document.verdict
    if verdict.failed:
        groups = alike(case for case in cases if case.state == "failed")
        heading = f"<strong>Verdict: failed (exit code {verdict.exit_code})</strong>"
    else:  # what went wrong all the same
        groups = alike(case for case in cases if case.state == "skipped" and is_failure(case.rule))
        if not groups:
            return '<div class="verdict"><p><strong>Verdict: passed</strong></p></div>'
        conditions = escape(", ".join(verdict.fail_on)) or "none"
        heading = (
            "<strong>Not all is well.</strong> The exit code is 0 all the same: "
            f"--fail-on is {conditions}, which counts none of this."
        )
    items = [_failure(group) for group in groups] or [f"<li>{escape(reason)}</li>" for reason in verdict.because]
    more = [f"<li>and {len(items) - _MOST} more</li>"] if len(items) > _MOST else []
    return f'<div class="verdict failed"><p>{heading}</p><ul>{"".join([*items[:_MOST], *more])}</ul></div>'


def _failure(cases: Sequence[Case]) -> str:
    case = cases[0]
    facts = [*numbered(cases), *([case.place] if case.place else [])]
    first, _, rest = case.message.partition("\n")
    why = f"{first}. {rest}".replace("\n", " ") if rest and case.kind == "workload" else first
    lines = [f"<strong>{escape(case.about)}</strong>"]
    lines += [f'<span class="dim">{escape(", ".join(facts))}</span>'] if facts else []
    lines.append(f'<span class="why">{escape(why)}</span>')
    helps = case.would_help or case.hint
    lines += [f'<span class="help">What would help: {escape(helps)}</span>'] if helps else []
    return f"<li>{''.join(lines)}</li>"


def refused_in_html(report: CaseReport) -> str:
    items = "".join(f"<li>{escape(case.detail)}</li>" for case in report.cases)
    title = escape(report.title)
    head = f'<meta charset="utf-8"><title>{title}</title>'
    return f'<!doctype html><html lang="en">{head}<h1>{title}</h1><ul>{items}</ul>\n'
