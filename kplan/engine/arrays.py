"""Array types, and Go's rounding where numpy's differs."""

from __future__ import annotations

import math
from typing import Any, TypeAlias, TypeVar

import numpy as np

T = TypeVar("T", bound=np.generic)
NDArray: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[T]]  # as numpy.typing has it, which takes long to load
Int64Array: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
RowArray: TypeAlias = NDArray[np.intp]
CodeArray: TypeAlias = NDArray[np.int32]
BitArray: TypeAlias = NDArray[Any]
"""Unsigned integers, one bit a reason; uint32 unless a plugin needs more than 32 reasons."""

MAX_NODE_SCORE = 100  # upstream MaxNodeScore

MAX_EXACT_DIVIDEND = 2**52
"""For dividends from 0 to this and divisors from 1 to 2**53, float64 division truncated is integer division.

A quotient that is not whole is at least 1 / divisor below the next whole number k, and rounding adds less than
k * 2**-53, which is less than 1 / divisor while k * divisor, hardly more than the dividend, is below 2**53.
"""


def round_half_away(values: FloatArray) -> Int64Array:
    """Round to the nearest integer, halves away from zero, as Go's ``math.Round`` (``np.rint``: to even)."""
    whole = np.trunc(values)
    rest = values - whole
    whole += rest >= 0.5
    whole -= rest <= -0.5
    return whole.astype(np.int64)


def rounded_half_away(value: float) -> int:
    """Round one number as `round_half_away` does many."""
    whole = math.trunc(value)
    return whole + (value - whole >= 0.5) - (value - whole <= -0.5)


def default_normalize_score(scores: Int64Array, *, reverse: bool) -> Int64Array:
    """Scale scores so that the largest becomes 100; with `reverse` the smallest raw score is best.

    Scores that are all zero stay 0, or become 100 in reverse. No raw score is negative, so ``//`` divides as Go does.
    Upstream: plugins/helper/normalize_score.go DefaultNormalizeScore.
    """
    top = int(scores.max(initial=0))
    if top == 0:
        return np.full(scores.shape, MAX_NODE_SCORE, np.int64) if reverse else scores
    scaled = MAX_NODE_SCORE * scores // top
    return MAX_NODE_SCORE - scaled if reverse else scaled


def ranges(starts: Int64Array, lengths: Int64Array) -> Int64Array:
    """Return the concatenated ranges that begin at `starts` and have these lengths."""
    ends = np.cumsum(lengths)
    return np.repeat(starts - ends + lengths, lengths) + np.arange(lengths.sum())
