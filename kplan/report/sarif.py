"""Reports as SARIF 2.1.0, which code scanning services read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from kplan import __version__
from kplan.documents.base import Report
from kplan.report.view import Case
from kplan.visible import as_json

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"failed": "error", "warning": "warning", "skipped": "note"}
_STUCK = "The message says what is in the way on how many nodes, and the smallest change with which the pod gets in."
_RULES = {
    "Unschedulable": ("A pod that fits on no node.", _STUCK),
    "Pending": ("A pod that stays pending.", _STUCK),
    "Gated": (
        "A pod that waits for its scheduling gates.",
        "No scheduler looks at it until whoever set the gates removes them from spec.schedulingGates.",
    ),
    "Error": (
        "A pod that cannot be scheduled at all.",
        "The API server refuses it, no scheduler has its name, or something that it refers to is invalid.",
    ),
    "Preemption": (
        "A pod that gets in only by evicting others.",
        "kplan preempt names the victims and why those. Add room, or accept it with --fail-on.",
    ),
    "PdbViolation": (
        "A pod that gets in only by breaking a disruption budget.",
        "kplan preempt names the budget. Loosen it, or add room.",
    ),
    "MissingKind": (
        "A kind of object that could not be read, so that the answer may be wrong.",
        "kplan snapshot rbac prints the rights that reading needs.",
    ),
}
_OTHER_RULE = (
    "Something that may make the answer differ from the cluster's.",
    "The message names the object and what kplan does not know or model about it.",
)


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
        "results": [_result(case, rules, document.snapshot.source) for case in told],
        "columnKind": "utf16CodeUnits",
    }
    return as_json({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}) + "\n"


def _rule(rule: str) -> dict[str, Any]:
    text, help_text = _RULES.get(rule, _OTHER_RULE)
    return {"id": rule, "shortDescription": {"text": text}, "help": {"text": help_text}}


def _result(case: Case, rules: Sequence[str], source: str) -> dict[str, Any]:
    file = case.file if case.file and case.file != "-" else source
    location: dict[str, Any] = {
        "logicalLocations": [{"fullyQualifiedName": case.name, "kind": "object"}],
        # Code scanning takes no result without a place in a file.
        "physicalLocation": {"artifactLocation": {"uri": quote(file)}, "region": {"startLine": case.line or 1}},
    }
    told = [f"{case.name}: {case.message}"]
    told += [f"What would help: {case.would_help}"] if case.would_help else []
    told += [f"More: {case.more}"] if case.more else []
    return {
        "ruleId": case.rule,
        "ruleIndex": rules.index(case.rule),
        "level": _LEVELS[case.state],
        "message": {"text": "\n".join(told)},
        "locations": [location],
        "partialFingerprints": {"kplanCase/v1": f"{case.rule}:{case.name}"},
    }
