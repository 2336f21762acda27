"""What the extension points come to for one pod."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from kplan.engine.arrays import BoolArray, Int64Array, RowArray
from kplan.framework.status import Status


class PluginError(Exception):
    """A plugin could not tell; ends the cycle with the text that kube-scheduler would report."""


class PreFilterOutcome(msgspec.Struct, frozen=True):
    """What all PreFilter plugins said together.

    Attributes
    ----------
    status : a rejection of the pod, or None
    nodes : the only nodes left, or None for all
    plugins_with_nodes : plugins that named nodes
    skipped : plugins whose filter is left out
    """

    status: Status | None = None
    nodes: frozenset[str] | None = None
    plugins_with_nodes: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()


class ScorePart(msgspec.Struct, frozen=True):
    """One plugin's scores: normalized, not yet weighted.

    Attributes
    ----------
    rank : place of the plugin in the profile
    scores : int64 array, over the feasible nodes or, with `is_full`, over all nodes
    """

    rank: int
    name: str
    weight: int
    scores: Int64Array
    is_full: bool


@dataclass(slots=True)
class ScoreOutcome:
    """Scores of the feasible nodes; valid until the cluster changes.

    Attributes
    ----------
    rows : feasible node rows, ascending
    total : int64 array over `rows`
    parts : each plugin's share
    drawn : bool array of shape (n_nodes,): nodes that an extender scored, and kube-scheduler drew a number for; None
        for none
    """

    rows: RowArray
    total: Int64Array
    parts: list[ScorePart] = field(default_factory=list)
    drawn: BoolArray | None = None

    def plugins_at(self, position: int) -> dict[str, int]:
        """Return the weighted score of every plugin for one feasible node, in the order of the profile."""
        row = int(self.rows[position])
        return {
            part.name: int(part.scores[row if part.is_full else position]) * part.weight
            for part in sorted(self.parts, key=lambda part: part.rank)
        }
