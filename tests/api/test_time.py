import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kplan.api.time import Nanoseconds, format_duration, from_micros, parse_duration, to_micros


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-03-01T10:00:00Z", 1772359200000000),
        ("2026-03-01T12:00:00+02:00", 1772359200000000),
        ("2026-03-01T08:30:00-01:30", 1772359200000000),
        ("2026-03-01T10:00:00.5Z", 1772359200500000),
        ("2026-03-01T10:00:00.123456789Z", 1772359200123456),
        ("0001-01-01T00:00:00Z", -62135596800000000),
    ],
)
def test_reading(text: str, micros: int) -> None:
    assert to_micros(text) == micros


@given(micros=st.integers(-(10**15), 4 * 10**15))
def test_there_and_back(micros: int) -> None:
    assert to_micros(from_micros(micros)) == micros


@pytest.mark.parametrize("text", ["", "yesterday", "2026-03-01", "2026-03-01T10:00:00", "2026-13-01T10:00:00Z"])
def test_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"time|month"):
        to_micros(text)


SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "nanoseconds", "written"),
    [
        ("0", 0, "0s"), ("0s", 0, "0s"), ("5s", 5 * SECOND, "5s"), ("1m30s", 90 * SECOND, "1m30s"),
        ("90s", 90 * SECOND, "1m30s"), ("1h", 3600 * SECOND, "1h0m0s"), ("-1.5h", -5400 * SECOND, "-1h30m0s"),
        ("+2s", 2 * SECOND, "2s"), (".5s", SECOND // 2, "500ms"), ("1.s", SECOND, "1s"), ("1.5us", 1500, "1.5µs"),
        ("1\u03bcs", 1000, "1µs"), ("1500ms", 1500 * SECOND // 1000, "1.5s"),
        ("1.05s", 1050 * SECOND // 1000, "1.05s"), ("7ns", 7, "7ns"),
    ],
)  # fmt: skip
def test_a_go_duration_is_read_and_written_as_go_does(text: str, nanoseconds: int, written: str) -> None:
    parsed = parse_duration(text)
    assert parsed == nanoseconds
    assert parsed is not None
    assert format_duration(parsed) == written


@pytest.mark.parametrize("text", ["", "-", "5", "s", ".s", "1..5s", "5 s", "5sec", "1d", "9223372036854775808ns"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    assert parse_duration(text) is None


@settings(deadline=None)
@given(st.integers(min_value=-(2**62), max_value=2**62))
def test_writing_and_reading_give_the_same_duration(nanoseconds: int) -> None:
    assert parse_duration(format_duration(Nanoseconds(nanoseconds))) == nanoseconds
