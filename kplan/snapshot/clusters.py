"""Several clusters in one directory."""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path

from kplan.errors import Problem
from kplan.reading.files import GZIP_MAGIC, files_below, is_archive

_OWN_HEAD = re.compile(rb"""(?s)(?=.*?\bkplan/v1\b).*?\bkind["']?\s*:\s*["']?Snapshot\b""")
_HEAD_BYTES = 4096


def snapshots_of(directory: Path) -> list[str]:
    """Return the snapshots of several clusters in a directory; the directory itself where it holds one cluster.

    Each is a file of kplan's own, or an archive: other files are parts of one cluster.
    """
    problems: list[Problem] = []
    paths = [*files_below(directory, problems), *filter(is_archive, directory.iterdir())]
    if problems or len(paths) < 2 or not all(is_archive(path) or _is_own(path) for path in paths):
        return [str(directory)]
    return [str(path) for path in sorted(paths)]


def _is_own(path: Path) -> bool:
    """Tell by its beginning whether a file is a snapshot of kplan."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        if head.startswith(GZIP_MAGIC):
            with gzip.open(path) as packed:
                head = packed.read(_HEAD_BYTES)
    except (OSError, EOFError, zlib.error):
        return False
    return _OWN_HEAD.match(head) is not None
