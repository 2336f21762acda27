from kplan.api.quantity import count, readable
from kplan.report.words import age_text, name_ranges


def test_counts() -> None:
    assert (count(0, "node"), count(1, "node"), count(2, "node")) == ("0 nodes", "1 node", "2 nodes")


def test_runs_of_numbered_names_become_ranges() -> None:
    assert name_ranges(["web-0", "web-1", "web-2", "web-9", "db-0", "x"]) == "web-0..web-2, web-9, db-0, x"
    assert name_ranges(["web-9", "web-10", "web-011"]) == "web-9, web-10, web-011"
    assert name_ranges(["a", "b", "c", "d", "e"]) == "a, b, c, d, ..."
    assert name_ranges(["a", "b", "c", "d", "e"], None) == "a, b, c, d, e"


def test_ages_are_written_in_their_largest_unit() -> None:
    now = "2026-03-01T10:00:00Z"
    assert age_text("2026-02-27T10:00:00Z", now) == "2d"
    assert age_text("2026-03-01T09:00:00+00:00", now) == "1h"
    assert age_text("2026-03-01T09:59:00Z", now) == "1m"
    assert age_text("2026-03-01T10:00:00.5Z", now) == "0s"
    assert age_text("2026-03-01T11:00:00+01:00", None) == "2026-03-01 10:00 UTC"
    assert (age_text(None, now), age_text("odd", now)) == ("unknown", "odd")


def test_bytes_are_written_in_a_unit_that_can_be_read() -> None:
    written = {
        quantity: readable(quantity)
        for quantity in ("986734080", "-852516352", "30528Mi", "4Gi", "2463697Ki", "1536Gi")
    }
    assert list(written.values()) == ["941Mi", "-813Mi", "29.8Gi", "4Gi", "2.3Gi", "1.5Ti"]
    others = ["500m", "3", "1000000", "512Ki", "1e3", "0"]
    assert [readable(other) for other in others] == others


def test_numbers_of_thousands_of_digits_are_parts_of_names():
    long = ["g" + "9" * 5000, "g" + "9" * 4999 + "8", "web-1", "web-2", "web-3"]
    assert name_ranges(long, None) == f"{long[0]}, {long[1]}, web-1..web-3"
