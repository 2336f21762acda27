"""Reports as Markdown, for a comment on a pull request or a job summary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from kplan.documents.base import Verdict
from kplan.report.arranging import end_of_section, failure_text
from kplan.report.blocks import Block, Cell, Heading, Line, Preformatted, Span, Table, plain

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~])")
_AT_FIRST = re.compile(r"^([-+#])")
"""Characters that make a line a heading or an item of a list."""

_BACKTICKS = re.compile("`+")


def render_markdown(blocks: Sequence[Block], title: str, verdict: Verdict) -> str:
    """Return a report as Markdown with GitHub's tables: the verdict, the summary, and details that are folded away.

    Parameters
    ----------
    title : the answer in one line; it stands in place of the blocks' own verdict
    """
    ending = " - failed" if verdict.failed else ""
    parts = [f"## {escape_markdown(title)}{ending}"]
    if verdict.failed:
        parts.append(f"**Failed**{escape_markdown(failure_text(verdict))}")
    content = [block for block in blocks if not isinstance(block, Heading) or block.level > 0]
    return "\n\n".join([*parts, *_parts(content)]) + "\n"


def _parts(blocks: Sequence[Block]) -> Iterator[str]:
    """Yield paragraphs: sections, blocks, and items that follow each other as one list."""
    index = 0
    while index < len(blocks):
        block = blocks[index]
        end = index + 1
        if isinstance(block, Heading):
            end = end_of_section(blocks, index)
            yield from _section(block, blocks[index + 1 : end])
        elif _is_item(block):
            while end < len(blocks) and _is_item(blocks[end]):
                end += 1
            yield "\n".join(_block(item) for item in blocks[index:end])
        else:
            yield _block(block)
        index = end


def _section(heading: Heading, body: Sequence[Block]) -> Iterator[str]:
    """Yield a section; one that may fold is folded away, with the blank lines around it that GitHub needs."""
    if not body:
        yield f"**{_inline(map(plain, heading.spans))}**"
    elif heading.folds:
        yield f"<details><summary>{escape(plain(heading.spans))}</summary>"
        yield from _parts(body)
        yield "</details>"
    else:
        yield f"### {_inline(map(plain, heading.spans))}"
        yield from _parts(body)


def _is_item(block: Block) -> bool:
    return isinstance(block, Line) and block.is_item


def _block(block: Block) -> str:
    match block:
        case Line(spans, _, is_item):
            return f"- {_inline(spans)}" if is_item else _AT_FIRST.sub(r"\\\1", _inline(spans))
        case Preformatted(label, text, _):
            fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
            return f"{escape_markdown(label)}:\n\n{fence}text\n{text}\n{fence}"
        case Table():
            return _table(block)
        case Heading(spans):
            return _inline(spans)


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
