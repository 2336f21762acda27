"""The blocks that a report for people consists of, before it is text, Markdown or HTML.

The view of a document yields them once; each format defines how a heading, a line or a table looks in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from kplan.api.quantity import listing

Style = Literal["", "good", "bad", "warn", "dim", "strong", "code", "header", "hint"]
"""How a piece of text stands out; a report is understood without it. A hint is for who types commands."""


NO_BREAK = "\ue000"
"""A blank at which no cell of a table folds; foreign texts cannot hold it, since `kplan.visible` escapes it."""


class Span(msgspec.Struct, frozen=True):
    """A piece of text in one style."""

    text: str
    style: Style = ""
    href: str = ""  #: the address of what a cell of a table is about, in a format for comments; written by kplan


Cell = str | Span


class Heading(msgspec.Struct, frozen=True):
    """A heading of the blocks that follow."""

    spans: tuple[Cell, ...]
    level: int = 1  #: 0 for the verdict, 1 for a pod or a group of pods, 2 for a part of its section
    about: str = ""  #: the short name by which other sections refer to this one; empty for the text of the heading
    folds: bool = True  #: the section is folded away in formats that can


class Line(msgspec.Struct, frozen=True):
    """A sentence or two, wrapped at the width."""

    spans: tuple[Cell, ...]
    indent: int = 1  #: depth, in steps
    is_item: bool = False  #: one of a list
    is_task: bool = False  #: to be ticked off


class Table(msgspec.Struct, frozen=True):
    """Rows under a header; columns fold to fit the width."""

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    align: str  #: ``<`` or ``>`` for each column
    indent: int = 1
    note: str | tuple[Cell, ...] = ""  #: a line below the table, such as what is left out


class Preformatted(msgspec.Struct, frozen=True):
    """A text that is quoted verbatim, such as kube-scheduler's message."""

    label: str  #: empty for commands, a line each, which are to be pasted
    text: str
    indent: int = 1


Block = Heading | Line | Table | Preformatted


def line(*spans: Cell, indent: int = 1, is_item: bool = False) -> Line:
    return Line(spans, indent, is_item)


def plain(cells: Cell | Iterable[Cell]) -> str:
    """Return the text of a cell or of several pieces, without style."""
    if isinstance(cells, str):
        return cells
    if isinstance(cells, Span):
        return cells.text
    return "".join(plain(cell) for cell in cells)


def spans_of(cells: Sequence[Cell]) -> list[Span]:
    """Return the pieces as spans; a bare text gets the empty style."""
    return [cell if isinstance(cell, Span) else Span(cell) for cell in cells]


def noted(table: Table) -> tuple[Cell, ...]:
    return (Span(table.note, "dim"),) if isinstance(table.note, str) else table.note


def without_hints(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks for who reads them where no command can be typed; lines that are hints alone are left out."""

    def without(cells: Sequence[Cell]) -> tuple[Cell, ...]:
        return tuple(cell for cell in cells if not isinstance(cell, Span) or cell.style != "hint")

    for block in blocks:
        match block:
            case Line(spans, _, _) | Heading(spans):
                if (rest := without(spans)) or not spans:
                    yield replace(block, spans=rest)
            case Table():
                yield replace(block, note=without(noted(block)) if block.note else "")
            case _:
                yield block


_LEAST_SAID_ELSEWHERE = 2
"""A section of fewer blocks is repeated; a longer one only refers to the place where it stands already."""

_NOTHING = frozenset({"", "-"})
_MOST_LINES = 5


def arranged(blocks: Iterable[Block], verdict: Block, *, is_wide: bool) -> list[Block]:
    """Return a report with its verdict last, repeated sections once and, unless `is_wide`, equal columns of tables."""
    sections = _sections_once(list(blocks))
    shown = sections if is_wide else [part for block in sections for part in _columns_once(block)]
    return [*shown, verdict]


def failure_words(lines: Sequence[str], objects: Mapping[str, Sequence[str]]) -> str:
    """Return the reasons of a failure in one line: the first of some lines, then what happens to which objects.

    `objects`: what happens -> the names of the objects; one that is empty for what happens to no object.
    """
    left_out = f"; and {len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else ""
    named = (f"{text}: {listing(names)}" if any(names) else text for text, names in objects.items())
    return "; ".join([*lines[:_MOST_LINES], *named]) + left_out


def _sections_once(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield the blocks; a section that equals the section of another pod only refers to it."""
    first_about: dict[tuple[Block, ...], str] = {}
    about = ""
    end = 0
    for index, block in enumerate(blocks):
        if index < end:  # in a section that was told
            continue
        yield block
        if not isinstance(block, Heading) or block.level == 0:
            continue
        about = (block.about or plain(block.spans)) if block.level == 1 else about
        end_of_own = end_of_section(blocks, index)
        body = tuple(blocks[index + 1 : end_of_own])
        if len(body) < _LEAST_SAID_ELSEWHERE:
            continue
        key = body if block.level == 1 else (block, *body)
        if key in first_about:
            yield line(Span(f"same as for {first_about[key]}", "dim"), indent=block.level)
            end = end_of_own
        else:
            first_about[key] = about


def end_of_section(blocks: Sequence[Block], start: int) -> int:
    head = blocks[start]
    level = head.level if isinstance(head, Heading) else 0
    others = ((index, blocks[index]) for index in range(start + 1, len(blocks)))
    return next((index for index, one in others if isinstance(one, Heading) and one.level <= level), len(blocks))


def _columns_once(block: Block) -> Iterator[Block]:
    """Yield a line with the columns that are equal in all rows of a table, then the table without them.

    The first column names the rows and stays. A table of which only that would be left stays whole.
    """
    if not isinstance(block, Table) or not block.rows:
        yield block
        return
    texts = [{plain(cell) for cell in column} for column in zip(*block.rows, strict=True)]
    is_single_row = len(block.rows) == 1
    remaining = [
        number
        for number, different in enumerate(texts)
        if number == 0 or len(different) > 1 or (is_single_row and not different <= _NOTHING)
    ]
    if len(remaining) == 1:
        yield block
        return
    dropped = ((block.header[number], *text) for number, text in enumerate(texts) if number not in remaining)
    if facts := [f"{name} {text}" for name, text in dropped if text not in _NOTHING]:
        yield Line((Span(f"In every row: {', '.join(facts)}", "dim"),), block.indent)
    yield replace(
        block,
        header=tuple(block.header[number] for number in remaining),
        rows=tuple(tuple(row[number] for number in remaining) for row in block.rows),
        align="".join(block.align[number] for number in remaining),
    )
