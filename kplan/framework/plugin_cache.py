"""Runs a profile's plugins, and caches their results for pods of the same shape, refreshed row by row.

A thousand replicas have one shape, and placing one of them changes one node. So what depends on a node alone is
computed once for all nodes, and afterwards only for the nodes whose pods changed. What plugins guarantee stands in
`kplan.framework.interface`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.engine.cluster import Cluster
from kplan.engine.mappings import Recent
from kplan.engine.verdicts import Verdicts
from kplan.engine.view import NodeView
from kplan.framework import interface as fwk
from kplan.framework.interface import CycleState, Scope
from kplan.framework.results import PluginError, PreFilterOutcome, ScorePart
from kplan.rules.pod_info import PodInfo

MAX_ONCE = 64
"""How many shapes are remembered that occurred once: a shape that recurs later would not be cached for long."""

MAX_SHAPES = 64  #: how many shapes are cached: a shape costs a few hundred bytes a node
_REFRESH_SHARE = 4  #: when more than one node in four changed, all rows are computed again: cheaper than selecting some


class CachedResults(msgspec.Struct):
    """Cached results of the plugins of an extension point, PreFilter or PreScore."""

    #: plugin -> its result, and the cycle state that it wrote; a plugin without a key has none cached
    known: dict[str, tuple[Any, dict[type, Any]]] = {}
    per_cycle: Sequence[Any] | None = None  #: plugins that run in every cycle; None until `finish`
    skipped: frozenset[str] = frozenset()  #: plugins with a cached skip
    all_states: dict[type, Any] = {}  #: the states of all plugins together

    def finish(self, plugins: Sequence[fwk.Plugin]) -> None:
        """Note which plugins run in every cycle, once all have run and every cached result passes or skips."""
        self.per_cycle = [plugin for plugin in plugins if plugin.name not in self.known]
        self.skipped = frozenset(name for name, (result, _) in self.known.items() if result is not None)
        self.all_states = {kind: state for _, states in self.known.values() for kind, state in states.items()}

    def copy(self) -> CachedResults:
        return replace(self, known=self.known.copy())


class CachedVerdicts(msgspec.Struct):
    """Verdicts over all nodes of the filters that look at one node at a time."""

    by_plugin: dict[str, Verdicts]  #: plugin -> verdicts over all nodes
    following: Sequence[fwk.FilterPlugin]  #: the filters whose verdicts depend on the pods of a node
    lasting: BoolArray  #: bool array of shape (n_nodes,); the node passes all filters that ignore its pods
    passes: BoolArray  #: bool array of shape (n_nodes,); the node passes all of `by_plugin`
    position: int  #: the place in the cluster's log up to which this is current

    def refresh(self, cycle: CycleState, cluster: Cluster) -> None:
        """Filter the nodes again whose pods changed."""
        if self.position == len(cluster.log) or not self.following:
            return
        changed = changed_rows(cluster, self.position)
        self.position = len(cluster.log)
        rows: RowArray | slice = slice(None) if changed is None else changed
        view = NodeView(cluster, changed)
        passes = self.lasting.copy() if changed is None else self.lasting[rows]
        for plugin in self.following:
            whole = self.by_plugin[plugin.name]
            # Verdicts that accepted all nodes have no reasons, so the bits of some rows alone would mean nothing.
            if changed is None or not whole.reasons:
                whole = self.by_plugin[plugin.name] = plugin.filter(cycle, NodeView(cluster))
                passes &= whole.bits[rows] == 0
                continue
            verdict = plugin.filter(cycle, view)
            whole.bits[changed] = verdict.bits
            if verdict.unresolvable is not None and whole.unresolvable is not None:
                whole.unresolvable[changed] = verdict.unresolvable
            passes &= verdict.bits == 0
        self.passes[rows] = passes


class Scorer(msgspec.Struct, frozen=True):
    """A Score plugin, and what the runtime has to know of it."""

    rank: int  #: its place in the profile
    name: str
    weight: int
    plugin: fwk.ScorePlugin
    scope: Scope
    normalizer: fwk.NormalizeScorePlugin | None
    constant: fwk.ConstantScorePlugin | None  #: the plugin, if it knows for which pods its scores are constant
    final: fwk.FinalScorePlugin | None  #: the plugin, if it scores and normalizes at once

    def part(self, scores: Int64Array, *, is_full: bool) -> ScorePart:
        return ScorePart(self.rank, self.name, self.weight, scores, is_full)

    def scores(self, cycle: CycleState, feasible: NodeView, raw: Int64Array | None) -> Int64Array:
        """Return the scores of the feasible nodes, from 0 to 100; `raw` are those of all nodes where they are known."""
        if raw is None and self.final is not None:
            return self.final.final_score(cycle, feasible)
        scores = self.plugin.score(cycle, feasible) if raw is None else feasible.take(raw)
        return scores if self.normalizer is None else self.normalizer.normalize_score(cycle, scores)

    def weighted(self, scores: Int64Array) -> Int64Array:
        return scores if self.weight == 1 else self.weight * scores


class CachedScores(msgspec.Struct):
    """Scores over all nodes of the plugins that look at one node at a time."""

    lasting: Int64Array  #: weighted sum of final scores that ignore pods, int64 of shape (n_nodes,)
    total: Int64Array  #: `lasting` plus the weighted scores of `following`
    position: int = 0  #: the place in the cluster's log up to which this is current
    #: the plugins whose scores are computed or normalized over the feasible nodes in every cycle
    per_cycle: list[Scorer] = []
    #: plugins whose scores depend on the pods of a node, with those scores, which need no normalizing
    following: list[tuple[Scorer, Int64Array]] = []
    parts: list[ScorePart] = []  #: the scores that are summed in `total`
    raw: dict[str, Int64Array] = {}  #: plugin -> raw scores over all nodes, not yet normalized

    def start(self, position: int) -> CachedScores:
        """Return a copy for one shape, to which scores can be added."""
        total, raw = self.lasting.copy(), self.raw.copy()
        return CachedScores(self.lasting, total, position, self.per_cycle.copy(), parts=self.parts.copy(), raw=raw)

    def add(self, part: ScorePart, value: Int64Array | int, *, lasts: bool = True) -> None:
        """Add scores that stay the same where they last; a number as `value` is the score of all nodes."""
        self.parts.append(part)
        if isinstance(value, int) and value == 0:
            return
        weighted = value if part.weight == 1 else part.weight * value
        self.total += weighted
        if lasts:
            self.lasting = self.lasting + weighted

    def refresh(self, cycle: CycleState, cluster: Cluster) -> None:
        """Score the nodes again whose pods changed."""
        if self.position == len(cluster.log) or not self.following:
            return
        changed = changed_rows(cluster, self.position)
        self.position = len(cluster.log)
        view = NodeView(cluster, changed)
        rows: RowArray | slice = slice(None) if changed is None else changed
        total = self.lasting.copy() if changed is None else self.lasting[rows]
        for scorer, scores in self.following:
            fresh = scorer.plugin.score(cycle, view)
            scores[rows] = fresh
            total += scorer.weighted(fresh)
        self.total[rows] = total


class CommonEntry(msgspec.Struct):
    """Cached results that shapes share because some plugins read the same of them.

    Where pods differ only in their requests, nearly all results are shared.
    """

    pre_filters: CachedResults = msgspec.field(default_factory=CachedResults)
    pre_scores: CachedResults = msgspec.field(default_factory=CachedResults)
    verdicts: dict[str, Verdicts] = {}  #: plugin -> verdicts over all nodes; plugins that look at node objects alone
    #: bool array of shape (n_nodes,), the node passes all of `verdicts`; None until those filters ran
    passes: BoolArray | None = None
    scores: CachedScores | None = None  #: scores of such plugins, and constant ones; None until they ran
    own_scorers: Sequence[Scorer] = ()  #: the plugins whose scores shapes do not share, once `scores` are known
    single: ShapeEntry | None = None  #: the entry of all shapes that occur once; None until everything above is known

    @property
    def is_complete(self) -> bool:
        """Whether everything that shapes share is known."""
        known = self.pre_filters.per_cycle is not None and self.pre_scores.per_cycle is not None
        return known and self.passes is not None and self.scores is not None


class ShapeEntry:
    """Cached results for one shape; it starts with those that it shares with other shapes.

    An entry that `keeps_own` caches what other shapes do not share: worth its while for a shape that occurs again.
    """

    __slots__ = ("common", "keeps_own", "pre_filters", "pre_scores", "scores", "verdicts")

    def __init__(self, common: CommonEntry | None = None, *, keeps_own: bool = True) -> None:
        self.common = CommonEntry() if common is None else common
        self.keeps_own = keeps_own
        self.pre_filters = self.common.pre_filters.copy() if keeps_own else self.common.pre_filters
        self.pre_scores = self.common.pre_scores.copy() if keeps_own else self.common.pre_scores
        self.verdicts: CachedVerdicts | None = None
        self.scores: CachedScores | None = None
        passes, scores = self.common.passes, self.common.scores
        if not keeps_own and passes is not None and scores is not None:
            self.verdicts = CachedVerdicts(self.common.verdicts, (), passes, passes, position=0)
            self.scores = replace(scores, per_cycle=[*scores.per_cycle, *self.common.own_scorers])


def changed_rows(cluster: Cluster, position: int) -> RowArray | None:
    """Return the nodes whose pods changed since a place in the log; None, for all nodes, when many changed."""
    changed = cluster.changed_rows(position)
    return None if len(changed) * _REFRESH_SHARE > max(len(cluster), _REFRESH_SHARE) else changed


class PluginCache:
    """The results of one profile's plugins, by shape and by what plugins read of a pod."""

    def __init__(
        self,
        cluster: Cluster,
        weights: Mapping[str, int],
        *,
        pre_filters: Sequence[fwk.PreFilterPlugin],
        filters: Sequence[fwk.FilterPlugin],
        pre_scores: Sequence[fwk.PreScorePlugin],
        scores: Sequence[fwk.ScorePlugin],
    ) -> None:
        self._cluster = cluster
        self._pre_filters = pre_filters
        self._pre_scores = pre_scores
        self.forget()
        self._occurred_once: Recent[bool] = Recent(MAX_ONCE)
        points: tuple[Sequence[fwk.Plugin], ...] = (pre_filters, filters, pre_scores, scores)
        plugins = {plugin.name: plugin for point in points for plugin in point}
        keyed = fwk.plugins_with(fwk.KeyedPlugin, plugins.values())
        #: what some of the plugins read, each once
        self._readers: list[Callable[[PodInfo], Hashable]] = list(dict.fromkeys(plugin.reads for plugin in keyed))
        self._is_keyed = frozenset(plugin.name for plugin in keyed)
        #: plugins that look at node objects alone, and whose results shapes share
        self._lasting = frozenset(name for name in self._is_keyed if plugins[name].scope is Scope.NODE_OBJECT)
        self._with_pre_score = frozenset(plugin.name for plugin in pre_scores)
        self._common_filters = [plugin for plugin in filters if plugin.name in self._lasting]
        self._own_filters = [plugin for plugin in filters if plugin.name not in self._lasting and _is_cached(plugin)]
        self.scorers = [
            Scorer(
                rank,
                plugin.name,
                weights[plugin.name],
                plugin,
                plugin.scope,
                fwk.plugin_with(fwk.NormalizeScorePlugin, plugin),
                fwk.plugin_with(fwk.ConstantScorePlugin, plugin),
                fwk.plugin_with(fwk.FinalScorePlugin, plugin),
            )
            for rank, plugin in enumerate(scores)
        ]
        nothing = np.zeros(len(cluster), np.int64)
        self.unshared = ShapeEntry(keeps_own=False)  #: for pods whose results no other pod will use
        self.unshared.scores = CachedScores(nothing, nothing, per_cycle=self.scorers)

    def forget(self) -> None:
        self._shapes: Recent[ShapeEntry] = Recent(MAX_SHAPES)
        self._commons: Recent[CommonEntry] = Recent(MAX_SHAPES)

    def entry(self, pod: PodInfo) -> ShapeEntry:
        """Return the cache entry of a pod's shape.

        Filling a cache for a shape costs as much as answering. So where it shares all that lasts with shapes before it,
        its first pod gets an entry that caches nothing.
        """
        shape = pod.shape
        entry = self._shapes.find(shape)
        if entry is not None:
            return entry
        common = self._commons.get(tuple([reads(pod) for reads in self._readers]), CommonEntry)
        if common.is_complete and self._occurred_once.find(shape) is None:
            self._occurred_once.put(shape, True)  # noqa: FBT003 - the value
            if common.single is None:
                common.single = ShapeEntry(common, keeps_own=False)
            return common.single
        return self._shapes.get(shape, lambda: ShapeEntry(common))

    def cached_pre_filters(self, cycle: CycleState, entry: ShapeEntry) -> PreFilterOutcome | None:
        """Return the outcome of PreFilter from the cache, running only the plugins whose result is not cached.

        None when nothing is cached yet, or one of those plugins does more than skip: then all plugins have to run.
        """
        cached = entry.pre_filters
        if cached.per_cycle is None:
            return None
        n_cached = len(cached.known)
        cycle.states.update(cached.all_states)
        also_skipped: list[str] = []
        for plugin in cached.per_cycle:
            result = self.pre_filter(plugin, cycle, entry) if entry.keeps_own else plugin.pre_filter(cycle)
            if result is None:
                continue
            if not result.skip:
                cycle.states.clear()
                return None
            also_skipped.append(plugin.name)
        outcome = PreFilterOutcome(skipped=cached.skipped.union(also_skipped) if also_skipped else cached.skipped)
        if len(cached.known) > n_cached:
            self._finish(cached)
        return outcome

    def pre_filter(
        self, plugin: fwk.PreFilterPlugin, cycle: CycleState, entry: ShapeEntry
    ) -> fwk.PreFilterResult | None:
        name, cached = plugin.name, entry.pre_filters
        if name in cached.known:
            result: fwk.PreFilterResult | None
            result, states = cached.known[name]
            cycle.states.update(states)  # only now: a plugin that the loop does not reach has no state
            return result
        n_known = len(cycle.states)
        result = plugin.pre_filter(cycle)
        if entry.keeps_own and (_is_cached(plugin) or (result is not None and result.skip and result.for_shape)):
            self._note(name, result, _written_since(cycle, n_known), cached, entry.common.pre_filters)
        return result

    def _note(self, name: str, result: Any, states: dict[type, Any], own: CachedResults, common: CachedResults) -> None:
        own.known[name] = result, states
        if name in self._is_keyed:
            common.known[name] = result, states

    def finish_pre_filters(self, entry: ShapeEntry) -> None:
        """Note which plugins run in every cycle, once all have run."""
        if entry.keeps_own:
            self._finish(entry.pre_filters)
            self._finish(entry.common.pre_filters)

    def _finish(self, cached: CachedResults) -> None:
        # A result that rejects the pod or names nodes is not for later pods: the loop over all plugins has to run.
        if all(result is None or result.skip for result, _ in cached.known.values()):
            cached.finish(self._pre_filters)

    def verdicts(
        self, cycle: CycleState, entry: ShapeEntry, skipped: frozenset[str]
    ) -> tuple[Mapping[str, Verdicts], BoolArray]:
        """Return the known verdicts over all nodes, by plugin, and which nodes pass these filters."""
        if entry.verdicts is not None:
            entry.verdicts.refresh(cycle, self._cluster)
            return entry.verdicts.by_plugin, entry.verdicts.passes
        everywhere, common = NodeView(self._cluster), entry.common
        if common.passes is None:
            passes = np.ones(len(self._cluster), np.bool_)
            for plugin in self._common_filters:
                if plugin.name not in skipped:
                    verdict = common.verdicts[plugin.name] = plugin.filter(cycle, everywhere)
                    passes &= verdict.bits == 0
            common.passes = passes
        lasting = passes = common.passes
        by_plugin = common.verdicts.copy()
        following: list[fwk.FilterPlugin] = []
        for plugin in self._own_filters:
            name = plugin.name
            if name in skipped:
                continue
            verdict = by_plugin[name] = plugin.filter(cycle, everywhere)
            passes = passes & (verdict.bits == 0)
            if plugin.scope is Scope.NODE:
                following.append(plugin)
            else:
                lasting = lasting & (verdict.bits == 0)
        entry.verdicts = CachedVerdicts(by_plugin, following, lasting, passes, len(self._cluster.log))
        return by_plugin, passes

    def pre_score(self, cycle: CycleState, feasible: NodeView, entry: ShapeEntry) -> frozenset[str]:
        """Run the PreScore plugins whose result is not cached, and return the plugins whose score is left out."""
        cached = entry.pre_scores
        cycle.states.update(cached.all_states)
        also_skipped: list[str] = []
        n_cached = len(cached.known)
        for plugin in self._pre_scores if cached.per_cycle is None else cached.per_cycle:
            n_known = len(cycle.states)
            result = plugin.pre_score(cycle, feasible)
            if result is not None:
                if isinstance(result, fwk.Status):
                    raise PluginError(f'running PreScore plugin "{plugin.name}": {result.message}')
                also_skipped.append(plugin.name)
            if entry.keeps_own and (_is_cached(plugin) or result is fwk.PreScoreResult.SKIP_SHAPE):
                self._note(plugin.name, result, _written_since(cycle, n_known), cached, entry.common.pre_scores)
        skipped = cached.skipped.union(also_skipped) if also_skipped else cached.skipped
        if cached.per_cycle is None:
            entry.common.pre_scores.finish(self._pre_scores)
        if cached.per_cycle is None or len(cached.known) > n_cached:
            cached.finish(self._pre_scores)
        return skipped

    def scores(self, cycle: CycleState, entry: ShapeEntry, skipped: frozenset[str]) -> CachedScores:
        """Return the known scores over all nodes, of an entry of its own those of all plugins that look at one node."""
        if entry.scores is not None:
            entry.scores.refresh(cycle, self._cluster)
            return entry.scores
        common = entry.common
        if common.scores is None:
            nothing = np.zeros(len(self._cluster), np.int64)
            shared, own = CachedScores(nothing, nothing.copy()), []
            for scorer in self.scorers:
                name = scorer.name
                if name in self._lasting:
                    self._add_scores(cycle, shared, scorer, skipped)
                    continue
                is_keyed = name in self._is_keyed
                if is_keyed and name in common.pre_scores.skipped:
                    continue
                constant = self.constant_part(cycle, scorer) if is_keyed and name not in self._with_pre_score else None
                if constant is None:
                    own.append(scorer)
                else:
                    shared.add(*constant)
            common.scores, common.own_scorers = shared, own
        entry.scores = cached = common.scores.start(len(self._cluster.log))
        for scorer in common.own_scorers:
            self._add_scores(cycle, cached, scorer, skipped)
        return cached

    def _add_scores(self, cycle: CycleState, cached: CachedScores, scorer: Scorer, skipped: frozenset[str]) -> None:
        constant = self.constant_part(cycle, scorer)
        if constant is not None and scorer.name not in skipped:
            cached.add(*constant)
            return
        if scorer.scope is Scope.CLUSTER or (scorer.normalizer is not None and scorer.scope is Scope.NODE):
            cached.per_cycle.append(scorer)
            return
        if scorer.name in skipped:
            return
        raw = scorer.plugin.score(cycle, NodeView(self._cluster))
        if scorer.scope is Scope.NODE:
            cached.add(scorer.part(raw, is_full=True), raw, lasts=False)
            cached.following.append((scorer, raw))
        elif scorer.normalizer is None:
            cached.add(scorer.part(raw, is_full=True), raw)
        elif (raw == raw[0]).all():
            cached.add(*self._uniform_part(cycle, scorer, int(raw[0])))
        else:
            cached.raw[scorer.name] = raw
            cached.per_cycle.append(scorer)

    def constant_part(self, cycle: CycleState, scorer: Scorer) -> tuple[ScorePart, int] | None:
        """Return scores that are the same on all nodes whatever the cluster contains; None where nodes may differ."""
        constant = None if scorer.constant is None else scorer.constant.constant_score(cycle)
        return None if constant is None else self._uniform_part(cycle, scorer, constant)

    def _uniform_part(self, cycle: CycleState, scorer: Scorer, value: int) -> tuple[ScorePart, int]:
        """Return scores that are the same on all nodes, as a read-only view of one element, and that score."""
        if scorer.normalizer is not None:
            value = int(scorer.normalizer.normalize_score(cycle, np.full(1, value, np.int64))[0])
        return scorer.part(np.broadcast_to(np.int64(value), len(self._cluster)), is_full=True), value


def _is_cached(plugin: fwk.Plugin) -> bool:
    return plugin.scope is not Scope.CLUSTER


def _written_since(cycle: CycleState, n_known: int) -> dict[type, Any]:
    """Return the states written after the first `n_known`: a dictionary keeps the order of insertion."""
    return dict(list(cycle.states.items())[n_known:]) if len(cycle.states) > n_known else {}
