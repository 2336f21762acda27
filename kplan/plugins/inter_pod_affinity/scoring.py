"""Score by preferred terms: those of the incoming pod, and those of running pods.

Upstream: plugins/interpodaffinity/scoring.go.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from kplan.engine.arrays import MAX_NODE_SCORE, FloatArray, Int64Array
from kplan.engine.cluster import Cluster
from kplan.engine.view import NodeView
from kplan.plugins.inter_pod_affinity.incoming import Contribution


class ScoreState(msgspec.Struct, frozen=True):
    """Topology key -> the score of each domain, int64 of shape (n_domains + 1,); the last element is 0."""

    per_domain: dict[str, Int64Array]


def score_state(contributions: Iterable[Contribution]) -> ScoreState | None:
    """Return the sum of all contributions; None when there are none, and Score is skipped."""
    per_domain: dict[str, Int64Array] = {}
    for topology_key, scores in contributions:
        total = per_domain.get(topology_key)
        per_domain[topology_key] = scores if total is None else total + scores
    return ScoreState(per_domain) if per_domain else None


def raw_scores(state: ScoreState, cluster: Cluster, nodes: NodeView) -> Int64Array:
    """Return the sum of the scores of each node's domains, int64 of shape (n_view,)."""
    total: Int64Array | None = None
    for topology_key, per_domain in state.per_domain.items():
        scores = nodes.of_domains(cluster.nodes.label(topology_key), per_domain)
        total = scores if total is None else total + scores
    return np.zeros(len(nodes), np.int64) if total is None else total


def normalized(scores: Int64Array) -> Int64Array:
    """Return scores scaled from 0 (the lowest) to 100 (the highest), truncated; equal scores become 0."""
    lowest = int(scores[scores.argmin()])
    spread = int(scores[scores.argmax()]) - lowest
    if spread == 0:
        return np.zeros(len(scores), np.int64)
    above = scores - lowest
    if spread < len(scores):  # computed once a score: many nodes have the same
        return _scaled(np.arange(spread + 1), spread).take(above)
    return _scaled(above, spread)


def _scaled(above: Int64Array, spread: int) -> Int64Array:
    share: FloatArray = above.astype(np.float64) / np.float64(spread)
    return (np.float64(MAX_NODE_SCORE) * share).astype(np.int64)


def score_lines(state: ScoreState, cluster: Cluster, row: int) -> list[str]:
    """Return the score of each topology domain of a node, a line each."""
    lines = []
    for topology_key, scores in state.per_domain.items():
        column = cluster.nodes.label(topology_key)
        slot = int(column.slots[row])
        if slot < len(column.values):
            lines.append(f"{topology_key}={column.values[slot]}: {int(scores[slot]):+d} from preferred terms")
        else:
            lines.append(f"no label {topology_key}")
    return lines
