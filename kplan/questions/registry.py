"""All questions, by their kind; a new question needs a line here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from kplan.questions.base import Question

QUESTIONS: Mapping[str, str] = {
    "PlaceQuestion": "kplan.questions.place.question:Place",
    "PreemptQuestion": "kplan.questions.preempt.question:Preempt",
    "PlanQuestion": "kplan.questions.plan.question:Plan",
    "QueueQuestion": "kplan.questions.plan.question:Queue",
    "DrainQuestion": "kplan.questions.drain.question:Drain",
    "ExplainQuestion": "kplan.questions.explain.question:Explain",
    "CapacityQuestion": "kplan.questions.capacity.question:Capacity",
    "ShapesQuestion": "kplan.questions.capacity.question:Shapes",
    "HeadroomQuestion": "kplan.questions.capacity.question:Headroom",
    "ShrinkQuestion": "kplan.questions.capacity.question:Shrink",
    "NodesQuestion": "kplan.questions.nodes.question:Nodes",
    "BudgetsQuestion": "kplan.questions.check.promises:Budgets",
    "SurgeQuestion": "kplan.questions.check.promises:Surge",
    "AtMaximumQuestion": "kplan.questions.check.promises:AtMaximum",
    "PoolRoomQuestion": "kplan.questions.check.promises:PoolRoom",
    "ChecksQuestion": "kplan.questions.check.question:Checks",
    "PodsQuestion": "kplan.questions.pods.question:Pods",
    "InTurnQuestion": "kplan.questions.in_turn.question:InTurn",
    "ManyRunsQuestion": "kplan.questions.many_runs.question:ManyRuns",
    "WhatIfQuestion": "kplan.questions.what_if.question:WhatIf",
    "RunbookQuestion": "kplan.questions.runbook.question:Runbook",
    "RemedyQuestion": "kplan.questions.remedy.question:Remedy",
    "DiffQuestion": "kplan.questions.diff.question:Diff",
}
"""Kind -> MODULE:STRUCT."""


def question_type(kind: str) -> type[Question]:
    """Return the struct of a kind of question; raises KeyError where there is none."""
    module, _, name = QUESTIONS[kind].partition(":")
    struct: type[Question] = getattr(import_module(module), name)
    return struct
