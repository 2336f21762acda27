"""What tips a decision, in words."""

import pytest

from kplan.documents.diff import Cause
from kplan.questions.diff.view import cause_text


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
