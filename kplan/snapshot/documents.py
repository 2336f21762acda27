"""Reading files of Kubernetes objects: JSON or YAML, one or many documents, lists, directories, standard input, gzip.

Snapshots and manifests come through the same door. What cannot be read becomes a :class:`~kplan.errors.Problem` with
file, document and JSON path, and reading goes on with the next document, so that everything wrong is known at once.
"""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import msgspec

from kplan.api import decode
from kplan.errors import Problem
from kplan.snapshot.files import CHUNK, NotObjects, files_below, read_text

__all__ = ["STANDARD_INPUT", "Document", "Item", "read_documents", "read_items"]

S = TypeVar("S", bound=msgspec.Struct)

STANDARD_INPUT = "-"
_LOG_SECTION = re.compile(rb"\s*==== START logs for .*?^==== END logs for [^\n]*\n?", re.DOTALL | re.MULTILINE)
_BYTE_OFFSET = re.compile(r"\(byte (\d+)\)")


class Document(NamedTuple):
    """One document of a file: JSON text, or builtins that came from YAML."""

    path: str
    number: int
    content: msgspec.Raw | Any


class Item(NamedTuple):
    """One object of a document, not yet decoded."""

    path: str
    document: int | None
    json_path: str
    api_version: str
    kind: str
    content: msgspec.Raw | dict[str, Any]

    def decode(self, target: type[S]) -> S:
        """Decode the object.

        Raises
        ------
        kplan.api.decode.DecodeError
            With every problem; :meth:`locate` gives each its place in the file.
        """
        if isinstance(self.content, msgspec.Raw):
            return decode.decode(self.content, target)
        return decode.convert(self.content, target)

    def locate(self, problem: Problem) -> Problem:
        """Return the problem of this object with file, document and the whole JSON path."""
        return Problem(
            problem.message,
            path=self.path,
            document=self.document,
            json_path=self.json_path + problem.json_path.removeprefix("$"),
            hint=problem.hint,
        )


class _Envelope(msgspec.Struct, rename="camel"):
    """What tells a list from an object, in any order of keys."""

    api_version: Any = ""
    kind: Any = ""
    items: msgspec.Raw = msgspec.Raw(b"")


class _TypeMeta(msgspec.Struct, rename="camel"):
    api_version: Any = ""
    kind: Any = ""


#: How kubectl and the API server begin an object; reading on for its kind is then unnecessary.
_KIND_FIRST = re.compile(rb'\s*\{\s*"apiVersion"\s*:\s*"([A-Za-z0-9./-]+)"\s*,\s*"kind"\s*:\s*"([A-Za-z0-9]+)"\s*,')
_ENVELOPE = msgspec.json.Decoder(_Envelope)
_TYPE_META = msgspec.json.Decoder(_TypeMeta)
_RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])


def read_items(source: str | Path, problems: list[Problem], *, stdin: BinaryIO | None = None) -> Iterator[Item]:
    """Yield every object of a file, a directory (recursively, by name) or ``-``, with lists taken apart.

    Documents that hold no object, or one without a kind, are added to `problems`, as is all that cannot be read.

    Parameters
    ----------
    source
        A path or ``-``.
    problems
        Receives what is wrong.
    stdin
        The stream behind ``-``; standard input if not given.
    """
    for document in read_documents(source, problems, stdin=stdin):
        yield from items_of(document, problems)


def read_documents(source: str | Path, problems: list[Problem], *, stdin: BinaryIO | None = None) -> Iterator[Document]:
    """Yield every document of a file, a directory or ``-``; parameters as in :func:`read_items`."""
    if str(source) == STANDARD_INPUT:
        yield from _read_stream(stdin or sys.stdin.buffer, "standard input", problems)
        return
    path = Path(source)
    if path.is_dir():
        files = files_below(path)
        if not files:
            problems.append(
                Problem(
                    "the directory holds no .json, .yaml or .yml file",
                    path=str(path),
                    hint="name a directory with Kubernetes objects, such as kubectl cluster-info dump writes",
                )
            )
        for file in files:
            yield from _read_file(file, problems)
        return
    yield from _read_file(path, problems)


