"""What NODE_OBJECT and NODE plugins answered for a pod shape, kept and patched row by row.

A thousand replicas say the same, and placing one of them changes one node. So their answers are computed once for all
nodes, and afterwards only for the nodes whose pods changed.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kplan.engine.arrays import BoolArray, Int64Array
from kplan.engine.verdicts import Verdicts
from kplan.framework.interface import PreFilterResult, PreScoreResult

MAX_SHAPES = 64
"""Shapes kept at a time: a shape costs a few hundred bytes a node."""


@dataclass
class ShapeEntry:
    """Kept answers for one shape.

    Attributes
    ----------
    pre_filter : plugin -> its result; a missing key means it must be asked
    pre_filter_states : plugin -> cycle state that it wrote there
    states : cycle state that plugins wrote in PreScore
    verdicts : plugin -> verdicts over all nodes
    passes : bool array of shape (n_nodes,); all of `verdicts` pass
    filter_position, score_position : how far in the cluster's log the arrays are up to date
    pre_score : plugin -> its result
    raw : plugin -> raw scores over all nodes
    uniform : plugin -> its normalized score where it is the same on every node, else None
    fixed_total : weighted sum of the scores that need no normalizing, plus the uniform ones
    """

    pre_filter: dict[str, PreFilterResult | None] = field(default_factory=dict)
    pre_filter_states: dict[str, dict[type, Any]] = field(default_factory=dict)
    states: dict[type, Any] = field(default_factory=dict)
    verdicts: dict[str, Verdicts] | None = None
    passes: BoolArray = field(default_factory=lambda: np.zeros(0, np.bool_))
    filter_position: int = 0
    score_position: int = 0
    pre_score: dict[str, PreScoreResult | None] = field(default_factory=dict)
    raw: dict[str, Int64Array] | None = None
    uniform: dict[str, int | None] = field(default_factory=dict)
    fixed_total: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))


class ShapeCache:
    """The most recently used shapes."""

    def __init__(self) -> None:
        self._entries: OrderedDict[bytes, ShapeEntry] = OrderedDict()

    def entry(self, shape: bytes) -> ShapeEntry:
        """Return a shape's entry, made when it is new."""
        entry = self._entries.get(shape)
        if entry is None:
            entry = self._entries[shape] = ShapeEntry()
            if len(self._entries) > MAX_SHAPES:
                self._entries.popitem(last=False)
        else:
            self._entries.move_to_end(shape)
        return entry
