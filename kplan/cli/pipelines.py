"""What a pipeline says of itself in the environment: where the repository is, and where a page sums a job up."""

from __future__ import annotations

import os
from pathlib import Path

from kplan.errors import KplanError

_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
_WORKSPACES = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR", "WORKSPACE")
"""Where GitHub, GitLab and Jenkins say which directory holds the repository."""


def add_to_step_summary(text: str) -> None:
    """Add to the page that GitHub Actions shows of a job, where there is one.

    Raises
    ------
    KplanError
        When it cannot be written.
    """
    path = os.environ.get(_STEP_SUMMARY)
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8") as page:
            page.write(text)
    except OSError as error:
        raise KplanError(f"{_STEP_SUMMARY}: cannot write to {path}: {error.strerror}") from error


def working_directory() -> str:
    """Return where relative names of files start from; empty where that directory is gone."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def repository_around(here: str) -> str:
    """Return the root of the repository that the pipeline works on, as it says itself, else the working directory."""
    said = (os.environ.get(name, "") for name in _WORKSPACES)
    around = (each for each in said if each and Path(here).is_relative_to(each))
    return next(around, here)
