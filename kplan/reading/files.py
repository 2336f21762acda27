"""The bytes of files, and positions in their text.

Files are found, unpacked, refused early where they clearly hold something else, and bounded in size. Dumps of clusters
in tar archives are read as the folders that they hold, without anything being unpacked on disk. The line of any
JSON path, and duplicate keys, come from parsing a document's text once more, on demand.
"""

from __future__ import annotations

import ast
import codecs
import gzip
import io
import json
import os
import re
import stat
import sys
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Final, Protocol, cast

import msgspec

from kplan.api import decode
from kplan.errors import Problem

MAX_DEPTH: Final = 200  #: objects are nested some ten levels deep

#: Called with what is being read, the amount read, and the total where that is known.
Progress = Callable[[str, int, int | None], None]


class Limits(msgspec.Struct, frozen=True):
    """Bounds on one file."""

    max_bytes: int  #: of a file, unpacked
    #: of inputs whose size is not known beforehand, and which may never end: pipes and gzip files
    max_stream_bytes: int
    max_documents: int = 1_000_000  #: in one file
    max_depth: int = MAX_DEPTH  #: levels of nesting


_MIB: Final = 1 << 20
MAX_OBJECT: Final = 8 * _MIB  #: bytes of one object as text; etcd stores 1.5 MiB
SNAPSHOTS = Limits(max_bytes=4096 * _MIB, max_stream_bytes=2048 * _MIB)
MANIFESTS = Limits(max_bytes=512 * _MIB, max_stream_bytes=256 * _MIB)
REPORTS = Limits(max_bytes=1024 * _MIB, max_stream_bytes=512 * _MIB)
#: Scheduler configurations and kubeconfigs have a few kilobytes.
SETTINGS = Limits(max_bytes=4 * _MIB, max_stream_bytes=4 * _MIB, max_documents=1000, max_depth=100)
STANDARD_INPUT = "-"
_MOST_ABOVE = 100
CHUNK = 1 << 20
_SUFFIXES = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")
_ARCHIVES = (".tar", ".tar.gz", ".tgz")
GZIP_MAGIC = b"\x1f\x8b"
_OBJECT_KEY = rb"""(?m)(^|[\s{,-])["']?(apiVersion|kind|items)["']?\s*:"""
#: Objects compress to a twentieth, or to a hundredth where all are alike; zip bombs to a thousandth.
_MAX_UNFOLDING = 400
_UNFOLDING_FROM = 64 << 20
#: What lies below one directory at most, files and folders of all kinds; more is no folder of manifests.
MOST_ENTRIES = 200_000


def files_below(directory: Path, problems: list[Problem]) -> list[Path]:
    """Return the files below a directory that may hold objects, by path; unreadable folders are problems."""

    def note(error: OSError) -> None:
        hint = "check its permissions, or name the files one by one"
        problems.append(Problem(f"cannot be read: {error.strerror}", path=str(error.filename), hint=hint))

    paths = []
    n_entries = 0
    for folder, folders, names in os.walk(directory, onerror=note):
        n_entries += len(folders) + len(names)
        if n_entries > MOST_ENTRIES:
            hint = "name the folder with the objects, or the files one by one"
            problems.append(
                Problem(f"holds more than {MOST_ENTRIES} files and folders", path=str(directory), hint=hint)
            )
            return []
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths += [
            path
            for name in names
            if is_object_file(name) and not name.startswith(".") and (path := Path(folder, name)).is_file()
        ]
    return sorted(paths)


EMPTY = "the file is empty"


