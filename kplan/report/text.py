"""Reports as text: the same layout for a terminal, in colour, and for a file, without.

Tables as text: columns that fit the width; long cells fold between words, or after dots and dashes.

By hand are the widths of columns and where cells fold: in 129 tables of a dozen reports, 60 to 100 columns wide, Rich
by itself breaks 205 words anywhere, tabulate (given these widths) 64, and this 3, on as many lines. So is their text: a
terminal gets the very lines of a pipe, in colour.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from kplan.report.blocks import NO_BREAK, Block, Heading, Line, Preformatted, Span, Table, noted, plain, spans_of
from kplan.report.options import ReportOptions
from kplan.visible import visible

GAP = 2
_STEP = "  "
_COMFORTABLE = 24
"""The last column, most often a sentence, gives way first, down to this.

Then the widest does that can be folded between words, then names do, down to the same; only then all down to words and
pieces of names, and at last below.
"""
_NARROWEST = 6

_PIECE = re.compile(r"\s+|\S+?(?:(?<=\w[-/,;=:])(?=\w)|(?<=\w\.)(?=[A-Za-z])|(?<=[a-z])(?=[A-Z][a-z])|(?=\s)|\Z)")
"""What stays together: blanks, or a word up to its next dash, slash, comma, dot or capital; numbers keep their dots."""

_PART = re.compile(r"\s+|\S+?(?:(?<=\w/)(?=\w)|(?=\s)|\Z)")
"""What stays together as long as there is room: a name breaks behind its namespace rather than at one of its dashes."""


_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:s|min|h|%)(?:[\s,;:.)]|\Z))")

_WORD = re.compile(r"\S+")
_LONG_NAME = re.compile(r"\w-\w")  #: a name with a dash, at which it would break


def with_units(text: str) -> str:
    """Return a text whose numbers stay on one line with their units: ``3 min 17 s`` breaks in the middle only."""
    return _BEFORE_UNIT.sub(NO_BREAK, text)


def fold(text: str, width: int) -> list[str]:
    """Return a text broken into lines between words.

    A word that is too long breaks after dots, dashes and the like, and anywhere where it has none.
    """
    return [plain(line).strip() for line in _wrapped([Span(" ".join(text.split()))], "", "", width)]


def pieces_of(word: str, width: int) -> list[str]:
    """Return the pieces between which a word may break, none longer than `width`."""
    parts: list[str] = _PART.findall(word)
    if all(len(part) <= width for part in parts):
        return parts
    pieces = [(piece, range(0, len(piece), max(width, 1))) for piece in _PIECE.findall(word)]
    return [piece[start : start + width] for piece, starts in pieces for start in starts]


def table_lines(table: Table, width: int) -> list[list[Span]]:
    """Return the lines of a table, each with a piece for each cell.

    Where names would break at their dashes, each row has its name on a line of its own, above its other cells.
    """
    limits = _widths(table, width)
    if (name := _broken_name(table, limits)) is None:
        return [line for row in _row_lines(table, limits) for line in row]
    above, below = (
        Table(table.header[part], tuple(row[part] for row in table.rows), table.align[part])
        for part in (slice(name + 1), slice(name + 1, None))
    )
    heads = _row_lines(above, _widths(above, width))
    indent = len(_STEP) if name == 0 else max(len(plain(row[0])) for row in table.rows) + GAP
    others = _row_lines(below, _widths(below, width - indent))
    margin = Span(" " * indent)
    both = zip(heads, others, strict=True)
    return [line for head, other in both for line in (*head, *([margin, *cells] for cells in other))]


def _broken_name(table: Table, limits: Sequence[int]) -> int | None:
    """Return the column of names that would break within a part, the first or the one behind a mark; None for none."""
    name = next((column for column in range(2) if _most(table, column, _WORD) > len(_STEP)), 0)
    is_last = name + 1 >= len(limits)
    is_names = table.align[name] == "<" and any(_LONG_NAME.search(plain(row[name])) for row in table.rows)
    return name if is_names and not is_last and limits[name] < _most(table, name, _PART) else None


def _most(table: Table, column: int, pattern: re.Pattern[str]) -> int:
    """Return the length of the longest piece of a column; 0 for a column that the table does not have."""
    cells = [plain(row[column]) for row in table.rows if column < len(row)]
    return max((len(piece) for cell in cells for piece in pattern.findall(cell)), default=0)


def _row_lines(table: Table, limits: Sequence[int]) -> list[list[list[Span]]]:
    """Return the lines of each row, those of the header first."""
    styled_rows = [tuple(Span(title, "header") for title in table.header), *map(spans_of, table.rows)]
    rows = [[fold(cell.text, limit) for cell, limit in zip(row, limits, strict=True)] for row in styled_rows]
    widths = [max(len(line) for cell in column for line in cell) for column in zip(*rows, strict=True)]
    align = [str.rjust if side == ">" else str.ljust for side in table.align]
    gaps = [0, *[GAP] * (len(widths) - 1)]
    lines: list[list[list[Span]]] = []
    for row, styled in zip(rows, styled_rows, strict=True):
        of_row: list[list[Span]] = []
        for cells in zip_longest(*row, fillvalue=""):
            texts = [pad(cell, width) for pad, cell, width in zip(align, cells, widths, strict=True)]
            last = max((column for column, cell in enumerate(cells) if cell), default=0)
            texts[last] = texts[last].rstrip()
            parts = zip(gaps, texts[: last + 1], styled, strict=False)
            of_row.append([Span(" " * gap + text, cell.style) for gap, text, cell in parts])
        lines.append(of_row)
    return lines


def natural_width(table: Table) -> int:
    columns = zip(table.header, *table.rows, strict=True)
    widths = [max(len(plain(cell)) for cell in column) for column in columns]
    return len(_STEP) * table.indent + sum(widths) + GAP * (len(widths) - 1)


def _widths(table: Table, width: int) -> list[int]:
    """Return a width for each column, so that all fit into `width` as far as the words allow."""
    rows = [[" ".join(with_units(plain(cell)).split()) for cell in row] for row in (table.header, *table.rows)]
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, cells)) for cells in columns]
    words, parts, pieces = (
        [max(len(piece) for cell in cells for piece in ["", *pattern.findall(cell)]) for cells in columns]
        for pattern in (_WORD, _PART, _PIECE)
    )
    last = min(max(words[-1], _COMFORTABLE), widths[-1]) if table.align.endswith("<") else widths[-1]
    prose, whole_names, names = (
        [max(least, min(width, _COMFORTABLE)) for least, width in zip(leasts, widths, strict=True)]
        for leasts in (words, parts, pieces)
    )
    least_of_all = [min(piece, _NARROWEST) for piece in pieces]
    for least in ([*widths[:-1], last], prose, whole_names, names, words, parts, pieces, least_of_all):
        _narrow(widths, least, width - GAP * (len(widths) - 1))
    return widths


def _narrow(widths: list[int], least: Sequence[int], most: int) -> None:
    """Narrow the widest columns that may be narrower, until all together are at most `most` wide."""
    while sum(widths) > most:
        index = max(range(len(widths)), key=lambda column: (widths[column] > least[column], widths[column]))
        if widths[index] <= least[index]:
            return
        widths[index] -= 1


MIN_WIDTH = 60
_DETAIL_WIDTH = 120
_RICH_STYLES = {
    "good": "green",
    "bad": "red",
    "warn": "yellow",
    "dim": "dim",
    "strong": "bold",
    "code": "cyan",
    "header": "dim",
    "hint": "dim",
}

TextLine = list[Span]


def render_plain(blocks: Iterable[Block], width: int) -> str:
    return "\n".join(plain(text_line).rstrip() for text_line in layout(blocks, width)) + "\n"


def detail_of(blocks: Iterable[Block], options: ReportOptions) -> str:
    """Return blocks as the detail of a `Case`: without colour, and as wide as pipelines show them.

    Empty where the format does not show it, and the blocks are then not even made.
    """
    return render_plain(blocks, _DETAIL_WIDTH).removesuffix("\n") if options.has_details else ""


def render_terminal(blocks: Iterable[Block], width: int) -> str:
    """Return the lines of `render_plain` with a terminal's control sequences for colour."""
    import io

    from rich.console import Console
    from rich.text import Text

    written = io.StringIO()
    console = Console(file=written, force_terminal=True, color_system="standard", legacy_windows=False)
    for text_line in layout(blocks, width):
        runs = itertools.groupby(text_line, key=lambda span: span.style)
        pieces = [("".join(span.text for span in run), _RICH_STYLES.get(style, "")) for style, run in runs]
        console.print(Text.assemble(*pieces, no_wrap=True), soft_wrap=True)
    return written.getvalue()


