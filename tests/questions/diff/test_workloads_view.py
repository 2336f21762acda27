"""What tips a decision, in words."""

import pytest

from kplan.documents.diff import Cause, Difference, WorkloadDifference, WorkloadSide
from kplan.questions.diff.view import _message, cause_text


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (-4, 6, "6 points ahead; before, it was 4 points behind"),
        (0, 1, "1 point ahead; before, it was level"),
        (-6, -2, "2 points behind; before, it was 6 points behind"),
    ],
)
def test_points_are_told_as_ahead_or_behind(before: int, after: int, words: str) -> None:
    cause = Cause(kind="score", node="b", plugin="NodeResourcesFit", before=before, after=after)
    assert cause_text(cause) == f"NodeResourcesFit puts b {words}"


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (Cause(kind="node-gone", node="b"), "b is gone"),
        (Cause(kind="node-new", node="b"), "b is new"),
        (
            Cause(kind="rejects", node="b", plugin="NodeName", reasons=("one", "two")),
            "b rejects it: one, two (NodeName)",
        ),
        (Cause(kind="took-off", node="b", reasons=("one",)), "b rejected it: one"),
    ],
)
def test_nodes_are_told_with_what_they_do(cause: Cause, words: str) -> None:
    assert cause_text(cause) == words


def test_a_workload_whose_decision_is_not_held_has_the_schedulers_words_before_what_tips_it() -> None:
    cause = Cause(kind="score", node="b", plugin="NodeResourcesFit", before=0, after=1)
    row = WorkloadDifference(
        workload="Deployment/shop/web",
        difference=Difference.NEWLY_PENDING,
        before=WorkloadSide(pods=2, placed=2, nodes={"a": 2}),
        after=WorkloadSide(pods=2, placed=1, nodes={"a": 1}),
        why=(cause,),
        message="0/1 nodes are available: 1 Insufficient cpu.",
    )
    assert _message(row).splitlines()[1:] == [row.message]
