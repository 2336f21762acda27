"""Kubernetes objects in documents, with lists, also nested ones, split into their items."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
from msgspec.structs import replace

from kplan.api import decode
from kplan.api.pod import Pod
from kplan.errors import Problem
from kplan.reading.documents import read_documents
from kplan.reading.files import MAX_OBJECT, SNAPSHOTS, STANDARD_INPUT, Limits, ReadProgress
from kplan.reading.pieces import ELEMENTS, NotInPieces, Piece, list_pieces
from kplan.reading.positions import Document, Duplicate, Source, as_builtins

S = TypeVar("S", bound=msgspec.Struct)
_WHAT_AN_OBJECT_IS = "a Kubernetes object has apiVersion, kind and metadata"
_IF_VALUES = "of a Helm values file: helm template CHART -f FILE | kplan place -"


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

    def source(self, path: str = "$.metadata.name") -> Source:
        return Source(self.path, self.document, self.line_of(path))

    def line_of(self, path: str) -> int:
        return self.origin.lines.of(self.json_path + path.removeprefix("$"))

    def duplicates(self) -> tuple[Duplicate, ...]:
        return tuple(
            Duplicate("$" + duplicate.path[len(self.json_path) :], duplicate.line)
            for duplicate in self.origin.duplicates_below(self.json_path)
        )

    def locate(self, problem: Problem) -> Problem:
        """Return the problem of this object with file, document, line and the whole JSON path."""
        return self.origin.locate(problem.below(self.json_path))


class Location(msgspec.Struct, frozen=True):
    """The position of an object in its file; without `origin`, the object is from memory."""

    origin: Document | None = None
    json_path: str = "$"

    def locate(self, problem: Problem, prefix: str = "") -> Problem:
        message = f"{prefix}: {problem.message}" if prefix else problem.message
        located = problem.below(self.json_path)._replace(message=message)
        return self.origin.locate(located) if self.origin is not None else located


Locate = Callable[[int], Location]  #: returns the position of one of several objects


def nowhere(_: int) -> Location:
    return Location()


class Run(msgspec.Struct, frozen=True):
    """Objects of one kind: one, or several that follow one another in a list; of pods, they may be decoded."""

    origin: Document | None  #: the document that they are in; None for those of memory
    json_path: str  #: the path of the object there, or of the list
    api_version: str
    kind: str
    contents: Sequence[Any]
    first: int | None = None  #: the index of the first object in the list

    def location(self, index: int) -> Location:
        path = self.json_path if self.first is None else f"{self.json_path}[{self.first + index}]"
        return Location(self.origin, path)

    def part(self, index: int) -> Run:
        """Return the run of one of the objects alone."""
        return replace(self, json_path=self.location(index).json_path, contents=[self.contents[index]], first=None)

    def items(self) -> Iterator[Item]:
        assert self.origin is not None  # noqa: S101 - what is in memory is never taken apart again
        for index, content in enumerate(self.contents):
            yield Item(self.origin, self.location(index).json_path, self.api_version, self.kind, content)


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
        yield from _raw_list(ELEMENTS.decode(content), item, problems)
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
