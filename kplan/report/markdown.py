"""Reports as Markdown, for a comment on a pull request or a job summary."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from html import escape
from itertools import groupby
from textwrap import indent

from kplan.report import blocks as b
from kplan.report.view import CaseReport

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~$])")
_AT_FIRST = re.compile(r"^(\d*)([-+#=.)])")
"""Characters that make a line a heading or an item of a list."""

_WORD = re.compile(r"\S+")
_OPENING, _CLOSING = "([{\"'", ")]}\"',.:;!?"
_CALL = re.compile(
    r"@|//|:/|www\.|\bGH-|[#!&%$]\d|\b(?:mailto|xmpp):|:[\w+-]+:|(?<![0-9A-Za-z])[0-9a-f]{7,}(?![0-9A-Za-z])|#$",
    re.IGNORECASE,
)
"""What GitHub, GitLab and the like turn into a mention, an address, a reference to an issue or commit, or a picture.

They look for it in what a text says once it is unescaped, so that no escape helps; but not in code.
"""
_NOT_IN_CODE = {"`": "&grave;", "|": "&vert;"}
"""What would end code, or the cell of a table, and how it stands between two pieces of code."""
_PIECES = re.compile("([`|])")

_STRONG = ("strong", "good", "bad", "warn")
_BACKTICKS = re.compile("`+")


MOST_BYTES = 60_000  #: GitHub takes comments of 65,536 characters, with what is written around a report

_LEFT_OUT = "The report is longer than a comment may be: tables end early, and sections are left out."


def render_markdown(blocks: Sequence[b.Block], title: str) -> str:
    """Return a report as Markdown with GitHub's tables: the answer, details that are folded away, and the verdict.

    It has at most `MOST_BYTES`, and ends within no section, fence or line.

    `title`: the answer in one line; it stands in place of the first of the blocks.
    """
    *parts, last = [f"## {escape_markdown(title)}", *_parts(blocks[1:])]
    return "\n\n".join((*_bounded(parts, MOST_BYTES - len(last.encode()) - 2), last)) + "\n"


def _bounded(parts: Sequence[str], most: int) -> Iterator[str]:
    """Yield what fits of paragraphs: tables lose rows, others are whole or not there."""
    if sum(len(part.encode()) + 2 for part in parts) <= most:
        yield from parts
        return
    left = most - len(_LEFT_OUT) - 2
    for part in parts:
        if (size := len(part.encode()) + 2) > left and part.startswith("|"):
            rows = part.splitlines()
            while rows and size > left:
                size -= len(rows.pop().encode()) + 1
            part = "\n".join(rows) if len(rows) > _HEAD_ROWS else ""  # noqa: PLW2901 - what is left of it
        if part and size <= left:
            left -= size
            yield part
    yield _LEFT_OUT


def _parts(blocks: Sequence[b.Block]) -> Iterator[str]:
    """Yield paragraphs: sections, blocks, and items that follow each other as one list."""
    index = 0
    while index < len(blocks):
        block = blocks[index]
        end = index + 1
        if isinstance(block, b.Heading):
            end = b.end_of_section(blocks, index)
            yield from _section(block, blocks[index + 1 : end])
        elif _is_item(block):
            while end < len(blocks) and _is_item(blocks[end]):
                end += 1
            yield "\n".join(_block(item) for item in blocks[index:end])
        elif isinstance(block, b.Line) and block.is_task:
            while end < len(blocks) and isinstance(blocks[end], b.Preformatted):
                end += 1
            nested = (indent(_block(commands), "  ") for commands in blocks[index + 1 : end])
            yield "\n\n".join((_block(block), *nested))
        else:
            yield _block(block)
        index = end


def _section(heading: b.Heading, body: Sequence[b.Block]) -> Iterator[str]:
    """Yield a section; one that may fold is folded away, with the blank lines around it that GitHub needs."""
    if not body:
        yield f"**{escape_markdown(b.plain(heading.spans))}**"
    elif heading.folds:
        plainly = partial(escape, quote=False)
        summary = _by_words(b.plain(heading.spans), plainly, lambda word: f"<code>{plainly(word)}</code>")
        yield "\n\n".join((f"<details><summary>{summary}</summary>", *_parts(body), "</details>"))
    else:
        yield f"### {escape_markdown(b.plain(heading.spans))}"
        yield from _parts(body)


def _is_item(block: b.Block) -> bool:
    return isinstance(block, b.Line) and block.is_item


def _block(block: b.Block) -> str:
    match block:
        case b.Line(spans, _, _, is_task) if is_task:
            return f"- [ ] {_inline(spans)}"
        case b.Line(spans, _, is_item):
            return f"- {_inline(spans)}" if is_item else _AT_FIRST.sub(r"\1\\\2", _inline(spans).lstrip())
        case b.Preformatted(label, text, _):
            fence = "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))
            if not label:
                return f"{fence}sh\n{text}\n{fence}"
            return f"{escape_markdown(label)}:\n\n{fence}text\n{text}\n{fence}"
        case b.Table():
            return _table(block)
        case b.Heading(spans):
            return _inline(spans)


_HEAD_ROWS = 2  #: lines of a table above its rows


def _table(table: b.Table) -> str:
    rows = [table.header, ["--:" if side == ">" else "---" for side in table.align]]
    for row in table.rows:
        texts = [(_inline((cell,)), cell.href if isinstance(cell, b.Span) else "") for cell in row]
        rows.append([f"[{text}]({href})" if href else text for text, href in texts])
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{text}\n\n{escape_markdown(b.plain(table.note))}" if table.note else text


def _inline(cells: Iterable[b.Cell]) -> str:
    """Return pieces one after the other; those of one style are one text, in which a word may span pieces."""
    texts = []
    for is_strong, run in groupby(b.spans_of(list(cells)), key=lambda span: span.style in _STRONG):
        text = b.plain(run)
        # Blanks around what is bold stay outside, or the asterisks would be text.
        bare = text.strip() if is_strong else ""
        texts.append(text.replace(bare, f"**{escape_markdown(bare)}**") if bare else escape_markdown(text))
    return "".join(texts)


def escape_markdown(text: str) -> str:
    """Return a text as one line without markup; a word that would mention, link or refer is written as code."""
    return _by_words(text, _escaped, _code)


def _by_words(text: str, escaped: Callable[[str], str], code: Callable[[str], str]) -> str:
    """Return a text as one line with the words that call somebody or something as code, and the rest escaped."""
    text = text.replace("\n", " ").replace(b.NO_BREAK, " ")
    if _CALL.search(text) is None:
        return escaped(text)
    parts: list[str] = []
    end = 0
    for word in (word for word in _WORD.finditer(text) if _CALL.search(word[0])):
        start = word.end() - len(word[0].lstrip(_OPENING))
        core = text[start : word.end()].rstrip(_CLOSING)
        parts += [escaped(text[end:start]), code(core)]
        end = start + len(core)
    return "".join([*parts, escaped(text[end:])])


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text.replace("&", "&amp;"))


def _code(text: str) -> str:
    """Return a word as code; what cannot stand in code stands between pieces of it."""
    return "".join(_NOT_IN_CODE.get(piece) or f"`{piece}`" for piece in _PIECES.split(text) if piece)


def refused_in_markdown(report: CaseReport) -> str:
    places = [f"{case.place} {case.name}" if case.place not in ("", case.name) else case.name for case in report.cases]
    cases = zip(places, report.cases, strict=True)
    items = [f"- **{escape_markdown(place)}** {escape_markdown(case.message)}" for place, case in cases]
    return "\n".join([f"# {escape_markdown(report.title)}", "", *items, ""])
