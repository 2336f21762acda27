"""What JUnit reports hold."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from kplan.report.pipelines import render_junit
from kplan.report.view import Case, CaseReport


@pytest.mark.parametrize(
    "text", ["a < b & c > d", 'only "doubled"', "only 'single'", "both \" and '", "one\n\ttwo\rthree"]
)
def test_texts_are_read_back_as_they_were(text: str) -> None:
    case = Case("shop/web-0", "failed", "Unschedulable", text, detail="<&>\"'")
    suites = ET.fromstring(render_junit(CaseReport("PlacementReport", "title", "", "file.json", [case])))
    failure = next(suites.iter("failure"))
    assert failure.get("message") == text
    assert failure.text == "<&>\"'"
