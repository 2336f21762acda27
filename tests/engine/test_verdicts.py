"""Verdicts as bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kplan.engine.verdicts import Code, Reason, Verdicts

CODES = list(Code)


@st.composite
def verdicts(draw):
    """Verdicts of up to four reasons over up to six positions."""
    codes = draw(st.lists(st.sampled_from(CODES), min_size=1, max_size=4))
    reasons = tuple(Reason(f"reason {k}", code) for k, code in enumerate(codes))
    bits = np.asarray(draw(st.lists(st.integers(0, 2 ** len(codes) - 1), max_size=6)), np.uint32)
    marks = draw(st.none() | st.lists(st.booleans(), min_size=len(bits), max_size=len(bits)))
    return Verdicts(bits, reasons, None if marks is None else np.asarray(marks, np.bool_))


@settings(deadline=None)
@given(verdicts())
def test_codes_over_all_positions_equal_the_code_of_each(found):
    for position, code in enumerate(found.codes()):
        reasons = found.reasons_at(position)
        assert [reason.text for reason in reasons] == [
            f"reason {k}" for k in range(len(found.reasons)) if int(found.bits[position]) & 2**k
        ]
        expected = max((reason.code for reason in reasons), default=0)
        if reasons and found.unresolvable is not None and found.unresolvable[position]:
            expected = max(expected, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        assert code == expected
        if reasons:
            assert found.code_at(position) == expected


@settings(deadline=None)
@given(verdicts(), st.data())
def test_what_is_taken_at_some_positions_says_the_same_there(found, data):
    positions = data.draw(st.lists(st.integers(0, len(found.bits) - 1))) if len(found.bits) else []
    taken = found.at(np.asarray(positions, np.intp))
    assert taken.codes().tolist() == found.codes()[positions].tolist()
    texts = [[reason.text for reason in found.reasons_at(position)] for position in positions]
    assert [[reason.text for reason in taken.reasons_at(new)] for new in range(len(positions))] == texts


def test_details_and_shortfalls_are_asked_by_the_new_positions():
    reason = Reason("no", Code.UNSCHEDULABLE, lambda position: [{"at": position}], lambda positions: positions * 10)
    found = Verdicts(np.asarray([0, 1, 0, 1], np.uint32), (reason,), np.asarray([False, False, False, True]))
    taken = found.at(np.asarray([3, 0]))
    assert taken.bits.tolist() == [1, 0]
    assert taken.code_at(0) is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert taken.reasons[0].details(0) == [{"at": 3}]
    assert taken.reasons[0].shortfall(np.asarray([1, 0])).tolist() == [0, 30]


def test_of_several_failures_only_the_first_is_reported():
    one, other = Reason("one", Code.UNSCHEDULABLE), Reason("other", Code.ERROR)
    found = Verdicts.first_of(
        (np.asarray([True, True, False, False]), one), (np.asarray([True, False, True, False]), other)
    )
    texts = [[reason.text for reason in found.reasons_at(position)] for position in range(4)]
    assert texts == [["one"], ["one"], ["other"], []]


def test_a_single_reason_holds_where_it_rejects():
    found = Verdicts.where(np.asarray([True, False]), Reason("no", Code.UNSCHEDULABLE))
    assert (found.bits.tolist(), found.bits.dtype, found.unresolvable) == ([1, 0], np.uint32, None)


@settings(deadline=None)
@given(verdicts(), st.data())
def test_later_reasons_hold_where_no_earlier_one_does(first, data):
    second = data.draw(verdicts().filter(lambda other: len(other.bits) >= len(first.bits)))
    second = second.at(np.arange(len(first.bits)))
    joined = first.then(second)
    for position in range(len(first.bits)):
        source = first if first.bits[position] else second
        assert joined.reasons_at(position) == source.reasons_at(position)
        if source.bits[position]:
            assert joined.code_at(position) == source.code_at(position)


@pytest.mark.parametrize("n_reasons", [2, 40, 70])
def test_every_reason_that_holds_is_kept_however_many_there_are(n_reasons):
    odd = [np.asarray([k % 2 == 1, True]) for k in range(n_reasons)]
    failures = [(holds, Reason(str(k), Code.UNSCHEDULABLE)) for k, holds in enumerate(odd)]
    found = Verdicts.all_of(*failures)
    assert [reason.text for reason in found.reasons_at(0)] == [str(k) for k in range(1, n_reasons, 2)]
    assert len(found.reasons_at(1)) == n_reasons
