"""kplan's snapshot file: one JSON document with the objects by kind and metadata of the cluster, written atomically.

It holds only fields that scheduling reads and that are not empty: no environment, no arguments, only few annotations
and little status. Loading it fills in no defaults. A redacted snapshot lists under ``kept`` what was not redacted, and
one that was changed on paper its changes.

::

    {"apiVersion": "kplan/v1", "kind": "Snapshot", "formatVersion": "1.1",
     "metadata": {"source": …, "serverVersion": …, "takenAt": …, "digest": "sha256:…", "missing": […], "skipped": {…},
                  "kept": […], "changes": […]},
     "objects": {"nodes": […], "pods": […], …}}
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from kplan.api.kinds import KINDS, Kind
from kplan.api.meta import KubeStruct
from kplan.errors import UsageError
from kplan.facts import CHANGES, ClusterChange, MissingKind
from kplan.snapshot.lean import lean
from kplan.snapshot.model import LIVE, Snapshot
from kplan.visible import as_yaml, json_bytes
from kplan.writing import PRIVATE, write_file

API_VERSION = "kplan/v1"
KIND = "Snapshot"
FORMAT_VERSION = "1.1"


class MissingEntry(KubeStruct, frozen=True):
    """A kind that could not be read when the snapshot was taken."""

    resource: str = ""
    reason: str = ""
    blinds: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()


class ChangeEntry(KubeStruct, frozen=True):
    """Something that was changed on paper before the snapshot was saved."""

    change: str = ""
    what: str = ""
    count: int = 0
    objects: tuple[str, ...] = ()


class SnapshotMetadata(KubeStruct, frozen=True):
    """Where and when the snapshot was taken."""

    source: str = ""
    server_version: str | None = None
    taken_at: str | None = None
    digest: str = ""
    missing: tuple[MissingEntry, ...] = ()
    skipped: dict[str, int] = {}
    unredacted: tuple[str, ...] = msgspec.field(default=(), name="kept")
    changes: tuple[ChangeEntry, ...] = ()


class SnapshotDocument(KubeStruct, frozen=True):
    """The file before its objects are decoded, kind by kind."""

    api_version: str = ""
    kind: str = ""
    format_version: str = ""
    metadata: SnapshotMetadata = SnapshotMetadata()
    objects: dict[str, msgspec.Raw] = {}


def to_document(snapshot: Snapshot) -> dict[str, Any]:
    """Return the file's content, with objects as structs, for msgspec's JSON encoder."""
    metadata = SnapshotMetadata(
        source=(LIVE if snapshot.from_server and not snapshot.source.startswith(LIVE) else "") + snapshot.source,
        server_version=snapshot.server_version,
        taken_at=snapshot.taken_at,
        digest=snapshot.digest,
        missing=tuple(MissingEntry(e.resource, e.reason, e.blinds, e.namespaces or ()) for e in snapshot.missing),
        skipped=snapshot.skipped,
        unredacted=snapshot.unredacted,
        changes=tuple(
            ChangeEntry(change.change, change.what, change.count, change.objects) for change in snapshot.changes
        ),
    )
    objects = {
        field_name(kind): tuple(lean(obj) for obj in structs)
        for kind in KINDS
        if (structs := snapshot.objects(kind.attribute))
    }
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "formatVersion": FORMAT_VERSION,
        "metadata": metadata,
        "objects": objects,
    }


def to_bytes(snapshot: Snapshot) -> bytes:
    """Return the file as JSON in UTF-8."""
    return msgspec.json.encode(to_document(snapshot)) + b"\n"


def field_name(kind: Kind) -> str:
    """Return the name of a kind's list in the file: ``persistentVolumeClaims``."""
    first, *rest = kind.attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)


def missing_of(metadata: SnapshotMetadata) -> tuple[MissingKind, ...]:
    """Return the kinds that could not be read when the snapshot was taken."""
    return tuple(MissingKind(e.resource, e.reason, e.blinds, e.namespaces or UNSET) for e in metadata.missing)


def changes_of(metadata: SnapshotMetadata) -> tuple[ClusterChange, ...]:
    """Return what was changed on paper before the snapshot was saved, without unknown changes."""
    return tuple(
        ClusterChange(change=word, what=entry.what, count=max(entry.count, 0), objects=entry.objects)
        for entry in metadata.changes
        for word in CHANGES
        if word == entry.change
    )


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
