"""The verdict stands last, and nothing is said twice."""

from kplan.documents.base import Counted, Verdict
from kplan.report.blocks import Block, Heading, Span, Table, arranged, failure_words, line
from kplan.report.text import render_plain
from kplan.report.view import reasons_of, verdict_line

PASSED = Verdict.of(["unschedulable"], [])
FAILED = Verdict.of(["unschedulable"], [Counted("a/b", "Unschedulable"), Counted("a/c", "Unschedulable")])
SUM = Heading(("2 pods: 1 scheduled",), 0)
SECTION = [Heading(("x",), about="a/x"), line("one"), line("two")]


def arranged_lines(*blocks: Block, is_wide: bool = False) -> list[str]:
    lines = render_plain(arranged(blocks, verdict_line(PASSED, ""), is_wide=is_wide), 120).splitlines()
    assert lines[-2:] == ["", "Verdict: passed"]
    return lines[:-2]


def last_line(verdict: Verdict) -> str:
    return render_plain([verdict_line(verdict, reasons_of(verdict))], 120).removesuffix("\n")


def test_the_verdict_is_the_last_line_and_names_for_each_condition_what_counts() -> None:
    assert last_line(PASSED) == "Verdict: passed"
    assert last_line(FAILED) == "Verdict: failed (exit code 1): unschedulable: a/b, a/c"
    assert last_line(FAILED.without_exit_code()) == "Verdict: failed (exit code 0): unschedulable: a/b, a/c"
    assert last_line(Verdict.of(["none"], [])) == "Verdict: passed (nothing is judged: --fail-on none)"


def test_reasons_that_are_about_no_object_are_told_and_many_are_counted() -> None:
    verdict = Verdict.of(["warning"], [Counted("services", "MissingKind")], ["web fits 3 times only"])
    assert last_line(verdict).endswith("): web fits 3 times only; warning: services")
    many = Verdict.of(["pending"], [Counted(f"a/{i}", "Unschedulable") for i in range(9)])
    assert last_line(many).endswith("): pending: a/0, a/1, a/2 and 6 more")


def test_a_section_that_says_the_same_of_another_pod_refers_to_it() -> None:
    again = [Heading(("y",), about="a/y"), line("one"), line("two")]
    assert arranged_lines(SUM, *SECTION, *again)[5:8] == ["", "y", "  same as for a/x"]
    other = [Heading(("y",), about="a/y"), line("one"), line("three")]
    assert "  three" in arranged_lines(SUM, *SECTION, *other)


def test_columns_that_say_the_same_in_every_row_are_said_once() -> None:
    table = Table(("NODE", "N", "WHY", "X"), (("a", "1", "full", "-"), ("b", "1", Span("empty"), "-")), "<><<")
    assert arranged_lines(table) == ["  In every row: N 1", "", "  NODE  WHY", "  a     full", "  b     empty"]
    assert arranged_lines(table, is_wide=True)[0].split() == ["NODE", "N", "WHY", "X"]


def test_the_reasons_of_a_failure_are_five_at_most_and_how_many_more() -> None:
    lines = ["one", "two", "three", "four", "five"]
    assert failure_words(lines, {"pending": ["a", "b"], "stuck": []}) == f"{'; '.join(lines)}; pending: a, b; stuck"
    assert failure_words([*lines, "six"], {}) == f"{'; '.join(lines)}; and 1 more"
