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
    """What need not be asked again in PreFilter.

    Attributes
    ----------
    results : plugin -> its result; a missing key means it must be asked
    states : plugin -> cycle state that it wrote
    open : the plugins that must be asked again, where all kept results pass or skip; None where they do not, or not yet
    skipped : plugins with a kept skip
    all_states : the kept states together
    """

    results: dict[str, PreFilterResult | None] = field(default_factory=dict)
    states: dict[str, dict[type, Any]] = field(default_factory=dict)
    open: Sequence[PreFilterPlugin] | None = None
    skipped: frozenset[str] = frozenset()
    all_states: dict[type, Any] = field(default_factory=dict)

    def close(self, plugins: Sequence[PreFilterPlugin]) -> None:
        """Note which plugins stay open, once all have been asked."""
        if self.open is not None or any(result is not None and not result.skip for result in self.results.values()):
            return
        self.open = [plugin for plugin in plugins if plugin.name not in self.results]
        self.skipped = frozenset(name for name, result in self.results.items() if result is not None)
        self.all_states = {kind: state for states in self.states.values() for kind, state in states.items()}


@dataclass
class KeptVerdicts:
    """Verdicts over all nodes of the filters that look at one node at a time.

    Attributes
    ----------
    by_plugin : plugin -> verdicts over all nodes
    following : the filters whose verdicts follow the pods of a node
    lasting : bool array of shape (n_nodes,); all filters pass that do not follow pods
    passes : bool array of shape (n_nodes,); all of `by_plugin` pass
    position : how far in the cluster's log this is up to date
    """

    by_plugin: dict[str, Verdicts]
    following: Sequence[FilterPlugin]
    lasting: BoolArray
    passes: BoolArray
    position: int

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
    """Scores over all nodes of the plugins that look at one node at a time.

    Attributes
    ----------
    weights : plugin -> weight
    lasting : weighted sum of final scores that do not follow pods, int64 of shape (n_nodes,)
    position : how far in the cluster's log this is up to date
    total : `lasting` and the following ones
    open : the plugins, with their rank, that must be asked, or normalized over the feasible nodes, in every cycle
    following : the plugins whose scores follow the pods of a node, with these scores, which are final as they stand
    parts : the shares in `total`
    raw : plugin -> raw scores over all nodes that are yet to be normalized
    """

    weights: Mapping[str, int]
    lasting: Int64Array
    position: int
    total: Int64Array = field(init=False)
    open: list[tuple[int, ScorePlugin]] = field(default_factory=list)
    following: list[tuple[ScorePlugin, Int64Array]] = field(default_factory=list)
    parts: list[ScorePart] = field(default_factory=list)
    raw: dict[str, Int64Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.total = self.lasting.copy()

    def add(self, part: ScorePart, follower: ScorePlugin | None) -> None:
        """Take in final scores; those of a follower are asked again where pods change."""
        self.parts.append(part)
        weighted = part.weight * part.scores
        self.total += weighted
        if follower is None:
            self.lasting += weighted
        else:
            self.following.append((follower, part.scores))

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
class ShapeEntry:
    """Kept answers for one shape.

    Attributes
    ----------
    pre_score : plugin -> its result; a missing key means it must be asked
    pre_score_states : cycle state that those plugins wrote
    pre_score_skipped : plugins with a kept skip
    open_pre_scores : plugins that must be asked again; None while none has been asked
    """

    pre_filters: KeptPreFilters = field(default_factory=KeptPreFilters)
    verdicts: KeptVerdicts | None = None
    pre_score: dict[str, PreScoreResult | None] = field(default_factory=dict)
    pre_score_states: dict[type, Any] = field(default_factory=dict)
    pre_score_skipped: frozenset[str] = frozenset()
    open_pre_scores: Sequence[PreScorePlugin] | None = None
    scores: KeptScores | None = None


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
