"""What preemption came to, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kplan.report.blocks import Line, Span, line
from kplan.report.details import listing
from kplan.report.words import count, pod_key

__all__ = ["preemption_line"]


def preemption_line(placement: Mapping[str, Any]) -> Line:
    """Say whom a pod that fits nowhere would evict, or why it evicts nobody."""
    found = placement["preemption"]
    if found["nominatedNode"] is None:
        message = str(found["message"]).removeprefix("preemption: ")
        why = message if found["eligible"] else f"it may not preempt: {message}"
        return line(Span("Preemption", "strong"), f" does not help: {why.rstrip('.') or 'no candidate'}.")
    victims = found["victims"]
    broken = sum(bool(victim["pdbViolation"]) for victim in victims)
    budgets = f", {count(broken, 'disruption budget violation')}" if broken else ""
    names = listing([pod_key(victim) for victim in victims])
    return line(
        Span("Preemption", "strong"),
        f" would make room on {found['nominatedNode']} by evicting {count(len(victims), 'pod')}: {names}{budgets}. "
        "kplan preempt tells more.",
    )