def layout(blocks: Iterable[Block], width: int) -> list[TextLine]:
    """Return a report as lines of at most `width` characters, but no narrower than `MIN_WIDTH`."""
    lines: list[TextLine] = []
    previous: Block | None = None
    for block in blocks:
        if previous is not None and _needs_gap(previous, block):
            lines.append([])
        lines += _lines_of(block, max(width, MIN_WIDTH))
        previous = block
    return lines


def _needs_gap(previous: Block, block: Block) -> bool:
    if isinstance(block, Heading):
        return True
    if isinstance(previous, Heading):
        return previous.level < 2 and isinstance(block, Table)
    return isinstance(block, Table) or isinstance(previous, Table)


def _lines_of(block: Block, width: int) -> list[TextLine]:
    match block:
        case Heading(spans, level):
            styled = [Span(span.text, span.style or "strong") for span in spans_of(spans)]
            return _wrapped(styled, _STEP * max(level - 1, 0), _STEP * max(level, 1), width)
        case Line(spans, indent, is_item, is_task):
            first = _STEP * indent + ("[ ] " if is_task else "- " if is_item else "")
            return _wrapped(spans_of(spans), first, " " * (len(first) + 2 * (not is_item)), width)
        case Preformatted(label, text, indent):
            first = _STEP * indent
            if not label:  # to be pasted, so nothing may break its lines
                return [[Span(first), Span(command, "code")] for command in text.splitlines()]
            return _wrapped([Span(f"{label}: ", "dim"), Span(text)], first, first + _STEP, width)
        case Table():
            left = _STEP * block.indent
            lines = [[Span(left), *text_line] for text_line in table_lines(block, width - len(left))]
            return lines + (_wrapped(spans_of(noted(block)), left, left, width) if block.note else [])


