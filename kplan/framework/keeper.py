"""Asks a profile's plugins, and keeps for pods that say the same what need not be asked again.

See `kplan.framework.interface` for what plugins promise, and `kplan.framework.shape_cache` for what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array
from kplan.engine.cluster import Cluster
from kplan.engine.recent import Recent
from kplan.engine.verdicts import Verdicts
from kplan.engine.view import NodeView
from kplan.framework.interface import (
    ConstantScorePlugin,
    CycleState,
    FilterPlugin,
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
)
from kplan.framework.outcomes import PluginError, PreFilterOutcome, ScorePart
from kplan.framework.shape_cache import (
    CommonEntry,
    KeptScores,
    KeptVerdicts,
    ShapeEntry,
    common_cache,
    is_uniform,
    shape_cache,
)
from kplan.rules.pod_info import PodInfo

MAX_CONSTANTS = 256
"""Scores that are the same on all nodes, kept at a time: hardly more than the plugins there are."""


class Keeper:
    """What the plugins of one profile answered, by shape and by what plugins read of a pod.

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
        self._pre_scores, self._scores = pre_scores, scores
        self._normalizers = normalizers
        self._shapes = shape_cache()
        self._commons = common_cache()
        self._constant_parts: Recent[ScorePart] = Recent(MAX_CONSTANTS)

        points: tuple[Sequence[Any], ...] = (pre_filters, filters, pre_scores, scores)
        plugins: dict[str, Plugin] = {each.name: each for point in points for each in point}
        # Asked once: telling a protocol by looking at the methods of a plugin takes longer than many a score.
        self._constants = {name: each for name, each in plugins.items() if isinstance(each, ConstantScorePlugin)}
        self._is_kept = {name: each.scope is not Scope.CLUSTER for name, each in plugins.items()}
        self._follows_pods = {name: each.scope is Scope.NODE for name, each in plugins.items()}
        keyed = [plugin for plugin in plugins.values() if isinstance(plugin, KeyedPlugin)]
        self._readers: list[Callable[[PodInfo], Hashable]] = [each.reads for each in keyed]
        self._is_keyed = frozenset(each.name for each in keyed)
        lasting = frozenset(name for name in self._is_keyed if plugins[name].scope is Scope.NODE_OBJECT)
        self._common_filters = [each for each in filters if each.name in lasting]
        self._own_filters = [each for each in filters if each.name not in lasting and self._is_kept[each.name]]
        ranked = list(enumerate(scores))
        self._common_scores = [(rank, each) for rank, each in ranked if each.name in lasting]
        self._own_scores = [(rank, each) for rank, each in ranked if each.name not in lasting]

    def forget(self) -> None:
        """Forget all answers."""
        self._shapes = shape_cache()
        self._commons = common_cache()

    def entry(self, pod: PodInfo) -> ShapeEntry:
        """Return what is kept for pods like this one."""
        return self._shapes.get(pod.shape, lambda: ShapeEntry(self._common(pod)))

    def _common(self, pod: PodInfo) -> CommonEntry:
        return self._commons.get(tuple(reads(pod) for reads in self._readers), CommonEntry)

    def open_pre_filters(self, cycle: CycleState, entry: ShapeEntry) -> PreFilterOutcome | None:
        """Ask only the plugins whose answer is not kept; None when that is not known, or one does more than skip."""
        kept = entry.pre_filters
        if kept.open is None:
            return None
        n_kept = len(kept.results)
        cycle.states.update(kept.all_states)
        skipped = kept.skipped
        for plugin in kept.open:
            result = self.pre_filter(plugin, cycle, entry)
            if result is None:
                continue
            if not result.skip:
                cycle.states.clear()
                return None
            skipped |= {plugin.name}
        if len(kept.results) > n_kept:
            kept.close(self._pre_filters)
        return PreFilterOutcome(skipped=skipped)

    def pre_filter(self, plugin: PreFilterPlugin, cycle: CycleState, entry: ShapeEntry) -> PreFilterResult | None:
        """Ask one plugin, unless its answer is kept."""
        name, kept = plugin.name, entry.pre_filters
        if name in kept.results:
            # Not before its turn: a plugin that is not reached has no state.
            cycle.states.update(kept.states[name])
            return kept.results[name]
        n_known = len(cycle.states)
        result = plugin.pre_filter(cycle)
        if self._is_kept[name] or (result is not None and result.skip and result.for_shape):
            states = _written_since(cycle, n_known)
            kept.keep(name, result, states)
            if name in self._is_keyed:
                entry.common.pre_filters.keep(name, result, states)
        return result

    def close_pre_filters(self, entry: ShapeEntry) -> None:
        """Note which plugins must be asked again, once all have been asked."""
        entry.pre_filters.close(self._pre_filters)
        entry.common.pre_filters.close(self._pre_filters)

    def verdicts(self, cycle: CycleState, entry: ShapeEntry, skipped: frozenset[str]) -> KeptVerdicts:
        """Return the verdicts over all nodes of the filters that look at one node at a time, up to date."""
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
        entry.verdicts = KeptVerdicts(by_plugin, following, lasting, passes, len(self._cluster.log))
        return entry.verdicts

    def _common_passes(self, cycle: CycleState, common: CommonEntry, skipped: frozenset[str]) -> BoolArray:
        """Return which nodes pass the filters whose verdicts shapes have in common, bool of shape (n_nodes,)."""
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
        """Ask PreScore plugins, and return those whose score is left out."""
        kept = entry.pre_scores
        cycle.states.update(kept.states)
        skipped = kept.skipped
        n_kept = len(kept.results)
        for plugin in self._pre_scores if kept.open is None else kept.open:
            name = plugin.name
            n_known = len(cycle.states)
            result = plugin.pre_score(cycle, feasible)
            if isinstance(result, Status):
                raise PluginError(f'running PreScore plugin "{name}": {result.message}')
            if result is not None:
                skipped |= {name}
            if self._is_kept[name] or result is PreScoreResult.SKIP_SHAPE:
                states = _written_since(cycle, n_known)
                kept.keep(name, result, states)
                if name in self._is_keyed:
                    entry.common.pre_scores.keep(name, result, states)
        if kept.open is None:
            entry.common.pre_scores.close(self._pre_scores)
        if kept.open is None or len(kept.results) > n_kept:
            kept.close(self._pre_scores)
        return skipped

    def scores(self, cycle: CycleState, entry: ShapeEntry, skipped: frozenset[str]) -> KeptScores:
        """Return the scores over all nodes of the plugins that look at one node at a time, up to date."""
        if entry.scores is not None:
            entry.scores.refresh(cycle, self._cluster)
            return entry.scores
        common = entry.common
        if common.scores is None:
            common.scores = KeptScores.none(self._weights, len(self._cluster))
            for rank, plugin in self._common_scores:
                self._add_scores(cycle, common.scores, rank, plugin, skipped)
        entry.scores = kept = common.scores.start(len(self._cluster.log))
        for rank, plugin in self._own_scores:
            self._add_scores(cycle, kept, rank, plugin, skipped)
        return kept

    def _add_scores(
        self, cycle: CycleState, kept: KeptScores, rank: int, plugin: ScorePlugin, skipped: frozenset[str]
    ) -> None:
        name, n_nodes = plugin.name, len(self._cluster)
        constant = self._constants[name].constant_score(cycle) if name in self._constants else None
        if constant is not None and name not in skipped:
            self._add_constant(cycle, kept, rank, name, constant)
            return
        if not self._is_kept[name] or (name in self._normalizers and self._follows_pods[name]):
            kept.open.append((rank, plugin))
            return
        if name in skipped:
            return
        raw = plugin.score(cycle, NodeView(self._cluster))
        if self._follows_pods[name]:
            kept.add_following(ScorePart(rank, name, self._weights[name], raw, is_full=True), plugin)
        elif name not in self._normalizers:
            kept.add_lasting(ScorePart(rank, name, self._weights[name], raw, is_full=True))
        elif n_nodes and is_uniform(raw):
            self._add_constant(cycle, kept, rank, name, int(raw[0]))
        else:
            kept.raw[name] = raw
            kept.open.append((rank, plugin))

    def _add_constant(self, cycle: CycleState, kept: KeptScores, rank: int, name: str, raw: int) -> None:
        """Add scores that are the same on all nodes, whichever of them are feasible."""
        value = raw
        if name in self._normalizers:
            value = int(self._normalizers[name].normalize_score(cycle, np.full(1, raw, np.int64))[0])
        kept.add_constant(
            self._constant_parts.get(
                (name, value), lambda: ScorePart(rank, name, self._weights[name], self._everywhere(value), is_full=True)
            ),
            value,
        )

    def _everywhere(self, value: int) -> Int64Array:
        """Return one element seen as many: nothing is written to scores that last."""
        return np.broadcast_to(np.full(1, value, np.int64), (len(self._cluster),))


def _written_since(cycle: CycleState, n_known: int) -> dict[type, Any]:
    """Return the states that were written when there were so many: a dictionary keeps its order."""
    if len(cycle.states) == n_known:
        return {}
    return dict(list(cycle.states.items())[n_known:])
