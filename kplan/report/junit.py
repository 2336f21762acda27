"""Reports as JUnit XML: a test case a pod, so that a pipeline shows what does not fit as a failed test."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from kplan.documents.base import Report
from kplan.report.view import Case


def render_junit(document: Report, cases: Sequence[Case]) -> str:
    """Write JUnit XML."""
    failures = sum(case.state == "failed" for case in cases)
    skipped = sum(case.state == "skipped" for case in cases)
    tests = [case for case in cases if case.state != "warning"]
    warnings = [f"warning: {case.name}: {case.message} [{case.rule}]" for case in cases if case.state == "warning"]
    counts = f'tests="{len(tests)}" failures="{failures}" errors="0" skipped="{skipped}"'
    name = _attribute(f"kplan {document.kind}")
    when = f" timestamp={_attribute(document.generated_at)}"
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites name={name} {counts}>",
        f"  <testsuite name={name} {counts}{when}>",
        "    <properties>",
        *(f"      <property name={_attribute(key)} value={_attribute(value)}/>" for key, value in _facts(document)),
        "    </properties>",
    ]
    for case in tests:
        lines += _test_case(case)
    if warnings:
        lines.append(f"    <system-err>{_text(chr(10).join(warnings))}</system-err>")
    return "\n".join([*lines, "  </testsuite>", "</testsuites>", ""])


def _test_case(case: Case) -> list[str]:
    opening = f"    <testcase name={_attribute(case.name)} classname={_attribute(case.file or 'snapshot')}"
    if case.state == "passed":
        return [f"{opening}>", f"      <system-out>{_text(case.detail)}</system-out>", "    </testcase>"]
    element = "failure" if case.state == "failed" else "skipped"
    kind = f" type={_attribute(case.rule)}" if element == "failure" else ""
    return [
        f"{opening}>",
        f"      <{element}{kind} message={_attribute(case.message)}>{_text(case.detail)}</{element}>",
        "    </testcase>",
    ]


def _facts(document: Report) -> list[tuple[str, str]]:
    snapshot = document.snapshot
    return [
        ("snapshot.source", snapshot.source),
        ("snapshot.digest", snapshot.digest),
        ("scheduler.kubernetesVersion", document.scheduler.kubernetes_version),
        ("failOn", ",".join(document.verdict.fail_on)),
    ]


def _text(text: str) -> str:
    return escape(text)


def _attribute(text: str) -> str:
    return quoteattr(text, {"\n": "&#10;"})
