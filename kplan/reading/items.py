"""Kubernetes objects in documents, with lists, also nested ones, split into their items.

Large lists in JSON, as kubectl writes them, are read piece by piece, so that their text is never held as a whole. What
is not plainly such a list, or has any problem, is left to those who read the whole file and say where it is wrong.
"""

from __future__ import annotations

import io
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, NoReturn, TypeVar

import msgspec
from msgspec.structs import replace

from kplan.api import decode
from kplan.api.pod import Pod
from kplan.errors import Problem
from kplan.reading.documents import read_documents
from kplan.reading.files import MAX_OBJECT, SNAPSHOTS, STANDARD_INPUT, Limits, ReadProgress
from kplan.reading.positions import Document, Duplicate, as_builtins

S = TypeVar("S", bound=msgspec.Struct)
_WHAT_AN_OBJECT_IS = "a Kubernetes object has apiVersion, kind and metadata"
_IF_VALUES = "of a Helm values file: helm template CHART -f FILE | kplan place -"
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
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Item(msgspec.Struct, frozen=True):
    """One object of a document, not yet decoded."""

    origin: Document  #: the document that it is in
    json_path: str  #: its path there
    api_version: str
    kind: str
    content: msgspec.Raw | dict[str, Any]

    @property
    def path(self) -> str:
        return self.origin.file

    @property
    def document(self) -> int:
        """The number of the document in its file, counted from 1."""
        return self.origin.number

    def is_at(self, other: Item) -> bool:
        return (self.path, self.document, self.json_path) == (other.path, other.document, other.json_path)

    def decode(self, target: type[S]) -> S:
        """Decode the object; raises DecodeError with every problem, to which :meth:`locate` gives its place."""
        if isinstance(self.content, msgspec.Raw):
            return decode.decode(self.content, target)
        return decode.convert(self.content, target)

    def value(self) -> dict[str, Any]:
        """Return the object as builtins; raises as `as_builtins`."""
        value: dict[str, Any] = as_builtins(self.content)
        return value

    def line_of(self, path: str = "$.metadata.name") -> int:
        return self.origin.lines.of(self.json_path + path.removeprefix("$"))

    def duplicates(self) -> tuple[Duplicate, ...]:
        return tuple(
            Duplicate("$" + duplicate.path[len(self.json_path) :], duplicate.line)
            for duplicate in self.origin.duplicates_by_element.get(self.json_path, ())
        )

    def locate(self, problem: Problem) -> Problem:
        """Return the problem of this object with file, document, line and the whole JSON path."""
        return self.origin.locate(problem.below(self.json_path))


class Run(msgspec.Struct, frozen=True):
    """Objects of one kind in their places: one, or several that follow one another in a list; pods may be decoded."""

    origin: Document | None  #: the document that they are in; None for those of memory
    json_path: str  #: the path of the object there, or of the list
    api_version: str
    kind: str
    contents: Sequence[Any]
    first: int | None = None  #: the index of the first object in the list

    def path_of(self, index: int) -> str:
        """Return the JSON path of one of the objects."""
        return self.json_path if self.first is None else f"{self.json_path}[{self.first + index}]"

    def locate(self, index: int, problem: Problem) -> Problem:
        """Return the problem of one of the objects with its place, as far as that is known."""
        below = problem.below(self.path_of(index))
        return below if self.origin is None else self.origin.locate(below)

    def part(self, index: int) -> Run:
        """Return the run of one of the objects alone."""
        return replace(self, json_path=self.path_of(index), contents=[self.contents[index]], first=None)

    def items(self) -> Iterator[Item]:
        assert self.origin is not None  # noqa: S101 - what is in memory is never taken apart again
        for index, content in enumerate(self.contents):
            yield Item(self.origin, self.path_of(index), self.api_version, self.kind, content)


IN_MEMORY = Run(None, "$", "", "", ())  #: that of objects that come from no file


class _Envelope(msgspec.Struct, rename="camel"):
    """The fields that distinguish a list from an object, in any order of keys."""

    api_version: Any = ""
    kind: Any = ""
    items: msgspec.Raw = msgspec.Raw(b"null")


class _TypeMeta(msgspec.Struct, rename="camel"):
    api_version: Any = ""
    kind: Any = ""


#: The beginning of an object of kubectl and the API server: its kind is known without decoding the rest.
_KIND_FIRST = re.compile(rb'\s*\{\s*"apiVersion"\s*:\s*"([A-Za-z0-9./-]+)"\s*,\s*"kind"\s*:\s*"([A-Za-z0-9]+)"\s*,')
_ENVELOPE = msgspec.json.Decoder(_Envelope)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw] | None)
_TYPE_META = msgspec.json.Decoder(_TypeMeta)
_OWN = "kplan/"
#: How deep lists may be nested.
_MAX_LISTS = 20


