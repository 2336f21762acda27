"""Questions as values: all parameters of a question in a frozen struct, whoever asks it.

A question is asked with :meth:`kplan.Planner.ask`, written as a document for ``kplan ask``, sent to a worker, asked
many times (`ManyRuns`), or asked for each node (`InTurn`). A new question is a module here, and a line in
:mod:`kplan.catalogue`.

>>> import kplan
>>> from kplan.questions import Drain
>>> planner = kplan.Planner(kplan.load_snapshot("demo"))
>>> planner.ask(Drain(("general-a-1",), how="rolling")).kind
'PlanReport'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kplan.catalogue import QUESTIONS
from kplan.questions.base import question_type

if TYPE_CHECKING:
    from kplan.questions.capacity import Capacity, Headroom, Shapes, Shrink
    from kplan.questions.check import Check, Checks
    from kplan.questions.check.expectations import Expect
    from kplan.questions.diff import Diff
    from kplan.questions.drain import Drain, InTurn, Runbook
    from kplan.questions.explain import Explain
    from kplan.questions.many_runs import ManyRuns
    from kplan.questions.nodes import Nodes
    from kplan.questions.place import Place
    from kplan.questions.plan import Plan, Queue
    from kplan.questions.pods import Pods
    from kplan.questions.preempt import Preempt
    from kplan.questions.remedy import Remedy
    from kplan.questions.what_if import WhatIf

__all__ = [
    "Capacity",
    "Check",
    "Checks",
    "Diff",
    "Drain",
    "Expect",
    "Explain",
    "Headroom",
    "InTurn",
    "ManyRuns",
    "Nodes",
    "Place",
    "Plan",
    "Pods",
    "Preempt",
    "Queue",
    "Remedy",
    "Runbook",
    "Shapes",
    "Shrink",
    "WhatIf",
]


_OF_CHECKS = ("Check", "Expect")


def __getattr__(name: str) -> Any:
    if name in _OF_CHECKS:
        return getattr(import_module("kplan.questions.check"), name)
    if f"{name}Question" in QUESTIONS:
        return question_type(f"{name}Question")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
