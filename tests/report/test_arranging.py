"""The verdict stands first and last, and nothing is said twice."""

from kplan.documents.base import Counted, Verdict
from kplan.report.arranging import arranged
from kplan.report.blocks import Block, Heading, Span, Table, line
from kplan.report.text import render_plain
from kplan.report.view import failure_text, reasons_of

PASSED = Verdict.of(["unschedulable"], [])
FAILED = Verdict.of(["unschedulable"], [Counted("a/b", "Unschedulable"), Counted("a/c", "Unschedulable")])
SUM = Heading(("2 pods: 1 scheduled",), 0)
SECTION = [Heading(("x",), about="a/x"), line("one"), line("two")]


def arranged_lines(*blocks: Block, verdict: Verdict = PASSED, is_wide: bool = False) -> list[str]:
    failure = failure_text(verdict, reasons_of(verdict)) if verdict.failed else ""
    return render_plain(arranged(blocks, failure, is_wide=is_wide), 120).splitlines()


def test_a_failure_stands_in_the_first_and_the_last_line() -> None:
    lines = arranged_lines(SUM, *SECTION, verdict=FAILED)

    assert lines[0] == "2 pods: 1 scheduled - failed"
    assert lines[-1] == "Failed (exit code 1, --fail-on unschedulable). Unschedulable: a/b, a/c"


def test_a_verdict_is_said_again_below_details_but_not_below_a_short_block() -> None:
    assert arranged_lines(SUM, *SECTION)[-1] == "2 pods: 1 scheduled"
    assert arranged_lines(SUM, line("all there is")) == ["2 pods: 1 scheduled", "  all there is"]
    assert arranged_lines(Heading(("a/x -> n",), 0, "a/x"), *SECTION)[-1] == "  two"


def test_reasons_that_are_about_no_object_are_told_and_many_are_counted() -> None:
    verdict = Verdict.of(["warning"], [Counted("services", "MissingKind")], ["web fits 3 times only"])
    assert failure_text(verdict, reasons_of(verdict)).endswith("). web fits 3 times only; MissingKind: services")
    many = Verdict.of(["unschedulable"], [Counted(f"a/{i}", "Unschedulable") for i in range(9)])
    assert failure_text(many, reasons_of(many)).endswith("Unschedulable: a/0, a/1, a/2 and 6 more")


def test_a_section_that_says_the_same_of_another_pod_refers_to_it() -> None:
    again = [Heading(("y",), about="a/y"), line("one"), line("two")]
    assert arranged_lines(SUM, *SECTION, *again)[5:8] == ["", "y", "  same as for a/x"]
    other = [Heading(("y",), about="a/y"), line("one"), line("three")]
    assert "  three" in arranged_lines(SUM, *SECTION, *other)


def test_a_part_of_a_section_that_says_the_same_refers_to_it() -> None:
    part = [Heading(("why",), 2), line("one"), line("two")]
    lines = arranged_lines(
        SUM, Heading(("x",), about="a/x"), line("1"), *part, Heading(("y",), about="a/y"), line("2"), *part
    )
    assert lines.count("  why") == 2
    assert lines.count("  one") == 1
    assert "    same as for a/x" in lines


def test_a_table_of_which_only_names_would_be_left_stays_whole() -> None:
    table = Table(("NODE", "N"), (("a", "1"), ("b", "1")), "<>")
    assert arranged_lines(table) == ["  NODE  N", "  a     1", "  b     1"]


def test_columns_that_say_the_same_in_every_row_are_said_once() -> None:
    table = Table(("NODE", "N", "WHY", "X"), (("a", "1", "full", "-"), ("b", "1", Span("empty"), "-")), "<><<")
    assert arranged_lines(table) == ["  The same in every row: N 1", "", "  NODE  WHY", "  a     full", "  b     empty"]
    assert arranged_lines(table, is_wide=True)[0].split() == ["NODE", "N", "WHY", "X"]


def test_of_a_single_row_only_what_is_empty_goes() -> None:
    assert arranged_lines(Table(("NODE", "N", "WHY"), (("a", "1", "-"),), "<><")) == ["  NODE  N", "  a     1"]
    assert arranged_lines(Table(("NODE",), (), "<"))[0].strip() == "NODE"
