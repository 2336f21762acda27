"""Messages on standard error: each problem with its next step, what takes long; no traceback without ``--debug``."""

from __future__ import annotations

import os
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from kplan.cli.options import option_of
from kplan.cli.pipelines import tell_refusal, working_directory
from kplan.errors import ConfigError, InputError, KplanError, ManifestError, ParameterError, SnapshotError, UsageError
from kplan.version import __version__
from kplan.visible import visible

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.facts import InputWarning

FAILED = 2
_MOST_PROBLEMS = 50  #: of an input are told; the others are counted

#: The next step for errors without a hint.
_USUAL_HINTS = {
    ManifestError: "an API server would refuse this; correct the manifest and ask again",
    SnapshotError: "correct the object, or take a new snapshot with kplan snapshot save",
    ConfigError: "kplan config show prints a configuration as kube-scheduler reads it",
}


def silence_output() -> None:
    """Prevent the error at exit that the reader of standard output has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_error(error: Exception) -> None:
    if isinstance(error, FileNotFoundError) and not working_directory():
        error = UsageError("the working directory does not exist any more", hint="change to one that exists")
    if isinstance(error, ParameterError):
        error = error.naming(option_of)
    for line in lines_of(error):
        say(line)
    if isinstance(error, KplanError):
        try:
            tell_refusal(error)
        except BrokenPipeError:
            silence_output()
        except (KplanError, OSError) as other:
            say(f"error: {other}")


def lines_of(error: Exception) -> Iterator[str]:
    """Yield the problems of an error, each with its hint; equal hints only once. Nothing in them is escaped yet."""
    if not isinstance(error, KplanError):
        yield f"internal error: {type(error).__name__}: {error}"
        yield (
            f"hint: this is a bug in kplan {__version__}; run the same with --debug, and report the traceback with the "
            "snapshot (kplan snapshot save --redact FILE)"
        )
        return
    problems = error.problems if isinstance(error, InputError) else ()
    hints: set[str] = {""}
    for problem in problems[:_MOST_PROBLEMS]:
        yield f"error: {problem}"
        if problem.hint not in hints:
            hints.add(problem.hint)
            yield f"hint: {problem.hint}"
    if len(problems) > _MOST_PROBLEMS:
        yield f"error: and {len(problems) - _MOST_PROBLEMS} more problems"
    if isinstance(error, InputError) and error.unchecked:
        yield f"error: after {len(problems)} problems, {error.unchecked} more objects were not checked"
    if not problems:
        yield f"error: {error.message}"
    usual = next((hint for kind, hint in _USUAL_HINTS.items() if isinstance(error, kind)), "")
    hint = error.hint or ("" if len(hints) > 1 else usual)
    if hint not in hints:
        yield f"hint: {hint}"


def say_traceback(error: Exception) -> None:
    for part in traceback.format_exception(error):
        for line in part.splitlines():
            typer.echo(visible(line), err=True)


def say(text: str) -> None:
    """Print a sentence on standard error, with control characters escaped; a terminal gets it wrapped between words."""
    message = visible(text)
    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns
    except (AttributeError, OSError, ValueError):  # no terminal
        width = 0
    if 0 < width < len(message):
        # Long words stay whole, as many a path is copied from here.
        message = "\n".join(
            textwrap.wrap(message, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        )
    typer.echo(message, err=True)


def warn_of(warnings: Iterable[InputWarning], *, quiet: bool = False) -> None:
    for warning in () if quiet else warnings:
        say(f"warning: {warning.object}: {warning.message}")


_PATIENCE_SECONDS = 1.0
_BETWEEN_SECONDS = 0.1  #: between two updates of a count


@contextmanager
def busy(doing: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show what kplan is doing, on a terminal and after more than a second; remove it at the end.

    `doing`: such as ``reading the cluster``; also for the message after an interrupt.
    What is yielded shows the progress, in place of the former one.
    """
    with noted_when_interrupted(doing):
        if not shows_progress(quiet=quiet):
            yield lambda _progress: None
            return
        from rich.console import Console

        status = Console(stderr=True).status(doing)
        timer = threading.Timer(_PATIENCE_SECONDS, status.start)
        timer.daemon = True
        timer.start()
        updated_at = 0.0

        def tell(progress: str) -> None:
            nonlocal updated_at
            if (now := time.monotonic()) - updated_at >= _BETWEEN_SECONDS:
                updated_at = now
                status.update(f"{doing}: {progress}")

        try:
            yield tell
        finally:
            timer.cancel()
            timer.join()
            status.stop()


@contextmanager
def counted(doing: str, base: Base, *, quiet: bool = False) -> Iterator[None]:
    """Show what kplan is doing as `busy` does, with the number of pods or steps that are done."""
    with busy(doing, quiet=quiet) as tell:
        if shows_progress(quiet=quiet):  # else nobody is told
            base.on_progress = lambda done, of: tell(f"{done:,} steps" if of is None else f"{done:,} of {of:,} pods")
        try:
            yield
        finally:
            base.on_progress = None


def shows_progress(*, quiet: bool) -> bool:
    """Tell whether standard error is a terminal on which a line can be written anew; dumb ones only add lines."""
    return not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def announced_when_slow(line: str, *, quiet: bool = False) -> Iterator[None]:
    """Print a line on standard error when the context takes more than a second."""
    timer = threading.Timer(_PATIENCE_SECONDS, say, [line])
    timer.daemon = True
    if not quiet:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def noted_when_interrupted(doing: str) -> Iterator[None]:
    """Add what kplan is doing to an interrupt, in the innermost context."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if not getattr(interrupt, "__notes__", None):
            interrupt.add_note(doing)
        raise
