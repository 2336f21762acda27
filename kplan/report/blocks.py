"""The blocks that a report for people consists of, before it is text, Markdown or HTML.

The view of a document yields them once; each format defines how a heading, a line or a table looks in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

Style = Literal["", "good", "bad", "warn", "dim", "strong", "code", "header"]
"""How a piece of text stands out; a report is understood without it."""


NO_BREAK = "\ue000"
"""A blank at which no cell of a table folds; foreign texts cannot hold it, since `kplan.visible` escapes it."""


class Span(msgspec.Struct, frozen=True):
    """A piece of text in one style."""

    text: str
    style: Style = ""


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
    note: str = ""  #: a line below the table, such as what is left out


class Preformatted(msgspec.Struct, frozen=True):
    """A text that is quoted verbatim, such as kube-scheduler's message."""

    label: str  #: empty for commands, a line each, which are to be pasted
    text: str
    indent: int = 1


Block = Heading | Line | Table | Preformatted


def line(*spans: Cell, indent: int = 1, is_item: bool = False) -> Line:
    """Return a line of pieces."""
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
