"""What preemption came to, in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kplan.report.blocks import Line, Span, line
from kplan.report.details import listing
from kplan.report.words import count, pod_key

__all__ = ["preemption_line", "why_no_eviction"]

_NO_CANDIDATE = re.compile(r"(^|.*, )preemption: 0/\d+ nodes are available: .*", re.DOTALL)
"""How kube-scheduler says that it tried, or need not try, all nodes in vain."""


_CUT_SHORT = "not found"
"""How DynamicResources, which is asked before preemption, fails when PreFilter ended ahead of it."""


def preemption_line(placement: Mapping[str, Any]) -> Line:
    """Say whom a pod that fits nowhere would evict, or why it evicts nobody."""
    found = placement["preemption"]
    if found["nominatedNode"] is None:
        return line(Span("Preemption", "strong"), f" does not help: {why_no_eviction(found)}.")
    victims = found["victims"]
    broken = sum(bool(victim["pdbViolation"]) for victim in victims)
    budgets = f", {count(broken, 'disruption budget violation')}" if broken else ""
    names = listing([pod_key(victim) for victim in victims])
    return line(
        Span("Preemption", "strong"),
        f" would make room on {found['nominatedNode']} by evicting {count(len(victims), 'pod')}: {names}{budgets}. "
        "kplan preempt tells more.",
    )


def why_no_eviction(preemption: Mapping[str, Any]) -> str:
    """Say why a pod evicts nobody, without a full stop."""
    message = str(preemption["message"])
    if preemption["eligible"] and (not message or _NO_CANDIDATE.fullmatch(message)):
        return "evicting pods of lower priority makes room on no node"
    if message == _CUT_SHORT:
        return "it is not tried, since the pod is turned down before nodes are looked at (kube-scheduler: not found)"
    text = message.rpartition("preemption: ")[2].rstrip(".")
    return text if preemption["eligible"] else f"it may not evict any pod: {text}"
