"""Reports as JUnit XML: a test case for each pod, so that a pipeline shows a pod that does not fit as a failed test.

Only what Jenkins' schema allows is written: the file is an attribute of the suite, and the text of a failure begins
with the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from kplan.report.view import Case, CaseReport


def render_junit(report: CaseReport) -> str:
    """Return JUnit XML with a suite for each manifest, and one for objects of the cluster."""
    name = f"kplan {report.kind}"
    tests = [case for case in report.cases if case.state != "warning"]
    files = list(dict.fromkeys(case.file for case in tests)) or [""]
    warnings = [
        f"warning: {case.name}: {case.message} [{case.rule}]" for case in report.cases if case.state == "warning"
    ]
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites name={_attribute(name)} {_counts(tests)}>"]
    for file in files:
        lines += _suite(report, file or name, [case for case in tests if case.file == file])
        if file == files[-1] and warnings:
            lines.append(f"    <system-err>{escape(chr(10).join(warnings), quote=False)}</system-err>")
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])


def _suite(report: CaseReport, name: str, cases: Sequence[Case]) -> list[str]:
    """Return the lines of a suite without its closing tag."""
    file = f" file={_attribute(name)}" if any(case.file for case in cases) else ""
    skipped = f'skipped="{sum(case.state == "skipped" for case in cases)}"'
    when = f"timestamp={_attribute(report.generated_at)}"
    return [
        f"  <testsuite name={_attribute(name)} {_counts(cases)} {skipped}{file} {when}>",
        "    <properties>",
        *(f"      <property name={_attribute(key)} value={_attribute(value)}/>" for key, value in report.facts),
        "    </properties>",
        *(line for case in cases for line in _test_case(case)),
    ]


def _counts(cases: Sequence[Case]) -> str:
    return f'tests="{len(cases)}" failures="{sum(case.state == "failed" for case in cases)}" errors="0"'


def _test_case(case: Case) -> list[str]:
    place = "" if not case.file else case.file if case.line is None else f"{case.file}:{case.line}"
    opening = f"    <testcase name={_attribute(case.name)} classname={_attribute(case.about)}"
    if case.state == "passed":
        return [f"{opening}>", f"      <system-out>{escape(case.detail, quote=False)}</system-out>", "    </testcase>"]
    element = "failure" if case.state == "failed" else "skipped"
    text = escape("\n".join(part for part in (place, case.detail) if part), quote=False)
    return [
        f"{opening}>",
        f"      <{element} type={_attribute(case.rule)} message={_attribute(case.message)}>{text}</{element}>",
        "    </testcase>",
    ]


def _attribute(text: str) -> str:
    """Return a text as the value of an attribute; `xml.sax.saxutils.quoteattr`, without the HTTP client it imports."""
    text = escape(text, quote=False).replace("\n", "&#10;").replace("\r", "&#13;").replace("\t", "&#9;")
    if '"' in text and "'" not in text:
        return f"'{text}'"
    return f'"{text.replace(chr(34), "&quot;")}"'
