"""Dumps of clusters in tar archives, read as the folders that they hold, without anything being unpacked on disk."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from kplan.reading.files import (
    GZIP_MAGIC,
    MOST_ENTRIES,
    Counted,
    Gunzipped,
    Limits,
    NotObjects,
    amount,
    is_object_file,
    unfolds_too_much,
)

_HINT = "unpack it into a folder, look inside, and name the folder"


def files_in_archive(path: Path, limits: Limits) -> Iterator[tuple[str, IO[bytes], int]]:
    """Yield the files that may hold objects: path, content, which is read before the next one, and size.

    Raises
    ------
    NotObjects
        For an archive that is damaged, unpacks to too much, or holds what a dump does not: links, devices, and names
        that lead out of it.
    OSError
        If it cannot be read.
    """
    with path.open("rb") as file:
        try:
            # As a stream: nothing is read twice, and nothing is believed about what comes later.
            with tarfile.open(fileobj=cast("IO[bytes]", _Bounded(file, limits)), mode="r|") as archive:
                for n_entries, entry in enumerate(archive, 1):
                    parts = entry.name.split("/")
                    if n_entries > MOST_ENTRIES:
                        raise NotObjects(f"holds more than {MOST_ENTRIES} files and folders", _HINT)
                    if entry.name.startswith("/") or ".." in parts or "\0" in entry.name:
                        raise NotObjects(f"holds a name that leads out of it: {entry.name[:200]}", _HINT)
                    if entry.issparse() or not (entry.isreg() or entry.isdir()):
                        raise NotObjects(f"holds a link, or another entry that is no file: {entry.name[:200]}", _HINT)
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
            raise NotObjects("unpacks to far more than its size", _HINT)
        return part