def _wrapped(spans: Sequence[Span], first: str, rest: str, width: int) -> list[TextLine]:
    """Return pieces broken into lines at blanks; a word that is longer than a line breaks as in a table.

    A word that several pieces make up has the style of the first. By hand: `textwrap` knows no styled pieces, and Rich
    no indent of the lines that follow the first.
    """
    text = with_units("".join([span.text for span in spans]))
    starts = list(itertools.accumulate((len(span.text) for span in spans), initial=0))
    lines: list[TextLine] = []
    line, used, is_fresh, end = [Span(first)], len(first), True, 0
    for piece in _WORD.finditer(text):
        start, blanks, word = end, text[end : piece.start()], piece[0]
        end, style = piece.end(), spans[bisect.bisect_right(starts, piece.start()) - 1].style
        for part in [word] if len(word) <= width - len(rest) else pieces_of(word, width - len(rest)):
            if not is_fresh and used + len(blanks) + len(part) > width:
                lines.append(line)
                line, used = [Span(rest)], len(rest)
            elif not is_fresh and blanks:
                line.append(Span(blanks, spans[bisect.bisect_right(starts, start) - 1].style))
                used += len(blanks)
            # A piece of a word may begin a line as a command of a CI system does.
            line.append(Span(visible(part.replace(NO_BREAK, " ")), style))
            used += len(part)
            blanks, is_fresh = "", False
    return [*lines, line]
