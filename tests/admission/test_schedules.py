"""Schedules come when robfig/cron says."""

from datetime import UTC, datetime, timedelta

import pytest

from kplan.admission.schedules import parse_schedule


@pytest.mark.parametrize(
    ("schedule", "zone", "after", "expected"),
    [
        ("*/20 * * * *", "", "2026-01-30T23:21:30", ["2026-01-30T23:40", "2026-01-31T00:00", "2026-01-31T00:20"]),
        ("0 0 1 * *", "", "2026-01-30T23:21:30", ["2026-02-01T00:00", "2026-03-01T00:00", "2026-04-01T00:00"]),
        ("30 9 * * mon-fri", "", "2026-01-30T23:21:30", ["2026-02-02T09:30", "2026-02-03T09:30", "2026-02-04T09:30"]),
        ("@hourly", "", "2026-01-30T23:21:30", ["2026-01-31T00:00", "2026-01-31T01:00", "2026-01-31T02:00"]),
        ("0 8 * * *", "Europe/Berlin", "2026-01-30T23:21:30", ["2026-01-31T07:00", "2026-02-01T07:00"]),
        ("0 9 * * *", "", "2026-01-15T08:59:59", ["2026-01-15T09:00", "2026-01-16T09:00"]),
        ("@daily", "", "2026-01-15T00:00:00", ["2026-01-16T00:00"]),
        ("*/20 8-9 * * mon-fri", "", "2026-01-16T09:41:00", ["2026-01-19T08:00"]),
        # With a date and a weekday either may hold; with a star only the other one, unless the star has a step.
        ("0 12 31 * sun", "", "2026-01-30T23:21:30", ["2026-01-31T12:00", "2026-02-01T12:00", "2026-02-08T12:00"]),
        ("0 0 13 * fri", "", "2026-02-01T00:00:00", ["2026-02-06T00:00"]),
        ("0 0 */31 * fri", "", "2026-02-01T00:00:00", ["2026-02-06T00:00"]),
        ("0 0 29 2 *", "", "2026-01-01T00:00:00", ["2028-02-29T00:00"]),
        ("@every 90m", "", "2026-01-15T08:00:00.5", ["2026-01-15T09:30", "2026-01-15T11:00"]),
        ("0 0 31 2 *", "", "2026-01-01T00:00:00", [None]),
        ("30 1 31 1,3 *", "Europe/Berlin", "2026-01-31T12:00:00", ["2026-03-30T23:30", "2027-01-31T00:30"]),
        # Of hostile times that none follows, or that another time zone does not have.
        ("* * * * *", "Asia/Tokyo", "9999-12-31T23:59:59", [None]),
        ("@every 90m", "America/New_York", "0001-01-01T00:00:00", [None]),
    ],
)
def test_runs_are_at_the_times_of_the_schedule(
    schedule: str, zone: str, after: str, expected: list[str | None]
) -> None:
    parsed = parse_schedule(schedule)
    assert parsed is not None
    time: datetime | None = datetime.fromisoformat(after).replace(tzinfo=UTC)
    for text in expected:
        assert time is not None
        before, time = time, parsed.next_after(time, zone)
        today = time.timestamp() if time and time.date() == before.date() and not parsed.every else None
        assert zone or parsed.later_today(before.timestamp()) == today
        assert (None if time is None else f"{time:%Y-%m-%dT%H:%M}") == text


@pytest.mark.parametrize("schedule", ["*/7 1-4 * * *", "@every 90m", "0 0 29 2 *", "59 23 31 3 *"])
@pytest.mark.parametrize("hours", [0.0, 1.51, 745.9, 26000.0])
def test_the_last_run_until_a_time_is_the_last_of_those_that_follow_one_another(schedule: str, hours: float) -> None:
    parsed, start = parse_schedule(schedule), datetime(2026, 3, 1, tzinfo=UTC)
    assert parsed is not None
    time, last, end = start, None, start + timedelta(hours=hours)
    while (following := parsed.next_after(time, "Europe/Berlin")) is not None and following <= end:
        time = last = following
    assert parsed.last_between(start, end, "Europe/Berlin") == last


@pytest.mark.parametrize("schedule", ["", "* * *", "61 * * * *", "@sometimes", "@every 9999999h"])
def test_what_is_no_schedule(schedule: str) -> None:
    assert parse_schedule(schedule) is None
