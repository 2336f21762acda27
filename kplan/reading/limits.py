"""How much an input may hold. What is larger is something else, or is meant to harm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

#: Objects are nested some ten levels deep.
MAX_DEPTH: Final = 200

#: Called with what is being read, how much of it has been, and how much there is, where that is known.
Progress = Callable[[str, int, int | None], None]


class Limits(msgspec.Struct, frozen=True):
    """Bounds on one file."""

    max_bytes: int  #: of a file, unpacked
    #: of what has no size that can be asked for beforehand, and may never end: pipes, and what gzip unfolds to
    max_stream_bytes: int
    max_documents: int = 1_000_000  #: in one file
    max_depth: int = MAX_DEPTH  #: levels of nesting


_MIB: Final = 1 << 20

SNAPSHOTS = Limits(max_bytes=4096 * _MIB, max_stream_bytes=2048 * _MIB)
MANIFESTS = Limits(max_bytes=512 * _MIB, max_stream_bytes=256 * _MIB)
REPORTS = Limits(max_bytes=1024 * _MIB, max_stream_bytes=512 * _MIB)
#: Scheduler configurations and kubeconfigs have a few kilobytes.
SETTINGS = Limits(max_bytes=4 * _MIB, max_stream_bytes=4 * _MIB, max_documents=1000, max_depth=100)
