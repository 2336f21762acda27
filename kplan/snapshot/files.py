"""Bytes of files that hold Kubernetes objects: found, unpacked, refused early where they plainly hold none."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path
from typing import IO, cast

__all__ = ["CHUNK", "NotObjects", "files_below", "read_text"]

CHUNK = 1 << 20
_SUFFIXES = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")
_MAX_BYTES = 4 << 30
_GZIP_MAGIC = b"\x1f\x8b"
_OBJECT_KEY = re.compile(rb"""(^|[\s{,-])["']?(apiVersion|kind|items)["']?\s*:""", re.MULTILINE)


def files_below(directory: Path) -> list[Path]:
    """Return the files below a directory that may hold objects, by path; hidden ones are left out."""
    return sorted(
        path
        for path in directory.rglob("*")
        if path.name.lower().endswith(_SUFFIXES)
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(directory).parts)
    )


class NotObjects(Exception):  # noqa: N818 - becomes a problem of the file
    """A stream that holds no text, or plainly no Kubernetes objects."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint or "expected Kubernetes objects as JSON or YAML, for example from kubectl get -o json"


def read_text(stream: IO[bytes]) -> bytes:
    """Read it all as UTF-8, unpacked; what plainly holds no objects is refused after its first megabyte."""
    head = _fill(stream, CHUNK)
    if head.startswith(_GZIP_MAGIC):
        stream = cast("IO[bytes]", gzip.GzipFile(fileobj=io.BytesIO(head + stream.read())))
        head = _fill(stream, CHUNK)
    encoding = _encoding(head)
    has_more = len(head) == CHUNK
    if encoding == "utf-8":
        _check_head(head, has_more=has_more)
    parts = [head]
    total = len(head)
    while has_more and (part := stream.read(CHUNK << 4)):
        parts.append(part)
        total += len(part)
        if total > _MAX_BYTES:
            raise NotObjects(f"larger than {_MAX_BYTES >> 30} GiB")
    data = b"".join(parts) if len(parts) > 1 else head
    if encoding != "utf-8":
        data = data.decode(encoding, errors="replace").encode()
        _check_head(data[:CHUNK], has_more=len(data) > CHUNK)
    return data.removeprefix(b"\xef\xbb\xbf")


def _fill(stream: IO[bytes], size: int) -> bytes:
    """Read `size` bytes, or all there are; pipes give less at a time."""
    parts = []
    missing = size
    while missing and (part := stream.read(missing)):
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def _encoding(head: bytes) -> str:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    return "utf-8"


def _check_head(head: bytes, *, has_more: bool) -> None:
    if not head.strip():
        raise NotObjects("the file is empty")
    if b"\0" in head:
        raise NotObjects("a binary file")
    try:
        head.decode()
    except UnicodeDecodeError as error:
        if not has_more or error.start < len(head) - 4:
            raise NotObjects("not text in UTF-8") from None
    if has_more and not _OBJECT_KEY.search(head):
        raise NotObjects("no apiVersion, kind or items in the first megabyte")
