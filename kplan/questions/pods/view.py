"""The pods that manifests make: YAML to apply, a table, names, and cases for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator

from kplan.admission.stored import FilledField
from kplan.api.quantity import count
from kplan.documents.files import PodsReport
from kplan.report.blocks import Block, Table, line
from kplan.report.options import DEFAULT_WIDTH, Repository
from kplan.report.text import render_plain
from kplan.report.view import Case, CaseReport, State, in_repository, warning_case
from kplan.visible import as_yaml, shown, visible

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
    own = (change for change in changes if not change.source.startswith(_EVERYWHERE))
    return (change for change in own if change.field not in ("metadata.name", "metadata.namespace"))


def _change_text(change: FilledField) -> str:
    """Return what filled in a field: ``spec.priority 10 from PriorityClass usual``."""
    if change.value is None:
        return f"{change.field} taken away: {change.source}"
    text = change.value if isinstance(change.value, str) else json.dumps(change.value, ensure_ascii=False)
    shown = text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
    return f"{change.field} {shown} from {change.source}"


def render_table(report: PodsReport, width: int = DEFAULT_WIDTH) -> str:
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
    metadata = (pods.object["metadata"] for pods in report.pods if not pods.refusal and pods.count)
    names = (f"pod/{own['namespace']}/{own.get('name', '')}" for own in metadata)
    return "".join(f"{visible(name)}\n" for name in names)


def pods_cases(document: PodsReport, where: Repository) -> CaseReport:
    report = shown(document)
    cases = []
    for pods in report.pods:
        source, message = pods.source, pods.refusal or f"makes {count(pods.count, 'pod')}"
        name = f"{source.kind} {source.namespace}/{source.name}"
        state: State = "failed" if pods.refusal else "passed"
        rule = "Refused" if pods.refusal else "Taken"
        cases.append(Case(name, state, rule, message, message, source.file, source.document, source.line))
    n_refused = sum(case.state == "failed" for case in cases)
    return CaseReport(
        kind=report.kind,
        title=f"kplan pods: {count(len(report.pods), 'object')}, {n_refused} refused",
        generated_at=report.generated_at,
        source=where.file(report.cluster),
        cases=in_repository([*cases, *map(warning_case, report.warnings)], where),
        exit_code=1 if report.summary.refused or n_refused else 0,
    )
