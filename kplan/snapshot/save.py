"""Writing snapshots to files: atomically, in the form of the file's name."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec

from kplan.errors import UsageError
from kplan.snapshot.model import Snapshot
from kplan.snapshot.own_file import to_bytes, to_document
from kplan.visible import as_yaml, json_bytes
from kplan.writing import PRIVATE, write_file

_JSON = ".json"
_YAML = (".yaml", ".yml")
_GZIP = ".gz"

#: Files are little larger than with the highest level, and several times quicker to write.
_GZIP_LEVEL = 6


def save_snapshot(snapshot: Snapshot, path: str | Path) -> int:
    """Write the snapshot to a file and return how many bytes it has.

    Only the owner can read a new file, as it describes a whole cluster. See :mod:`kplan.writing`.

    Parameters
    ----------
    snapshot : Snapshot
    path : str or Path
        Ends in ``.json``, ``.yaml`` or ``.yml``, each also with ``.gz``.

    Raises
    ------
    UsageError
        When the name has none of these endings, or the file cannot be written.
    """
    target = Path(path)
    content = encode_snapshot(snapshot, target.name)
    write_file(target, content, mode=PRIVATE)
    return len(content)


def encode_snapshot(snapshot: Snapshot, name: str) -> bytes:
    """Return the content of a snapshot file of this name.

    Equal snapshots have equal bytes. Raises UsageError for a name without a known ending.
    """
    check_name(name)
    stem = name.lower().removesuffix(_GZIP)
    content = _to_yaml(snapshot) if stem.endswith(_YAML) else json_bytes(to_bytes(snapshot))
    return gzip.compress(content, _GZIP_LEVEL, mtime=0) if name.lower().endswith(_GZIP) else content


def check_name(name: str) -> None:
    """Raise UsageError for the name of a file without a known ending."""
    if not name.lower().removesuffix(_GZIP).endswith((_JSON, *_YAML)):
        raise UsageError(
            f"{name}: the name has no known extension", hint="end it in .json, .yaml, .json.gz or .yaml.gz"
        )


def _to_yaml(snapshot: Snapshot) -> bytes:
    return as_yaml(msgspec.to_builtins(to_document(snapshot))).encode()