def _read_file(path: Path, problems: list[Problem]) -> Iterator[Document]:
    try:
        with path.open("rb") as stream:
            yield from _read_stream(stream, str(path), problems)
    except FileNotFoundError:
        problems.append(Problem("no such file or directory", path=str(path), hint="check the path"))
    except OSError as error:
        problems.append(Problem(f"cannot be read: {error.strerror or error}", path=str(path)))


def _read_stream(stream: BinaryIO, path: str, problems: list[Problem]) -> Iterator[Document]:
    try:
        data = read_text(stream)
    except NotObjects as error:
        problems.append(Problem(str(error), path=path, hint=error.hint))
        return
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        problems.append(Problem(f"not a complete gzip file: {error}", path=path, hint="write the file again"))
        return
    if data.lstrip()[:1] in {b"{", b"["}:
        yield from _json_documents(data, path, problems)
    else:
        yield from _yaml_documents(data, path, problems)


def _yaml_documents(data: bytes, path: str, problems: list[Problem]) -> Iterator[Document]:
    from kplan.snapshot.yamlreader import YamlProblem, read_yaml

    try:
        for document in read_yaml(data):
            yield Document(path, document.number, document.content)
    except YamlProblem as error:
        problems.append(Problem(str(error), path=path, document=error.document, hint=error.hint))


def _json_documents(data: bytes, path: str, problems: list[Problem]) -> Iterator[Document]:
    """Yield one document, or several one after the other, as ``kubectl cluster-info dump`` prints them."""
    number = 0
    rest = memoryview(data)
    while rest and (number == 0 or bytes(rest[:CHUNK]).strip()):
        number += 1
        try:
            raw = msgspec.json.decode(rest, type=msgspec.Raw)
        except (msgspec.DecodeError, RecursionError) as error:
            end = _end_of_document(str(error))
            if end is None:
                problems.append(_json_problem(error, data, len(data) - len(rest), path, number))
                return
        else:
            yield Document(path, number, raw)
            return
        yield Document(path, number, msgspec.Raw(bytes(rest[:end])))
        rest = rest[end:]
        while log := _LOG_SECTION.match(rest):
            rest = rest[log.end() :]


def _end_of_document(message: str) -> int | None:
    """Return where a document ends that is followed by something else; msgspec counts the character that follows."""
    offset = _BYTE_OFFSET.search(message)
    return int(offset[1]) - 1 if offset and "trailing characters" in message else None


def _json_problem(error: Exception, data: bytes, start: int, path: str, number: int) -> Problem:
    """Say what is wrong with the document that starts at byte `start`, with line and column of the whole file."""
    text = str(error)
    if isinstance(error, RecursionError):
        hint = "objects are nested some ten levels deep; look for brackets that are never closed"
        return Problem("nested too deeply to be Kubernetes objects", path=path, document=number, hint=hint)
    if "truncated" in text:
        return Problem(
            "the JSON ends before it is complete",
            path=path,
            document=number,
            hint="the file was cut off; write it again",
        )
    message = text.removeprefix("JSON is malformed: ")
    if offset := _BYTE_OFFSET.search(message):
        before = data[: start + int(offset[1])]
        line, column = before.count(b"\n") + 1, len(before) - (before.rfind(b"\n") + 1) + 1
        message = f"{message[: offset.start()].rstrip()} at line {line}, column {column}"
    return Problem(f"not valid JSON: {message}", path=path, document=number, hint=_json_hint(message))


def _json_hint(message: str) -> str:
    if "trailing comma" in message:
        return "leave the comma out that has nothing behind it"
    return "look at this place and what stands right before it; kubectl get -o json writes valid JSON"


def items_of(document: Document, problems: list[Problem]) -> Iterator[Item]:
    """Yield the objects of one document, taking lists apart, also lists in lists."""
    path, number, content = document
    if isinstance(content, msgspec.Raw):
        yield from _raw_items(content, Item(path, number, "$", "", "", content), problems)
    else:
        yield from _builtin_items(content, Item(path, number, "$", "", "", {}), problems)


