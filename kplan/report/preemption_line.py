"""What preemption came to, in one line."""

from __future__ import annotations

from collections.abc import Mapping

from kplan.documents.preemption import Preemption, WhyNot
from kplan.report.blocks import Line, Span, line
from kplan.report.details import listing
from kplan.report.words import count

_WHY_NOT: Mapping[WhyNot, str] = {
    "preemption-policy-never": "it may not evict any pod, since its preemptionPolicy is Never",
    "victims-are-leaving": "it waits for pods that were evicted for it before and are still leaving its node",
    "no-node-helps": "evicting pods of lower priority makes room on no node",
    "extenders-refuse": "evicting pods of lower priority makes room on no node that the extenders accept",
}


def preemption_line(found: Preemption) -> Line:
    """Say whom a pod that fits nowhere would evict, or why it evicts nobody."""
    if found.nominated_node is None and found.why_not == "victims-are-leaving":
        return line(Span("Preemption", "strong"), f" is under way: {why_no_eviction(found)}.")
    if found.nominated_node is None:
        return line(Span("Preemption", "strong"), f" does not help: {why_no_eviction(found)}.")
    victims = found.victims
    broken = sum(victim.pdb_violation for victim in victims)
    budgets = f", {count(broken, 'disruption budget violation')}" if broken else ""
    names = listing([victim.key for victim in victims])
    return line(
        Span("Preemption", "strong"),
        f" would make room on {found.nominated_node} by evicting {count(len(victims), 'pod')}: {names}{budgets}. "
        "kplan preempt tells more.",
    )


def why_no_eviction(found: Preemption) -> str:
    """Say why a pod evicts nobody, without a full stop."""
    if found.why_not == "not-tried":
        return f"it is not tried, since another plugin ends the search before (kube-scheduler: {found.message})"
    if found.why_not is None or found.why_not == "failed":
        return f"kube-scheduler writes: {found.message}"
    return _WHY_NOT[found.why_not]
