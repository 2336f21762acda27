"""Reports as text: the same layout for a terminal, in colour, and for a file, without."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from kplan.report.blocks import NO_BREAK, Block, Heading, Line, Preformatted, Span, Style, Table, noted, plain, spans_of
from kplan.report.options import ReportOptions
from kplan.report.tables import pieces_of, table_lines, with_units

MIN_WIDTH = 60
_DETAIL_WIDTH = 120
_STEP = "  "
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
    """Return a report without colour."""
    return "\n".join(plain(text_line).rstrip() for text_line in layout(blocks, width)) + "\n"


def detail_of(blocks: Iterable[Block], options: ReportOptions) -> str:
    """Return blocks as the detail of a `Case`: without colour, and as wide as pipelines show them.

    Empty where the format does not show it, and the blocks are then not even made.
    """
    if not options.has_details:
        return ""
    return render_plain(blocks, _DETAIL_WIDTH).removesuffix("\n")


def render_terminal(blocks: Iterable[Block], width: int) -> str:
    """Return the lines of `render_plain` with a terminal's control sequences for colour."""
    import io

    from rich.console import Console
    from rich.text import Text

    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", legacy_windows=False)
    for text_line in layout(blocks, width):
        runs = itertools.groupby(text_line, key=lambda span: span.style)
        pieces = [("".join(span.text for span in run), _RICH_STYLES.get(style, "")) for style, run in runs]
        console.print(Text.assemble(*pieces, no_wrap=True), soft_wrap=True)
    written = console.file
    assert isinstance(written, io.StringIO)  # noqa: S101 - made above
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
            lines = table_lines(block, width - len(left))
            return [*([Span(left), *text_line] for text_line in lines), *_note(block, width)]


def _note(table: Table, width: int) -> list[TextLine]:
    left = _STEP * table.indent
    return _wrapped(spans_of(noted(table)), left, left, width) if table.note else []


def _wrapped(spans: Sequence[Span], first: str, rest: str, width: int) -> list[TextLine]:
    """Return pieces broken into lines at blanks; a word that is longer than a line breaks as in a table.

    By hand: `textwrap` knows no styled pieces, and Rich no indent of the lines that follow the first.
    """
    return _at_single_blanks(spans, first, rest, width) or _between_words(spans, first, rest, width)


def _at_single_blanks(spans: Sequence[Span], first: str, rest: str, width: int) -> list[TextLine]:
    """Return the lines of `_between_words`, many times as fast; none unless only the last piece has to be broken.

    That is so for most lines, and reports can have many thousands. Its words must be shorter than a line, and have one
    blank between them.
    """
    if not all(span.text.isprintable() for span in spans):
        return []
    *before, last = _of_whole_words(_with_units(spans))
    text, room = last.text.rstrip(" "), width - len(first) - sum(len(span.text) for span in before)
    if not text or room <= 0 or "  " in text:
        return []
    if any(span.text[-1:] == " " == following.text[:1] for span, following in pairwise((Span(" "), *before, last))):
        return []
    parts: list[str] = []
    while len(text) > room:
        end = text.rfind(" ", 0, room + 1)
        if end <= 0:
            return []
        parts.append(text[:end])
        text, room = text[end + 1 :], width - len(rest)
    one, *others = [Span(part, last.style) for part in (*parts, text)]
    lines = [[Span(first), *before, one], *([Span(rest), other] for other in others)]
    return [[Span(span.text.replace(NO_BREAK, " "), span.style) for span in line] for line in lines]


def _with_units(spans: Sequence[Span]) -> Sequence[Span]:
    """Return the pieces with what keeps numbers on one line with their units, which may be in different pieces."""
    text = "".join(span.text for span in spans)
    unbroken = with_units(text)
    if unbroken == text:
        return spans
    ends = itertools.accumulate(len(span.text) for span in spans)
    return [Span(unbroken[end - len(span.text) : end], span.style) for span, end in zip(spans, ends, strict=True)]


def _of_whole_words(spans: Sequence[Span]) -> list[Span]:
    """Return the pieces, but a word that several of them make up in the first of these."""
    whole: list[Span] = []
    for span in spans:
        text = span.text
        if whole and not whole[-1].text.endswith(" "):
            word, blank, others = text.partition(" ")
            whole[-1] = Span(whole[-1].text + word, whole[-1].style)
            text = blank + others
        if text:
            whole.append(Span(text, span.style))
    return whole or list(spans)


def _between_words(spans: Sequence[Span], first: str, rest: str, width: int) -> list[TextLine]:
    lines: list[TextLine] = []
    current: TextLine = [Span(first)]
    used, is_fresh = len(first), True
    for word, style in _words(spans, width - len(rest)):
        if word.isspace():
            if not is_fresh:
                current.append(Span(word, style))
                used += len(word)
            continue
        if not is_fresh and used + len(word) > width:
            lines.append(current)
            current, used = [Span(rest)], len(rest)
        current.append(Span(word, style))
        used += len(word)
        is_fresh = False
    lines.append(current)
    return [_without_trailing_blanks(line) for line in lines]


def _words(spans: Sequence[Span], width: int) -> Iterator[tuple[str, Style]]:
    """Yield words and blanks; a word that several pieces make up has the style of the first."""
    text = with_units("".join(span.text for span in spans))
    starts = list(itertools.accumulate((len(span.text) for span in spans), initial=0))
    for word in re.finditer(r"\s+|\S+", text):
        style = spans[bisect.bisect_right(starts, word.start()) - 1].style
        parts = pieces_of(word.group(), width) if len(word.group()) > width else [word.group()]
        yield from ((part.replace(NO_BREAK, " "), style) for part in parts)


def _without_trailing_blanks(spans: TextLine) -> TextLine:
    remaining = list(spans)
    while remaining and remaining[-1].text.isspace():
        remaining.pop()
    return remaining
