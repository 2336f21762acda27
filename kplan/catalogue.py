"""Every question: a line for its folder in `kplan.questions`, from which values, views and commands are looked up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_PODS = "Ask about pods"
_NODES = "Ask about nodes"
_ROOM = "Ask about capacity"
_ANSWERS = "Compare and keep answers"


class Home(NamedTuple):
    """The folder of a question.

    Attributes
    ----------
    name : of the folder; also of the command, which is the function of that name in the module ``command``
    questions : structs of the module ``question``, or MODULE:STRUCT; the kind of NAME is NAMEQuestion
    views : kind of document -> the module whose ``VIEW`` shows it
    section : the group of commands under which the program's help lists the command
    short_help : its line there; empty if there is no command
    """

    name: str
    questions: tuple[str, ...]
    views: Mapping[str, str] = {}
    section: str = ""
    short_help: str = ""

    def module(self, name: str) -> str:
        """Return a module of the folder."""
        return f"kplan.questions.{self.name}.{name}"


HOMES = (
    Home("explain", ("Explain",), {}, _PODS, "Explain why a pod, or each pod of a workload, is where it is."),
    Home("place", ("Place",), {"PlacementReport": "view"}, _PODS, "Show where pods or workloads would land, and why."),
    Home(
        "plan",
        ("Plan", "Queue"),
        {"PlanReport": "view", "QueueReport": "queue_view"},
        _PODS,
        "Work through the whole scheduling queue and every rollout.",
    ),
    Home(
        "preempt",
        ("Preempt",),
        {"PreemptionReport": "view"},
        _PODS,
        "Show which pods would be evicted to make room, and why those.",
    ),
    Home("pods", ("Pods",), {}, _PODS, "Print the pods that manifests create, as the API server stores them."),
    Home("drain", ("Drain",), {}, _NODES, "Show what happens to the pods of drained or lost nodes."),
    Home(
        "nodes",
        ("Nodes",),
        {"NodesReport": "view"},
        _NODES,
        "Show which nodes the autoscaler adds, removes and keeps.",
    ),
    Home(
        "remedy",
        ("Remedy",),
        {"RemedyReport": "view"},
        _PODS,
        "Find the least that has to be done so that pending pods run.",
    ),
    Home(
        "capacity",
        ("Capacity", "Shapes", "Headroom", "Shrink"),
        {"CapacityReport": "view", "HeadroomReport": "headroom_view", "ShrinkReport": "shrink_view"},
        _ROOM,
        "Count how many replicas fit, where, and what stops the next one.",
    ),
    Home(
        "check",
        ("promises:Budgets", "promises:Surge", "promises:AtMaximum", "promises:PoolRoom", "Checks"),
        {"BudgetsReport": "budgets_view", "ChecksReport": "view"},
        _NODES,
        "Check whether the promises hold that you rely on.",
    ),
    Home("diff", ("Diff",), {"DiffReport": "view"}, _ANSWERS, "Compare two answers, and show why they differ."),
    Home("in_turn", ("InTurn",), {"DrainsReport": "view"}),
    Home("many_runs", ("ManyRuns",), {"OddsReport": "view"}),
    Home("what_if", ("WhatIf",)),
    Home("runbook", ("Runbook",), {"RunbookReport": "view"}),
)

QUESTIONS: Mapping[str, str] = {
    f"{struct}Question": f"{home.module(module or 'question')}:{struct}"
    for home in HOMES
    for module, _, struct in (name.rpartition(":") for name in home.questions)
}
"""Kind of question -> MODULE:STRUCT."""

VIEWS: Mapping[str, str] = {kind: home.module(name) for home in HOMES for kind, name in home.views.items()}
"""Kind of document -> the module whose ``VIEW`` shows it."""
