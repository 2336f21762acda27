"""Scores of the best nodes by plugin, as small bars side by side: which plugin decides for which node."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from kplan.documents.placement import NodeScore, PodPlacement

MOST_PLACEMENTS = 20
MOST_NODES = 12


def scores_by_plugin(placements: Sequence[PodPlacement]) -> str:
    """Return a table of scores for each placement that has them; equal tables are shown once."""
    drawn: list[str] = []
    tables: set[str] = set()
    for placement in placements:
        if not placement.scores:
            continue
        table = _table(placement)
        if table not in tables and len(drawn) < MOST_PLACEMENTS:
            tables.add(table)
            drawn.append(f"<details><summary>{escape(placement.pod.key)}</summary>{table}</details>")
    return f"<h2>Scores by plugin</h2>{''.join(drawn)}" if drawn else ""


def _table(placement: PodPlacement) -> str:
    best = sorted(placement.scores.items(), key=lambda item: (-item[1].total, item[0]))[:MOST_NODES]
    plugins = sorted({plugin for _, score in best for plugin in score.plugins})
    most = {plugin: max(abs(score.plugins.get(plugin, 0)) for _, score in best) or 1 for plugin in plugins}
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("Node", *plugins, "Total"))
    rows = "".join(_row(node, score, plugins, most) for node, score in best)
    table = f'<table class="data scores"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div class="scroll">{table}</div>'


def _row(node: str, score: NodeScore, plugins: Sequence[str], most: dict[str, int]) -> str:
    cells = "".join(_cell(score.plugins.get(plugin, 0), most[plugin]) for plugin in plugins)
    return f'<tr><th scope="row">{escape(node)}</th>{cells}<td class="right">{score.total}</td></tr>'


def _cell(value: int, most: int) -> str:
    width = f"{100 * max(value, 0) / most:.4g}"
    bar = f'<rect class="room" width="100" height="8"/><rect class="kept" width="{width}" height="8"/>'
    svg = f'<svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">{bar}</svg>'
    return f'<td class="score" data-value="{value}">{value}{svg}</td>'
