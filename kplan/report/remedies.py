"""Why a pod has no node and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UnsetType
from msgspec.structs import replace

from kplan.changes import remedy as r
from kplan.changes.remedy_words import of_members, remedy_words, untried
from kplan.documents.placement import PodPlacement
from kplan.report.blocks import Block, Line, Span, line
from kplan.report.options import ReportOptions
from kplan.report.view import Case
from kplan.report.words import as_argument

_BOTH = 2
MOST_SHOWN = 3


def diagnosis_blocks(placement: PodPlacement, options: ReportOptions, *, has_reason: bool = False) -> Iterator[Block]:
    """Yield why a pod has no node, unless that is said, and what would help; with --explain every remedy."""
    if not isinstance(placement.diagnosis, str):
        return
    if not has_reason:
        yield line(Span(placement.diagnosis, "strong"))
    remedies = placement.remedies or ()
    most = None if options.explain else MOST_SHOWN if placement.current is None else 1
    yield from remedy_blocks(remedies, most=most)


def remedy_blocks(remedies: Sequence[r.Remedy], *, most: int | None = None) -> Iterator[Block]:
    """Yield what would help: all remedies, or the first ones."""
    shown = remedies[:most]
    left_out = len(remedies) - len(shown)
    more = Span(f" ({left_out} more with --explain)" if left_out else "", "hint")
    if len(shown) == 1:
        yield line(Span("What would help", "strong"), f": {remedy_text(shown[0])}.", more)
    elif shown:
        yield line(Span("What would help", "strong"), ", any one of:", more)
        yield from (Line((remedy_text(remedy),), 2, is_item=True) for remedy in shown)


def remedy_text(remedy: r.Remedy) -> str:
    """Return a remedy and its effect as a sentence without a full stop."""
    helps = _helps(remedy.helps)
    if isinstance(remedy, r.Uncordon):  # a command, which nothing may follow that is not part of it
        return f"{'for ' + helps + ': ' if helps else ''}{of_members(remedy)}{remedy_words(remedy)}"
    change = f"{of_members(remedy)}{remedy_words(remedy)}"
    if remedy.then is not None and remedy.helps and remedy.helps.pods > 1:  # the others may go elsewhere
        return f"{change} ({helps}, the first on {remedy.then})"
    then = f" -> {remedy.then}" if remedy.then is not None else ""
    return f"{change}{then}{f' ({helps})' if helps else ''}{untried(remedy)}"


def _helps(helps: r.Helped | UnsetType) -> str:
    if not helps:
        return ""
    if helps.pods < helps.of:
        return f"{helps.pods} of {helps.of} pods"
    return "both pods" if helps.of == _BOTH else f"all {helps.of} pods"


def located(case: Case, placement: PodPlacement) -> Case:
    """Return a case with the place of its manifest, what would help, and the command that shows more."""
    would_help = remedy_text(placement.remedies[0]) if placement.remedies else ""
    origin = placement.pod.origin
    if not origin:
        return replace(case, would_help=would_help, more=f"kplan explain {placement.pod.key}")
    return replace(
        case,
        file=origin.file,
        document=origin.document,
        line=(placement.at_fault.line if placement.at_fault else None) or origin.line or None,
        workload=f"{origin.kind} {placement.pod.namespace}/{origin.name}",
        would_help=would_help,
        more=f"kplan place {as_argument(origin.file)} --explain",
    )