class NotObjects(Exception):  # noqa: N818 - becomes a problem of the file
    """A stream that holds no text, or clearly no Kubernetes objects."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint  # empty for a hint about the expected content


def folders_above(path: Path) -> Sequence[Path]:
    """Return the folders above a path, the nearest first: at most 100 of them, however many its name has."""
    return path.parents[:_MOST_ABOVE]


def read_source(
    path: Path | None, stdin: IO[bytes] | None, limits: Limits, progress: Progress | None, *, is_objects: bool = True
) -> bytearray:
    """Read a file, or standard input where there is no path, as UTF-8 and unpacked.

    With `is_objects`, a file without a sign of an object in its first megabyte is read no further. Raises NotObjects
    with the reason, and OSError if the file cannot be opened or read.
    """
    if path is None:
        stream = stdin or getattr(sys.stdin, "buffer", None)
        if stream is None:
            raise NotObjects("nothing can be read from it", "name a file, or redirect one with < FILE")
        return read_text(stream, "standard input", None, limits, progress, is_objects=is_objects)
    status = path.stat()
    mode, size = status.st_mode, status.st_size if stat.S_ISREG(status.st_mode) else None
    if stat.S_ISDIR(mode):
        raise NotObjects("is a directory", "name a file in it")
    if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and path.resolve() != Path(os.devnull)):
        raise NotObjects("is a device", "name a file; standard input is called -")
    if size is not None and size > limits.max_bytes:
        raise NotObjects(f"larger than {amount(limits.max_bytes)}")
    with path.open("rb", buffering=0 if stat.S_ISFIFO(mode) else -1) as stream:
        return read_text(stream, str(path), size, limits, progress, is_objects=is_objects)


def is_archive(path: Path) -> bool:
    # A path cannot tell of a name that is too long.
    return path.name.lower().endswith(_ARCHIVES) and os.path.isfile(path)  # noqa: PTH113 - as said above


def is_object_file(name: str) -> bool:
    return name.lower().endswith(_SUFFIXES)


def unfolds_too_much(n_bytes: int, n_packed: int) -> bool:
    return n_bytes > _UNFOLDING_FROM and n_bytes > n_packed * _MAX_UNFOLDING


def amount(n_bytes: int) -> str:
    return f"{n_bytes >> 30} GiB" if n_bytes >= 1 << 30 else f"{n_bytes >> 20} MiB"


def read_text(
    stream: IO[bytes], name: str, size: int | None, limits: Limits, progress: Progress | None, *, is_objects: bool
) -> bytearray:
    head = _fill(stream, CHUNK)
    packed: Counted | None = None
    if head.startswith(GZIP_MAGIC):
        packed = Counted(head, stream)
        stream = cast("IO[bytes]", Gunzipped(gzip.GzipFile(fileobj=io.BufferedReader(packed, CHUNK))))
        head = _fill(stream, CHUNK)
    encoding = "utf-16" if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"
    has_more = len(head) == CHUNK
    if encoding == "utf-8":
        _check_head(head, has_more=has_more, is_objects=is_objects)
    limit = limits.max_bytes if size is not None and packed is None else limits.max_stream_bytes
    data = bytearray(head)  # it grows in place: large snapshots are held once
    while has_more and (part := stream.read(CHUNK << 4)):
        data += part
        if len(data) > limit:
            raise NotObjects(f"more than {amount(limit)}")
        if packed and unfolds_too_much(len(data), packed.count):
            raise NotObjects(f"unpacks to more than {_MAX_UNFOLDING} times its size", "unpack it first and look inside")
        if progress:
            progress(f"{name} (bytes)", packed.count if packed else len(data), size)
    if encoding != "utf-8":
        data = bytearray(data.decode(encoding, errors="replace").encode())
        _check_head(bytes(data[:CHUNK]), has_more=len(data) > CHUNK, is_objects=is_objects)
    elif has_more:
        _check_encoding(data)
    if data.startswith(codecs.BOM_UTF8):
        del data[: len(codecs.BOM_UTF8)]
    return data


class Counted(io.RawIOBase):
    """A stream with bytes put back in front of it, which counts the bytes that are read."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        super().__init__()
        self._head = memoryview(head)
        self._rest = rest
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # the stub knows no narrower type than any buffer
        part = self._head[: len(buffer)] if self._head else self._rest.read(len(buffer)) or b""
        self._head = self._head[len(buffer) :]
        buffer[: len(part)] = part
        self.count += len(part)
        return len(part)


