"""What the filters said, and the message about it."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.framework.diagnosis import (
    FilterOutcome,
    NodeStatus,
    absent_status,
    first_rejectors,
    fit_error,
    histogram,
    reserve_error,
)
from kplan.framework.interface import Status
from tests.recorded import examples

LEFT_OUT = absent_status(frozenset({"B", "A"}))


def test_pieces_of_a_message_are_sorted_as_strings():
    assert histogram([("far", 5), ("taken", 12), ("big", 5), ("far", 6)]) == "11 far, 12 taken, 5 big"


def test_nodes_left_out_name_the_plugins_in_order():
    assert LEFT_OUT.texts == ("node(s) didn't satisfy plugin(s) [A B]",)
    assert (LEFT_OUT.code, LEFT_OUT.plugin) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "")


def outcome(bits, feasible=(), **more):
    """Make an outcome of plugin P with reasons `one` and `two`."""
    mask = np.zeros(more.pop("n_nodes", len(bits)), np.bool_)
    mask[list(feasible)] = True
    reasons = (Reason("one", Code.UNSCHEDULABLE), Reason("two", Code.UNSCHEDULABLE_AND_UNRESOLVABLE))
    return FilterOutcome(len(mask), mask, verdicts=[("P", Verdicts(np.asarray(bits, np.uint32), reasons))], **more)


@pytest.mark.parametrize(
    ("made", "ending", "expected"),
    [
        pytest.param(outcome([1, 2, 1]), "", "0/3 nodes are available: 1 two, 2 one.", id="a reason each"),
        pytest.param(outcome([3, 3]), "", "0/2 nodes are available: 2 one, 2 two.", id="two reasons each"),
        pytest.param(outcome([3]), "no help", "0/1 nodes are available: 1 one, 1 two. no help", id="with an ending"),
        pytest.param(outcome([]), "", "0/0 nodes are available:", id="nothing to say"),
        pytest.param(outcome([0, 0], pre_filter_status=Status.unresolvable("x", "y")), "no help",
                     "0/2 nodes are available: x, y. no help", id="stopped before the filters"),
        pytest.param(outcome([1], n_nodes=4, rows=np.asarray([2]), absent=LEFT_OUT), "",
                     "0/4 nodes are available: 1 one, 3 node(s) didn't satisfy plugin(s) [A B].", id="three left out"),
    ],
)  # fmt: skip
def test_messages(made, ending, expected):
    assert fit_error(made, ending) == expected


def test_the_message_of_a_pod_turned_down_on_its_node_counts_one_node():
    assert reserve_error(Status.unschedulable("b", "a")) == "0/1 nodes are available: 1 a, 1 b."


CODES = st.sampled_from([Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE])


@st.composite
def outcomes(draw):
    """Any outcome after the filters: named nodes or all, overrides, nodes that were not looked at or dropped."""
    n_nodes = draw(st.integers(1, 6))
    every = range(n_nodes)
    rows = draw(st.none() | st.sets(st.sampled_from(every)).map(sorted))
    n_view = n_nodes if rows is None else len(rows)
    verdicts = []
    for name in draw(st.sampled_from(["", "P", "PQ"])):
        codes = draw(st.lists(CODES, min_size=1, max_size=3))
        reasons = tuple(Reason(f"{name} {k % 2}", code) for k, code in enumerate(codes))
        bits = draw(st.lists(st.integers(0, 2 ** len(codes) - 1), min_size=n_view, max_size=n_view))
        marks = draw(st.none() | st.lists(st.booleans(), min_size=n_view, max_size=n_view))
        marks = None if marks is None else np.asarray(marks, np.bool_)
        verdicts.append((name, Verdicts(np.asarray(bits, np.uint32), reasons, marks)))
    first = first_rejectors(verdicts, n_view)
    filtered = list(every) if rows is None else rows
    passing = [row for position, row in enumerate(filtered) if first[position] < 0]
    overridden = draw(st.sets(st.sampled_from(every)))
    code = draw(CODES)
    status = NodeStatus(code, draw(st.sampled_from(["", "Q"])), (Reason("over", code),))
    ignored = draw(st.none() | st.sets(st.sampled_from(every)))
    dropped = draw(st.sets(st.sampled_from(every)))
    # An extender may say why it rejects a node, and let it pass all the same.
    gone = {*draw(st.sampled_from([overridden, set()])), *(ignored or ()), *dropped}
    feasible = np.zeros(n_nodes, np.bool_)
    feasible[[row for row in passing if row not in gone]] = True
    unseen = None
    if ignored is not None:
        unseen = np.zeros(n_nodes, np.bool_)
        unseen[sorted(ignored)] = True
    return FilterOutcome(
        n_nodes,
        feasible,
        rows=None if rows is None else np.asarray(rows, np.intp),
        verdicts=verdicts,
        overrides=dict.fromkeys(overridden, status),
        absent=draw(st.none() | st.just(LEFT_OUT)) if rows is None else LEFT_OUT,
        not_evaluated=unseen,
    )


@examples(100)
@given(outcomes())
def test_counts_and_codes_equal_asking_node_by_node(made):
    statuses = {row: made.status(row) for row in range(made.n_nodes)}
    told = {row: status for row, status in statuses.items() if status is not None}
    counts = Counter()
    for status in told.values():
        counts.update((status.plugin, text) for text in status.texts)
    assert made.reason_counts() == counts
    for code in Code:
        assert made.rows_with_code(code).tolist() == [row for row, status in told.items() if status.code is code]


@examples(60)
@given(outcomes())
def test_every_node_is_feasible_or_unseen_or_told_about_or_dropped_in_silence(made):
    absent = set(made.absent_rows().tolist())
    for row in range(made.n_nodes):
        status = made.status(row)
        if made.feasible[row] or (made.not_evaluated is not None and made.not_evaluated[row]):
            assert status is None
            assert row not in absent
        elif row in made.overrides:
            assert status is made.overrides[row]
        elif row in absent:
            assert status is made.absent
        else:
            position = made.position(row)
            rejecting = [name for name, verdict in made.verdicts if verdict.bits[position]]
            assert status.plugin == rejecting[0]
            assert list(made.all_failing(row)) == rejecting


def test_a_pod_stopped_in_pre_filter_has_the_same_status_on_every_node():
    rejected = Status.unschedulable("x", "y")
    made = FilterOutcome(3, np.zeros(3, np.bool_), pre_filter_status=Status(rejected.code, rejected.reasons, "P"))
    assert [made.status(row) for row in range(3)] == [made.status(0)] * 3
    assert (made.status(0).plugin, made.status(0).texts) == ("P", ("x", "y"))
    assert made.rows_with_code(Code.UNSCHEDULABLE).tolist() == [0, 1, 2]
    assert made.rows_with_code(Code.UNSCHEDULABLE_AND_UNRESOLVABLE).tolist() == []
    assert made.reason_counts() == {("P", "x"): 3, ("P", "y"): 3}
    assert made.all_failing(0) == {}


def test_nodes_left_out_are_filtered_when_somebody_asks_what_else_is_wrong():
    asked = []

    def filter_rows(rows):
        asked.append(rows.tolist())
        return [("Q", Verdicts.where(rows == 3, Reason("late", Code.UNSCHEDULABLE)))]

    made = outcome([1], n_nodes=4, rows=np.asarray([2]), absent=LEFT_OUT, filter_rows=filter_rows)

    assert [list(made.all_failing(row)) for row in range(4)] == [[], [], ["P"], ["Q"]]
    assert made.all_failing(3)["Q"].texts == ("late",)
    assert asked == [[0, 1, 3]]


def test_positions_of_filtered_nodes():
    made = outcome([0, 0], n_nodes=5, rows=np.asarray([1, 4]))
    assert [made.position(row) for row in range(5)] == [None, 0, None, None, 1]
    assert made.positions(np.asarray([4, 1])).tolist() == [1, 0]
    assert made.are_filtered(np.asarray([4, 1]))
    assert not made.are_filtered(np.asarray([4, 2]))
    assert outcome([0, 0]).are_filtered(np.asarray([0, 1]))
