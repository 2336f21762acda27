"""All questions, by their kind; a new question needs a line here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from kplan.questions.base import Question

QUESTIONS: Mapping[str, str] = {
    "PlaceQuestion": "kplan.questions.place:Place",
    "PreemptQuestion": "kplan.questions.preempt:Preempt",
    "PlanQuestion": "kplan.questions.plan:Plan",
    "QueueQuestion": "kplan.questions.plan:Queue",
    "DrainQuestion": "kplan.questions.drain:Drain",
    "ExplainQuestion": "kplan.questions.explain:Explain",
    "CapacityQuestion": "kplan.questions.capacity:Capacity",
    "ShapesQuestion": "kplan.questions.capacity:Shapes",
    "HeadroomQuestion": "kplan.questions.capacity:Headroom",
    "ShrinkQuestion": "kplan.questions.capacity:Shrink",
    "NodesQuestion": "kplan.questions.nodes:Nodes",
    "BudgetsQuestion": "kplan.questions.promises:Budgets",
    "SurgeQuestion": "kplan.questions.promises:Surge",
    "AtMaximumQuestion": "kplan.questions.promises:AtMaximum",
    "PoolRoomQuestion": "kplan.questions.promises:PoolRoom",
    "ChecksQuestion": "kplan.questions.checks:Checks",
    "PodsQuestion": "kplan.questions.pods:Pods",
    "InTurnQuestion": "kplan.questions.in_turn:InTurn",
    "ManyRunsQuestion": "kplan.questions.many_runs:ManyRuns",
    "WhatIfQuestion": "kplan.questions.what_if:WhatIf",
    "RunbookQuestion": "kplan.questions.runbook:Runbook",
    "RemedyQuestion": "kplan.questions.remedy:Remedy",
    "DiffQuestion": "kplan.questions.diff:Diff",
}
"""Kind -> MODULE:STRUCT."""


def question_type(kind: str) -> type[Question]:
    """Return the struct of a kind of question; raises KeyError where there is none."""
    module, _, name = QUESTIONS[kind].partition(":")
    struct: type[Question] = getattr(import_module(module), name)
    return struct