class Gunzipped:
    """Unpacks a gzip stream; errors become NotObjects."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except EOFError:
            raise NotObjects("the gzip file is cut off before its end", "write the file again") from None
        except (gzip.BadGzipFile, zlib.error):
            raise NotObjects("the gzip file is damaged", "write the file again") from None


_UNPACK = "unpack it into a folder, look inside, and name the folder"


def files_in_archive(path: Path, limits: Limits) -> Iterator[tuple[str, IO[bytes], int]]:
    """Yield the files that may hold objects: path, content, which is read before the next one, and size.

    Raises NotObjects for an archive that is damaged, unpacks to too much, or holds what a dump does not: links,
    devices, and names that lead out of it.
    """
    import tarfile

    with path.open("rb") as file:
        try:
            # As a stream: nothing is read twice, and nothing is believed about what comes later.
            with tarfile.open(fileobj=cast("IO[bytes]", _Bounded(file, limits)), mode="r|") as archive:
                for n_entries, entry in enumerate(archive, 1):
                    parts = entry.name.split("/")
                    if n_entries > MOST_ENTRIES:
                        raise NotObjects(f"holds more than {MOST_ENTRIES} files and folders", _UNPACK)
                    if entry.name.startswith("/") or ".." in parts or "\0" in entry.name:
                        raise NotObjects(f"holds a name that leads out of it: {entry.name[:200]}", _UNPACK)
                    if entry.issparse() or not (entry.isreg() or entry.isdir()):
                        raise NotObjects(f"holds a link, or another entry that is no file: {entry.name[:200]}", _UNPACK)
                    is_hidden = any(part.startswith(".") and part != "." for part in parts)
                    if entry.isreg() and is_object_file(entry.name) and not is_hidden:
                        content = archive.extractfile(entry)
                        if content is not None:
                            yield f"{path}/{entry.name}", content, entry.size
        except (tarfile.TarError, EOFError, ValueError, RecursionError):
            raise NotObjects("the archive is damaged, or no tar archive", "write the file again") from None


class _Bounded:
    """The bytes of an archive, unpacked; NotObjects where these are too many, or too many for what they come from."""

    def __init__(self, file: IO[bytes], limits: Limits) -> None:
        head = file.read(len(GZIP_MAGIC))
        self._packed = Counted(head, file)
        self._stream: IO[bytes] = io.BufferedReader(self._packed)
        self._is_packed = head == GZIP_MAGIC
        if self._is_packed:
            self._stream = cast("IO[bytes]", Gunzipped(gzip.GzipFile(fileobj=self._stream)))
        self._limit = limits.max_stream_bytes
        self._count = 0

    def read(self, size: int) -> bytes:
        part = self._stream.read(size)
        self._count += len(part)
        if self._count > self._limit:
            raise NotObjects(f"more than {amount(self._limit)}")
        if self._is_packed and unfolds_too_much(self._count, self._packed.count):
            raise NotObjects("unpacks to far more than its size", _UNPACK)
        return part


def _fill(stream: IO[bytes], size: int) -> bytes:
    """Read `size` bytes, or up to the end of the stream; a pipe may return fewer at a time."""
    parts = []
    missing = size
    while missing and (part := stream.read(missing)):
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def _check_head(head: bytes, *, has_more: bool, is_objects: bool) -> None:
    if not head.strip():
        raise NotObjects(EMPTY)
    if b"\0" in head:
        raise NotObjects("a binary file")
    if not has_more:
        _check_encoding(head)
    elif is_objects and not re.search(_OBJECT_KEY, head):
        raise NotObjects("no apiVersion, kind or items in the first megabyte")


def _check_encoding(data: bytes | bytearray) -> None:
    """Check that all is UTF-8, chunk by chunk."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    view = memoryview(data)
    start = 0
    try:
        for start in range(0, len(data), CHUNK << 2):
            decoder.decode(view[start : start + (CHUNK << 2)])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, start + error.start) + 1
        raise NotObjects(f"not text in UTF-8 at line {line}") from None


