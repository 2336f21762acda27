"""Tables as text: columns that fit the width; long cells fold between words, or after dots and dashes.

Rich draws the tables of terminals, tabulate those of Markdown. By hand are the widths of columns and where cells
fold: in 129 tables of a dozen reports, 60 to 100 columns wide, Rich by itself breaks 205 words anywhere, tabulate
(given these widths) 64, and this 3, on as many lines. By hand is plain text, too: to import tabulate takes 18 ms.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from kplan.report.blocks import NO_BREAK, Table, plain, spans_of

if TYPE_CHECKING:
    from rich.table import Table as RichTable

GAP = 2
_STEP = "  "
_COMFORTABLE = 24
"""The last column, most often a sentence, gives way first, down to this.

Then the widest does that can be folded between words, then names do, down to the same; only then all down to words and
pieces of names.
"""

_PIECE = re.compile(r"\s+|\S+?(?:(?<=\w[-/,;=:])(?=\w)|(?<=\w\.)(?=[A-Za-z])|(?<=[a-z])(?=[A-Z][a-z])|(?=\s)|\Z)")
"""What stays together: blanks, or a word up to its next dash, slash, comma, dot or capital; numbers keep their dots."""


def fold(text: str, width: int) -> list[str]:
    """Return a text broken into lines between words; a word that is too long breaks after dots, dashes and the like."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        for number, piece in enumerate(_PIECE.findall(word)):
            blank = " " if line and not number else ""
            stays_whole = not number and len(word) <= width < len(line) + len(blank) + len(word)
            if line and (stays_whole or len(line) + len(blank) + len(piece) > width):
                lines.append(line)
                line, blank = "", ""
            line += blank + piece
    return [line.replace(NO_BREAK, " ") for line in (*lines, line)]


def plain_table(table: Table, width: int) -> list[str]:
    """Return the lines of a table without colour."""
    limits = _widths(table, width)
    rows = [
        [fold(plain(cell), limit) for cell, limit in zip(row, limits, strict=True)]
        for row in (table.header, *table.rows)
    ]
    widths = [max(len(line) for cell in column for line in cell) for column in zip(*rows, strict=True)]
    align = [str.rjust if side == ">" else str.ljust for side in table.align]
    return [
        (" " * GAP).join([pad(cell, width) for pad, cell, width in zip(align, cells, widths, strict=True)]).rstrip()
        for row in rows
        for cells in zip_longest(*row, fillvalue="")
    ]


def rich_table(table: Table, width: int, styles: dict[str, str]) -> RichTable:
    """Return a table for a terminal: that of `plain_table` in colour."""
    from rich.table import Table as RichTable
    from rich.text import Text

    widths = _widths(table, width)
    terminal_table = RichTable(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style=styles["header"])
    for heading, side, limit in zip(table.header, table.align, widths, strict=True):
        terminal_table.add_column(
            "\n".join(fold(heading, limit)), justify="right" if side == ">" else "left", width=limit, no_wrap=True
        )
    for row in table.rows:
        terminal_table.add_row(
            *(
                Text("\n".join(fold(span.text, limit)), styles.get(span.style, ""))
                for span, limit in zip(spans_of(row), widths, strict=True)
            )
        )
    return terminal_table


def natural_width(table: Table) -> int:
    """Return the width of a table without folded cells."""
    columns = zip(table.header, *table.rows, strict=True)
    widths = [max(len(plain(cell)) for cell in column) for column in columns]
    return len(_STEP) * table.indent + sum(widths) + GAP * (len(widths) - 1)


def _widths(table: Table, width: int) -> list[int]:
    """Return a width for each column, so that all fit into `width` as far as the words allow."""
    rows = [[" ".join(plain(cell).split()) for cell in row] for row in (table.header, *table.rows)]
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, cells)) for cells in columns]
    words = [max(len(word) for cell in cells for word in ["", *cell.split()]) for cells in columns]
    pieces = [max(len(piece) for cell in cells for piece in ["", *_PIECE.findall(cell)]) for cells in columns]
    last = min(max(words[-1], _COMFORTABLE), widths[-1]) if table.align.endswith("<") else widths[-1]
    prose, names = (
        [max(least, min(width, _COMFORTABLE)) for least, width in zip(leasts, widths, strict=True)]
        for leasts in (words, pieces)
    )
    for least in ([*widths[:-1], last], prose, names, words, pieces):
        _narrow(widths, least, width - GAP * (len(widths) - 1))
    return widths


def _narrow(widths: list[int], least: Sequence[int], most: int) -> None:
    """Narrow the widest columns that may be narrower, until all together are at most `most` wide."""
    while sum(widths) > most:
        index = max(range(len(widths)), key=lambda column: (widths[column] > least[column], widths[column]))
        if widths[index] <= least[index]:
            return
        widths[index] -= 1
