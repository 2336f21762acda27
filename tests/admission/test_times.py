"""Times are read as Go reads them."""

import pytest

from kplan.admission.times import time_problem

_LAYOUT = "2006-01-02T15:04:05Z07:00"


@pytest.mark.parametrize(
    "text",
    ["2024-02-29T23:59:59Z", "2024-01-01T0:00:00Z", "2024-01-01T00:00:00.123456+24:60", "0000-12-31T00:00:00-00:30"],
)
def test_good_times_are_read(text: str) -> None:
    assert time_problem(text) == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", f'as "{_LAYOUT}": cannot parse "" as "2006"'),
        ("2024", f'as "{_LAYOUT}": cannot parse "" as "-"'),
        ("2024-01-01 00:00:00Z", f'as "{_LAYOUT}": cannot parse " 00:00:00Z" as "T"'),
        ("2024-13-01T00:00:00Z", "month out of range"),
        ("2023-02-29T00:00:00Z", "day out of range"),
        ("2024-01-01T24:00:00Z", "hour out of range"),
        ("2024-01-01T00:00:00+25:00", "time zone offset hour out of range"),
        ("2024-01-01T00:00:00Zx", 'extra text: "x"'),
    ],
)
def test_bad_ones_are_told_in_its_words(text: str, problem: str) -> None:
    assert time_problem(text).startswith(f'parsing time "{text}"')
    assert time_problem(text).endswith(problem)
