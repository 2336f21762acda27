"""PodsReport: which pods manifests create, as the API server would store them, and what filled them in."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kplan.admission.stored import FilledField
from kplan.documents.base import Head, now
from kplan.facts import Count, Document, InputWarning


class PodSource(Document, frozen=True, kw_only=True):
    """The object of a manifest that creates pods.

    Attributes
    ----------
    document : counted from 1
    line : of its name; null for an object that comes from no file
    """

    file: str
    document: int
    line: int | None
    kind: str
    namespace: str
    name: str


class PodsMade(Document, frozen=True, kw_only=True):
    """Pods of one object that are alike but for their names.

    Attributes
    ----------
    source : the object that creates them
    count : how many; 0 where it creates none now
    refusal : the API server's words where it refuses them; empty where it accepts them
    object : the first of them, as it would be stored
    changes : the fields that were filled in
    """

    source: PodSource = msgspec.field(name="from")
    count: Count
    refusal: str
    object: dict[str, Any]
    changes: tuple[FilledField, ...]


class PodsSummary(Document, frozen=True, kw_only=True):
    """Totals."""

    pods: Count
    refused: Count


class PodsReport(Head, frozen=True, kw_only=True):
    """The answer of kplan pods.

    Attributes
    ----------
    cluster : the source of the cluster whose rules hold
    skipped : objects that create no pods, by kind
    """

    kind: Literal["PodsReport"] = "PodsReport"
    generated_at: str = msgspec.field(default_factory=now)
    cluster: str
    summary: PodsSummary
    pods: tuple[PodsMade, ...]
    skipped: dict[str, Count]
    warnings: tuple[InputWarning, ...]
