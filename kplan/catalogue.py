"""Every question: a line for its module in `kplan.questions`, from which values, views and commands are found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple


class Home(NamedTuple):
    """The module of a question, a folder where it has a view."""

    #: of the module; also of the command, which is the function of that name in the module of that name in
    #: `kplan.commands`
    name: str
    questions: tuple[str, ...]  #: its structs; the kind of NAME is NAMEQuestion
    #: kind of document -> its module in `kplan.documents`, and that of the folder whose ``VIEW`` shows it, or
    #: MODULE:VIEW
    documents: Mapping[str, tuple[str, str]] = {}
    short_help: str = ""  #: its line there; empty if there is no command
    tool: str = ""  #: the name of its tool for agents, where that is not the name of the struct
    #: structs of questions that are no tools, since they cannot be asked without a file, or for checks only
    without_tool: tuple[str, ...] = ()

    def view(self, name: str) -> str:
        """Return MODULE:VIEW of a view."""
        return f"kplan.questions.{self.name}.{name}{'' if ':' in name else ':VIEW'}"


_OF_CHECKS = ("Budgets", "Surge", "AtMaximum", "PoolRoom")

HOMES = (
    Home("explain", ("Explain",), {}, "Explain why a pod is pending, or why it is where it is."),
    Home(
        "place",
        ("Place",),
        {"PlacementReport": ("placement", "view"), "ClustersReport": ("placement", "view:CLUSTERS_VIEW")},
        "Show where pods or workloads would land, and why.",
    ),
    Home(
        "plan",
        ("Plan", "Queue"),
        {"PlanReport": ("plan", "view"), "QueueReport": ("plan", "view:QUEUE_VIEW")},
        "Work through the whole scheduling queue and every rollout.",
    ),
    Home(
        "preempt",
        ("Preempt",),
        {"PreemptionReport": ("placement", "view")},
        "Show which pods would be evicted to make room, and why those.",
    ),
    Home("pods", ("Pods",), {}, "Print the pods that manifests create, with defaults filled in."),
    Home("drain", ("Drain",), {}, "Show what happens to the pods of drained or lost nodes."),
    Home(
        "nodes",
        ("Nodes",),
        {"NodesReport": ("remedies", "view")},
        "Show which nodes the autoscaler adds, removes and keeps.",
    ),
    Home(
        "remedy",
        ("Remedy",),
        {"RemedyReport": ("remedies", "view")},
        "Find the least that has to be done so that pending pods run.",
    ),
    Home(
        "capacity",
        ("Capacity", "Shapes", "Headroom", "Shrink"),
        {
            "CapacityReport": ("capacity", "view"),
            "HeadroomReport": ("capacity", "view:HEADROOM_VIEW"),
            "ShrinkReport": ("capacity", "view:SHRINK_VIEW"),
        },
        "Count how many replicas fit, where, and what stops the next one.",
        without_tool=("Shapes",),
    ),
    Home(
        "check",
        (*_OF_CHECKS, "Checks"),
        {"BudgetsReport": ("checks", "view:BUDGETS_VIEW"), "ChecksReport": ("checks", "view")},
        "Check whether the promises hold that you rely on.",
        tool="check",
        without_tool=_OF_CHECKS,
    ),
    Home("diff", ("Diff",), {"DiffReport": ("diff", "view")}, "Compare two answers, and show why they differ."),
    Home("drain", ("InTurn",), {"DrainsReport": ("drains", "view")}, tool="drain_each"),
    Home("many_runs", ("ManyRuns",), {"OddsReport": ("odds", "view")}),
    Home("what_if", ("WhatIf",)),
    Home("drain", ("Runbook",), {"RunbookReport": ("drains", "view:RUNBOOK_VIEW")}),
)

QUESTIONS: Mapping[str, str] = {
    f"{struct}Question": f"kplan.questions.{home.name}:{struct}" for home in HOMES for struct in home.questions
}
"""Kind of question -> MODULE:STRUCT."""

VIEWS: Mapping[str, str] = {kind: home.view(name) for home in HOMES for kind, (_, name) in home.documents.items()}
"""Kind of document -> MODULE:VIEW of what shows it."""

REPORTS: Mapping[str, str] = {
    kind: f"kplan.documents.{module}" for home in HOMES for kind, (module, _) in home.documents.items()
}
"""Kind of document with a verdict, which `kplan show` prints again -> the module of its struct."""

TOOLS: Mapping[str, str] = {
    home.tool or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", struct).lower(): f"{struct}Question"
    for home in HOMES
    for struct in home.questions
    if struct not in home.without_tool
}
"""Tool for agents -> the kind of its question."""


def loaded(address: str) -> Any:
    """Return what MODULE:NAME names, for which the module is loaded."""
    module, _, name = address.partition(":")
    return getattr(import_module(module), name)
