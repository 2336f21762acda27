"""Paths of manifests, as the repository has them that a pipeline works on."""

from __future__ import annotations

import os
import re
import shlex

_STREAM = r"-|standard input"
_BUILT = r"(?P<directory>.+) \((?:kustomize|kubectl)\)"


def file_in(repository: str, here: str, name: str) -> str:
    """Return a file's path as the repository has it; empty for what is no file, such as standard input.

    Parameters
    ----------
    repository : its root; empty where it is not known
    here : the directory that relative names start from
    name : as the command line has it
    """
    if not name or re.fullmatch(_STREAM, name) or re.fullmatch(_BUILT, name):
        return ""
    if not repository:
        return name
    path = os.path.normpath(os.path.join(here, name))  # noqa: PTH118 - texts: a saved report's files need not be here
    below = os.path.relpath(path, repository)
    return path if below.startswith("..") else below


def as_argument(name: str) -> str:
    """Return the argument with which a command reads the same manifests again."""
    if re.fullmatch(_STREAM, name):
        return "-"
    built = re.fullmatch(_BUILT, name)
    return f"-k {shlex.quote(built['directory'])}" if built else shlex.quote(name)
