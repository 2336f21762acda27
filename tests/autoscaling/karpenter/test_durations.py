"""Durations read and print as in Go."""

import pytest

from kplan.autoscaling.karpenter.durations import duration_text, parse_duration


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("720h", 720 * 3600 * 10**9),
        ("1h30m", 5400 * 10**9),
        ("1.5s", 1_500_000_000),
        ("-10ms", -10_000_000),
        ("0", 0),
        (".5us", 500),
        ("5", None),
        ("Never", None),
        ("", None),
        ("1h ", None),
        ("9999999h", None),
    ],
)
def test_reading(text: str, nanoseconds: int | None) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize("text", ["720h0m0s", "1m0s", "1.5s", "10ms", "1.5µs", "7ns", "0s", "-2h0m0.25s"])
def test_what_is_printed_reads_as_the_same(text: str) -> None:
    assert duration_text(parse_duration(text) or 0) == text
