"""Disruption in Karpenter's own terms, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kplan.autoscaling.karpenter.answers import node_claim, rounded
from kplan.autoscaling.karpenter.disruption.commands import Command
from kplan.autoscaling.karpenter.disruption.conditions import CONSOLIDATABLE, DRIFTED, ClaimState
from kplan.autoscaling.karpenter.disruption.methods import Outcome


def answer_of(conditions: Mapping[str, ClaimState], outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """Return what each method does by itself, and which one acts."""
    return {
        "conditions": {name: _condition_texts(state) for name, state in sorted(conditions.items())},
        "first": next((name for name, outcome in outcomes.items() if outcome.commands), ""),
        "methods": {name: _method(outcome) for name, outcome in outcomes.items()},
    }


def _condition_texts(state: ClaimState) -> dict[str, str]:
    texts = {CONSOLIDATABLE: "True"} if state.is_consolidatable else {}
    return texts | ({DRIFTED: f"True {state.drifted}".strip()} if state.is_drifted else {})


def _method(outcome: Outcome) -> dict[str, Any]:
    return {
        "candidates": [{"node": one.name, "cost": rounded(one.cost)} for one in outcome.candidates],
        "budgets": dict(outcome.budgets),
        "commands": [_command(command) for command in outcome.commands],
        "events": outcome.events.by_target(),
    }


def _command(command: Command) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "decision": command.decision,
        "candidates": [candidate.name for candidate in command.candidates],
        "replacements": [node_claim(node) for node in command.replacements],
        "existing": {node: [pod.metadata.key for pod in pods] for node, pods in command.existing.items()},
    }
    if command.consolidates:
        answer["savings"] = rounded(command.savings)
    return answer
