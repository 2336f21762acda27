"""Schedules and budgets come when robfig/cron says."""

import pytest

from kplan.api.karpenter import Budget
from kplan.api.time import from_micros, to_micros
from kplan.autoscaling.karpenter.disruption.budgets import is_active
from kplan.autoscaling.karpenter.disruption.schedules import is_schedule, next_hit


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("0 9 * * *", "2026-01-15T08:59:59Z", "2026-01-15T09:00:00Z"),
        ("0 9 * * *", "2026-01-15T09:00:00Z", "2026-01-16T09:00:00Z"),
        ("@daily", "2026-01-15T00:00:00Z", "2026-01-16T00:00:00Z"),
        ("*/20 8-9 * * mon-fri", "2026-01-16T09:41:00Z", "2026-01-19T08:00:00Z"),
        # With a date and a weekday either may hold; with a star only the other one.
        ("0 0 13 * fri", "2026-02-01T00:00:00Z", "2026-02-06T00:00:00Z"),
        ("0 0 */31 * fri", "2026-02-01T00:00:00Z", "2026-02-06T00:00:00Z"),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("@every 90m", "2026-01-15T08:00:00.5Z", "2026-01-15T09:30:00Z"),
    ],
)
def test_the_next_time(schedule: str, after: str, expected: str) -> None:
    hit = next_hit(schedule, to_micros(after))

    assert hit is not None
    assert from_micros(hit) == expected


def test_a_day_that_never_comes() -> None:
    assert next_hit("0 0 31 2 *", to_micros("2026-01-01T00:00:00Z")) is None


@pytest.mark.parametrize("schedule", ["", "* * *", "61 * * * *", "@sometimes"])
def test_what_is_no_schedule(schedule: str) -> None:
    assert not is_schedule(schedule)


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
