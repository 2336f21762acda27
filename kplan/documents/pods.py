"""PodsReport: which pods manifests create, as the API server would store them, and what filled them in."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kplan.admission.stored import FilledField
from kplan.documents.base import Head, now
from kplan.facts import Count, Document, InputWarning


class PodSource(Document, frozen=True, kw_only=True):
    """The object of a manifest that creates pods."""

    file: str
    document: int  #: counted from 1
    line: int | None  #: of its name; null for an object that comes from no file
    kind: str
    namespace: str
    name: str


class PodsMade(Document, frozen=True, kw_only=True):
    """Pods of one object that are alike but for their names."""

    source: PodSource = msgspec.field(name="from")  #: the object that creates them
    count: Count  #: how many; 0 where it creates none now
    refusal: str  #: the API server's words where it refuses them; empty where it accepts them
    object: dict[str, Any]  #: the first of them, as it would be stored
    changes: tuple[FilledField, ...]  #: the fields that were filled in


class PodsSummary(Document, frozen=True, kw_only=True):
    """Totals."""

    pods: Count
    refused: Count


class PodsReport(Head, frozen=True, kw_only=True):
    """The answer of kplan pods."""

    kind: Literal["PodsReport"] = "PodsReport"
    generated_at: str = msgspec.field(default_factory=now)
    cluster: str  #: the source of the cluster whose rules hold
    summary: PodsSummary
    pods: tuple[PodsMade, ...]
    skipped: dict[str, Count]  #: objects that create no pods, by kind
    warnings: tuple[InputWarning, ...]
