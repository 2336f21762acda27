"""Building kustomizations with the user's kustomize or kubectl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from kplan.errors import ManifestError, Problem, UsageError
from kplan.workloads.sources import Text

_TIMEOUT = 60
"""Seconds; remote bases may have to be fetched."""

_PROGRAMS = (("kustomize", "build"), ("kubectl", "kustomize"))


def build(directory: str) -> Text:
    """Build a kustomization with kustomize or kubectl, whichever is on the PATH.

    Raises
    ------
    UsageError
        When there is no such directory, or neither program.
    ManifestError
        When the program cannot build it, or takes too long.
    """
    if not Path(directory).is_dir():
        raise UsageError(f"-k {directory}: no such directory", hint="name the directory with the kustomization.yaml")
    for program, command in _PROGRAMS:
        if path := shutil.which(program):
            return Text(f"{directory} ({program})", _run(path, command, directory))
    pipes = " or ".join(f"{program} {command} {directory} | kplan place -" for program, command in _PROGRAMS)
    raise UsageError("neither kustomize nor kubectl is on the PATH", hint=f"run it where one is: {pipes}")


def _run(program: str, command: str, directory: str) -> bytes:
    # A name that begins with a dash must not become an option.
    named = directory if not directory.startswith("-") else f"./{directory}"
    try:
        done = subprocess.run(  # noqa: S603 - no shell; the program is the user's own, the argument one directory
            [program, command, named], capture_output=True, timeout=_TIMEOUT, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        message = f"{Path(program).name} took longer than {_TIMEOUT} seconds"
        raise ManifestError([Problem(message, path=directory, hint="build it by hand and pipe the result")]) from None
    except OSError as error:
        message = f"{Path(program).name} cannot be run: {error.strerror}"
        raise ManifestError([Problem(message, path=directory, hint="check the program on your PATH")]) from None
    if done.returncode:
        errors = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it says nothing"]
        message = f"{Path(program).name} cannot build it: {errors[0][:500]}"
        raise ManifestError([Problem(message, path=directory, hint=f"try {Path(program).name} {command} {directory}")])
    return done.stdout
