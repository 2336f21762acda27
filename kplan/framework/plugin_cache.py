"""Runs a profile's plugins, and caches their results for pods of the same shape.

See `kplan.framework.interface` for what plugins guarantee, and `kplan.framework.shape_cache` for the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from kplan.engine.arrays import BoolArray
from kplan.engine.cluster import Cluster
from kplan.engine.mappings import Recent
from kplan.engine.verdicts import Verdicts
from kplan.engine.view import NodeView
from kplan.framework.interface import (
    ConstantScorePlugin,
    CycleState,
    FilterPlugin,
    FinalScorePlugin,
    KeyedPlugin,
    NormalizeScorePlugin,
    Plugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    PreScoreResult,
    Scope,
    ScorePlugin,
    Status,
    plugins_with,
)
from kplan.framework.results import PluginError, PreFilterOutcome, ScoreOutcome, ScorePart
from kplan.framework.shape_cache import (
    MAX_ONCE,
    CachedPreFilters,
    CachedScores,
    CachedVerdicts,
    CommonEntry,
    Scorer,
    ShapeEntry,
    common_cache,
    is_uniform,
    shape_cache,
)
from kplan.rules.pod_info import PodInfo

MAX_CONSTANTS = 256
"""How many scores that are the same on all nodes are cached: there are hardly more than plugins."""


class PluginCache:
    """The results of one profile's plugins, by shape and by what plugins read of a pod.

    Parameters
    ----------
    weights : plugin -> weight of its score
    pre_filters, filters, pre_scores, scores : the plugins of each extension point, in order
    normalizers : those that normalize their scores, by name
    """

    def __init__(
        self,
        cluster: Cluster,
        weights: Mapping[str, int],
        *,
        pre_filters: Sequence[PreFilterPlugin],
        filters: Sequence[FilterPlugin],
        pre_scores: Sequence[PreScorePlugin],
        scores: Sequence[ScorePlugin],
        normalizers: Mapping[str, NormalizeScorePlugin],
    ) -> None:
        self._cluster = cluster
        self._weights = weights
        self._pre_filters = pre_filters
        self._pre_scores = pre_scores
        self._shapes = shape_cache()
        self._commons = common_cache()
        self._occurred_once: Recent[bool] = Recent(MAX_ONCE)
        self._constant_parts: Recent[ScorePart] = Recent(MAX_CONSTANTS)
        self._everywhere = NodeView(cluster)

        extension_points: tuple[Sequence[Any], ...] = (pre_filters, filters, pre_scores, scores)
        plugins: dict[str, Plugin] = {plugin.name: plugin for point in extension_points for plugin in point}
        constants = {plugin.name: plugin for plugin in plugins_with(ConstantScorePlugin, plugins.values())}
        finals = {plugin.name: plugin for plugin in plugins_with(FinalScorePlugin, plugins.values())}
        self._is_cached = {name: plugin.scope is not Scope.CLUSTER for name, plugin in plugins.items()}
        self._follows_pods = {name: plugin.scope is Scope.NODE for name, plugin in plugins.items()}
        keyed = plugins_with(KeyedPlugin, plugins.values())
        #: what some of the plugins read, each once
        self._readers: list[Callable[[PodInfo], Hashable]] = list(dict.fromkeys(plugin.reads for plugin in keyed))
        self._is_keyed = frozenset(plugin.name for plugin in keyed)
        #: plugins that look at node objects alone, and whose results shapes share
        self._lasting = frozenset(name for name in self._is_keyed if plugins[name].scope is Scope.NODE_OBJECT)
        self._with_pre_score = frozenset(plugin.name for plugin in pre_scores)
        self._filters = filters
        self._common_filters = [plugin for plugin in filters if plugin.name in self._lasting]
        self._own_filters = [
            plugin for plugin in filters if plugin.name not in self._lasting and self._is_cached[plugin.name]
        ]
        self.scorers = [
            Scorer(
                rank,
                plugin.name,
                weights[plugin.name],
                plugin,
                normalizers.get(plugin.name),
                constants.get(plugin.name),
                finals.get(plugin.name),
                plugins[plugin.name].scope,
            )
            for rank, plugin in enumerate(scores)
        ]

    def forget(self) -> None:
        self._shapes = shape_cache()
        self._commons = common_cache()

    def entry(self, pod: PodInfo, *, recurs: bool = False) -> ShapeEntry:
        """Return the cache entry of a pod's shape.

        Filling a cache for a shape costs as much as answering. So where it shares all that lasts with shapes before it,
        its first pod gets an entry that caches nothing, unless it is known that more `recurs`.
        """
        shape = pod.shape
        entry = self._shapes.find(shape)
        if entry is not None:
            return entry
        common = self._commons.get(tuple([reads(pod) for reads in self._readers]), CommonEntry)
        if not recurs and common.is_complete and self._occurred_once.find(shape) is None:
            self._occurred_once.get(shape, lambda: True)
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
        n_cached = len(cached.results)
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
        outcome = PreFilterOutcome(skipped=cached.skipped_with(also_skipped))
        if len(cached.results) > n_cached:
            self._finish(cached)
        return outcome

    def pre_filter(self, plugin: PreFilterPlugin, cycle: CycleState, entry: ShapeEntry) -> PreFilterResult | None:
        name, cached = plugin.name, entry.pre_filters
        if name in cached.results:
            # Only now: a plugin that the loop does not reach has no state.
            cycle.states.update(cached.states[name])
            return cached.results[name]
        n_known = len(cycle.states)
        result = plugin.pre_filter(cycle)
        if entry.keeps_own and (self._is_cached[name] or (result is not None and result.skip and result.for_shape)):
            states = _written_since(cycle, n_known)
            cached.add(name, result, states)
            if name in self._is_keyed:
                entry.common.pre_filters.add(name, result, states)
        return result

    def finish_pre_filters(self, entry: ShapeEntry) -> None:
        """Note which plugins run in every cycle, once all have run."""
        if not entry.keeps_own:
            return
        self._finish(entry.pre_filters)
        self._finish(entry.common.pre_filters)

    def _finish(self, cached: CachedPreFilters) -> None:
        if all(result is None or result.skip for result in cached.results.values()):
            cached.finish(self._pre_filters)

    def verdicts_once(
        self, cycle: CycleState, common: CommonEntry, skipped: frozenset[str]
    ) -> tuple[list[tuple[str, Verdicts]], BoolArray]:
        """Return the verdicts of all filters on all nodes, in order, and which nodes pass; nothing is cached."""
        passes = common.passes
        assert passes is not None  # noqa: S101 - a shape occurs once only where everything common is known
        lineup = common.lineups.get(skipped)
        if lineup is None:
            known = common.verdicts
            lineup = common.lineups[skipped] = [
                (plugin, (plugin.name, known[plugin.name]) if plugin.name in known else None)
                for plugin in self._filters
                if plugin.name not in skipped
            ]
        verdicts: list[tuple[str, Verdicts]] = []
        for plugin, shared in lineup:
            if shared is not None:
                verdicts.append(shared)
                continue
            verdict = plugin.filter(cycle, self._everywhere)
            if verdict.reasons:
                passes = passes & (verdict.bits == 0)
            verdicts.append((plugin.name, verdict))
        return verdicts, passes

    def verdicts(self, cycle: CycleState, entry: ShapeEntry, skipped: frozenset[str]) -> CachedVerdicts:
        """Return the current verdicts over all nodes of the filters that look at one node at a time."""
        if entry.verdicts is not None:
            entry.verdicts.refresh(cycle, self._cluster)
            return entry.verdicts
        everywhere = NodeView(self._cluster)
        lasting = self._common_passes(cycle, entry.common, skipped)
        by_plugin = entry.common.verdicts.copy()
        following: list[FilterPlugin] = []
        passes = lasting
        for plugin in self._own_filters:
            name = plugin.name
            if name in skipped:
                continue
            verdict = by_plugin[name] = plugin.filter(cycle, everywhere)
            passes = passes & (verdict.bits == 0)
            if self._follows_pods[name]:
                following.append(plugin)
            else:
                lasting = lasting & (verdict.bits == 0)
        entry.verdicts = CachedVerdicts(by_plugin, following, lasting, passes, len(self._cluster.log))
        return entry.verdicts

    def _common_passes(self, cycle: CycleState, common: CommonEntry, skipped: frozenset[str]) -> BoolArray:
        """Return which nodes pass the filters whose verdicts shapes share, bool of shape (n_nodes,)."""
        if common.passes is None:
            everywhere = NodeView(self._cluster)
            passes = np.ones(len(self._cluster), np.bool_)
            for plugin in self._common_filters:
                if plugin.name not in skipped:
                    verdict: Verdicts = plugin.filter(cycle, everywhere)
                    common.verdicts[plugin.name] = verdict
                    passes &= verdict.bits == 0
            common.passes = passes
        return common.passes

    def pre_score(self, cycle: CycleState, feasible: NodeView, entry: ShapeEntry) -> frozenset[str]:
        """Run the PreScore plugins whose result is not cached, and return the plugins whose score is left out."""
        cached = entry.pre_scores
        cycle.states.update(cached.all_states)
        also_skipped: list[str] = []
        n_cached = len(cached.results)
        for plugin in self._pre_scores if cached.per_cycle is None else cached.per_cycle:
            name = plugin.name
            n_known = len(cycle.states)
            result = plugin.pre_score(cycle, feasible)
            if isinstance(result, Status):
                raise PluginError(f'running PreScore plugin "{name}": {result.message}')
            if result is not None:
                also_skipped.append(name)
            if not entry.keeps_own:
                continue
            if self._is_cached[name] or result is PreScoreResult.SKIP_SHAPE:
                states = _written_since(cycle, n_known)
                cached.add(name, result, states)
                if name in self._is_keyed:
                    entry.common.pre_scores.add(name, result, states)
        skipped = cached.skipped_with(also_skipped)
        if cached.per_cycle is None:
            entry.common.pre_scores.finish(self._pre_scores)
        if cached.per_cycle is None or len(cached.results) > n_cached:
            cached.finish(self._pre_scores)
        return skipped

    def scores(self, cycle: CycleState, entry: ShapeEntry, skipped: frozenset[str]) -> CachedScores:
        """Return the current scores over all nodes of the plugins that look at one node at a time."""
        if entry.scores is not None:
            entry.scores.refresh(cycle, self._cluster)
            return entry.scores
        common = entry.common
        if common.scores is None:
            common.scores, common.own_scorers = self._common_scores(cycle, common, skipped)
        entry.scores = cached = common.scores.start(len(self._cluster.log))
        for scorer in common.own_scorers:
            self._add_scores(cycle, cached, scorer, skipped)
        return cached

    def _common_scores(
        self, cycle: CycleState, common: CommonEntry, skipped: frozenset[str]
    ) -> tuple[CachedScores, list[Scorer]]:
        """Return the scores that shapes share, and the plugins whose scores they do not share."""
        shared = CachedScores.none(self._weights, len(self._cluster))
        own: list[Scorer] = []
        for scorer in self.scorers:
            name = scorer.name
            is_skip_shared = name in common.pre_scores.skipped
            if name in self._lasting:
                self._add_scores(cycle, shared, scorer, skipped)
            elif name in self._is_keyed and (is_skip_shared or name not in self._with_pre_score):
                constant = None if is_skip_shared or scorer.constant is None else scorer.constant.constant_score(cycle)
                if constant is not None:
                    self._add_constant(cycle, shared, scorer, constant)
                elif not is_skip_shared:
                    own.append(scorer)
            else:
                own.append(scorer)
        return shared, own

    def scores_once(
        self, cycle: CycleState, common: CommonEntry, skipped: frozenset[str], feasible: NodeView
    ) -> ScoreOutcome:
        cached = common.scores
        assert cached is not None  # noqa: S101 - a shape occurs once only where everything common is known
        parts = cached.parts.copy()
        full, over_feasible = cached.lasting, None
        is_crowd = len(feasible) * 2 > len(self._cluster)
        for scorer in chain(cached.per_cycle, common.own_scorers):
            if scorer.name in skipped:
                continue
            constant = None if scorer.constant is None else scorer.constant.constant_score(cycle)
            if constant is not None:
                part, value = self._constant_part(cycle, scorer, constant)
                full = full + scorer.weight * value if value else full
                parts.append(part)
            elif is_crowd and scorer.normalizer is None and scorer.scope is Scope.NODE:
                scores = scorer.plugin.score(cycle, self._everywhere)
                parts.append(scorer.part(scores, is_full=True))
                full = full + scorer.weighted(scores)
            else:
                scores = scorer.scores(cycle, feasible, cached.raw.get(scorer.name))
                parts.append(scorer.part(scores, is_full=False))
                weighted = scorer.weighted(scores)
                over_feasible = weighted if over_feasible is None else over_feasible + weighted
        total = feasible.take(full)
        rows = feasible.rows if feasible.rows is not None else self._cluster.nodes.all_rows
        return ScoreOutcome(rows, total if over_feasible is None else total + over_feasible, parts)

    def _add_scores(self, cycle: CycleState, cached: CachedScores, scorer: Scorer, skipped: frozenset[str]) -> None:
        name, n_nodes = scorer.name, len(self._cluster)
        constant = None if scorer.constant is None else scorer.constant.constant_score(cycle)
        if constant is not None and name not in skipped:
            self._add_constant(cycle, cached, scorer, constant)
            return
        if scorer.scope is Scope.CLUSTER or (scorer.normalizer is not None and scorer.scope is Scope.NODE):
            cached.per_cycle.append(scorer)
            return
        if name in skipped:
            return
        raw = scorer.plugin.score(cycle, NodeView(self._cluster))
        if scorer.scope is Scope.NODE:
            cached.add_following(scorer.part(raw, is_full=True), scorer.plugin)
        elif scorer.normalizer is None:
            cached.add_lasting(scorer.part(raw, is_full=True))
        elif n_nodes and is_uniform(raw):
            self._add_constant(cycle, cached, scorer, int(raw[0]))
        else:
            cached.raw[name] = raw
            cached.per_cycle.append(scorer)

    def _add_constant(self, cycle: CycleState, cached: CachedScores, scorer: Scorer, raw: int) -> None:
        """Add scores that are the same on all nodes, whichever of them are feasible."""
        part, value = self._constant_part(cycle, scorer, raw)
        cached.add_constant(part, value)

    def _constant_part(self, cycle: CycleState, scorer: Scorer, raw: int) -> tuple[ScorePart, int]:
        """Return scores that are the same on all nodes, as a read-only view of one element, and that score."""
        value = raw
        if scorer.normalizer is not None:
            value = int(scorer.normalizer.normalize_score(cycle, np.full(1, raw, np.int64))[0])

        def part() -> ScorePart:
            column = np.broadcast_to(np.full(1, value, np.int64), (len(self._cluster),))
            return scorer.part(column, is_full=True)

        return self._constant_parts.get((scorer.name, value), part), value


def _written_since(cycle: CycleState, n_known: int) -> dict[type, Any]:
    """Return the states written after the first `n_known`: a dictionary keeps the order of insertion."""
    if len(cycle.states) == n_known:
        return {}
    return dict(list(cycle.states.items())[n_known:])
