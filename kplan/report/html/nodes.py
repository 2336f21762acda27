"""All nodes as a table that sorts and filters; links of the picture and of pods lead here."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from html import escape

from kplan.documents.cluster_map import ClusterMap, NodeLoad
from kplan.report.blocks import Span
from kplan.report.html.picture import node_anchor, pod_anchor, pod_link, share

MOST_LISTED = 20
"""At most so many pods that come to a node, or leave it, are named."""


_MANY = 40
"""A table of more nodes scrolls within the page."""


def nodes_table(cluster: ClusterMap, described: Collection[str], marks: Mapping[str, Span]) -> str:
    """Return a table with a row for each node: its group, how full it is before and after, which pods come and go.

    Parameters
    ----------
    described : pods that have a heading of their own on the page; links to other pods lead to this table
    marks : node -> what the report says about it, in place of the pods that come and go
    """
    placed = set(described)
    has_groups = cluster.group_label is not None
    names = (
        "Node",
        *(("Group",) if has_groups else ()),
        *cluster.resources,
        "Verdict" if marks else "Pods that come and go",
    )
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    rows = "\n".join(_row(cluster, index, placed, marks, has_groups=has_groups) for index in range(len(cluster.nodes)))
    table = f'<table class="data"><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>'
    when = "" if marks else ", before and after"
    note = f'<p class="note">Shares of what a node offers that are requested{when}.</p>'
    long = " long" if len(cluster.nodes) > _MANY else ""
    opening = f'<div class="scroll{long}" tabindex="0" role="region" aria-labelledby="nodes">'
    return f'<h2 id="nodes">Nodes</h2>{note}{opening}{table}</div>'


def _row(cluster: ClusterMap, index: int, placed: set[str], marks: Mapping[str, Span], *, has_groups: bool) -> str:
    node = cluster.nodes[index]
    name = escape(node.name) + (" (cordoned)" if node.cordoned else "") + (" (new)" if node.new else "")
    cells = [f"<td>{name}</td>", f"<td>{escape(node.group)}</td>"] if has_groups else [f"<td>{name}</td>"]
    cells += [_share(node, position) for position in range(len(cluster.resources))]
    mark = marks.get(node.name)
    last = _moves(node, placed) if mark is None else f'<span class="{mark.style}">{escape(mark.text)}</span>'
    cells.append(f"<td>{last}</td>")
    return f'<tr id="{node_anchor(index)}">{"".join(cells)}</tr>'


def _share(node: NodeLoad, position: int) -> str:
    if not (node.allocatable[position] or node.before[position] or node.after[position]):
        return '<td class="right"></td>'
    then, now = (f"{100 * share(node, position, moment):.0f}%" for moment in ("before", "after"))
    text = now if then == now else f"{then} \u2192 {now}"
    sort = f' data-value="{100 * share(node, position, "after"):.1f}"' if then != now else ""
    return f'<td class="right"{sort}>{text}</td>'


def _moves(node: NodeLoad, placed: set[str]) -> str:
    """Return the pods that come and go, a line each; those in `placed` have an anchor already."""
    return "<br>".join([*_listed("+", node.arriving, placed), *_listed("\u2212", node.leaving, placed)])


def _listed(sign: str, pods: Sequence[str], placed: set[str]) -> Iterator[str]:
    for pod in pods[:MOST_LISTED]:
        if pod in placed:
            yield f"{sign} {pod_link(pod)}"
        else:
            placed.add(pod)
            yield f'{sign} <span id="{pod_anchor(pod)}">{escape(pod)}</span>'
    if len(pods) > MOST_LISTED:
        yield f"{sign} {len(pods) - MOST_LISTED} more"
