"""Explain a decision: copy what is known about it out of the engine, which reuses its arrays for the next pod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.documents.placement import Failure, NodeScore, ReasonCount, Rejection
from kplan.engine.arrays import BoolArray, RowArray
from kplan.engine.details import Detail
from kplan.engine.verdicts import Reason, Verdicts
from kplan.framework.cycle import CycleResult
from kplan.framework.diagnosis import FilterOutcome, NodeStatus
from kplan.framework.interface import ScoreDetailPlugin, plugins_with

Group = tuple[str, str]  #: the plugin that rejects first, and its reason


def closest_rows(outcome: FilterOutcome, limit: int | None) -> dict[Group, list[int]]:
    """Return for each group of rejected nodes at most `limit` rows, those closest to feasible first.

    A node is closer if it has fewer reasons; with equally many, if less is missing, where that is measurable.

    Notes
    -----
    Ties are in the order of rows, so by name. Rows that nominated pods, an extender or PreFilter reject cannot be
    measured; they follow in the order of names.
    """
    if outcome.pre_filter_status is not None:
        rows = list(range(outcome.n_nodes))[:limit]
        return {(outcome.pre_filter_status.plugin, text): rows for text in outcome.pre_filter_status.reasons}
    closest: dict[Group, list[int]] = {}
    measured = outcome.verdicts_count
    n_reasons = np.zeros(len(outcome.first), np.int64)  # against each position
    for verdict in (verdict for _, verdict in outcome.verdicts if verdict.bits.any()):
        for k in range(len(verdict.reasons)):
            n_reasons += _holds(verdict, k)
    for index, (plugin, verdict) in enumerate(outcome.verdicts):
        is_first = (outcome.first == index) & measured
        if not is_first.any():
            continue
        for k, reason in enumerate(verdict.reasons):
            positions = np.flatnonzero(is_first & _holds(verdict, k))
            if len(positions):
                missing = np.zeros_like(positions) if reason.shortfall is None else reason.shortfall(positions)
                ordered = positions[np.lexsort((positions, missing, n_reasons[positions]))]
                closest[plugin, reason.text] = outcome.filtered_rows[ordered[:limit]].tolist()
    _add_unmeasured(outcome, closest, limit)
    return closest


def _holds(verdict: Verdicts, k: int) -> BoolArray:
    holds: BoolArray = (verdict.bits >> k & 1).astype(np.bool_)
    return holds


def _add_unmeasured(outcome: FilterOutcome, closest: dict[Group, list[int]], limit: int | None) -> None:
    others: dict[Group, list[int]] = {}
    for row in sorted(outcome.overrides):
        status = outcome.status(row)
        if status is not None:
            for text in status.texts:
                others.setdefault((status.plugin, text), []).append(row)
    if outcome.absent is not None:
        absent = outcome.absent_rows()[:limit].tolist()
        for text in outcome.absent.texts if absent else ():
            others.setdefault((outcome.absent.plugin, text), []).extend(absent)
    for group, rows in others.items():
        closest[group] = [*closest.get(group, ()), *rows][:limit]


CLOSEST = 5  #: a document names this many of the closest nodes for every reason


class Shown(msgspec.Struct, frozen=True):
    """The nodes that a table shows: the best feasible ones, and for each reason those that come closest to feasible."""

    top: int | None = 5  #: how many of each; None for all
    with_score_details: bool = False  #: explain in words and numbers where the scores come from
    also: tuple[str, ...] = ()  #: further nodes that are shown in any case


class Explanation(msgspec.Struct, frozen=True):
    """Why a pod is placed where it is, or nowhere.

    `feasible_nodes`, `rejections`, `scores` and `not_evaluated` hold only the nodes that `explain` is called for, in
    order of name; `ties`, `feasible_count`, `not_evaluated_count` and `rejection_summary` cover all nodes.
    """

    chosen: str | None = None
    ties: tuple[str, ...] = ()
    feasible_nodes: tuple[str, ...] = ()
    feasible_count: int = 0
    not_evaluated: tuple[str, ...] = ()
    not_evaluated_count: int = 0
    rejections: Mapping[str, Rejection] = {}
    rejection_summary: tuple[ReasonCount, ...] = ()
    scores: Mapping[str, NodeScore] = {}
    #: node -> plugin -> lines that explain the plugin's raw score
    score_details: Mapping[str, Mapping[str, tuple[str, ...]]] = {}

    def narrowed(self, shown: Shown) -> Explanation:
        """Return the explanation restricted to the nodes that a table shows; it gets no score details."""
        if shown.top is None:
            return self
        summary = tuple(replace(count, closest=count.closest[: shown.top]) for count in self.rejection_summary)
        best = sorted(self.feasible_nodes, key=lambda node: -self.scores[node].total if node in self.scores else 0)
        closest = (node for count in summary for node in count.closest)
        chosen = () if self.chosen is None else (self.chosen,)
        nodes = (*shown.also, *closest, *best[: shown.top], *chosen, *self.not_evaluated[: shown.top])
        return replace(self.of_nodes(nodes), rejection_summary=summary)

    def of_nodes(self, names: Iterable[str]) -> Explanation:
        shown_nodes = set(names)
        return replace(
            self,
            feasible_nodes=tuple(node for node in self.feasible_nodes if node in shown_nodes),
            not_evaluated=tuple(node for node in self.not_evaluated if node in shown_nodes),
            rejections={node: rejection for node, rejection in self.rejections.items() if node in shown_nodes},
            scores={node: score for node, score in self.scores.items() if node in shown_nodes},
        )


def explain(result: CycleResult, names: list[str], nodes: Iterable[str] | Shown | None = None) -> Explanation:
    """Explain a decision that is live. `names`: node names by row. `nodes`: the nodes to explain; None for all."""
    outcome = result.filter
    if outcome is None:
        return Explanation()
    closest = closest_rows(outcome, nodes.top if isinstance(nodes, Shown) else None)
    if isinstance(nodes, Shown):
        rows = sorted({*_shown_rows(result, outcome, closest, nodes), *_rows(names, nodes.also)})
    else:
        rows = _rows(names, nodes)
    feasible = [row for row in rows if outcome.feasible[row]]
    ignored = outcome.not_evaluated
    wants_details = isinstance(nodes, Shown) and nodes.with_score_details
    return Explanation(
        chosen=None if result.row is None else names[result.row],
        ties=tuple(sorted(names[row] for row in result.ties)),
        feasible_nodes=tuple(sorted(names[row] for row in feasible)),
        feasible_count=int(np.count_nonzero(outcome.feasible)),
        not_evaluated=tuple(names[row] for row in rows if ignored is not None and ignored[row]),
        not_evaluated_count=0 if ignored is None else int(np.count_nonzero(ignored)),
        rejections=_rejections(outcome, names, rows),
        rejection_summary=_summary(outcome, closest, names),
        scores=_scores(result, names, feasible),
        score_details=_score_details(result, names, feasible) if wants_details else {},
    )


def _rows(names: list[str], nodes: Iterable[str] | None) -> list[int]:
    if nodes is None:
        return list(range(len(names)))
    wanted = set(nodes)
    return [row for row, name in enumerate(names) if name in wanted] if wanted else []


def _shown_rows(
    result: CycleResult, outcome: FilterOutcome, closest: Mapping[Group, list[int]], shown: Shown
) -> list[int]:
    if shown.top is None:
        return list(range(outcome.n_nodes))
    rows = {row for group in closest.values() for row in group}
    if result.row is not None:
        rows.add(result.row)
    if result.scores is None:
        rows.update(np.flatnonzero(outcome.feasible)[: shown.top].tolist())
    else:
        scored = result.scores
        rows.update(scored.rows[np.lexsort((scored.rows, -scored.total))][: shown.top].tolist())
    if outcome.not_evaluated is not None:
        rows.update(np.flatnonzero(outcome.not_evaluated)[: shown.top].tolist())
    return sorted(rows)


def _rejections(outcome: FilterOutcome, names: list[str], rows: list[int]) -> dict[str, Rejection]:
    rejections = {}
    for row in rows:
        status = outcome.status(row)
        if status is None:
            continue
        others = {name: _failure(other) for name, other in outcome.all_failing(row).items() if name != status.plugin}
        first = _failure(status)
        rejections[names[row]] = Rejection(first.code, status.plugin or None, first.reasons, first.details, others)
    return rejections


def _failure(status: NodeStatus) -> Failure:
    return Failure(status.code.text, status.texts, tuple(details_at(status.reasons, status.position)))


def details_at(reasons: Iterable[Reason], position: int) -> Iterator[Detail]:
    """Yield the details of reasons against the node at a position; each names its reason."""
    for reason in reasons:
        if reason.details is not None:
            for detail in reason.details(position):
                yield detail if detail.reason else replace(detail, reason=reason.text)


def _summary(outcome: FilterOutcome, closest: Mapping[Group, list[int]], names: list[str]) -> tuple[ReasonCount, ...]:
    """Count nodes per reason: the most frequent first, then by plugin and text."""
    ordered = sorted(outcome.reason_counts().items(), key=lambda item: (-item[1], item[0]))
    return tuple(
        ReasonCount(group[0] or None, group[1], n, tuple(names[row] for row in closest.get(group, ())))
        for group, n in ordered
    )


def _scores(result: CycleResult, names: list[str], feasible: list[int]) -> dict[str, NodeScore]:
    scored = result.scores
    if scored is None or not scored.parts:
        return {}
    position_of: RowArray = np.full(len(names), -1, np.intp)
    position_of[scored.rows] = np.arange(len(scored.rows))
    positions = position_of[feasible]
    plugins = scored.plugins_at(positions)
    by_node = zip(scored.total[positions].tolist(), zip(*plugins.values(), strict=True), strict=True)
    equal: dict[tuple[int, tuple[int, ...]], NodeScore] = {}  # most nodes of a large cluster score as another one does
    scores: dict[str, NodeScore] = {}
    for row, points in zip(feasible, by_node, strict=True):
        if points not in equal:
            equal[points] = NodeScore(points[0], dict(zip(plugins, points[1], strict=True)))
        scores[names[row]] = equal[points]
    return scores


def _score_details(result: CycleResult, names: list[str], feasible: list[int]) -> dict[str, dict[str, tuple[str, ...]]]:
    framework, cycle = result.framework, result.cycle
    if result.scores is None or framework is None or cycle is None:
        return {}
    scored = {part.name for part in result.scores.parts}
    plugins = plugins_with(ScoreDetailPlugin, (plugin for plugin in framework.score_plugins if plugin.name in scored))
    return {
        names[row]: {plugin.name: tuple(lines) for plugin in plugins if (lines := plugin.score_details(cycle, row))}
        for row in feasible
    }
