"""Reports read back from files."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from kplan.errors import InputError, Problem
from kplan.report.registry import KINDS

__all__ = ["read_report"]

_API_VERSION = "kplan/v1"
_MAJOR = "1"
_STANDARD_INPUT = "-"
_GZIP_MAGIC = b"\x1f\x8b"
_NEEDED = ("snapshot", "scheduler", "verdict", "summary", "warnings")


def read_report(path: str) -> dict[str, Any]:
    """Read a report that kplan wrote as JSON or YAML, packed with gzip or not; ``-`` for standard input.

    Raises
    ------
    InputError
        When it cannot be read, or is no report of a kind that can be printed.
    """
    name = "standard input" if path == _STANDARD_INPUT else path
    document = _parse(name, _read(path))
    problem = _check(document)
    if problem is not None:
        raise InputError([Problem(problem[0], path=name, json_path=problem[1], hint=problem[2])])
    found: dict[str, Any] = document
    return found


def _read(path: str) -> bytes:
    try:
        data = sys.stdin.buffer.read() if path == _STANDARD_INPUT else Path(path).read_bytes()
        return gzip.decompress(data) if data.startswith(_GZIP_MAGIC) else data
    except (OSError, EOFError) as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError([Problem(f"cannot be read: {text}", path=path)]) from error


def _parse(path: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return _parse_yaml(path, data)


def _parse_yaml(path: str, data: bytes) -> Any:
    import yaml

    try:
        return yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - a safe loader
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        text = str(error).split("\n", maxsplit=1)[0]
        raise InputError([Problem(f"neither JSON nor YAML: {text}", path=path)]) from error


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
