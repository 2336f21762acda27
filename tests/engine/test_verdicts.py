"""Verdicts as bits."""

from __future__ import annotations

import numpy as np

from kplan.engine.verdicts import Code, Reason, Verdicts


def test_verdicts_taken_at_some_positions_tell_their_details_by_the_new_ones():
    reason = Reason("no", Code.UNSCHEDULABLE, lambda position: [{"at": position}])
    verdicts = Verdicts(np.asarray([0, 1, 0, 1], np.uint32), (reason,), np.asarray([False, False, False, True]))

    taken = verdicts.at(np.asarray([3, 0]))

    assert taken.bits.tolist() == [1, 0]
    assert taken.code_at(0) is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert taken.reasons[0].details(0) == [{"at": 3}]
