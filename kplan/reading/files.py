"""The bytes of files.

Files are found, unpacked, refused early where they clearly hold something else, and bounded in size. Dumps of clusters
in tar archives are read as the folders that they hold, without anything being unpacked on disk.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final, cast

import msgspec

from kplan.errors import Problem
from kplan.reading.positions import MAX_DEPTH

#: Called with what is being read (a file, or the plural name of a kind), the amount read, and the total where that is
#: known. While lists are read from a live cluster the calls come from several threads, one at a time.
ReadProgress = Callable[[str, int, int | None], None]
EMPTY = "the file is empty"
_UNPACK = "unpack it into a folder, look inside, and name the folder"


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
_MOST_ABOVE = 100  #: folders above a file; no path that people use is as deep
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


def files_below(directory: Path, problems: list[Problem], hint_for_none: str = "") -> list[Path]:
    """Return the files below a directory that may hold objects, by path; unreadable folders are problems.

    So is a directory without such a file, where there is a hint for it.
    """

    def note(error: OSError) -> None:
        hint = "check its permissions, or name the files one by one"
        problems.append(Problem(f"cannot be read: {error.strerror}", path=str(error.filename), hint=hint))

    paths = []
    n_entries, n_known = 0, len(problems)
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
    if hint_for_none and not paths and len(problems) == n_known:
        message = "the directory holds no .json, .yaml or .yml file"
        problems.append(Problem(message, path=str(directory), hint=hint_for_none))
    return sorted(paths)


class NotObjects(Exception):  # noqa: N818 - becomes a problem of the file
    """A stream that holds no text, or clearly no Kubernetes objects."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint  # empty for a hint about the expected content


def folders_above(path: Path) -> Sequence[Path]:
    """Return the folders above a path, the nearest first: at most 100 of them, however many its name has."""
    return path.parents[:_MOST_ABOVE]


def read_source(
    path: Path | None,
    stdin: IO[bytes] | None,
    limits: Limits,
    progress: ReadProgress | None,
    *,
    is_objects: bool = True,
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


def amount(n_bytes: int) -> str:
    return f"{n_bytes >> 30} GiB" if n_bytes >= 1 << 30 else f"{n_bytes >> 20} MiB"


def read_text(
    stream: IO[bytes], name: str, size: int | None, limits: Limits, progress: ReadProgress | None, *, is_objects: bool
) -> bytearray:
    unpacked = _Unpacked(stream, limits, size)
    head = _fill(unpacked, CHUNK)
    encoding = "utf-16" if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"
    has_more = len(head) == CHUNK
    if encoding == "utf-8":
        _check_head(head, has_more=has_more, is_objects=is_objects)
    data = bytearray(head)  # it grows in place: large snapshots are held once
    while has_more and (part := unpacked.read(CHUNK << 4)):
        data += part
        if progress:
            progress(f"{name} (bytes)", unpacked.n_read, size)
    if encoding != "utf-8":
        data = bytearray(data.decode(encoding, errors="replace").encode())
        _check_head(bytes(data[:CHUNK]), has_more=len(data) > CHUNK, is_objects=is_objects)
    elif has_more:
        _check_encoding(data)
    if data.startswith(codecs.BOM_UTF8):
        del data[: len(codecs.BOM_UTF8)]
    return data


class _Counted(io.RawIOBase):
    """A stream with bytes put back in front of it, which counts the bytes that are read."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        super().__init__()
        self._head = memoryview(head)
        self._rest = rest
        self.count = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        n_ahead = len(self._head) if size < 0 else size
        part = bytes(self._head[:n_ahead])
        if size < 0 or not part:
            part += self._rest.read(size) or b""
        self._head = self._head[n_ahead:]
        self.count += len(part)
        return part

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # the stub knows no narrower type than any buffer
        part = self.read(len(buffer))
        buffer[: len(part)] = part
        return len(part)


class _Unpacked:
    """The bytes of a stream, without gzip; NotObjects where these are too many, or too many for what they come from.

    A plain file may be larger than a stream whose `size` is not known beforehand.
    """

    def __init__(self, stream: IO[bytes], limits: Limits, size: int | None) -> None:
        head = _fill(stream, CHUNK)
        self._packed = _Counted(head, stream)
        self._is_packed = head.startswith(GZIP_MAGIC)
        self._stream: _Counted | gzip.GzipFile = self._packed
        if self._is_packed:
            self._stream = gzip.GzipFile(fileobj=io.BufferedReader(self._packed, CHUNK))
        self._limit = limits.max_stream_bytes if size is None or self._is_packed else limits.max_bytes
        self._count = 0

    @property
    def n_read(self) -> int:
        """How many bytes of the stream itself have been read."""
        return self._packed.count

    def read(self, size: int) -> bytes:
        try:
            part = self._stream.read(size)
        except EOFError:
            raise NotObjects("the gzip file is cut off before its end", "write the file again") from None
        except (gzip.BadGzipFile, zlib.error):
            raise NotObjects("the gzip file is damaged", "write the file again") from None
        self._count += len(part)
        if self._count > self._limit:
            raise NotObjects(f"more than {amount(self._limit)}")
        unfolds_much = self._count > _UNFOLDING_FROM and self._count > self._packed.count * _MAX_UNFOLDING
        if self._is_packed and unfolds_much:
            raise NotObjects(f"unpacks to more than {_MAX_UNFOLDING} times its size", "unpack it first and look inside")
        return part


def files_in_archive(path: Path, limits: Limits) -> Iterator[tuple[str, IO[bytes], int]]:
    """Yield the files that may hold objects: path, content, which is read before the next one, and size.

    Raises NotObjects for an archive that is damaged, unpacks to too much, or holds what a dump does not: links,
    devices, and names that lead out of it.
    """
    import tarfile

    with path.open("rb") as file:
        try:
            # As a stream: nothing is read twice, and nothing is believed about what comes later.
            with tarfile.open(fileobj=cast("IO[bytes]", _Unpacked(file, limits, None)), mode="r|") as archive:
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


def _fill(stream: IO[bytes] | _Unpacked, size: int) -> bytes:
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