Step = str | int  #: a key, or the index of a list's element
_STEP = r"""\.?([^.\[\]$'"]+)|\[([0-9]{1,9})\]|\[('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]"""
_PLAIN_KEY = r"[A-Za-z_][A-Za-z0-9_-]*"


class Source(msgspec.Struct, frozen=True):
    """The position of an object."""

    file: str  #: name of the file; "standard input" for ``-``
    document: int | None = None  #: counted from 1, without empty ones; None for objects that are not from a file
    line: int | None = None  #: counted from 1; None where it is not known


class Duplicate(msgspec.Struct, frozen=True):
    """A duplicate key of an object; the later one applies."""

    path: str  #: of the field: ``$.spec.replicas``
    line: int  #: of the later one


class Lines(Protocol):
    """Maps JSON paths to lines."""

    def of(self, path: str) -> int:
        """Return the line of a path in the file, or of its nearest parent where the path does not exist."""

    def written(self, path: str) -> str:
        """Return how the scalar at a path is written, such as ``n`` for a false of YAML; "" where that is not known."""
        del path
        return ""


def steps_of(path: str) -> tuple[Step, ...]:
    """Split a JSON path: ``$.spec.containers[0].resources['a.b/c']``; the leading ``$`` may be missing."""
    steps: list[Step] = []
    position = 1 if path.startswith("$") else 0
    step = re.compile(_STEP)
    while position < len(path) and (match := step.match(path, position)):
        name, index, quoted = match.groups()
        if index is not None:
            steps.append(int(index))
        else:
            steps.append(name if name is not None else _unquoted(quoted))
        position = match.end()
    return tuple(steps)


