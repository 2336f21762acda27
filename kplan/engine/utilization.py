"""Scores by utilization: the piecewise linear functions that configurations give as shapes.

Upstream: plugins/helper/shape_score.go.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kplan.config.args import UtilizationShapePoint
from kplan.engine.arrays import MAX_NODE_SCORE, Int64Array

MAX_CUSTOM_SCORE = 10
"""The highest score in a shape."""


def utilization_table(shape: Sequence[UtilizationShapePoint]) -> Int64Array:
    """Return a piecewise linear function at 0 to 100, int64 of shape (101,); constant outside its points.

    Notes
    -----
    Between two points the division comes last and truncates toward zero. Upstream: helper.BuildBrokenLinearFunction.
    """
    scale = MAX_NODE_SCORE // MAX_CUSTOM_SCORE
    points = [(point.utilization, point.score * scale) for point in shape]

    def at(utilization: int) -> int:
        for index, (right, score) in enumerate(points):
            if utilization <= right:
                if index == 0:
                    return score
                left, before = points[index - 1]
                rise = (score - before) * (utilization - left)
                run = right - left
                return before + (rise // run if rise >= 0 else -(-rise // run))
        return points[-1][1]

    return np.asarray([at(utilization) for utilization in range(MAX_NODE_SCORE + 1)], np.int64)
