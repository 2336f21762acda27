"""A cluster at one instant: read from files or objects, checked, completed, written."""

from __future__ import annotations

from kplan.facts import MissingKind
from kplan.snapshot.build import build_snapshot
from kplan.snapshot.load import load_snapshot
from kplan.snapshot.model import Snapshot, Warning  # noqa: A004 - the contract's word

__all__ = ["MissingKind", "Snapshot", "Warning", "build_snapshot", "load_snapshot"]
