"""What holds for reports of every kind: the verdict stands last, and nothing is shown twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from kplan.api.quantity import listing
from kplan.report.blocks import Block, Heading, Line, Span, Table, line, plain

_LEAST_SAID_ELSEWHERE = 2
"""A section of fewer blocks is repeated; a longer one only refers to the place where it stands already."""

_NOTHING = frozenset({"", "-"})
_MOST_OBJECTS = 3
_MOST_LINES = 5


def arranged(blocks: Iterable[Block], verdict: Block, *, is_wide: bool) -> list[Block]:
    """Return a report with its verdict in the last line, and repeated sections and columns once.

    Parameters
    ----------
    is_wide : tables keep all of their columns
    """
    sections = list(_sections_once(list(blocks)))
    shown = sections if is_wide else [part for block in sections for part in _columns_once(block)]
    return [*shown, verdict]


def failure_words(lines: Sequence[str], objects: Mapping[str, Sequence[str]]) -> str:
    """Return the reasons of a failure in one line: the first of some lines, then what happens to which objects.

    Parameters
    ----------
    objects : what happens -> the names of the objects; one that is empty for what happens to no object
    """
    left_out = f"; and {len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else ""
    named = (f"{text}: {listing(names, most=_MOST_OBJECTS)}" if any(names) else text for text, names in objects.items())
    return "; ".join([*lines[:_MOST_LINES], *named]) + left_out


def _sections_once(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield the blocks; a section that equals the section of another pod only refers to it."""
    first_about: dict[tuple[Block, ...], str] = {}
    about = ""
    index = 0
    while index < len(blocks):
        block = blocks[index]
        if not isinstance(block, Heading) or block.level == 0:
            yield block
            index += 1
            continue
        about = (block.about or plain(block.spans)) if block.level == 1 else about
        end = end_of_section(blocks, index)
        body = tuple(blocks[index + 1 : end])
        if len(body) < _LEAST_SAID_ELSEWHERE:
            yield block
            index += 1
            continue
        key = body if block.level == 1 else (block, *body)
        if key in first_about:
            yield block
            yield line(Span(f"same as for {first_about[key]}", "dim"), indent=block.level)
            index = end
            continue
        first_about[key] = about
        yield block
        index += 1


def end_of_section(blocks: Sequence[Block], start: int) -> int:
    """Return the index at which the section of a heading ends."""
    head = blocks[start]
    level = head.level if isinstance(head, Heading) else 0
    for index in range(start + 1, len(blocks)):
        block = blocks[index]
        if isinstance(block, Heading) and block.level <= level:
            return index
    return len(blocks)


def _columns_once(block: Block) -> Iterator[Block]:
    """Yield a line with the columns that are equal in all rows of a table, then the table without them.

    The first column names the rows and stays. A table of which only that would be left stays whole.
    """
    if not isinstance(block, Table) or not block.rows:
        yield block
        return
    columns = list(zip(*block.rows, strict=True))
    texts = [{plain(cell) for cell in column} for column in columns]
    is_single_row = len(block.rows) == 1
    remaining = [
        number
        for number, different in enumerate(texts)
        if number == 0 or len(different) > 1 or (is_single_row and not different <= _NOTHING)
    ]
    if len(remaining) == 1:
        yield block
        return
    dropped = {
        block.header[number]: plain(column[0]) for number, column in enumerate(columns) if number not in remaining
    }
    facts = [f"{name} {text}" for name, text in dropped.items() if text not in _NOTHING]
    if facts:
        yield Line((Span(f"In every row: {', '.join(facts)}", "dim"),), block.indent)
    yield replace(
        block,
        header=tuple(block.header[number] for number in remaining),
        rows=tuple(tuple(row[number] for number in remaining) for row in block.rows),
        align="".join(block.align[number] for number in remaining),
    )
