import re
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from kplan.report.blocks import Heading, Line, Preformatted, Span, Style, Table, line
from kplan.report.text import layout, render_plain, render_terminal

BLOCKS = [
    Heading(("pod ", Span("fits", "good"))),
    line("first line that is a little longer than sixty characters are in all, so it wraps"),
    line("an item", is_item=True, indent=2),
    Table(
        ("NODE", "SCORE", "WHY"),
        (("a", "10", "short"), (Span("node-b", "good"), "9", "word " * 12)),
        "<><",
        note="more",
    ),
    Preformatted("says", "0/1 nodes are available"),
]


def test_blocks_are_laid_out_at_a_fixed_width() -> None:
    assert (
        render_plain(BLOCKS, 60)
        == """\
pod fits
  first line that is a little longer than sixty characters
    are in all, so it wraps
    - an item

  NODE    SCORE  WHY
  a          10  short
  node-b      9  word word word word word word word word
                 word word word word
  more

  says: 0/1 nodes are available
"""
    )


def test_colour_changes_no_word() -> None:
    terminal = render_terminal(BLOCKS, 60)
    assert "\x1b[" in terminal
    plain = re.sub(r"\x1b\[[0-9;]*m", "", terminal)
    assert [text_line.rstrip() for text_line in plain.splitlines()] == render_plain(BLOCKS, 60).splitlines()


@given(st.lists(st.text("ab c", min_size=1, max_size=30), min_size=1, max_size=5), st.integers(60, 90))
def test_wrapping_loses_no_word(texts: list[str], width: int) -> None:
    written = render_plain([line(*texts)], width)
    words = "".join(texts).split()
    assert "".join(written.split()) == "".join(words)
    assert all(word in written.split() for word in words if len(word) <= width - 4)
    assert all(len(text_line) <= width for text_line in written.splitlines())


PIECES = st.lists(
    st.sampled_from(["a", "bb-c", "7 s,", "12 min ", "longer/than.most", " ", "  ", "\n", "é"]), max_size=8
).map("".join)
STYLES: list[Style] = ["", "dim"]


@given(st.lists(st.builds(Span, PIECES, st.sampled_from(STYLES)), min_size=1, max_size=3), st.integers(0, 3))
def test_lines_broken_at_single_blanks_are_those_broken_word_by_word(spans: list[Span], indent: int) -> None:
    blocks = [Line(tuple(spans), indent, is_item=is_item) for is_item in (False, True)]
    with patch("kplan.report.text.MIN_WIDTH", 12):
        lines = layout(blocks, 12)
        with patch("kplan.report.text._at_single_blanks", return_value=[]):
            slowly = layout(blocks, 12)

    assert styled(lines) == styled(slowly)


def styled(lines: list[list[Span]]) -> list[list[tuple[str, str]]]:
    """Return each character of each line with its style."""
    return [[(char, span.style) for span in spans for char in span.text] for spans in lines]