def _unquoted(text: str) -> str:
    try:
        return str(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return text[1:-1]


def path_of(steps: tuple[Step, ...]) -> str:
    return "$" + "".join(
        f"[{step}]" if isinstance(step, int) else (f".{step}" if re.fullmatch(_PLAIN_KEY, step) else f"[{step!r}]")
        for step in steps
    )


class JsonLines(Lines):
    """The lines of a document in JSON, whose text begins at a line of its file."""

    def __init__(self, content: msgspec.Raw, line: int) -> None:
        self._content = content
        self._text = memoryview(content)
        self._offsets, self._lines = [0], [line]  # the known positions, in their order
        self._members: dict[tuple[Step, ...], Any] = {}  #: of objects and lists, by their paths

    def of(self, path: str) -> int:
        value = self._content
        around: tuple[Step, ...] = ()
        for step in steps_of(path):
            if around not in self._members:
                first = bytes(memoryview(value)[:1])
                kind: Any = {b"{": dict[str, msgspec.Raw], b"[": list[msgspec.Raw]}.get(first)
                self._members[around] = msgspec.json.decode(value, type=kind) if kind else ()
            members = self._members[around]
            if isinstance(members, dict):
                inner = members.get(str(step))
            else:
                inner = members[step] if isinstance(step, int) and step < len(members) else None
            if inner is None:
                break
            value, around = inner, (*around, step)
        offset = _address(value) - _address(self._text)
        before = bisect_right(self._offsets, offset) - 1
        line = self._lines[before] + bytes(self._text[self._offsets[before] : offset]).count(b"\n")
        if self._offsets[before] != offset:
            self._offsets.insert(before + 1, offset)
            self._lines.insert(before + 1, line)
        return line


def _address(text: msgspec.Raw | memoryview) -> int:
    import numpy as np

    return int(np.frombuffer(text, dtype=np.uint8).ctypes.data)


def json_duplicates(content: msgspec.Raw, lines: Lines) -> Iterator[Duplicate]:
    """Yield the duplicate keys of the document's objects, in reading order."""
    has_any = False

    def checked(pairs: list[tuple[str, Any]]) -> None:
        nonlocal has_any
        has_any = has_any or len({key for key, _ in pairs}) < len(pairs)

    text = bytes(memoryview(content))
    json.loads(text, object_pairs_hook=checked, parse_int=_nothing, parse_float=_nothing)
    if has_any:
        pairs = json.loads(text, object_pairs_hook=_Pairs, parse_int=_nothing, parse_float=_nothing)
        for steps in _repeated(pairs, ()):
            path = path_of(steps)
            yield Duplicate(path, lines.of(path))


def _nothing(_: str) -> None:
    """Ignore a number, however long: only keys matter here."""


class _Pairs(list[tuple[str, Any]]):
    """A JSON object before its keys are known to be distinct."""


def _repeated(value: Any, steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    if isinstance(value, _Pairs):
        keys: set[str] = set()
        for key, item in value:
            if key in keys:
                yield (*steps, key)
            keys.add(key)
            yield from _repeated(item, (*steps, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _repeated(item, (*steps, index))


_ELEMENT = r"\[[0-9]+\](?=[.\[])"  #: an index that more of a path follows


class Document:
    """One document of a file."""

    def __init__(self, file: str, number: int, line: int, content: msgspec.Raw | Any) -> None:
        self.file = file  #: its name; "standard input" for ``-``
        self.number = number  #: counted from 1; documents that are empty or hold comments only are not counted
        self.line = line  #: the first line of its content
        self.content = content  #: JSON text, or builtins from YAML

    def __reduce__(self) -> tuple[Any, ...]:
        content = self.content.copy() if isinstance(self.content, msgspec.Raw) else self.content
        return Document, (self.file, self.number, self.line, content)

    @cached_property
    def lines(self) -> Lines:
        return JsonLines(self.content, self.line)

    def duplicates(self) -> tuple[Duplicate, ...]:
        """Return the duplicate keys of objects in this document, in reading order."""
        try:
            return tuple(json_duplicates(self.content, self.lines))
        except RecursionError:
            return ()  # decoding reports its depth

    def duplicates_below(self, path: str) -> Sequence[Duplicate]:
        """Return the duplicate keys in one object of the document: ``$``, or an element of a list."""
        return self._duplicates_by_element.get(path, ())

    @cached_property
    def _duplicates_by_element(self) -> dict[str, list[Duplicate]]:
        """The duplicate keys by the path of each list element around them, so that no object looks through all."""
        by_element: dict[str, list[Duplicate]] = {}
        for duplicate in self.duplicates():
            around = [match.end() for match in re.finditer(_ELEMENT, duplicate.path)]
            for end in (1, *around):
                by_element.setdefault(duplicate.path[:end], []).append(duplicate)
        return by_element

    def value(self) -> Any:
        """Return the content as builtins; raises as `as_builtins`."""
        return as_builtins(self.content)

    def locate(self, problem: Problem) -> Problem:
        written = self.lines.written(problem.json_path) if problem.wants_quotes else ""
        hint = decode.in_quotes(decode.shortened(written)) if written else problem.hint
        line = self.lines.of(problem.json_path)
        return problem._replace(path=self.file, document=self.number, hint=hint, line=line)


def as_builtins(content: msgspec.Raw | Any) -> Any:
    """Return JSON text as builtins, builtins as they are; raises DecodeError for what is too deep or too large."""
    if not isinstance(content, msgspec.Raw):
        return content
    value = decode.builtins(content)
    if _is_deeper(value, MAX_DEPTH):
        raise decode.DecodeError(
            (Problem(f"nested deeper than {MAX_DEPTH} levels", json_path="$", hint=decode.DEEP_HINT),)
        )
    return value


def _is_deeper(value: Any, levels: int) -> bool:
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if below is None:
        return False
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in below)
