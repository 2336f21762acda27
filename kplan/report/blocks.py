"""The blocks that a report for people consists of, before it is text, Markdown or HTML.

The view of a document yields them once; each format defines how a heading, a line or a table looks in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

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
    for block in blocks:
        match block:
            case Line(spans, _, _) | Heading(spans):
                rest = _without(spans)
                if rest or not spans:
                    yield replace(block, spans=rest)
            case Table():
                yield replace(block, note=_without(noted(block)) if block.note else "")
            case _:
                yield block


def _without(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    return tuple(cell for cell in cells if not isinstance(cell, Span) or cell.style != "hint")
