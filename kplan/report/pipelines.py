"""Reports for pipelines and monitoring: JUnit XML, GitHub's annotations, GitLab's Code Quality, SARIF, OpenMetrics.

https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import PurePosixPath
from pkgutil import get_data
from typing import Any
from urllib.parse import quote

import msgspec

from kplan.api.quantity import count, grouped, listing
from kplan.api.time import seconds
from kplan.documents.base import Report
from kplan.report.view import Case, CaseReport, Metric, Severity, alike, brief_lines
from kplan.version import __version__
from kplan.visible import as_json


class RuleText(msgspec.Struct, frozen=True):
    """One kind of result."""

    what: str  #: in one sentence
    #: what to do about it; of what differs between two answers it is always the same
    help: str = "kplan diff shows the nodes before and after, and the reason."
    fails: bool = False  #: it fails a job by default


_RULES = msgspec.json.decode(get_data("kplan.report", "rules.json") or b"", type=dict[str, RuleText])

_OTHER = RuleText(
    "Something that may make the answer differ from the cluster's.",
    "The message names the object and what kplan does not know or model about it.",
)


def is_failure(rule: str) -> bool:
    return _RULES.get(rule, _OTHER).fails


def render_junit(report: CaseReport) -> str:
    """Return JUnit XML with a suite for each manifest, and one for objects of the cluster."""
    name = f"kplan {report.kind}"
    tests = [case for case in report.cases if case.state != "warning"]
    warned = (case for case in report.cases if case.state == "warning")
    warnings = "\n".join(f"warning: {case.name}: {case.message} [{case.rule}]" for case in warned)
    suites = grouped((case.file, case) for case in tests) or {"": []}
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites name={_attribute(name)} {_counts(tests)}>"]
    for file, cases in suites.items():
        at = f" file={_attribute(file)}" if file else ""
        skipped = f'skipped="{sum(case.state == "skipped" for case in cases)}"'
        when = f"timestamp={_attribute(report.generated_at)}"
        lines += [f"  <testsuite name={_attribute(file or name)} {_counts(cases)} {skipped}{at} {when}>"]
        properties = (f"name={_attribute(key)} value={_attribute(value)}" for key, value in report.facts)
        lines += ["    <properties>", *(f"      <property {text}/>" for text in properties), "    </properties>"]
        lines += [line for case in cases for line in _test_case(case)]
        if file == [*suites][-1] and warnings:
            lines.append(f"    <system-err>{escape(warnings, quote=False)}</system-err>")
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])


def _counts(cases: Sequence[Case]) -> str:
    return f'tests="{len(cases)}" failures="{sum(case.state == "failed" for case in cases)}" errors="0"'


def _test_case(case: Case) -> list[str]:
    if case.state == "passed":
        result = f"<system-out>{escape(case.detail or case.message, quote=False)}</system-out>"
    else:
        element = "failure" if case.state == "failed" else "skipped"
        text = escape("\n".join(filter(None, (case.place, case.detail))), quote=False)
        result = f"<{element} type={_attribute(case.rule)} message={_attribute(case.message)}>{text}</{element}>"
    opening = f"    <testcase name={_attribute(case.name)} classname={_attribute(case.about)}>"
    return [opening, f"      {result}", "    </testcase>"]


def _attribute(text: str) -> str:
    """Return a text as the value of an attribute; `xml.sax.saxutils.quoteattr`, without the HTTP client it imports."""
    text = escape(text, quote=False).replace("\n", "&#10;").replace("\r", "&#13;").replace("\t", "&#9;")
    if '"' in text and "'" not in text:
        return f"'{text}'"
    return f'"{text.replace(chr(34), "&quot;")}"'


_LEVELS: Mapping[Severity, str] = {"error": "error", "warning": "warning", "note": "notice"}
_ORDER = tuple(_LEVELS)
_MOST_NAMES = 10
_FIRST = "NewlyPending"  #: what is told before others of its level
MOST_ANNOTATIONS = 10  #: GitHub shows at most so many of each level for a step, whichever come first


def render_github(report: CaseReport) -> str:
    """Return annotations, the most important first, and a notice with the summary and with what is left out.

    A workload has one, and so has a warning that is about several objects. There are `MOST_ANNOTATIONS` at most.
    """
    warnings = grouped(((case.rule, case.message), case) for case in report.cases if case.state == "warning")
    groups = [*alike(case for case in report.cases if case.state in ("failed", "skipped")), *warnings.values()]
    groups.sort(key=lambda cases: (_ORDER.index(cases[0].level), cases[0].rule != _FIRST, not cases[0].file))
    shown, rest = groups[: MOST_ANNOTATIONS - 1], groups[MOST_ANNOTATIONS - 1 :]
    lines = [_annotation(cases) for cases in shown]
    lines.append(f"::notice title=kplan::{_data(report.title + _left_out(rest))}")
    return "\n".join(lines) + "\n"


def _left_out(groups: Sequence[Sequence[Case]]) -> str:
    """Return how many annotations more there would be, and about what the most important ones are."""
    if not groups:
        return ""
    numbers = Counter(cases[0].level for cases in groups)
    kinds = ", ".join(count(numbers[level], word) for level, word in _LEVELS.items() if numbers[level])
    names = [f"{cases[0].about} ({_words(cases[0].rule)})" for cases in groups]
    return f"\nNot annotated: {kinds}: {listing(names, most=_MOST_NAMES)}"


def _annotation(cases: Sequence[Case]) -> str:
    case = cases[0]
    at = f"file={_property(case.file)}," if case.file else ""
    at += f"line={case.line}," if case.file and case.line is not None else ""
    title = _property(f"kplan: {case.about} ({_words(case.rule)})")
    return f"::{_LEVELS[case.level]} {at}title={title}::{_data(chr(10).join(brief_lines(cases)))}"


def _words(rule: str) -> str:
    """Return the name of a rule as words: ``CheckFailed`` as ``check failed``; warnings keep their codes."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", rule).lower() if rule in _RULES else rule


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "%SRCROOT%"
_LINK = re.compile(r"\[(?=[^\[\]]*\]\()")
"""The beginning of a link in a message, which SARIF takes literally behind a backslash."""


