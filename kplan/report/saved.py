"""Reports read back from files."""

from __future__ import annotations

from typing import Any

from kplan.api.decode import DecodeError
from kplan.errors import InputError, Problem
from kplan.reading import REPORTS, read_one
from kplan.report.registry import KINDS

__all__ = ["read_report"]

_API_VERSION = "kplan/v1"
_MAJOR = "1"
_NEEDED = ("snapshot", "scheduler", "verdict", "summary", "warnings")


def read_report(path: str) -> dict[str, Any]:
    """Read a report that kplan wrote as JSON or YAML, packed with gzip or not; ``-`` for standard input.

    Raises
    ------
    InputError
        When it cannot be read, or is no report of a kind that can be printed.
    """
    problems: list[Problem] = []
    read = read_one(path, problems, limits=REPORTS, expected="a report that kplan saved, as JSON or YAML")
    if read is None:
        raise InputError(problems)
    try:
        document = read.value()
    except DecodeError as error:
        raise InputError(map(read.locate, error.problems)) from None
    problem = _check(document)
    if problem is not None:
        raise InputError([read.locate(Problem(problem[0], json_path=problem[1], hint=problem[2]))])
    found: dict[str, Any] = document
    return found


def _check(document: Any) -> tuple[str, str, str] | None:
    """Return what is wrong, where, and what to do; None when nothing is."""
    hint = "kplan plan --save FILE writes one"
    if not isinstance(document, dict) or document.get("apiVersion") != _API_VERSION:
        return f"not a kplan report: apiVersion is not {_API_VERSION}", "$.apiVersion", hint
    kind = document.get("kind")
    if kind not in KINDS:
        return f"cannot print a document of kind {kind!r}", "$.kind", f"it can be one of {', '.join(KINDS)}"
    version = str(document.get("formatVersion", ""))
    if version.partition(".")[0] != _MAJOR:
        return f"format version {version!r} is not {_MAJOR}.x", "$.formatVersion", "use the kplan that wrote it"
    missing = [key for key in _NEEDED if key not in document]
    if missing:
        return f"incomplete: {', '.join(missing)} missing", "$", hint
    return None
