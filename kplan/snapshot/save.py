"""Writing snapshots to files: whole or not at all, in the form that the file's name asks for."""

from __future__ import annotations

import contextlib
import gzip
import os
import secrets
from pathlib import Path

import msgspec

from kplan.errors import UsageError
from kplan.snapshot.document import to_bytes, to_document
from kplan.snapshot.model import Snapshot
from kplan.visible import as_yaml, json_bytes

__all__ = ["check_name", "encode_snapshot", "save_snapshot"]

_JSON = ".json"
_YAML = (".yaml", ".yml")
_GZIP = ".gz"

#: Hardly larger than the best, and several times quicker.
_GZIP_LEVEL = 6


def save_snapshot(snapshot: Snapshot, path: str | Path) -> int:
    """Write the snapshot to a file and return how many bytes it has.

    The file appears under its name when it is complete, and never in part: it is written beside it and then renamed. A
    file that was there before stays as it was until then.

    Parameters
    ----------
    snapshot : Snapshot
    path : str or Path
        Ends in ``.json``, ``.yaml`` or ``.yml``, each also with ``.gz``.

    Raises
    ------
    UsageError
        When the name says no form, or the file cannot be written.
    """
    target = Path(path)
    content = encode_snapshot(snapshot, target.name)
    try:
        _replace(target.resolve(), content)
    except OSError as error:
        raise UsageError(
            f"cannot write {target}: {error.strerror or error}", hint="name a file in a directory that you may write to"
        ) from error
    return len(content)


def encode_snapshot(snapshot: Snapshot, name: str) -> bytes:
    """Return the snapshot in the form that a file of this name has.

    Equal snapshots give equal bytes. Raises UsageError when the name says no form.
    """
    check_name(name)
    stem = name.lower().removesuffix(_GZIP)
    content = _to_yaml(snapshot) if stem.endswith(_YAML) else json_bytes(to_bytes(snapshot))
    return gzip.compress(content, _GZIP_LEVEL, mtime=0) if name.lower().endswith(_GZIP) else content


def check_name(name: str) -> None:
    """Raise UsageError when the name of a file does not say which form to write."""
    if not name.lower().removesuffix(_GZIP).endswith((_JSON, *_YAML)):
        raise UsageError(
            f"{name}: the name does not say which form to write", hint="end it in .json, .yaml, .json.gz or .yaml.gz"
        )


def _to_yaml(snapshot: Snapshot) -> bytes:
    return as_yaml(msgspec.to_builtins(to_document(snapshot))).encode()


def _replace(target: Path, content: bytes) -> None:
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    # Created like any file of the user, whose umask says who else may read it.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
