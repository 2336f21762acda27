"""Messages on standard error: each problem with its next step, what takes long; no traceback without ``--debug``."""

from __future__ import annotations

import os
import re
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from kplan.cli import process
from kplan.cli.conversion import convert_quickly
from kplan.cli.options import option_of
from kplan.cli.pipelines import remember_formats, tell_refusal, working_directory
from kplan.errors import ConfigError, InputError, KplanError, ManifestError, ParameterError, SnapshotError, UsageError
from kplan.version import __version__
from kplan.visible import visible

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.facts import InputWarning

FAILED = 2
_DEBUG_OPTION = "--debug"
_MOST_PROBLEMS = 50
_LEAST_PREFIX, _MOST_OPTIONS = 3, 3
_SIMILAR = 0.75  #: options of at least this similarity may be the same one, misspelt
_USAGE: type[Exception] = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
_CHOICES = r"(?<=[:,])\n\t"
_PYDANTICS_PREFIX = "Value error, "
_TYPERS_OWN = (typer.Exit, typer.Abort, _USAGE)

#: The next step for errors without a hint.
_USUAL_HINTS = {
    ManifestError: "an API server would refuse this; correct the manifest and ask again",
    SnapshotError: "correct the object, or take a new snapshot with kplan snapshot save",
    ConfigError: "kplan config show prints a configuration as kube-scheduler reads it",
}


class KplanGroup(TyperGroup):
    """The group of all commands: errors end in a message and exit code 2, and `--debug` may be anywhere."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)
        convert_quickly(parameters)
        return parameters

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept `--debug` anywhere before a `--`; the help of a group of commands is always whole."""
        args = ["--help", *args[1:]] if args[:1] == ["--help-all"] else args
        end = args.index("--") if "--" in args else len(args)
        wants_traceback = _DEBUG_OPTION in args[:end]
        rest = [arg for arg in args[:end] if arg != _DEBUG_OPTION] + args[end:]
        try:
            _refuse_names_of_files(args[:end])
            return super().parse_args(ctx, [_DEBUG_OPTION, *rest] if wants_traceback else rest)
        except _USAGE as error:
            raise _print_usage_error(error) from None
        # Help and the version are printed here.
        except BrokenPipeError:
            raise typer.Exit(0) from None
        except KplanError as error:
            _print_error(error)
            raise typer.Exit(FAILED) from None

    def invoke(self, ctx: Any) -> Any:
        remember_formats(())
        process.end_in_order()
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise _say_interrupted(interrupt) from None
        except BrokenPipeError:
            silence_output()
            raise typer.Exit(0) from None
        except _USAGE as error:
            raise _print_usage_error(error) from None
        except Exception as error:
            if isinstance(error, _TYPERS_OWN) or ctx.params.get("debug"):
                raise
            if (signal := process.received()) is not None:
                raise _say_interrupted(signal) from None
            _print_error(error)
            raise typer.Exit(FAILED) from None


def _refuse_names_of_files(args: Iterable[str]) -> None:
    """Raise UsageError for an option that is the name of a file, too.

    A shell's ``*`` and programs such as pre-commit append names of files that somebody else chose.
    """
    for arg in args:
        if arg.startswith("-") and arg != "-" and os.path.lexists(arg):
            hint = f"write ./{arg} for the file, or end the options with -- before the names of files"
            raise UsageError(f"{arg} is an option, and the name of a file as well", hint=hint)


def _say_interrupted(interrupt: KeyboardInterrupt) -> typer.Exit:
    doing = next(iter(getattr(interrupt, "__notes__", ())), "")
    say(f"interrupted while {doing}" if doing else "interrupted")
    return typer.Exit(process.exit_code(interrupt))


_LOSS = "kplan drain --zone ZONE --lost (or NODE… --lost) says what a loss does, kplan check tries every one"
_RETIRED = {("capacity", "--lose"): _LOSS, ("capacity", "--zones"): _LOSS}
"""Options that were, by command and name, and what to use instead."""


def _print_usage_error(error: Any) -> typer.Exit:
    """Print an invalid command line as any other error, in Typer's words."""
    if isinstance(error, typer.BadParameter):
        error.message = error.message.removeprefix(_PYDANTICS_PREFIX)
    message = error.format_message()
    if (context := getattr(error, "ctx", None)) is not None and message == context.get_help():
        typer.echo(message, err=True)
        return typer.Exit(FAILED)
    unknown = str(getattr(error, "option_name", "")) if getattr(error, "possibilities", None) is not None else ""
    if unknown:
        message = f"no such option: {unknown}"
    # Typer prints the choices for a missing value on lines of their own.
    text = re.sub(_CHOICES, " ", message).removesuffix(".")
    say(f"error: {text[:1].lower()}{text[1:]}")
    if (since := _RETIRED.get((getattr(getattr(context, "command", None), "name", ""), unknown))) is not None:
        say(f"hint: {since}")
    elif unknown and context is not None and (near := _near_options(unknown, context.command.params)):
        say(f"hint: did you mean {' or '.join(near)}?")
    elif context is not None:
        what = "commands" if hasattr(context.command, "commands") else "arguments and options"
        say(f"hint: {context.command_path} --help lists {what}")
    return typer.Exit(FAILED)


def _near_options(unknown: str, parameters: Iterable[Any]) -> list[str]:
    """Return the options that begin as an unknown one does, else those that are so similar that they may be meant."""
    from kplan.api.names import nearest_texts

    name = unknown.removeprefix("--")
    known = [option[2:] for parameter in parameters for option in parameter.opts if option.startswith("--")]
    longer = [other for other in known if len(name) >= _LEAST_PREFIX and other.startswith(name)]
    return [f"--{other}" for other in (longer or nearest_texts(name, known, at_least=_SIMILAR))[:_MOST_OPTIONS]]


def silence_output() -> None:
    """Prevent the error at exit that the reader of standard output has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_error(error: Exception) -> None:
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
    """Print the traceback of an error, for `--debug`."""
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
def counted(doing: str, planner: Base, *, quiet: bool = False) -> Iterator[None]:
    """Show what kplan is doing as `busy` does, with the number of pods or steps that are done."""
    with busy(doing, quiet=quiet) as tell:
        planner.on_progress = lambda done, of: tell(f"{done:,} steps" if of is None else f"{done:,} of {of:,} pods")
        try:
            yield
        finally:
            planner.on_progress = None


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
