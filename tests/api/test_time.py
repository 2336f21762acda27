import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.time import from_micros, to_micros


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-03-01T10:00:00Z", 1772359200000000),
        ("2026-03-01T12:00:00+02:00", 1772359200000000),
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