def render_sarif(report: CaseReport) -> str:
    """Return a SARIF log with one run: a result for each workload with a failure or a warning."""
    groups = alike(case for case in report.cases if case.state != "passed")
    rules = sorted({cases[0].rule for cases in groups})
    is_answered = report.exit_code in (0, 1)
    ending = {"executionSuccessful": is_answered, "exitCode": report.exit_code, "endTimeUtc": report.generated_at}
    run = {
        "tool": {"driver": {"name": "kplan", "version": __version__, "rules": [_rule(rule) for rule in rules]}},
        "automationDetails": {"id": f"kplan/{report.kind}/"},
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The root of the repository."}}},
        "invocations": [ending],
        "results": [_result(cases, rules, report.source) for cases in groups],
        "columnKind": "utf16CodeUnits",
    }
    return as_json({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}) + "\n"


def _rule(name: str) -> dict[str, Any]:
    rule = _RULES.get(name, _OTHER)
    return {
        "id": name,
        "name": name,
        "shortDescription": {"text": rule.what},
        "fullDescription": {"text": rule.what},
        "help": {"text": rule.help},
        "defaultConfiguration": {"level": "error" if rule.fails else "warning"},
        "properties": {"tags": ["kubernetes", "scheduling"]},
    }


def _result(cases: Sequence[Case], rules: Sequence[str], source: str) -> dict[str, Any]:
    case = cases[0]
    name = case.file or source
    is_absolute = name.startswith("/")
    file = {"uri": PurePosixPath(name).as_uri()} if is_absolute else {"uri": quote(name), "uriBaseId": _ROOT}
    # Code scanning takes no result without a place in a file.
    place = {"artifactLocation": file, "region": {"startLine": case.line or 1}}
    about = {"fullyQualifiedName": case.about, "kind": "object"}
    return {
        "ruleId": case.rule,
        "ruleIndex": rules.index(case.rule),
        "level": case.level,
        "message": {"text": _LINK.sub(r"\\[", "\n".join([f"{case.about}: {_words(case.rule)}", *brief_lines(cases)]))},
        "locations": [{"physicalLocation": place, "logicalLocations": [about]}],
        "partialFingerprints": {"kplanCase/v1": _fingerprint(case)},
    }


