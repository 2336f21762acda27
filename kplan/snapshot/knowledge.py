"""What a snapshot cannot know: kinds that were not to be had."""

from __future__ import annotations

from collections.abc import Iterator

from kplan.documents.base import MissingKind
from kplan.snapshot.model import Snapshot, Warning  # noqa: A004 - the contract's word


def knowledge_warnings(snapshot: Snapshot) -> Iterator[Warning]:
    """Yield a warning for each kind that is missing."""
    yield from map(missing_warning, snapshot.missing)


def missing_warning(kind: MissingKind) -> Warning:
    """Say what it means that a kind, or a part of it, could not be read."""
    blind = f"; blind without them: {', '.join(kind.blinds)}" if kind.blinds else ""
    return Warning("MissingKind", kind.resource, f"not all could be read ({kind.reason}){blind}")
