"""What every report for people starts and ends with: where the answer comes from, what was odd, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kplan.report.blocks import Block, Heading, Line, Span, line
from kplan.report.options import ReportOptions
from kplan.report.words import count

__all__ = ["footer_blocks", "opening_blocks", "summary_text", "warning_texts"]

Document = Mapping[str, Any]
_MOST_REASONS = 5


def opening_blocks(document: Document, options: ReportOptions) -> Iterator[Block]:
    """Say which cluster and which scheduler the answer is about, if much is asked for."""
    if not options.is_wide:
        return
    snapshot, scheduler = document["snapshot"], document["scheduler"]
    taken = f", taken {snapshot['takenAt']}" if snapshot["takenAt"] else ""
    yield line(
        f"Cluster: {snapshot['source']} ({count(snapshot['nodes'], 'node')}, {count(snapshot['pods'], 'pod')}{taken})",
        indent=0,
    )
    profiles = ", ".join(scheduler["profiles"])
    gates = "".join(f", {gate}={str(is_on).lower()}" for gate, is_on in scheduler.get("featureGates", {}).items())
    yield line(
        f"Scheduler: v{scheduler['kubernetesVersion']}{gates}, configuration {scheduler['configSource']}, profiles "
        f"{profiles}",
        indent=0,
    )


def footer_blocks(document: Document, options: ReportOptions) -> Iterator[Block]:
    """Tell warnings, kinds that are missing, and the verdict."""
    warnings = warning_texts(document)
    if warnings:
        yield Heading((Span("Warnings", "warn"),))
        yield from (line(text, indent=1, is_item=True) for text in warnings)
    text = summary_text(document)
    verdict = document["verdict"]
    if verdict["failed"] or document["summary"]["pods"] > 1 or options.is_wide:
        yield Heading((text,))
        yield from _verdict_lines(verdict)


def _verdict_lines(verdict: Document) -> Iterator[Line]:
    conditions = ",".join(verdict["failOn"])
    if not verdict["failed"]:
        return
    yield line(Span("Failed", "bad"), f" (exit code {verdict['exitCode']}), since --fail-on {conditions} holds for:")
    reasons = verdict["because"]
    yield from (line(reason, indent=2, is_item=True) for reason in reasons[:_MOST_REASONS])
    if len(reasons) > _MOST_REASONS:
        yield line(f"and {len(reasons) - _MOST_REASONS} more", indent=2, is_item=True)


def summary_text(document: Document) -> str:
    """Count outcomes in one sentence."""
    summary = document["summary"]
    parts = [f"{summary['scheduled']} scheduled"]
    for key, words in (("unschedulable", "unschedulable"), ("gated", "gated"), ("errors", "in error")):
        if summary[key]:
            parts.append(f"{summary[key]} {words}")
    if summary["victims"]:
        parts.append(f"{count(summary['victims'], 'victim')} of preemption")
    if summary["pdbViolations"]:
        parts.append(count(summary["pdbViolations"], "disruption budget violation"))
    return f"{count(summary['pods'], 'pod')}: {', '.join(parts)}"


def warning_texts(document: Document) -> list[str]:
    """List everything that may make the answer differ from the cluster's, a sentence each.

    What is said of several objects in the same words comes once, under the first of them.
    """
    objects: dict[tuple[str, str], list[str]] = {}
    for each in document["warnings"]:
        objects.setdefault((each["message"], each["code"]), []).append(each["object"])
    return [f"{_first_of(names)}: {message} [{code}]" for (message, code), names in objects.items()]


def _first_of(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
