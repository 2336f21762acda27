"""Paths of files in volumes and on hosts (pkg/apis/core/validation validateLocalDescendingPath and others)."""

from __future__ import annotations

from kplan.admission.validation.errors import Errors, invalid

FILE_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_MOST_MODE = 0o777


def descending(target: str, path: str) -> Errors:
    """Return what is wrong with a path that must be relative and without ``..``."""
    errors = [invalid(path, target, "must be a relative path")] if target.startswith("/") else []
    return errors + no_backsteps(target, path)


def no_backsteps(target: str, path: str) -> Errors:
    """Return an error for a path with ``..``."""
    return [invalid(path, target, "must not contain '..'")] if ".." in target.split("/") else []


def unreserved(target: str, path: str) -> Errors:
    """Return what is wrong with the path of a file in a volume."""
    errors = descending(target, path)
    if target.startswith("..") and not target.startswith("../"):
        errors.append(invalid(path, target, "must not start with '..'"))
    return errors


def mode_errors(mode: int | None, path: str) -> Errors:
    """Return an error for an invalid file mode."""
    return [] if mode is None or 0 <= mode <= _MOST_MODE else [invalid(path, mode, FILE_MODE)]
