"""Cached plugin results for a pod shape, refreshed row by row.

A thousand replicas have one shape, and placing one of them changes one node. So what depends on a node alone is
computed once for all nodes, and afterwards only for the nodes whose pods changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.mappings import Recent
from kplan.engine.verdicts import Verdicts
from kplan.engine.view import NodeView
from kplan.framework.interface import (
    ConstantScorePlugin,
    CycleState,
    FilterPlugin,
    FinalScorePlugin,
    Named,
    NormalizeScorePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    PreScoreResult,
    Scope,
    ScorePlugin,
)
from kplan.framework.results import ScorePart

MAX_ONCE = 64
"""How many shapes are remembered that occurred once: a shape that recurs later would not be cached for long."""

MAX_SHAPES = 64
"""How many shapes are cached: a shape costs a few hundred bytes a node."""

_REFRESH_SHARE = 4
"""When more than one node in four changed, all rows are computed again: cheaper than selecting some."""


P = TypeVar("P", bound=Named)
R = TypeVar("R")


class CachedResults(msgspec.Struct, Generic[P, R]):
    """Cached results of the plugins of an extension point, PreFilter or PreScore."""

    results: dict[str, R | None] = {}  #: plugin -> its result; a plugin without a key has none cached
    states: dict[str, dict[type, Any]] = {}  #: plugin -> cycle state that it wrote
    per_cycle: Sequence[P] | None = None  #: plugins that run in every cycle; None until `finish`
    skipped: frozenset[str] = frozenset()  #: plugins with a cached skip
    all_states: dict[type, Any] = {}  #: the states of all plugins together
    _skips: dict[tuple[str, ...], frozenset[str]] = {}

    def add(self, name: str, result: R | None, states: dict[type, Any]) -> None:
        self.results[name] = result
        self.states[name] = states

    def finish(self, plugins: Sequence[P]) -> None:
        """Note which plugins run in every cycle, once all have run and every cached result passes or skips."""
        self.per_cycle = [plugin for plugin in plugins if plugin.name not in self.results]
        self.skipped = frozenset(name for name, result in self.results.items() if result is not None)
        self.all_states = {kind: state for states in self.states.values() for kind, state in states.items()}

    def skipped_with(self, names: Sequence[str]) -> frozenset[str]:
        """Return the plugins with a cached skip, and some more."""
        key = tuple(names)
        skipped = self._skips.get(key)
        if skipped is None:
            skipped = self._skips[key] = self.skipped.union(names)
        return skipped

    def copy(self) -> CachedResults[P, R]:
        return CachedResults(self.results.copy(), self.states.copy(), self.per_cycle, self.skipped, self.all_states)


CachedPreFilters = CachedResults[PreFilterPlugin, PreFilterResult]
CachedPreScores = CachedResults[PreScorePlugin, PreScoreResult]


class CachedVerdicts(msgspec.Struct):
    """Verdicts over all nodes of the filters that look at one node at a time."""

    by_plugin: dict[str, Verdicts]  #: plugin -> verdicts over all nodes
    following: Sequence[FilterPlugin]  #: the filters whose verdicts depend on the pods of a node
    lasting: BoolArray  #: bool array of shape (n_nodes,); the node passes all filters that ignore its pods
    passes: BoolArray  #: bool array of shape (n_nodes,); the node passes all of `by_plugin`
    position: int  #: the place in the cluster's log up to which this is current

    def refresh(self, cycle: CycleState, cluster: Cluster) -> None:
        """Filter the nodes again whose pods changed."""
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
            whole = self.by_plugin[plugin.name]
            if not whole.reasons:  # it accepted all nodes
                whole = self.by_plugin[plugin.name] = plugin.filter(cycle, NodeView(cluster))
                passes &= whole.bits[changed] == 0
                continue
            verdict = plugin.filter(cycle, view)
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


class Scorer(msgspec.Struct, frozen=True):
    """A Score plugin, and what the runtime has to know of it."""

    rank: int  #: its place in the profile
    name: str
    weight: int
    plugin: ScorePlugin
    normalizer: NormalizeScorePlugin | None
    constant: ConstantScorePlugin | None  #: the plugin, if it knows for which pods its scores are constant
    final: FinalScorePlugin | None  #: the plugin, if it scores and normalizes at once
    scope: Scope

    def part(self, scores: Int64Array, *, is_full: bool) -> ScorePart:
        return ScorePart(self.rank, self.name, self.weight, scores, is_full)

    def scores(self, cycle: CycleState, feasible: NodeView, raw: Int64Array | None) -> Int64Array:
        """Return the plugin's scores of the feasible nodes, from 0 to 100.

        Parameters
        ----------
        raw : the raw scores of all nodes, int64 of shape (n_nodes,), where they are known
        """
        if raw is None and self.final is not None:
            return self.final.final_score(cycle, feasible)
        scores = self.plugin.score(cycle, feasible) if raw is None else feasible.take(raw)
        return scores if self.normalizer is None else self.normalizer.normalize_score(cycle, scores)

    def weighted(self, scores: Int64Array) -> Int64Array:
        """Return scores as they count in the total."""
        return scores if self.weight == 1 else self.weight * scores


class CachedScores(msgspec.Struct):
    """Scores over all nodes of the plugins that look at one node at a time."""

    weights: Mapping[str, int]  #: plugin -> weight
    lasting: Int64Array  #: weighted sum of final scores that ignore pods, int64 of shape (n_nodes,)
    position: int  #: the place in the cluster's log up to which this is current
    total: Int64Array  #: `lasting` plus the weighted scores of `following`
    #: the plugins whose scores are computed or normalized over the feasible nodes in every cycle
    per_cycle: list[Scorer] = []
    #: plugins whose scores depend on the pods of a node, with those scores, which need no normalizing
    following: list[tuple[ScorePlugin, Int64Array]] = []
    parts: list[ScorePart] = []  #: the scores that are summed in `total`
    #: plugin -> raw scores over all nodes, not yet normalized
    raw: dict[str, Int64Array] = {}

    @staticmethod
    def none(weights: Mapping[str, int], n_nodes: int) -> CachedScores:
        return CachedScores(weights, np.zeros(n_nodes, np.int64), 0, np.zeros(n_nodes, np.int64))

    def start(self, position: int) -> CachedScores:
        """Return a copy for one shape, to which scores can be added."""
        return CachedScores(
            self.weights,
            self.lasting,
            position,
            self.lasting.copy(),
            self.per_cycle.copy(),
            parts=self.parts.copy(),
            raw=self.raw.copy(),
        )

    def add_lasting(self, part: ScorePart) -> None:
        """Add final scores that do not depend on pods."""
        self.parts.append(part)
        self.lasting = self.lasting + part.weight * part.scores
        self.total += part.weight * part.scores

    def add_constant(self, part: ScorePart, value: int) -> None:
        self.parts.append(part)
        if value:
            self.lasting = self.lasting + part.weight * value
            self.total += part.weight * value

    def add_following(self, part: ScorePart, plugin: ScorePlugin) -> None:
        """Add final scores that are computed again where pods change."""
        self.parts.append(part)
        self.total += part.scores if part.weight == 1 else part.weight * part.scores
        self.following.append((plugin, part.scores))

    def refresh(self, cycle: CycleState, cluster: Cluster) -> None:
        """Score the nodes again whose pods changed."""
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


class CommonEntry(msgspec.Struct):
    """Cached results that shapes share because some plugins read the same of them.

    Where pods differ only in their requests, nearly all results are shared.
    """

    pre_filters: CachedPreFilters = msgspec.field(default_factory=CachedPreFilters)
    pre_scores: CachedPreScores = msgspec.field(default_factory=CachedPreScores)
    #: plugin -> verdicts over all nodes; plugins that look at node objects alone
    verdicts: dict[str, Verdicts] = {}
    #: bool array of shape (n_nodes,), the node passes all of `verdicts`; None until those filters ran
    passes: BoolArray | None = None
    scores: CachedScores | None = None  #: scores of such plugins, and constant ones; None until they ran
    own_scorers: Sequence[Scorer] = ()  #: the plugins whose scores shapes do not share, once `scores` are known
    #: skipped plugins -> the filters in their order: with verdicts that shapes share, or to be asked
    lineups: dict[frozenset[str], list[tuple[FilterPlugin, tuple[str, Verdicts] | None]]] = {}
    single: ShapeEntry | None = None  #: the entry of all shapes that occur once; None until everything above is known

    @property
    def is_complete(self) -> bool:
        """Whether everything that shapes share is known."""
        known = self.pre_filters.per_cycle is not None and self.pre_scores.per_cycle is not None
        return known and self.passes is not None and self.scores is not None


class ShapeEntry:
    """Cached results for one shape; it starts with those that it shares with other shapes.

    Parameters
    ----------
    keeps_own : cache what other shapes do not share; worth its while only for a shape that occurs again
    """

    __slots__ = ("common", "keeps_own", "pre_filters", "pre_scores", "scores", "verdicts")

    def __init__(self, common: CommonEntry | None = None, *, keeps_own: bool = True) -> None:
        self.common = CommonEntry() if common is None else common
        self.keeps_own = keeps_own
        self.pre_filters = self.common.pre_filters.copy() if keeps_own else self.common.pre_filters
        self.pre_scores = self.common.pre_scores.copy() if keeps_own else self.common.pre_scores
        self.verdicts: CachedVerdicts | None = None
        self.scores: CachedScores | None = None


def common_cache() -> Recent[CommonEntry]:
    """Return a cache of the results that the most recently used shapes share."""
    return Recent(MAX_SHAPES)


def shape_cache() -> Recent[ShapeEntry]:
    """Return a cache of the most recently used shapes."""
    return Recent(MAX_SHAPES)


def changed_rows(cluster: Cluster, position: int) -> RowArray | None:
    """Return the nodes whose pods changed since a place in the log; None, for all nodes, when many changed."""
    changed = cluster.changed_rows(position)
    return None if len(changed) * _REFRESH_SHARE > max(len(cluster), _REFRESH_SHARE) else changed


def is_uniform(scores: Int64Array) -> bool:
    return len(scores) > 0 and bool(np.all(scores == scores[0]))
