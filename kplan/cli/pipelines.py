"""Pipelines: the repository and the summary page, from their environment variables."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from kplan.errors import InputError, KplanError, Problem

if TYPE_CHECKING:
    from kplan.report.options import Repository

_ADDRESS = r"https?://[\w.:/~-]+"
_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
_WORKSPACES = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR", "WORKSPACE")
"""Variables of GitHub, GitLab and Jenkins with the directory of the repository."""


def add_to_step_summary(text: str) -> None:
    """Append to the summary page of a GitHub Actions job, if there is one; raises KplanError where it cannot."""
    if not (path := os.environ.get(_STEP_SUMMARY)):
        return
    try:
        with Path(path).open("a", encoding="utf-8") as page:
            page.write(text)
    except OSError as error:
        raise KplanError(f"{_STEP_SUMMARY}: cannot write to {path}: {error.strerror}") from error


def command_line() -> str:
    """Return the command as it was typed; empty where kplan runs inside another program."""
    program, *arguments = sys.argv or [""]
    return shlex.join(["kplan", *arguments]) if Path(program).name in ("kplan", "kubectl-kplan") else ""


def working_directory() -> str:
    """Return the working directory; empty where it does not exist any more."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def repository_pages() -> str:
    """Return the address under which GitHub or GitLab shows the files of the commit of the job; empty for none."""
    server, name, commit = (os.environ.get(f"GITHUB_{word}", "") for word in ("SERVER_URL", "REPOSITORY", "SHA"))
    address = f"{server}/{name}/blob/{commit}" if server and name and commit else ""
    project, commit = (os.environ.get(f"CI_{word}", "") for word in ("PROJECT_URL", "COMMIT_SHA"))
    address = address or (f"{project}/-/blob/{commit}" if project and commit else "")
    return address if re.fullmatch(_ADDRESS, address) else ""


def repository() -> Repository:
    """Return the working directory, and the root of the pipeline's repository around it, else the same."""
    from kplan.report.options import Repository

    here = working_directory()
    directories = (os.environ.get(name, "") for name in _WORKSPACES)
    around = (directory for directory in directories if directory and Path(here).is_relative_to(directory))
    return Repository(here, next(around, here))


_formats: ContextVar[Sequence[tuple[str, str]]] = ContextVar("asked", default=())


def remember_formats(formats: Sequence[tuple[str, str]]) -> None:
    """Remember the output formats, as (format, path), for the case of an error; no path is standard output."""
    _formats.set(formats)


def tell_refusal(error: KplanError) -> None:
    """Write why there is no answer in the formats of the command: those for programs, and those of all reports.

    So an annotation marks the line, a test fails, and the page of the job shows why, without a look at the log.
    """
    if not _formats.get():
        return
    from kplan.report.registry import PROGRAM_FORMATS, refused, render_refusal
    from kplan.writing import write_file

    wanted = [(name, path) for name, path in _formats.get() if path or name in PROGRAM_FORMATS]
    if not wanted:
        return
    problems = error.problems if isinstance(error, InputError) else ()
    problems = problems or (Problem(error.message, hint=error.hint),)
    refusal = refused(problems, repository())
    for name, path in wanted:
        text = render_refusal(refusal, name)
        if path:
            write_file(path, text.encode())
        else:
            sys.stdout.write(text)
            sys.stdout.flush()
    if "github" in dict(wanted):
        add_to_step_summary(render_refusal(refusal, "markdown"))
