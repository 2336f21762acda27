"""What a report for people consists of, before it is text, Markdown or HTML.

A document's module says what to tell, once; each format says how a heading, a line or a table looks in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

Style = Literal["", "good", "bad", "warn", "dim", "strong", "code", "header"]
"""How a piece of text may stand out. Nothing depends on it to be understood."""


class Span(msgspec.Struct, frozen=True):
    """A piece of text in one style."""

    text: str
    style: Style = ""


Cell = str | Span


class Heading(msgspec.Struct, frozen=True):
    """What the following blocks are about."""

    spans: tuple[Cell, ...]
    level: int = 1  #: 0 for the verdict, 1 for a pod or a group of pods, 2 for a part of what is said of it
    about: str = ""  #: who that is, in short, for whoever refers to what is told here; empty for the heading itself
    folds: bool = True  #: what follows need not be seen at once, where a format can hide it


class Line(msgspec.Struct, frozen=True):
    """A sentence or two, wrapped where it must be."""

    spans: tuple[Cell, ...]
    indent: int = 1  #: depth, in steps
    is_item: bool = False  #: one of a list


class Table(msgspec.Struct, frozen=True):
    """Rows under a header; the last column is wrapped where it must be."""

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    align: str  #: ``<`` or ``>`` for each column
    indent: int = 1
    note: str = ""  #: what is left out, below the table


class Preformatted(msgspec.Struct, frozen=True):
    """A text that is quoted as it is, such as kube-scheduler's message."""

    label: str
    text: str
    indent: int = 1


Block = Heading | Line | Table | Preformatted


def line(*spans: Cell, indent: int = 1, is_item: bool = False) -> Line:
    """Make a line of pieces."""
    return Line(spans, indent, is_item)


def plain(cells: Cell | Iterable[Cell]) -> str:
    """Return the text of a cell or of several pieces, without style."""
    if isinstance(cells, str):
        return cells
    if isinstance(cells, Span):
        return cells.text
    return "".join(plain(cell) for cell in cells)


def spans_of(cells: Sequence[Cell]) -> list[Span]:
    """Return pieces that all carry a style, the empty one included."""
    return [cell if isinstance(cell, Span) else Span(cell) for cell in cells]
