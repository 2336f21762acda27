"""The end of reports that sum up in a sentence of their own: warnings, and why the verdict is a failure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kplan.report.blocks import Block, Heading, Span, line
from kplan.report.footer import warning_texts

__all__ = ["closing_blocks"]

_MOST_REASONS = 5


def closing_blocks(document: Mapping[str, Any], summary: str = "") -> Iterator[Block]:
    """Tell warnings and what failed, under a sentence that sums up."""
    warnings = warning_texts(document)
    if warnings:
        yield Heading((Span("Warnings", "warn"),))
        yield from (line(text, indent=1, is_item=True) for text in warnings)
    verdict = document["verdict"]
    if summary:
        yield Heading((summary,))
    if not verdict["failed"]:
        return
    if not summary:
        yield Heading(("Verdict",))
    conditions = ",".join(verdict["failOn"])
    yield line(Span("Failed", "bad"), f" (exit code {verdict['exitCode']}), since --fail-on {conditions} holds for:")
    reasons = verdict["because"]
    yield from (line(reason, indent=2, is_item=True) for reason in reasons[:_MOST_REASONS])
    if len(reasons) > _MOST_REASONS:
        yield line(f"and {len(reasons) - _MOST_REASONS} more", indent=2, is_item=True)
