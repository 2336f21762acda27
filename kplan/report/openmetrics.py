"""Reports as OpenMetrics, for a node exporter's folder or a push gateway.

https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kplan.api.time import seconds
from kplan.report.view import CaseReport, Metric

if TYPE_CHECKING:
    from kplan.documents.base import Report

_MOST_CHARACTERS = 500
"""Of a reason; monitoring systems refuse very long labels."""

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def render_openmetrics(document: Report, metrics: Iterable[Metric]) -> str:
    """Write what every report has, and the numbers of its kind; its text is visible already."""
    return _text([*_of_any(document), *metrics])


def refused_in_openmetrics(report: CaseReport) -> str:
    """Return the metrics of a question that has no answer."""
    reason = "; ".join(case.detail for case in report.cases)
    return _text([_answered(0, {"reason": reason[:_MOST_CHARACTERS]})])


def _answered(value: float, labels: Mapping[str, str] = {}) -> Metric:
    return Metric("answered", "Whether the question has an answer.", value, labels)


def _of_any(document: Report) -> Iterator[Metric]:
    of = {"kind": document.kind}
    yield _answered(1)
    yield Metric("failed", "Whether something happens that --fail-on lists.", document.verdict.failed, of)
    for warning in document.warnings:
        yield Metric("warnings", "Warnings of the report.", 1, {**of, "code": warning.code})
    yield Metric("snapshot_nodes", "Nodes of the cluster that was asked about.", document.snapshot.nodes, of)
    yield Metric("snapshot_pods", "Pods of the cluster that was asked about.", document.snapshot.pods, of)
    if (generated := seconds(document.generated_at)) is not None:
        yield Metric("generated_timestamp_seconds", "When the report was made.", generated, of)


def _text(metrics: Iterable[Metric]) -> str:
    families: dict[str, tuple[str, dict[str, float]]] = {}
    for metric in metrics:
        _, samples = families.setdefault(metric.name, (metric.help, {}))
        labels = ",".join(f'{name}="{text.translate(_ESCAPES)}"' for name, text in metric.labels.items())
        # Values with the same labels would be no metrics: those of two checks of one name are added.
        samples[labels] = samples.get(labels, 0) + metric.value
    lines: list[str] = []
    for name, (about, samples) in families.items():
        lines += [f"# TYPE kplan_{name} gauge"]
        lines += [f"# UNIT kplan_{name} seconds"] if name.endswith("_seconds") else []
        lines += [f"# HELP kplan_{name} {about.translate(_ESCAPES)}"]
        for labels, value in samples.items():
            number = int(value) if value == int(value) else value
            lines.append(f"kplan_{name}{{{labels}}} {number}" if labels else f"kplan_{name} {number}")
    return "\n".join([*lines, "# EOF"]) + "\n"