def _raw_items(content: msgspec.Raw, place: Item, problems: list[Problem]) -> Iterator[Item]:
    first = bytes(memoryview(content)[:64]).lstrip()[:1]
    if first == b"[":
        yield from _raw_list(content, place, problems)
        return
    if first != b"{":
        problems.append(place.locate(Problem("expected an object", hint=_WHAT_AN_OBJECT_IS)))
        return
    envelope = _ENVELOPE.decode(content)
    place = place._replace(content=content)
    if not _has_kind(envelope.api_version, envelope.kind, place, problems):
        return
    if not _is_list(envelope.api_version, envelope.kind) or not envelope.items:
        if envelope.kind.endswith("List"):
            return
        yield place._replace(api_version=envelope.api_version, kind=envelope.kind)
        return
    items = envelope.items
    if bytes(memoryview(items)[:16]).lstrip()[:4] == b"null":
        return
    place = place._replace(json_path=f"{place.json_path}.items")
    yield from _raw_list(items, _with_item_kind(place, envelope.api_version, envelope.kind), problems)


def _raw_list(content: msgspec.Raw, place: Item, problems: list[Problem]) -> Iterator[Item]:
    try:
        elements = _RAW_LIST.decode(content)
    except msgspec.ValidationError:
        value = msgspec.json.decode(content)
        problems.append(place.locate(_no_list(value)))
        return
    for index, element in enumerate(elements):
        where = place._replace(json_path=f"{place.json_path}[{index}]", content=element)
        try:
            meta = _type_meta(element)
        except msgspec.ValidationError:
            value = msgspec.json.decode(element)
            problems.append(where.locate(_no_object(value)))
            continue
        if meta.kind and _is_list(str(meta.api_version), str(meta.kind)):
            yield from _raw_items(element, where, problems)
        elif place.kind and not meta.kind:
            yield where
        elif _has_kind(meta.api_version, meta.kind, where, problems):
            yield where._replace(api_version=meta.api_version, kind=meta.kind)


def _type_meta(element: msgspec.Raw) -> _TypeMeta:
    first = _KIND_FIRST.match(memoryview(element))
    return _TypeMeta(first[1].decode(), first[2].decode()) if first else _TYPE_META.decode(element)


def _builtin_items(content: Any, place: Item, problems: list[Problem]) -> Iterator[Item]:
    if isinstance(content, list):
        for index, element in enumerate(content):
            yield from _builtin_items(element, place._replace(json_path=f"{place.json_path}[{index}]"), problems)
        return
    if not isinstance(content, dict):
        problems.append(place.locate(_no_object(content)))
        return
    api_version, kind = content.get("apiVersion") or place.api_version, content.get("kind") or place.kind
    if not _has_kind(api_version, kind, place, problems):
        return
    if not _is_list(api_version, kind):
        yield place._replace(api_version=api_version, kind=kind, content=content)
        return
    items = content.get("items")
    place = _with_item_kind(place._replace(json_path=f"{place.json_path}.items"), api_version, kind)
    if isinstance(items, list):
        yield from _builtin_items(items, place, problems)
    elif items is not None:
        problems.append(place.locate(_no_list(items)))


def _no_object(value: Any) -> Problem:
    return Problem(f"expected an object, got {decode.describe(value)}", hint=_WHAT_AN_OBJECT_IS)


def _no_list(value: Any) -> Problem:
    return Problem(f"expected a list, got {decode.describe(value)}", hint="a list holds its objects under items: [ ]")


_WHAT_AN_OBJECT_IS = "a Kubernetes object has apiVersion, kind and metadata"


def _is_list(api_version: str, kind: str) -> bool:
    return kind.endswith("List") and not api_version.startswith("kplan/")


def _with_item_kind(place: Item, api_version: str, kind: str) -> Item:
    """Let the elements of a PodList be pods where they do not say so themselves."""
    return place._replace(api_version=api_version, kind=kind.removesuffix("List")) if kind != "List" else place


def _has_kind(api_version: Any, kind: Any, place: Item, problems: list[Problem]) -> bool:
    if isinstance(kind, str) and kind and isinstance(api_version, str):
        return True
    field = "kind" if not isinstance(kind, str) or not kind else "apiVersion"
    problems.append(place.locate(Problem("missing or not a string", json_path=f"$.{field}", hint=_WHAT_AN_OBJECT_IS)))
    return False
