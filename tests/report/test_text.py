from hypothesis import given
from hypothesis import strategies as st

from kplan.report.blocks import Heading, Preformatted, Span, Table, line
from kplan.report.text import MIN_WIDTH, layout, render_plain

BLOCKS = [
    Heading(("pod ", Span("fits", "good"))),
    line("first line that is a little longer than sixty characters are in all, so it wraps"),
    line("an item", is_item=True, indent=2),
    Table(("NODE", "SCORE", "WHY"), (("a", "10", "short"), (Span("node-b", "good"), "9", "word " * 12)), "<><",
          note="more"),
    Preformatted("says", "0/1 nodes are available"),
]  # fmt: skip


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


@given(st.lists(st.text("ab c", min_size=1, max_size=30), min_size=1, max_size=5), st.integers(60, 90))
def test_wrapping_loses_no_word(texts: list[str], width: int) -> None:
    written = render_plain([line(*texts)], width)
    words = "".join(texts).split()
    assert "".join(written.split()) == "".join(words)
    assert all(word in written.split() for word in words if len(word) <= width - 4)
    assert all(len(text_line) <= width for text_line in written.splitlines())


def test_a_word_of_several_pieces_has_the_style_of_the_first_and_numbers_stay_with_their_units() -> None:
    dim = Span("in all places  behind it, and that takes about 12", "dim")
    pieces = (Span("web", "good"), ": fits ", dim, " min,", " it says")
    lines = [[(span.text, span.style) for span in each] for each in layout([line(*pieces)], MIN_WIDTH)]
    assert lines[0][:3] == [("  ", ""), ("web:", "good"), (" ", "")]
    assert ["".join(text for text, _ in each) for each in lines] == [
        "  web: fits in all places  behind it, and that takes about",
        "    12 min, it says",
    ]


def test_a_line_begins_neither_with_blanks_of_its_text_nor_as_a_command_of_a_ci_system_does() -> None:
    assert render_plain([line("  a   b" + "c" * 57 + "::d", indent=0)], 60) == "a\n  b" + "c" * 57 + "\n  \\x3a:d\n"
