"""The PlanReport for people: what changes, what stays pending and why, and how full the cluster gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kplan.report.blocks import Block, Cell, Heading, Preformatted, Span, Style, Table, line
from kplan.report.decision import decision_blocks
from kplan.report.details import listing
from kplan.report.footer import opening_blocks
from kplan.report.options import ReportOptions
from kplan.report.plan_cases import plan_cases
from kplan.report.utilisation import largest_fit_blocks, utilisation_blocks
from kplan.report.verdict import closing_blocks
from kplan.report.view import View
from kplan.report.words import count, name_ranges

__all__ = ["VIEW", "plan_blocks", "told_attempts"]

Document = Mapping[str, Any]
_STYLES: Mapping[str, Style] = {"+": "good", "~": "warn", "-": "bad", "!": "bad"}
_MOST_TOLD = 5
"""Of pods that stay pending for different reasons, so many are told about in full."""

_PENDING_WORDS: Mapping[str, str] = {
    "Unschedulable": "fits nowhere",
    "Gated": "waits for its scheduling gates",
    "Error": "cannot be scheduled",
}


def plan_blocks(document: Document, options: ReportOptions) -> Iterator[Block]:
    """Tell a PlanReport."""
    yield from opening_blocks(document, options)
    changes = document["changes"]
    yield Heading((plan_sentence(document),))
    if changes:
        yield line("+ placed   ~ moved (evicted and placed elsewhere)   - evicted for good   ! stays pending")
        yield _changes_table(changes, options)
    yield from _pending(document, options)
    yield from utilisation_blocks(document["utilisation"], options)
    yield from largest_fit_blocks(document["largestFit"], options)
    yield from closing_blocks(document, plan_sentence(document) if document["verdict"]["failed"] else "")


def plan_sentence(document: Document) -> str:
    """Count what becomes of the pods, in one sentence."""
    summary = document["summary"]
    if not document["changes"]:
        return "Nothing to do: no pod is pending"
    stay = "stays pending" if summary["pending"] == 1 else "stay pending"
    words = (("placed", "placed"), ("moved", "moved"), ("evicted", "evicted for good"), ("pending", stay))
    parts = [f"{summary[key]} {word}" for key, word in words if summary[key] or key == "placed"]
    if summary["pdbViolations"]:
        parts.append(count(summary["pdbViolations"], "disruption budget violation"))
    return f"{count(len(document['changes']), 'pod')}: {', '.join(parts)}"


# --- what changes -----------------------------------------------------------------------------------------------------


def _changes_table(changes: Sequence[Document], options: ReportOptions) -> Table:
    groups = [[change] for change in changes] if options.is_wide else _alike(changes)
    rows: list[tuple[Cell, ...]] = [
        (
            Span(group[0]["action"], _STYLES[group[0]["action"]]),
            _pods(group),
            _nodes([each["from"] for each in group]),
            _nodes([each["to"] for each in group]),
            _note(group, is_wide=options.is_wide),
        )
        for group in groups
    ]
    return Table(("", "POD", "FROM", "TO", "NOTE"), tuple(rows), "<<<<<")


def _alike(changes: Sequence[Document]) -> list[list[Document]]:
    """Group pods of one workload with the same fate, in the order in which the first of them comes."""
    groups: dict[tuple[str, ...], list[Document]] = {}
    for change in changes:
        namespace = change["pod"].partition("/")[0]
        who = f"{namespace}/{change['workload']}" if change["workload"] else change["pod"]
        fate = (change["action"], who, str(change["by"]), change["outcome"], change["reason"])
        groups.setdefault(fate, []).append(change)
    return list(groups.values())


def _pods(group: Sequence[Document]) -> str:
    if len(group) == 1:
        return str(group[0]["pod"])
    namespace = group[0]["pod"].partition("/")[0]
    names = name_ranges([each["pod"].partition("/")[2] for each in group], most=2)
    return f"{namespace}/{names} ({count(len(group), 'pod')} of {group[0]['workload']})"


def _nodes(names: Sequence[str | None]) -> str:
    known = Counter(name for name in names if name is not None)
    texts = [name if n == 1 and len(names) == 1 else f"{name} ({n})" for name, n in known.most_common()]
    return listing(texts) if texts else "-"


def _note(group: Sequence[Document], *, is_wide: bool) -> str:
    change = group[0]
    parts = []
    if change["by"] is not None:
        parts.append(f"evicted for {change['by']}")
    if change["action"] == "-":
        parts.append("no controller makes it again")
    elif change["action"] == "!":
        parts.append(_PENDING_WORDS.get(change["outcome"], change["reason"]))
    if is_wide and change["recreatedAs"] not in (None, change["pod"]):
        parts.append(f"here made again as {change['recreatedAs']}")
    return ", ".join(parts)


# --- what stays pending -----------------------------------------------------------------------------------------------


def told_attempts(changes: Sequence[Document]) -> list[int]:
    """List the placements that tables tell about in full: of pods that stay pending, the first of some messages."""
    first: dict[tuple[str, str], int] = {}
    for change in changes:
        if change["action"] == "!" and change["attempt"] is not None:
            first.setdefault((change["outcome"], change["reason"]), change["attempt"])
    return sorted([*first.values()][:_MOST_TOLD])


def _pending(document: Document, options: ReportOptions) -> Iterator[Block]:
    n_nodes = document["snapshot"]["nodes"]
    in_full = set(told_attempts(document["changes"]))
    groups: dict[tuple[str, str], list[Document]] = {}
    for change in document["changes"]:
        if change["action"] == "!":
            groups.setdefault((change["outcome"], change["reason"]), []).append(change)
    for (outcome, reason), members in groups.items():
        names = listing([each["pod"] for each in members])
        words = _PENDING_WORDS.get(outcome, reason if outcome else "stays pending")
        yield Heading((f"{names}: ", Span(words, "bad")))
        attempt = members[0]["attempt"]
        placement = None if attempt is None else document["placements"][attempt]
        if placement is not None and attempt in in_full and "rejectionSummary" in placement:
            yield from decision_blocks(placement, n_nodes, options)
        elif placement is not None:
            yield Preformatted("kube-scheduler writes", placement["message"])
        else:
            yield line(f"{reason}.")


def _title(document: Document) -> str:
    return f"kplan {document['command']}: {plan_sentence(document)}"


def _names(document: Document) -> list[str]:
    return [f"{each['action']} {each['pod']} {each['to'] or '-'}" for each in document["changes"]]


VIEW = View(_title, plan_blocks, plan_cases, _names)
