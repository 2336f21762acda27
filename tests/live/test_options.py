import pytest

from kplan.errors import UsageError
from kplan.live import parse_timeout


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30.0), ("1m30s", 90.0), ("45", 45.0), ("2h", 7200.0), ("500ms", 0.5), (" 1.5m ", 90.0), ("0s", None),
     ("0", None), (".5s", 0.5)],
)  # fmt: skip
def test_durations_read_as_for_kubectl_and_zero_is_no_limit(text: str, seconds: float | None) -> None:
    assert parse_timeout(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-5s", "5 s", "5x", "s"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="not a duration") as caught:
        parse_timeout(text)
    assert "30s" in caught.value.hint
