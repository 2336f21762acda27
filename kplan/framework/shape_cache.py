"""What plugins answered for a pod shape, kept and patched row by row.

A thousand replicas say the same, and placing one of them changes one node. So what depends on a node alone is computed
once for all nodes, and afterwards only for the nodes whose pods changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.recent import Recent
from kplan.engine.verdicts import Verdicts
from kplan.engine.view import NodeView
from kplan.framework.interface import (
    CycleState,
    FilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    PreScoreResult,
    ScorePlugin,
)
from kplan.framework.outcomes import ScorePart

MAX_SHAPES = 64
"""Shapes kept at a time: a shape costs a few hundred bytes a node."""

_REFRESH_SHARE = 4
"""When more than one node in four changed, all rows are computed anew: cheaper than picking them out."""


@dataclass
class KeptPreFilters:
    """What need not be asked again in PreFilter."""

    #: plugin -> its result; a missing key means it must be asked
    results: dict[str, PreFilterResult | None] = field(default_factory=dict)
    states: dict[str, dict[type, Any]] = field(default_factory=dict)  #: plugin -> cycle state that it wrote
    #: the plugins that must be asked again, where all kept results pass or skip; None where they do not, or not yet
    open: Sequence[PreFilterPlugin] | None = None
    skipped: frozenset[str] = frozenset()  #: plugins with a kept skip
    all_states: dict[type, Any] = field(default_factory=dict)  #: the kept states together

    def keep(self, name: str, result: PreFilterResult | None, states: dict[type, Any]) -> None:
        """Take in what a plugin answered and wrote."""
        self.results[name] = result
        self.states[name] = states

    def close(self, plugins: Sequence[PreFilterPlugin]) -> None:
        """Note which plugins stay open, once all have been asked."""
        if any(result is not None and not result.skip for result in self.results.values()):
            return
        self.open = [plugin for plugin in plugins if plugin.name not in self.results]
        self.skipped = frozenset(name for name, result in self.results.items() if result is not None)
        self.all_states = {kind: state for states in self.states.values() for kind, state in states.items()}

    def copy(self) -> KeptPreFilters:
        """Return the same, to which more can be added."""
        return KeptPreFilters(self.results.copy(), self.states.copy(), self.open, self.skipped, self.all_states)


@dataclass
class KeptVerdicts:
    """Verdicts over all nodes of the filters that look at one node at a time."""

    by_plugin: dict[str, Verdicts]  #: plugin -> verdicts over all nodes
    following: Sequence[FilterPlugin]  #: the filters whose verdicts follow the pods of a node
    lasting: BoolArray  #: bool array of shape (n_nodes,); all filters pass that do not follow pods
    passes: BoolArray  #: bool array of shape (n_nodes,); all of `by_plugin` pass
    position: int  #: how far in the cluster's log this is up to date

    def refresh(self, cycle: CycleState, cluster: Cluster) -> None:
        """Ask again about the nodes whose pods changed."""
        if self.position == len(cluster.log):
            return
        changed = changed_rows(cluster, self.position)
        self.position = len(cluster.log)
        if not self.following:
            return
        if changed is None:
            self._refresh_all(cycle, cluster)
            return
        view = NodeView(cluster, changed)
        passes = self.lasting[changed]
        for plugin in self.following:
            verdict, whole = plugin.filter(cycle, view), self.by_plugin[plugin.name]
            whole.bits[changed] = verdict.bits
            if verdict.unresolvable is not None and whole.unresolvable is not None:
                whole.unresolvable[changed] = verdict.unresolvable
            passes &= verdict.bits == 0
        self.passes[changed] = passes

    def _refresh_all(self, cycle: CycleState, cluster: Cluster) -> None:
        view = NodeView(cluster)
        self.passes = self.lasting.copy()
        for plugin in self.following:
            verdict = self.by_plugin[plugin.name] = plugin.filter(cycle, view)
            self.passes &= verdict.bits == 0


@dataclass
class KeptScores:
    """Scores over all nodes of the plugins that look at one node at a time."""

    weights: Mapping[str, int]  #: plugin -> weight
    lasting: Int64Array  #: weighted sum of final scores that do not follow pods, int64 of shape (n_nodes,)
    position: int  #: how far in the cluster's log this is up to date
    total: Int64Array  #: `lasting` and the following ones
    #: the plugins, with their rank, that must be asked, or normalized over the feasible nodes, in every cycle
    open: list[tuple[int, ScorePlugin]] = field(default_factory=list)
    #: the plugins whose scores follow the pods of a node, with these scores, which are final as they stand
    following: list[tuple[ScorePlugin, Int64Array]] = field(default_factory=list)
    parts: list[ScorePart] = field(default_factory=list)  #: the shares in `total`
    #: plugin -> raw scores over all nodes that are yet to be normalized
    raw: dict[str, Int64Array] = field(default_factory=dict)

    @staticmethod
    def none(weights: Mapping[str, int], n_nodes: int) -> KeptScores:
        """Return the scores of no plugin."""
        return KeptScores(weights, np.zeros(n_nodes, np.int64), 0, np.zeros(n_nodes, np.int64))

    def start(self, position: int) -> KeptScores:
        """Return scores that last, to which more can be added for one shape."""
        return KeptScores(
            self.weights,
            self.lasting,
            position,
            self.lasting.copy(),
            self.open.copy(),
            parts=self.parts.copy(),
            raw=self.raw.copy(),
        )

    def add_lasting(self, part: ScorePart) -> None:
        """Take in final scores that do not follow pods."""
        self.parts.append(part)
        self.lasting = self.lasting + part.weight * part.scores
        self.total += part.weight * part.scores

    def add_constant(self, part: ScorePart, value: int) -> None:
        """Take in final scores that are the same, `value`, on all nodes for good."""
        self.parts.append(part)
        if value:
            self.lasting = self.lasting + part.weight * value
            self.total += part.weight * value

    def add_following(self, part: ScorePart, plugin: ScorePlugin) -> None:
        """Take in final scores that are asked again where pods change."""
        self.parts.append(part)
        self.total += part.scores if part.weight == 1 else part.weight * part.scores
        self.following.append((plugin, part.scores))

    def refresh(self, cycle: CycleState, cluster: Cluster) -> None:
        """Ask again about the nodes whose pods changed."""
        if self.position == len(cluster.log):
            return
        changed = changed_rows(cluster, self.position)
        self.position = len(cluster.log)
        view = NodeView(cluster, changed)
        rows: RowArray | slice = slice(None) if changed is None else changed
        total = self.lasting[rows] if changed is not None else self.lasting.copy()
        for plugin, scores in self.following:
            fresh = plugin.score(cycle, view)
            scores[rows] = fresh
            total += self.weights[plugin.name] * fresh
        self.total[rows] = total


@dataclass
class KeptPreScores:
    """What need not be asked again in PreScore."""

    #: plugin -> its result; a missing key means it must be asked
    results: dict[str, PreScoreResult | None] = field(default_factory=dict)
    states: dict[type, Any] = field(default_factory=dict)  #: cycle state that those plugins wrote
    skipped: frozenset[str] = frozenset()  #: plugins with a kept skip
    #: the plugins that must be asked again; None while none has been asked
    open: Sequence[PreScorePlugin] | None = None

    def keep(self, name: str, result: PreScoreResult | None, states: Mapping[type, Any]) -> None:
        """Take in what a plugin answered and wrote."""
        self.results[name] = result
        self.states.update(states)

    def close(self, plugins: Sequence[PreScorePlugin]) -> None:
        """Note which plugins stay open, once all have been asked."""
        self.open = [plugin for plugin in plugins if plugin.name not in self.results]
        self.skipped = frozenset(name for name, result in self.results.items() if result is not None)

    def copy(self) -> KeptPreScores:
        """Return the same, to which more can be added."""
        return KeptPreScores(self.results.copy(), self.states.copy(), self.skipped, self.open)


@dataclass
class CommonEntry:
    """Kept answers for all shapes of which some plugins read the same: where only requests differ, nearly all."""

    pre_filters: KeptPreFilters = field(default_factory=KeptPreFilters)
    pre_scores: KeptPreScores = field(default_factory=KeptPreScores)
    #: plugin -> verdicts over all nodes; plugins that look at node objects alone
    verdicts: dict[str, Verdicts] = field(default_factory=dict)
    #: bool array of shape (n_nodes,), all of `verdicts` pass; None until they have been asked
    passes: BoolArray | None = None
    scores: KeptScores | None = None  #: scores of such plugins; None until they have been asked


class ShapeEntry:
    """Kept answers for one shape, which starts with what it has in common with others."""

    __slots__ = ("common", "pre_filters", "pre_scores", "scores", "verdicts")

    def __init__(self, common: CommonEntry | None = None) -> None:
        self.common = CommonEntry() if common is None else common
        self.pre_filters = self.common.pre_filters.copy()
        self.pre_scores = self.common.pre_scores.copy()
        self.verdicts: KeptVerdicts | None = None
        self.scores: KeptScores | None = None


def common_cache() -> Recent[CommonEntry]:
    """Return a cache of what shapes that were used last have in common."""
    return Recent(MAX_SHAPES)


def shape_cache() -> Recent[ShapeEntry]:
    """Return a cache of the shapes that were used last."""
    return Recent(MAX_SHAPES)


def changed_rows(cluster: Cluster, position: int) -> RowArray | None:
    """Return the nodes whose pods changed since a place in the log; None when they are so many that all are meant."""
    changed = cluster.changed_rows(position)
    return None if len(changed) * _REFRESH_SHARE > max(len(cluster), _REFRESH_SHARE) else changed


def is_uniform(scores: Int64Array) -> bool:
    """Whether all of one or more nodes have the same score."""
    return len(scores) > 0 and bool(np.all(scores == scores[0]))
