"""Reports as SARIF 2.1.0, which code scanning services read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from kplan.report.rules import rule_of
from kplan.report.view import Case, CaseReport, alike, brief_lines
from kplan.version import __version__
from kplan.visible import as_json

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"failed": "error", "warning": "warning", "skipped": "note"}
_ROOT = "%SRCROOT%"
_ANSWERED = (0, 1)
_LINK = re.compile(r"\[(?=[^\[\]]*\]\()")
"""The beginning of a link in a message, which SARIF takes literally behind a backslash."""


def render_sarif(report: CaseReport) -> str:
    """Return a SARIF log with one run: a result for each workload with a failure or a warning."""
    groups = alike(case for case in report.cases if case.state in _LEVELS)
    rules = sorted({cases[0].rule for cases in groups})
    run = {
        "tool": {"driver": {"name": "kplan", "version": __version__, "rules": [_rule(rule) for rule in rules]}},
        "automationDetails": {"id": f"kplan/{report.kind}/"},
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The root of the repository."}}},
        "invocations": [_invocation(report)],
        "results": [_result(cases, rules, report.source) for cases in groups],
        "columnKind": "utf16CodeUnits",
    }
    return as_json({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}) + "\n"


def _invocation(report: CaseReport) -> dict[str, Any]:
    return {
        "executionSuccessful": report.exit_code in _ANSWERED,
        "exitCode": report.exit_code,
        "endTimeUtc": report.generated_at,
    }


def _rule(name: str) -> dict[str, Any]:
    rule = rule_of(name)
    return {
        "id": name,
        "name": name,
        "shortDescription": {"text": rule.what},
        "fullDescription": {"text": rule.what},
        "help": {"text": rule.help},
        "defaultConfiguration": {"level": "error" if rule.is_failure else "warning"},
        "properties": {"tags": ["kubernetes", "scheduling"]},
    }


def _result(cases: Sequence[Case], rules: Sequence[str], source: str) -> dict[str, Any]:
    case = cases[0]
    return {
        "ruleId": case.rule,
        "ruleIndex": rules.index(case.rule),
        "level": _LEVELS[case.state],
        "message": {"text": _LINK.sub(r"\\[", "\n".join([f"{case.about}: {case.rule}", *brief_lines(cases)]))},
        "locations": [
            {
                # Code scanning takes no result without a place in a file.
                "physicalLocation": {
                    "artifactLocation": _artifact(case.file or source),
                    "region": {"startLine": case.line or 1},
                },
                "logicalLocations": [{"fullyQualifiedName": case.about, "kind": "object"}],
            }
        ],
        "partialFingerprints": {"kplanCase/v1": _fingerprint(case)},
    }


def _fingerprint(case: Case) -> str:
    """Return what identifies a result while other lines of the file come and go."""
    within = f":{case.file}:{case.document}" if case.file and not case.workload else ""
    return f"{case.rule}:{case.about}{within}"


def _artifact(name: str) -> dict[str, str]:
    if name.startswith("/"):
        return {"uri": PurePosixPath(name).as_uri()}
    return {"uri": quote(name), "uriBaseId": _ROOT}
