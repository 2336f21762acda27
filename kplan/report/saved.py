"""Reports read back from files."""

from __future__ import annotations

from typing import Any

from kplan.api.decode import DecodeError, convert, describe
from kplan.catalogue import REPORTS as ALL_KINDS
from kplan.documents.base import Report
from kplan.documents.schemas import struct_of
from kplan.errors import InputError, Problem
from kplan.reading.documents import read_document
from kplan.reading.files import REPORTS

_API_VERSION = "kplan/v1"
_MAJOR = "1"
_HINT = "save the report anew; kplan schema KIND prints what it must look like"


def read_report(path: str) -> Report:
    """Return a report that kplan wrote as JSON or YAML, compressed with gzip or not; ``-`` reads standard input.

    Raises InputError when it cannot be read, or is no report of a kind that can be printed.
    """
    problems: list[Problem] = []
    read = read_document(path, problems, limits=REPORTS, expected="a report that kplan saved, as JSON or YAML")
    if read is None:
        raise InputError(problems)
    try:
        value = read.value()
        strange = _strange(value)
        if strange is None:
            report: Report = convert(_with_kinds(value), struct_of(value["kind"]))
            return report
    except DecodeError as error:
        raise InputError(
            [
                read.locate(Problem(problem.message, json_path=problem.json_path, hint=problem.hint or _HINT))
                for problem in error.problems
            ]
        ) from None
    raise InputError([read.locate(strange)])


def _with_kinds(value: Any) -> Any:
    """Return a document whose details have a ``kind``; those of format 1.0, which have none, are told fact by fact."""
    if isinstance(value, list):
        return [_with_kinds(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {key: _with_kinds(item) for key, item in value.items()}
    if isinstance(value.get("reasons"), list) and isinstance(value.get("details"), list):
        for number, detail in enumerate(value["details"]):
            if isinstance(detail, dict) and "kind" not in detail:
                facts = {name: fact for name, fact in detail.items() if name != "reason"}
                fields["details"][number] = {"kind": "other", "reason": detail.get("reason", ""), "facts": facts}
    return fields


def _strange(value: Any) -> Problem | None:
    """Return what is wrong with a document that is not a report; None for a report."""
    if not isinstance(value, dict) or value.get("apiVersion") != _API_VERSION:
        message, hint = f"not a kplan report: apiVersion is not {_API_VERSION}", "kplan plan --save FILE writes one"
        return Problem(message, json_path="$.apiVersion", hint=hint)
    kind, version = value.get("kind"), value.get("formatVersion")
    if not isinstance(kind, str) or kind not in ALL_KINDS:
        hint = f"it can be one of {', '.join(ALL_KINDS)}"
        return Problem(f"cannot print a document of kind {describe(kind)}", json_path="$.kind", hint=hint)
    if not isinstance(version, str) or version.partition(".")[0] != _MAJOR:
        message, hint = f"format version {describe(version)} is not {_MAJOR}.x", "use the kplan that wrote it"
        return Problem(message, json_path="$.formatVersion", hint=hint)
    return None
