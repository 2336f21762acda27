"""Reports as one HTML file that needs nothing else: no script, no font, no image from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from kplan.documents.base import Report
from kplan.report.blocks import Block, Cell, Heading, Line, Preformatted, Span, Table, plain
from kplan.visible import as_json

__all__ = ["render_html"]

_CSS = """
:root { color-scheme: light dark; --fg: #1b1f24; --bg: #ffffff; --dim: #59636e; --rule: #d1d9e0;
  --good: #1a7f37; --bad: #cf222e; --warn: #9a6700; --panel: #f6f8fa; }
@media (prefers-color-scheme: dark) { :root { --fg: #e6edf3; --bg: #0d1117; --dim: #9198a1; --rule: #3d444d;
  --good: #3fb950; --bad: #f85149; --warn: #d29922; --panel: #151b23; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--fg); background: var(--bg); max-width: 72rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; border-top: 1px solid var(--rule); padding-top: 1.2rem; }
h3 { font-size: 1rem; margin-bottom: .2rem; }
p { margin: .3rem 0; } ul { margin: .2rem 0 .6rem; padding-left: 1.4rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; margin: .6rem 0; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--rule); }
th { color: var(--dim); font-weight: 600; } .right { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: var(--panel); padding: .6rem .8rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
.warn { color: var(--warn); font-weight: 600; } .dim, .note { color: var(--dim); } .strong { font-weight: 600; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; color: var(--dim); }
dd { margin: 0; overflow-wrap: anywhere; }
"""


def render_html(blocks: Iterable[Block], title: str, document: Report, as_it_is: Report) -> str:
    """Write a page with the report, and the whole document, as it is, at its end."""
    body = "\n".join(_body(blocks))
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in _facts(document))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_CSS}</style>
</head>
<body>
<h1>{escape(title)}</h1>
<dl>{facts}</dl>
{body}
<details>
<summary>The whole document as JSON</summary>
<pre id="document">{escape(as_json(as_it_is.to_dict()))}</pre>
</details>
</body>
</html>
"""


def _facts(document: Report) -> list[tuple[str, str]]:
    snapshot, scheduler = document.snapshot, document.scheduler
    return [
        ("Cluster", f"{snapshot.source} ({snapshot.nodes} nodes, {snapshot.pods} pods)"),
        ("Snapshot", f"{snapshot.digest}{', taken ' + snapshot.taken_at if snapshot.taken_at else ''}"),
        ("Scheduler", f"v{scheduler.kubernetes_version}, configuration {scheduler.config_source}"),
        ("Generated", document.generated_at),
    ]


def _body(blocks: Iterable[Block]) -> Iterator[str]:
    in_list = False
    for block in blocks:
        is_item = isinstance(block, Line) and block.is_item
        if is_item != in_list:
            yield "<ul>" if is_item else "</ul>"
        in_list = is_item
        yield _block(block)
    if in_list:
        yield "</ul>"


def _block(block: Block) -> str:
    match block:
        case Heading(spans, level):
            return f"<h{level + 1}>{_inline(spans)}</h{level + 1}>"
        case Line(spans, _, is_item):
            tag = "li" if is_item else "p"
            return f"<{tag}>{_inline(spans)}</{tag}>"
        case Preformatted(label, text, _):
            return f'<p class="dim">{escape(label)}:</p><pre>{escape(text)}</pre>'
        case Table():
            return _table(block)


def _table(table: Table) -> str:
    sides = [' class="right"' if side == ">" else "" for side in table.align]
    head = "".join(f"<th{side}>{escape(text)}</th>" for text, side in zip(table.header, sides, strict=True))
    rows = "\n".join(
        "<tr>" + "".join(f"<td{side}>{_inline((cell,))}</td>" for cell, side in zip(row, sides, strict=True)) + "</tr>"
        for row in table.rows
    )
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>{note}'


def _inline(cells: Iterable[Cell]) -> str:
    return "".join(_styled(cell) for cell in cells)


def _styled(cell: Cell) -> str:
    text = escape(plain(cell))
    return f'<span class="{cell.style}">{text}</span>' if isinstance(cell, Span) and cell.style else text
