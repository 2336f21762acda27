"""A decision read out of the engine into plain data that lasts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kplan.engine.arrays import RowArray
from kplan.engine.verdicts import Reason
from kplan.framework.cycle import CycleResult
from kplan.framework.diagnosis import FilterOutcome, NodeStatus


@dataclass(frozen=True, slots=True)
class Failure:
    """What one plugin holds against a node.

    Attributes
    ----------
    code : ``Unschedulable`` (preemption may help) or ``UnschedulableAndUnresolvable``
    details : the numbers and names behind the reasons, JSON-ready
    """

    code: str
    reasons: tuple[str, ...]
    details: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"code": self.code, "reasons": list(self.reasons), "details": [dict(each) for each in self.details]}


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a node was rejected: by the first plugin, the one kube-scheduler reports, and by all others.

    Attributes
    ----------
    plugin : None when no plugin can be named
    """

    plugin: str | None
    failure: Failure
    also_failing: Mapping[str, Failure] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "code": self.failure.code,
            "plugin": self.plugin,
            "reasons": list(self.failure.reasons),
            "details": [dict(each) for each in self.failure.details],
            "alsoFailing": {name: failure.to_dict() for name, failure in self.also_failing.items()},
        }


@dataclass(frozen=True, slots=True)
class NodeScore:
    """A node's total score and each plugin's weighted share."""

    total: int
    plugins: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"total": self.total, "plugins": dict(self.plugins)}


@dataclass(frozen=True, slots=True)
class ReasonCount:
    """How many nodes a plugin rejected for a reason."""

    plugin: str | None
    reason: str
    nodes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"plugin": self.plugin, "reason": self.reason, "nodes": self.nodes}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a pod is placed where it is, or nowhere.

    `feasible_nodes`, `rejections`, `scores` and `not_evaluated` hold the nodes that were asked for, in order of name;
    `ties` and `rejection_summary` always speak of all.
    """

    ties: tuple[str, ...] = ()
    feasible_nodes: tuple[str, ...] = ()
    feasible_count: int = 0
    not_evaluated: tuple[str, ...] = ()
    rejections: Mapping[str, Rejection] = field(default_factory=dict)
    rejection_summary: tuple[ReasonCount, ...] = ()
    scores: Mapping[str, NodeScore] = field(default_factory=dict)
    score_details: Mapping[str, Mapping[str, list[str]]] = field(default_factory=dict)


def explain(result: CycleResult, names: list[str], nodes: Iterable[str] | None = None) -> Explanation:
    """Read a decision out while it is live.

    Parameters
    ----------
    names : node names by row
    nodes : the nodes to tell about; None for all
    """
    outcome = result.filter
    if outcome is None:
        return Explanation()
    rows = _rows(names, nodes)
    feasible = [row for row in rows if outcome.feasible[row]]
    ignored = outcome.not_evaluated
    return Explanation(
        ties=tuple(names[row] for row in result.ties),
        feasible_nodes=tuple(names[row] for row in feasible),
        feasible_count=int(np.count_nonzero(outcome.feasible)),
        not_evaluated=tuple(names[row] for row in rows if ignored is not None and ignored[row]),
        rejections=_rejections(outcome, names, rows),
        rejection_summary=_summary(outcome),
        scores=_scores(result, names, feasible),
    )


def _rows(names: list[str], nodes: Iterable[str] | None) -> list[int]:
    if nodes is None:
        return list(range(len(names)))
    wanted = set(nodes)
    return [row for row, name in enumerate(names) if name in wanted]


def _rejections(outcome: FilterOutcome, names: list[str], rows: list[int]) -> dict[str, Rejection]:
    rejections = {}
    for row in rows:
        status = outcome.status(row)
        if status is None:
            continue
        others = {name: _failure(other) for name, other in outcome.all_failing(row).items() if name != status.plugin}
        rejections[names[row]] = Rejection(status.plugin or None, _failure(status), others)
    return rejections


def _failure(status: NodeStatus) -> Failure:
    return Failure(status.code.text, status.texts, tuple(_details(status.reasons, status.position)))


def _details(reasons: Iterable[Reason], position: int) -> Iterable[Mapping[str, Any]]:
    for reason in reasons:
        if reason.details is not None:
            for detail in reason.details(position):
                yield detail if "reason" in detail else {"reason": reason.text, **detail}


def _summary(outcome: FilterOutcome) -> tuple[ReasonCount, ...]:
    """Count nodes per reason: most frequent first, then by plugin and text."""
    counts = outcome.reason_counts()
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(ReasonCount(plugin or None, text, n) for (plugin, text), n in ordered)


def _scores(result: CycleResult, names: list[str], feasible: list[int]) -> dict[str, NodeScore]:
    scored = result.scores
    if scored is None or not scored.parts:
        return {}
    position_of: RowArray = np.full(len(names), -1, np.intp)
    position_of[scored.rows] = np.arange(len(scored.rows))
    return {
        names[row]: NodeScore(int(scored.total[position_of[row]]), scored.plugins_at(int(position_of[row])))
        for row in feasible
    }
