"""What a pipeline says of itself in the environment: where the repository is, and where a page sums a job up."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from kplan.errors import InputError, KplanError

if TYPE_CHECKING:
    from kplan.report.checks import Repository

_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
_WORKSPACES = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR", "WORKSPACE")
"""Where GitHub, GitLab and Jenkins say which directory holds the repository."""


def add_to_step_summary(text: str) -> None:
    """Add to the page that GitHub Actions shows of a job, where there is one.

    Raises KplanError when it cannot be written.
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


def repository() -> Repository:
    """Return where the files that annotations are about are named from."""
    from kplan.report.checks import Repository

    here = working_directory()
    return Repository(here, repository_around(here))


_asked: ContextVar[Sequence[tuple[str, str]]] = ContextVar("asked", default=())


def remember_formats(formats: Sequence[tuple[str, str]]) -> None:
    """Keep what the command was asked to write, as (format, path), for the case that there is no answer.

    The path is empty for standard output.
    """
    _asked.set(formats)


def tell_refusal(error: InputError) -> None:
    """Write what is wrong with an input in those formats of the command that are for programs.

    So an annotation marks the line, a test fails, and the page of the job says why: nobody needs to read the log.
    """
    if not _asked.get() or not error.problems:
        return
    from kplan.report.refusal import refused, refused_in_markdown
    from kplan.report.registry import PROGRAM_FORMATS, render_for_programs
    from kplan.writing import write_file

    asked = [(name, path) for name, path in _asked.get() if name in PROGRAM_FORMATS]
    if not asked:
        return
    here = working_directory()
    told = refused(error.problems, here, repository_around(here))
    for name, path in asked:
        text = render_for_programs(told, name)
        if path:
            write_file(path, text.encode())
        else:
            sys.stdout.write(text)
            sys.stdout.flush()
    if "github" in dict(asked):
        add_to_step_summary(refused_in_markdown(told))