_SEVERITIES = {"error": "major", "warning": "minor", "note": "info"}


def render_code_quality(report: CaseReport) -> str:
    """Return a report for GitLab's Code Quality: an issue for each workload with a failure or a warning."""
    issues = []
    for cases in alike(case for case in report.cases if case.state != "passed"):
        case = cases[0]
        sentences = (text if text.endswith((".", "?", "!")) else f"{text}." for text in brief_lines(cases))
        issues.append(
            {
                "description": f"{case.about}: {' '.join(sentences)}",
                "check_name": case.rule,
                "fingerprint": hashlib.sha256(f"{_fingerprint(case)}:{case.message}".encode()).hexdigest(),
                "severity": _SEVERITIES[case.level],
                "location": {"path": case.file or report.source, "lines": {"begin": case.line or 1}},
            }
        )
    return as_json(issues) + "\n"


def _fingerprint(case: Case) -> str:
    """Return what identifies a result while other lines of the file come and go."""
    within = f":{case.file}:{case.document}" if case.file and not case.workload else ""
    return f"{case.rule}:{case.about}{within}"


_MOST_CHARACTERS = 500  #: of a reason; monitoring systems refuse very long labels

_ANSWERED = "Whether the question has an answer."
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def render_openmetrics(document: Report, metrics: Iterable[Metric]) -> str:
    """Write what every report has, and the numbers of its kind; its text is visible already."""
    of, snapshot = {"kind": document.kind}, document.snapshot
    of_any = [
        Metric("answered", _ANSWERED, 1),
        Metric("failed", "Whether something happens that --fail-on lists.", document.verdict.failed, of),
        *(Metric("warnings", "Warnings of the report.", 1, {**of, "code": one.code}) for one in document.warnings),
        Metric("snapshot_nodes", "Nodes of the cluster that was asked about.", snapshot.nodes, of),
        Metric("snapshot_pods", "Pods of the cluster that was asked about.", snapshot.pods, of),
    ]
    if (generated := seconds(document.generated_at)) is not None:
        of_any.append(Metric("generated_timestamp_seconds", "When the report was made.", generated, of))
    return _text([*of_any, *metrics])


def refused_in_openmetrics(report: CaseReport) -> str:
    reason = "; ".join(case.detail for case in report.cases)
    return _text([Metric("answered", _ANSWERED, 0, {"reason": reason[:_MOST_CHARACTERS]})])


def _text(metrics: Iterable[Metric]) -> str:
    families: dict[str, tuple[str, dict[str, float]]] = {}
    for metric in metrics:
        _, samples = families.setdefault(metric.name, (metric.help, {}))
        labels = ",".join(f'{name}="{text.translate(_ESCAPES)}"' for name, text in metric.labels.items())
        # Values with the same labels would be no metrics: those of two checks of one name are added.
        samples[labels] = samples.get(labels, 0) + metric.value
    lines: list[str] = []
    for name, (about, samples) in families.items():
        lines += [f"# TYPE kplan_{name} gauge"]
        lines += [f"# UNIT kplan_{name} seconds"] if name.endswith("_seconds") else []
        lines += [f"# HELP kplan_{name} {about.translate(_ESCAPES)}"]
        for labels, value in samples.items():
            number = int(value) if value == int(value) else value
            lines.append(f"kplan_{name}{{{labels}}} {number}" if labels else f"kplan_{name} {number}")
    return "\n".join([*lines, "# EOF"]) + "\n"
