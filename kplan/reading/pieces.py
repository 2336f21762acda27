"""Large lists in JSON, as kubectl writes them, piece by piece, so that their text is never held as a whole.

What is not plainly such a list, or has any problem, is left to those who read the whole file and say where it is wrong.
"""

from __future__ import annotations

import io
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NoReturn

import msgspec
from msgspec import field

from kplan.api.decode import decoder
from kplan.api.pod import Pod
from kplan.errors import Problem
from kplan.reading.files import MAX_OBJECT, Limits, ReadProgress
from kplan.reading.positions import Document

_HEAD = 1 << 18
"""The first objects of a list, which show how it is written, begin within so many bytes; files of fewer are small."""

_PIECE = 1 << 18
"""So few objects of Python come of it that the processor's cache holds them while they are checked and completed."""

_MOST_TRIES = 8  # a separator may stand inside an item; the text grows before it is tried again
#: A list's beginning: what precedes its items, white space, and the first item up to its first key.
_START = rb"""(?x)\s*\{\s*
    (?:(?:"apiVersion"\s*:\s*"v1"|"kind"\s*:\s*"List"|"metadata"\s*:\s*\{[^{}"]*(?:"[^"\\]*"[^{}"]*)*\})\s*,\s*)*
    "items"\s*:\s*\[(\s*)(\{\s*"[A-Za-z]+")"""
_PODS = b'[{"apiVersion":"v1","kind":"Pod",'  # how a list of pods begins, but for white space
_BEGINNING = 200  # bytes within which that stands
ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class NotInPieces(Exception):  # noqa: N818 - says how to go on
    """A file that has to be read as a whole."""


class _ListedPod(Pod, frozen=True, kw_only=True):
    """A pod in a list of objects of any kind, where it says what it is."""

    of_version: Literal["v1"] = field(name="apiVersion")
    of_kind: Literal["Pod"] = field(name="kind")


class Piece(Document):
    """Some items of a list, without the text around them."""

    def locate(self, problem: Problem) -> NoReturn:
        """Raise NotInPieces: only the whole text tells on which line a problem is."""
        raise NotInPieces(problem.message)


def list_pieces(path: Path, limits: Limits, progress: ReadProgress | None) -> Iterator[list[Any]]:
    """Yield the items of a list in a file, some at a time: decoded where all are pods, else as they are written.

    The latter are valid until the next ones are read. None of them is larger than an object may be. Raises NotInPieces,
    at once or after some pieces, where the file has to be read as a whole.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or not _HEAD < status.st_size <= limits.max_bytes:
            raise NotInPieces("a small file, or none")
        with path.open("rb", buffering=0) as stream:
            yield from _pieces(stream, str(path), status.st_size, progress)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise NotInPieces(str(error)) from None


def _pieces(stream: io.FileIO, name: str, size: int, progress: ReadProgress | None) -> Iterator[list[Any]]:
    head = stream.read(_HEAD)
    start = re.match(_START, head)
    # Between two items there is what precedes the first one, or a blank as Python writes it.
    separators = [b"},%b%b" % (blank, start[2]) for blank in (start[1], b" ")] if start else []
    separator = next(filter(head.__contains__, separators), None)
    if start is None or separator is None or b"\0" in head:
        raise NotInPieces("no list of objects that are all written alike")
    before = head[: start.start(1)]
    # One buffer for all: memory that is used for the first time costs as much as reading.
    text = bytearray(_HEAD + 2 * _PIECE)
    room = memoryview(text)
    end = _fill(room, b"[" + head[start.start(2) :])
    n_read = len(head)
    while n_more := stream.readinto(room[end : end + min(_PIECE, size - n_read)]):
        end += n_more
        n_read += n_more
        if end > MAX_OBJECT:
            raise NotInPieces("an item that may be too large")
        if whole := _whole_items(text, end, separator):
            items, end_of_items = whole
            yield items
            end = _fill(room, b"[" + text[end_of_items:end])
        if end + _PIECE > len(text):  # an item is larger than a piece
            text = text.ljust(2 * len(text), b"\0")
            room = memoryview(text)
        if progress:
            progress(f"{name} (bytes)", n_read, size)
    yield _last_items(before, bytes(room[1:end]))


def _fill(room: memoryview, text: bytes) -> int:
    """Write a text to the beginning of a buffer, and return its length."""
    room[: len(text)] = text
    return len(text)


def _whole_items(text: bytearray, length: int, separator: bytes) -> tuple[list[Any], int] | None:
    """Return the items of a list that are complete, and where the rest of it begins; None where no item ends.

    Where the list is valid up to a separator if it is closed there, that separates two of its own items, for text is
    read from its start.
    """
    end = length
    for _ in range(_MOST_TRIES):
        end = text.rfind(separator, 0, end)
        if end < 0:
            break
        text[end + 1] = ord("]")
        try:
            items = _decoded(_utf8(memoryview(text)[: end + 2]))
        except msgspec.DecodeError:
            text[end + 1] = ord(",")
        else:
            return items, end + 2
    return None


def _decoded(text: memoryview) -> list[Any]:
    """Return the items of a list; pods, the most of a large cluster, are decoded, so that their text is read once."""
    if b"".join(bytes(text[:_BEGINNING]).split()).startswith(_PODS):
        with suppress(msgspec.DecodeError):
            return [
                Pod(metadata=pod.metadata, spec=pod.spec, status=pod.status)
                for pod in decoder(list[_ListedPod]).decode(text)
            ]
    return ELEMENTS.decode(text)


def _last_items(before: bytes, after: bytes) -> list[msgspec.Raw]:
    """Return the last items of a list, of which the text before its items and that of the last ones on are given."""
    fields = _FIELDS.decode(_utf8(memoryview(before + after)))
    items = fields["items"]
    behind = _FIELDS.decode(b'{"":0' + after[len(bytes(items)) - 1 :])
    kind = [bytes(fields.get(name, b"")) for name in ("apiVersion", "kind")]
    if "items" in behind or kind != [b'"v1"', b'"List"']:
        raise NotInPieces("not a list of objects of any kind")
    elements: list[msgspec.Raw] = ELEMENTS.decode(items)
    return elements


def _utf8(text: memoryview) -> memoryview:
    """Return the same text; raises UnicodeDecodeError if it is not UTF-8, which is not checked in what is skipped."""
    str(text, "utf-8")
    return text
