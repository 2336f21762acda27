"""Reports as Markdown, for a comment on a pull request or a job summary."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kplan.report.blocks import Block, Cell, Heading, Line, Preformatted, Span, Table, plain

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~])")
_BACKTICKS = re.compile("`+")
_BASE_LEVEL = 2


def render_markdown(blocks: Iterable[Block], title: str) -> str:
    """Write a report as Markdown with GitHub's tables."""
    parts = [f"# {escape_markdown(title)}"]
    in_list = False
    for block in blocks:
        text = _block(block)
        is_item = isinstance(block, Line) and block.is_item
        parts.append(("" if in_list and is_item else "\n") + text)
        in_list = is_item
    return "\n".join(parts) + "\n"


def _block(block: Block) -> str:
    match block:
        case Heading(spans, level):
            return f"{'#' * (_BASE_LEVEL + level - 1)} {_inline(spans)}"
        case Line(spans, _, is_item):
            return f"- {_inline(spans)}" if is_item else _inline(spans)
        case Preformatted(label, text, _):
            fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
            return f"{escape_markdown(label)}:\n\n{fence}text\n{text}\n{fence}"
        case Table():
            return _table(block)


def _table(table: Table) -> str:
    from tabulate import tabulate

    rows = [[_inline((cell,)) for cell in row] for row in table.rows]
    sides = ["right" if side == ">" else "left" for side in table.align]
    text = tabulate(rows, table.header, tablefmt="pipe", colalign=sides, disable_numparse=True)
    return f"{text}\n\n{escape_markdown(table.note)}" if table.note else text


def _inline(cells: Iterable[Cell]) -> str:
    return "".join(_styled(cell) for cell in cells)


def _styled(cell: Cell) -> str:
    text = escape_markdown(plain(cell))
    if isinstance(cell, Span) and cell.style in ("strong", "good", "bad", "warn") and text.strip():
        return f"**{text}**"
    return text


def escape_markdown(text: str) -> str:
    """Return a text as one line in which nothing is markup."""
    return _SPECIAL.sub(r"\\\1", text).replace("\n", " ")
