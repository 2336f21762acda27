"""The pods that manifests make: YAML to apply, a table, names."""

from __future__ import annotations

import json
from collections.abc import Iterator

from kplan.admission.stored import FilledField
from kplan.documents.pods import PodsReport
from kplan.report.blocks import Block, Table, line
from kplan.report.options import DEFAULT_WIDTH
from kplan.report.text import render_plain
from kplan.visible import as_yaml, visible

_LONGEST_VALUE = 60
_EVERYWHERE = ("default", "API server", "ServiceAccount ")
_COLUMNS = ("NAMESPACE", "NAME", "FROM", "PODS", "ACCEPTED", "FILLED IN BY")


def render_yaml(report: PodsReport) -> str:
    """Return the pods as YAML; comments say where each comes from, what filled it in, or why it is refused."""
    documents = []
    for pods in report.pods:
        source = pods.source
        at = "" if source.line is None else f", line {source.line}"
        number = "" if pods.count == 1 else f", {pods.count} pods"
        comments = [f"{source.kind} {source.namespace}/{source.name}{number} ({source.file}{at})"]
        comments += [f"refused: {pods.refusal}"] if pods.refusal else map(_change_text, _notable(pods.changes))
        lines = ["---", *(f"# {visible(comment)}" for comment in comments)]
        documents.append("\n".join([*lines, "" if pods.refusal else as_yaml(pods.object)]))
    return "".join(documents)


def _notable(changes: tuple[FilledField, ...]) -> Iterator[FilledField]:
    """Yield the fields that this cluster filled in, without those that every API server fills in."""
    return (
        change
        for change in changes
        if not change.source.startswith(_EVERYWHERE) and change.field not in ("metadata.name", "metadata.namespace")
    )


def _change_text(change: FilledField) -> str:
    """Return what filled in a field: ``spec.priority 10 from PriorityClass usual``."""
    if change.value is None:
        return f"{change.field} taken away: {change.source}"
    text = change.value if isinstance(change.value, str) else json.dumps(change.value, ensure_ascii=False)
    shown = text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
    return f"{change.field} {shown} from {change.source}"


def render_table(report: PodsReport, width: int = DEFAULT_WIDTH) -> str:
    """Return a row for each object that makes pods, and why the API server refuses those that it refuses."""
    if not report.pods:
        return ""
    rows: list[tuple[str, ...]] = []
    refusals: list[Block] = []
    for pods in report.pods:
        metadata, source = pods.object["metadata"], pods.source
        sources = dict.fromkeys(change.source.split()[0] for change in _notable(pods.changes))
        name = metadata.get("name") or metadata.get("generateName", "")
        maker = f"{source.kind}/{source.name}"
        accepted = "no" if pods.refusal else "yes"
        row = (source.namespace, name, maker, str(pods.count), accepted, ", ".join(sources))
        rows.append(tuple(map(visible, row)))
        refusals += [line(visible(f"{maker}: {pods.refusal}"), indent=0)] if pods.refusal else []
    return render_plain([Table(_COLUMNS, tuple(rows), "<<<><<", indent=0), *refusals], width)


def render_names(report: PodsReport) -> str:
    names = [
        f"pod/{pods.object['metadata']['namespace']}/{pods.object['metadata'].get('name', '')}"
        for pods in report.pods
        if not pods.refusal and pods.count
    ]
    return "".join(f"{visible(name)}\n" for name in names)