def read_items(
    source: str | Path, problems: list[Problem], *, limits: Limits = SNAPSHOTS, stdin: IO[bytes] | None = None
) -> Iterator[Item]:
    """Yield every object of a file, a directory (recursively, by name) or ``-``, with lists split into their items.

    Documents without an object, objects without a kind, and all that does not parse are added to `problems`.
    Parameters are those of :func:`~kplan.reading.documents.read_documents`.
    """
    for document in read_documents(source, problems, limits=limits, stdin=stdin):
        yield from items_of(document, problems)


def read_runs(
    source: str | Path,
    problems: list[Problem],
    *,
    stdin: IO[bytes] | None = None,
    progress: ReadProgress | None = None,
    notes: list[Problem] | None = None,
) -> Iterator[Item | Run]:
    """Yield a snapshot's objects as `read_items`, those of one kind together where they follow in a list."""
    for document in read_documents(source, problems, limits=SNAPSHOTS, stdin=stdin, progress=progress, notes=notes):
        yield from _parts_of(document, problems)


def read_pieces(
    source: str | Path, problems: list[Problem], *, progress: ReadProgress | None = None
) -> Iterator[Item | Run]:
    """Yield the objects of a large list piece by piece, as `read_runs` does.

    Raises NotInPieces, at once or after some objects, where the file has to be read as a whole; also where an object
    has a problem, since only the whole file shows its place.
    """
    if str(source) == STANDARD_INPUT:
        raise NotInPieces("standard input cannot be read twice")
    item = Item(Piece(str(source), 1, 1, None), "$.items", "", "", {})
    for elements in list_pieces(Path(source), SNAPSHOTS, progress):
        if elements and isinstance(elements[0], Pod):
            yield Run(item.origin, item.json_path, "v1", "Pod", elements, 0)
        else:
            yield from _raw_list(elements, item, problems)


def is_too_large(content: msgspec.Raw | dict[str, Any]) -> bool:
    """Tell whether an object has more than MAX_OBJECT bytes as text, or as many characters in its names and values."""
    if isinstance(content, msgspec.Raw):
        return memoryview(content).nbytes > MAX_OBJECT
    size, waiting = 0, [content]
    while waiting and size <= MAX_OBJECT:
        value: Any = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        size += len(value) + 4 if isinstance(value, str) else 4
    return size > MAX_OBJECT


def too_large(json_path: str = "$") -> Problem:
    message = f"one object of more than {MAX_OBJECT >> 20} MiB"
    return Problem(message, json_path=json_path, hint="an API server stores 1.5 MiB at most; leave the object out")


def items_of(document: Document, problems: list[Problem]) -> Iterator[Item]:
    """Yield the objects of one document, with lists, also nested ones, split into their items."""
    for part in _parts_of(document, problems):
        if isinstance(part, Run):
            yield from part.items()
        else:
            yield part


def _parts_of(document: Document, problems: list[Problem]) -> Iterator[Item | Run]:
    content = document.content
    if isinstance(content, msgspec.Raw):
        parts = _raw_items(content, Item(document, "$", "", "", content), problems)
    else:
        parts = _builtin_items(content, Item(document, "$", "", "", {}), problems)
    for part in parts:
        if isinstance(part, Run) and not any(map(is_too_large, part.contents)):
            yield part
            continue
        for item in part.items() if isinstance(part, Run) else (part,):
            # kplan's own documents hold a whole cluster.
            if not item.api_version.startswith(_OWN) and is_too_large(item.content):
                problems.append(item.locate(too_large()))
            else:
                yield item


def _raw_items(content: msgspec.Raw, item: Item, problems: list[Problem]) -> Iterator[Item | Run]:
    if bytes(memoryview(content)[:1]) == b"[":
        yield from _raw_list(_ELEMENTS.decode(content), item, problems)
        return
    try:
        envelope = _ENVELOPE.decode(content)
    except (msgspec.ValidationError, RecursionError):
        problems.append(item.locate(_mistaken(content, _no_object)))
        return
    item = replace(item, content=content)
    if not _has_kind(envelope.api_version, envelope.kind, item, problems):
        return
    if not _is_list(envelope.api_version, envelope.kind):
        yield replace(item, api_version=envelope.api_version, kind=envelope.kind)
        return
    item = replace(item, json_path=f"{item.json_path}.items")
    try:
        items = _ITEMS.decode(envelope.items) or []
    except msgspec.ValidationError:
        if not _is_too_deep(item, problems):
            problems.append(item.locate(_mistaken(envelope.items, _no_list)))
        return
    yield from _raw_list(items, _with_item_kind(item, envelope.api_version, envelope.kind), problems)


def _raw_list(elements: list[msgspec.Raw], item: Item, problems: list[Problem]) -> Iterator[Item | Run]:
    if _is_too_deep(item, problems):
        return
    end = 0
    for index, element in enumerate(elements):
        if index < end:
            continue
        path = f"{item.json_path}[{index}]"
        where = Item(item.origin, path, item.api_version, item.kind, element)
        try:
            if first := _KIND_FIRST.match(memoryview(element)):
                api_version, kind = first[1].decode(), first[2].decode()
            else:
                type_meta = _TYPE_META.decode(element)
                api_version, kind = type_meta.api_version, type_meta.kind
        except (msgspec.ValidationError, RecursionError):
            problems.append(where.locate(_mistaken(element, _no_object)))
            continue
        if kind and _is_list(str(api_version), str(kind)):
            yield from _raw_items(element, where, problems)
        elif item.kind and not kind:
            yield where
        elif _has_kind(api_version, kind, where, problems):
            end = _end_of_alike(elements, index, first[0]) if first else index + 1
            yield Run(item.origin, item.json_path, api_version, kind, elements[index:end], index)


