"""Paths of manifests, as the repository has them that a pipeline works on."""

from __future__ import annotations

import os
import re
import shlex

_STREAM = re.compile(r"-|standard input")
_BUILT = re.compile(r"(?P<directory>.+) \((?:kustomize|kubectl)\)")


def file_in(repository: str, here: str, name: str) -> str:
    """Return a file's path as the repository has it; empty for what is no file, such as standard input.

    Parameters
    ----------
    repository : its root; empty where it is not known
    here : the directory that relative names start from
    name : as the command line has it
    """
    if not name or _STREAM.fullmatch(name) or _BUILT.fullmatch(name):
        return ""
    if not repository:
        return name
    path = os.path.normpath(os.path.join(here, name))  # noqa: PTH118 - texts: a saved report's files need not be here
    below = os.path.relpath(path, repository)
    return path if below.startswith("..") else below


def as_argument(name: str) -> str:
    """Return the argument with which a command reads the same manifests again."""
    if _STREAM.fullmatch(name):
        return "-"
    built = _BUILT.fullmatch(name)
    return f"-k {shlex.quote(built['directory'])}" if built else shlex.quote(name)
