"""Tables fit their width, fold where one may, and lose nothing."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.report.blocks import Span, Table, plain
from kplan.report.text import fold, render_plain, render_terminal, table_lines

NODE = "gke-prod-eu-west1-standard-pool-8-1a2b3c4d-xyz9.int"
PROSE = st.text("as -./9", max_size=60)


def plain_table(table: Table, width: int) -> list[str]:
    return [plain(text_line) for text_line in table_lines(table, width)]


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("gke-prod-eu.internal.example", 12, ["gke-prod-eu.", "internal.", "example"]),
        ("10.0.0.10 1.5Gi", 9, ["10.0.0.10", "1.5Gi"]),
        ("NodeResourcesBalancedAllocation", 14, ["NodeResources", "Balanced", "Allocation"]),
        ("short gke-prod-eu", 11, ["short", "gke-prod-eu"]),
        ("general-purpose-a", 10, ["general-", "purpose-a"]),
        ("unbreakable", 4, ["unbr", "eaka", "ble"]), ("in 3 min 17 s", 10, ["in 3 min", "17 s"]),
        ("98.5 %, 20 %", 4, ["98.5", "%,", "20 %"]), ("12 s", 2, ["12", "s"]), ("2 shops", 4, ["2", "shop", "s"]),
        ("", 4, [""]),
    ],
)  # fmt: skip
def test_where_a_text_is_folded(text: str, width: int, lines: list[str]) -> None:
    assert fold(text, width) == lines


@given(PROSE, st.integers(1, 40))
def test_folding_loses_nothing_and_adds_nothing(text: str, width: int) -> None:
    lines = fold(text, width)
    assert "".join(lines).replace(" ", "") == "".join(text.split())
    assert all(line == line.strip() for line in lines)
    assert all(len(line) <= width for line in lines)


@given(
    st.lists(st.tuples(st.text("ab-.", max_size=50), st.integers(0, 10**6), PROSE), max_size=5), st.integers(40, 120)
)
def test_a_table_holds_every_cell_within_its_width(rows: list[tuple[str, int, str]], width: int) -> None:
    table = Table(("NAME", "NUMBER", "WHY"), tuple((name, str(number), why) for name, number, why in rows), "<><")
    lines = plain_table(table, width)
    letters = sorted("".join(lines).replace(" ", ""))
    cells = [*table.header, *(str(cell) for row in table.rows for cell in row)]
    assert letters == sorted("".join("".join(cell.split()) for cell in cells))
    assert max(map(len, lines)) <= width


@given(st.lists(st.tuples(PROSE, st.integers(0, 99)), min_size=1, max_size=4), st.integers(60, 100))
def test_a_terminal_shows_the_same_table(rows: list[tuple[str, int]], width: int) -> None:
    table = Table(("A", "N"), tuple((Span(text, "bad"), str(number)) for text, number in rows), "<>", note="and more")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", render_terminal([table], width))
    assert [line.rstrip() for line in shown.splitlines()] == render_plain([table], width).splitlines()


def test_names_fold_before_sentences_become_a_word_a_line() -> None:
    node = "ip-10-100-100-100.eu-central-1.compute.internal"
    why = "requests 1300m cpu, 1200m of 7900m free: 100m short"
    table = Table(("NODE", "WHY NOT", "WHAT WOULD HELP"), ((node, why, "evicting batch/archive-kkjlc"),), "<<<")
    lines = plain_table(table, 78)
    assert len(lines) <= 5
    assert lines[2] == node
    assert max(map(len, lines)) <= 78


def test_a_name_that_would_break_at_a_dash_stands_above_its_row() -> None:
    rows = (
        ("!", "monitoring/alertmanager-b6vbv8wpv-hz2v2", "general-c-1", "stays"),
        ("~", "shop/cart", "a-1", "moves"),
    )
    table = Table(("", "POD", "FROM", "WHAT BECOMES OF IT"), rows, "<<<<")

    assert plain_table(table, 50) == [
        "   POD",
        "   FROM         WHAT BECOMES OF IT",
        "!  monitoring/alertmanager-b6vbv8wpv-hz2v2",
        "   general-c-1  stays",
        "~  shop/cart",
        "   a-1          moves",
    ]
    assert plain_table(table, 66)[1:3] == [
        "!  monitoring/                   general-c-1  stays",
        "   alertmanager-b6vbv8wpv-hz2v2",
    ]
