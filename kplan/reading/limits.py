"""Limits of the size of inputs. A larger input holds something else, or is meant to harm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

#: Objects are nested some ten levels deep.
MAX_DEPTH: Final = 200

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

#: Bytes of one object as text; etcd stores 1.5 MiB.
MAX_OBJECT: Final = 8 * _MIB

SNAPSHOTS = Limits(max_bytes=4096 * _MIB, max_stream_bytes=2048 * _MIB)
MANIFESTS = Limits(max_bytes=512 * _MIB, max_stream_bytes=256 * _MIB)
REPORTS = Limits(max_bytes=1024 * _MIB, max_stream_bytes=512 * _MIB)
#: Scheduler configurations and kubeconfigs have a few kilobytes.
SETTINGS = Limits(max_bytes=4 * _MIB, max_stream_bytes=4 * _MIB, max_documents=1000, max_depth=100)
