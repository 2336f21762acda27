"""Reports as SARIF 2.1.0, which code scanning services read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kplan import __version__
from kplan.documents.base import Report
from kplan.report.view import Case
from kplan.visible import as_json

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"failed": "error", "warning": "warning", "skipped": "note"}
_RULES = {
    "Unschedulable": "A pod that fits on no node.",
    "Gated": "A pod that waits for its scheduling gates.",
    "Error": "A pod that cannot be scheduled at all.",
    "Preemption": "A pod that gets in only by evicting others.",
    "PdbViolation": "A pod that gets in only by breaking a disruption budget.",
    "MissingKind": "A kind of object that could not be read, so that the answer may be wrong.",
}


def render_sarif(document: Report, cases: Sequence[Case]) -> str:
    """Write a SARIF log with one run; what went well is not in it."""
    told = [case for case in cases if case.state in _LEVELS]
    rules = sorted({case.rule for case in told})
    run = {
        "tool": {
            "driver": {
                "name": "kplan",
                "version": __version__,
                "rules": [_rule(rule) for rule in rules],
            }
        },
        "invocations": [{"executionSuccessful": True, "endTimeUtc": document.generated_at}],
        "results": [_result(case, rules) for case in told],
        "columnKind": "utf16CodeUnits",
    }
    return as_json({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}) + "\n"


def _rule(rule: str) -> dict[str, Any]:
    text = _RULES.get(rule, "Something that may make the answer differ from the cluster's.")
    return {"id": rule, "shortDescription": {"text": text}}


def _result(case: Case, rules: Sequence[str]) -> dict[str, Any]:
    location: dict[str, Any] = {"logicalLocations": [{"fullyQualifiedName": case.name, "kind": "object"}]}
    if case.file and case.file != "-":
        location["physicalLocation"] = {"artifactLocation": {"uri": case.file}, "region": {"startLine": 1}}
    return {
        "ruleId": case.rule,
        "ruleIndex": rules.index(case.rule),
        "level": _LEVELS[case.state],
        "message": {"text": f"{case.name}: {case.message}"},
        "locations": [location],
        "partialFingerprints": {"kplanCase/v1": f"{case.rule}:{case.name}"},
    }
