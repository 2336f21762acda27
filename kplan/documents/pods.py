"""PodsReport: which pods manifests make, as the API server would store them, and what filled them in."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kplan.documents.base import Count, Document, Head, InputWarning, now


class PodSource(Document, frozen=True, kw_only=True):
    """The object of a manifest that makes pods.

    Attributes
    ----------
    document : counted from 1
    line : where its name stands; null for an object that comes from no file
    """

    file: str
    document: int
    line: int | None
    kind: str
    namespace: str
    name: str


class FilledField(Document, frozen=True):
    """A field that the manifest does not state so.

    Attributes
    ----------
    value : what it holds now; null where it was taken away
    source : what filled it in, such as LimitRange limited/limits
    """

    field: str
    value: Any
    source: str


class PodsMade(Document, frozen=True, kw_only=True):
    """Pods of one object that are alike but for their names.

    Attributes
    ----------
    source : the object that makes them
    count : how many; 0 where it makes none now
    refusal : the API server's words where it does not take them; empty where it does
    object : the first of them, as it would be stored
    changes : what filled in what the manifest does not state
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
    """What kplan pods says.

    Attributes
    ----------
    cluster : where the cluster comes from whose rules hold
    skipped : objects that make no pods, by kind
    """

    kind: Literal["PodsReport"] = "PodsReport"
    generated_at: str = msgspec.field(default_factory=now)
    cluster: str
    summary: PodsSummary
    pods: tuple[PodsMade, ...]
    skipped: dict[str, Count]
    warnings: tuple[InputWarning, ...]
