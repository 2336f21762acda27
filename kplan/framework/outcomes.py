"""Results of the extension points for one pod."""

from __future__ import annotations

import msgspec

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.framework.status import Status


class PluginError(Exception):
    """A plugin failed; ends the cycle with the text that kube-scheduler would report."""

    @staticmethod
    def in_score(plugin: str, text: str) -> PluginError:
        """Return the error of a plugin that failed in Score."""
        return PluginError(f'running Score plugins: plugin "{plugin}" failed with: {text}')

    @staticmethod
    def invalid_score(plugin: str, score: int) -> PluginError:
        """Return the error of a plugin whose score is not between 0 and 100."""
        text = (
            f'plugin "{plugin}" returns an invalid score {score}, it should in the range of [0, 100] after normalizing'
        )
        return PluginError(f"applying score defaultWeights on Score plugins: {text}")


class PreFilterOutcome(msgspec.Struct, frozen=True):
    """The combined result of all PreFilter plugins."""

    status: Status | None = None  #: a rejection of the pod, or None
    nodes: frozenset[str] | None = None  #: the only nodes left, or None for all
    plugins_with_nodes: frozenset[str] = frozenset()  #: plugins that named nodes
    skipped: frozenset[str] = frozenset()  #: plugins whose filter is left out


class ScorePart(msgspec.Struct, frozen=True):
    """One plugin's scores: normalized, not yet weighted."""

    rank: int  #: place of the plugin in the profile
    name: str
    weight: int
    scores: Int64Array  #: int64 array, over the feasible nodes or, with `is_full`, over all nodes
    is_full: bool


class ScoreOutcome(msgspec.Struct):
    """Scores of the feasible nodes; valid until the cluster changes."""

    rows: RowArray  #: feasible node rows, ascending
    total: Int64Array  #: int64 array over `rows`
    parts: list[ScorePart] = []  #: the scores of each plugin
    #: bool array of shape (n_nodes,): nodes that an extender scored, for which kube-scheduler draws a random number;
    #: None for none
    drawn: BoolArray | None = None

    def plugins_at(self, positions: RowArray) -> dict[str, list[int]]:
        """Return the weighted scores of every plugin for some feasible nodes, in the order of the profile."""
        rows = self.rows[positions]
        return {
            part.name: (part.scores[rows if part.is_full else positions] * part.weight).tolist()
            for part in sorted(self.parts, key=lambda part: part.rank)
        }
