from __future__ import annotations

import html
import re
from collections.abc import Callable
from importlib.resources import files
from xml.etree import ElementTree as ET

import pytest
from msgspec import structs

import kplan
from kplan.documents.placement import PlacementReport
from kplan.errors import Problem
from kplan.facts import InputWarning
from kplan.report.options import ReportOptions, Repository
from kplan.report.pipelines import render_junit
from kplan.report.registry import FORMATS, refused, render
from kplan.report.view import Case, CaseReport
from kplan.snapshot import MissingKind
from kplan.snapshot.model import missing_warning
from tests.report.documents import demo_document, node, placed, pod

KINDS = ["place", "preempt", "explain"]
EXPLAINED = ReportOptions(top=None, explain=True)
NAMES = {"markdown": "md", "junit": "junit.xml", "html": "html", "sarif": "sarif"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("output", ["table", "markdown", "name", "junit", "github", "sarif", "html"])
def test_golden(golden: Callable[[str, str], None], kind: str, output: str) -> None:
    text = render(demo_document(kind), output, ReportOptions())
    if output == "html":
        text = without_what_other_files_hold(text, kind)
    if output == "sarif":
        text = text.replace(f'"version": "{kplan.__version__}",', '"version": "of kplan",')
    golden(f"report/{kind}.{NAMES.get(output, f'{output}.txt')}", text)


def without_what_other_files_hold(page: str, kind: str) -> str:
    """Check that a page holds its style, its script and its document whole, and return it without them."""
    held = {name: files("kplan.report.html").joinpath(name).read_text("utf-8") for name in ("page.css", "page.js")}
    held["the document"] = html.escape(render(demo_document(kind), "json", ReportOptions()).strip())
    for name, text in held.items():
        assert page.count(text.strip()) == 1, f"{name} does not stand in the page, once and whole"
        page = page.replace(text.strip(), name)
    return page


@pytest.mark.parametrize("kind", KINDS)
def test_a_wide_table_of_what_has_no_more_columns_is_the_table_and_whose_it_is(kind: str) -> None:
    wide, plain = (render(demo_document(kind), output, ReportOptions()).splitlines() for output in ("wide", "table"))
    at = next(number for number, line in enumerate(wide) if line.startswith("  Cluster: "))
    assert wide[at + 1].startswith("  Scheduler: ")
    assert wide[:at] + wide[at + 2 :] == plain


@pytest.mark.parametrize("kind", KINDS)
def test_golden_explained(golden: Callable[[str, str], None], kind: str) -> None:
    golden(f"report/{kind}.explain.txt", render(demo_document(kind, explain=True), "table", EXPLAINED))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("output", FORMATS)
def test_same_document_same_bytes_ending_in_a_line_feed(kind: str, output: str) -> None:
    first, second = (render(demo_document(kind), output, ReportOptions()) for _ in range(2))
    assert first == second
    assert first.endswith("\n")
    assert not first.endswith("\n\n\n")


def _with_warning() -> PlacementReport:
    missing = MissingKind("poddisruptionbudgets", "forbidden", ("DefaultPreemption",))
    snapshot = structs.replace(kplan.load_snapshot([node("n"), pod("p")]), missing=(missing,))
    planner = kplan.Planner(
        snapshot, warnings=[InputWarning("UnmodelledFeature", "Pod/default/p", "asks for <the> | moon")]
    )
    return structs.replace(planner.plan(["default/p"]).report(), generated_at="2026-03-01T10:00:00Z")


@pytest.mark.parametrize("output", [name for name in FORMATS if name not in ("name", "short")])
def test_warnings_are_in_every_format(output: str) -> None:
    text = render(_with_warning(), output, ReportOptions())
    assert "UnmodelledFeature" in text
    is_counted = output == "openmetrics"
    assert ("moon" in text) != is_counted
    assert ("poddisruptionbudgets" in text) != is_counted


def test_missing_kinds_fail_a_verdict_that_counts_warnings() -> None:
    snapshot = structs.replace(
        kplan.load_snapshot([node("n"), pod("p")]), missing=(MissingKind("services", "forbidden"),)
    )
    document = kplan.Planner(snapshot).plan(["default/p"]).report(fail_on=["warning"])
    assert document.verdict.because == ("services: MissingKind",)
    assert 'failures="1"' in render(document, "junit", ReportOptions())


def test_missing_kinds_that_the_snapshot_warns_of_are_told_once() -> None:
    bare = structs.replace(kplan.load_snapshot([node("n")]), missing=(MissingKind("services", "forbidden"),))
    snapshot = structs.replace(bare, warnings=tuple(map(missing_warning, bare.missing)))
    assert [warning.object for warning in kplan.Planner(snapshot).warnings] == ["services"]
    assert kplan.Planner(bare).warnings == kplan.Planner(snapshot).warnings


def test_junit_holds_no_character_that_xml_forbids() -> None:
    warning = InputWarning("X", "o", 'bell \x07 ]]> & "quoted"')
    document = structs.replace(placed([node("n"), pod("p")], ["default/p"]), warnings=(warning,))
    text = render(document, "junit", ReportOptions())
    errors = ET.fromstring(text).findtext("testsuite/system-err")
    assert errors is not None
    assert 'bell \\x07 ]]> & "quoted"' in errors


def test_html_needs_nothing_from_elsewhere() -> None:
    text = render(_with_warning(), "html", ReportOptions())
    assert "&lt;the&gt;" in text
    # The one that is kplan's own stands in capitals: whatever else is found came from the input.
    assert (text.count("<SCRIPT"), text.lower().count("<script")) == (1, 1)
    assert not re.search(r"""src=|href="[^#]|@import|url\((?!#)|fetch\(|https?://""", text)


def test_markdown_escapes_what_would_be_markup() -> None:
    assert "asks for \\<the\\> \\| moon" in render(_with_warning(), "markdown", ReportOptions())


@pytest.mark.parametrize(
    "text", ["a < b & c > d", 'only "doubled"', "only 'single'", "both \" and '", "one\n\ttwo\rthree"]
)
def test_texts_are_read_back_as_they_were(text: str) -> None:
    case = Case("shop/web-0", "failed", "Unschedulable", text, detail="<&>\"'")
    suites = ET.fromstring(render_junit(CaseReport("PlacementReport", "title", "file.json", [case])))
    failure = next(suites.iter("failure"))
    assert failure.get("message") == text
    assert failure.text == "<&>\"'"


def test_no_more_problems_are_told_one_by_one_than_a_pipeline_shows() -> None:
    report = refused([Problem(f"p{number}", "a/b.yaml") for number in range(51)], Repository("/r/s", "/r"))
    assert report.title == "kplan: nothing was decided: 51 problems with what was given"
    assert [case.message for case in report.cases] == [f"p{number}" for number in range(50)]
    assert (report.source, report.exit_code) == ("s/a/b.yaml", 2)
