"""Budgets count when their schedule says."""

import pytest

from kplan.api.provisioning import Budget
from kplan.api.time import to_micros
from kplan.autoscaling.karpenter.candidates import is_active


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2026-01-15T08:59:59Z", False),
        ("2026-01-15T09:00:00Z", True),
        ("2026-01-15T16:59:59Z", True),
        ("2026-01-15T17:00:00Z", False),
    ],
)
def test_a_budget_counts_from_its_time_for_as_long_as_it_says(now: str, *, expected: bool) -> None:
    assert is_active(Budget(nodes="0", schedule="0 9 * * *", duration="8h"), to_micros(now)) is expected


def test_a_budget_that_cannot_be_read_is_neither_on_nor_off() -> None:
    assert is_active(Budget(nodes="0", schedule="never", duration="8h"), 0) is None
    assert is_active(Budget(nodes="0", duration="8h"), 0) is None
