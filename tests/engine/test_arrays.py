"""Rounding and scaling as Go does it, element by element."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kplan.engine.arrays import MAX_EXACT_DIVIDEND, default_normalize_score, round_half_away


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.5, 1), (-0.5, -1), (1.5, 2), (2.5, 3), (-2.5, -3), (2.4999999999999996, 2), (0.49999999999999994, 0),
        (4503599627370497.5, 4503599627370498), (-0.2, 0),
    ],
)  # fmt: skip
def test_halves_go_away_from_zero(value, expected):
    assert round_half_away(np.asarray([value])).tolist() == [expected]


@settings(deadline=None)
@given(st.lists(st.floats(-(2.0**53), 2.0**53)))
def test_rounding_is_to_the_nearest(values):
    rounded = round_half_away(np.asarray(values, np.float64))
    assert rounded.dtype == np.int64
    exact = [Fraction(value) for value in values]
    assert rounded.tolist() == [int(math.copysign(math.floor(abs(each) + Fraction(1, 2)), each)) for each in exact]


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**6)), st.booleans())
def test_the_largest_score_becomes_a_hundred_or_nothing_in_reverse(scores, reverse):
    column = np.asarray(scores, np.int64)
    top = max(scores, default=0)
    scaled = [100 * score // top if top else 0 for score in scores]
    normalized = default_normalize_score(column, reverse=reverse)
    assert normalized.tolist() == ([100 - score for score in scaled] if reverse else scaled)
    assert column.tolist() == scores


@given(st.integers(1, 2**53), st.integers(0, MAX_EXACT_DIVIDEND), st.integers(-2, 2))
def test_division_of_whole_numbers_as_floats_is_exact_up_to_the_largest_dividend(divisor, dividend, nudge):
    # As near to a multiple of the divisor as can be.
    near = min(max(dividend // divisor * divisor + nudge, 0), MAX_EXACT_DIVIDEND)
    for number in (dividend, near):
        assert int(np.float64(number) / np.float64(divisor)) == number // divisor