def _end_of_alike(elements: list[msgspec.Raw], start: int, prefix: bytes) -> int:
    is_alike = re.compile(re.escape(prefix)).match  # quicker than to copy each element
    following: Iterator[Any] = islice(elements, start + 1, None)
    return next((index for index, same in enumerate(map(is_alike, following), start + 1) if not same), len(elements))


def _mistaken(content: msgspec.Raw, problem_of: Callable[[Any], Problem]) -> Problem:
    try:
        return problem_of(as_builtins(content))
    except decode.DecodeError as error:
        return error.problems[0]


def _is_too_deep(item: Item, problems: list[Problem]) -> bool:
    if item.json_path.count("[") < _MAX_LISTS:
        return False
    problems.append(item.locate(Problem("lists are nested too deeply", hint="write the objects one after the other")))
    return True


def _builtin_items(content: Any, item: Item, problems: list[Problem]) -> Iterator[Item]:
    if isinstance(content, list):
        if _is_too_deep(item, problems):
            return
        for index, element in enumerate(content):
            yield from _builtin_items(element, replace(item, json_path=f"{item.json_path}[{index}]"), problems)
        return
    if not isinstance(content, dict):
        problems.append(item.locate(_no_object(content)))
        return
    api_version, kind = content.get("apiVersion") or item.api_version, content.get("kind") or item.kind
    if not _has_kind(api_version, kind, item, problems):
        return
    if not _is_list(api_version, kind):
        yield replace(item, api_version=api_version, kind=kind, content=content)
        return
    items = content.get("items")
    item = _with_item_kind(replace(item, json_path=f"{item.json_path}.items"), api_version, kind)
    if isinstance(items, list):
        yield from _builtin_items(items, item, problems)
    elif items is not None:
        problems.append(item.locate(_no_list(items)))


def _no_object(value: Any) -> Problem:
    return Problem(f"expected an object, got {decode.describe(value)}", hint=_WHAT_AN_OBJECT_IS)


def _no_list(value: Any) -> Problem:
    return Problem(f"expected a list, got {decode.describe(value)}", hint="a list holds its objects under items: [ ]")


def _is_list(api_version: str, kind: str) -> bool:
    return kind.endswith("List") and not api_version.startswith(_OWN)


def _with_item_kind(item: Item, api_version: str, kind: str) -> Item:
    return replace(item, api_version=api_version, kind=kind.removesuffix("List")) if kind != "List" else item


def _has_kind(api_version: Any, kind: Any, item: Item, problems: list[Problem]) -> bool:
    if isinstance(kind, str) and kind and isinstance(api_version, str):
        return True
    field, value = ("kind", kind) if not isinstance(kind, str) or not kind else ("apiVersion", api_version)
    message = f"expected a string, got {decode.describe(value)}" if value not in (None, "") else "missing"
    hint = _WHAT_AN_OBJECT_IS if api_version or kind else f"{_WHAT_AN_OBJECT_IS}; {_IF_VALUES}"
    problems.append(item.locate(Problem(message, json_path=f"$.{field}", hint=hint)))
    return False


class NotInPieces(Exception):  # noqa: N818 - says how to go on
    """A file that has to be read as a whole."""


class _ListedPod(Pod, frozen=True, kw_only=True):
    """A pod in a list of objects of any kind, where it says what it is."""

    of_version: Literal["v1"] = msgspec.field(name="apiVersion")
    of_kind: Literal["Pod"] = msgspec.field(name="kind")


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
                for pod in decode.decoder(list[_ListedPod]).decode(text)
            ]
    return _ELEMENTS.decode(text)


def _last_items(before: bytes, after: bytes) -> list[msgspec.Raw]:
    """Return the last items of a list, of which the text before its items and that of the last ones on are given."""
    fields = _FIELDS.decode(_utf8(memoryview(before + after)))
    items = fields["items"]
    behind = _FIELDS.decode(b'{"":0' + after[len(bytes(items)) - 1 :])
    kind = [bytes(fields.get(name, b"")) for name in ("apiVersion", "kind")]
    if "items" in behind or kind != [b'"v1"', b'"List"']:
        raise NotInPieces("not a list of objects of any kind")
    elements: list[msgspec.Raw] = _ELEMENTS.decode(items)
    return elements


def _utf8(text: memoryview) -> memoryview:
    """Return the same text; raises UnicodeDecodeError if it is not UTF-8, which is not checked in what is skipped."""
    str(text, "utf-8")
    return text
