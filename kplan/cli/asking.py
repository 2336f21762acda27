"""Asking of the question that a command has built from its options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from kplan.cli.answer import emit
from kplan.cli.common import CommonFlags
from kplan.cli.no_effect import tell_no_effect
from kplan.cli.phases import busy, counted
from kplan.cli.sweeping import SweepFlags
from kplan.errors import ParameterError

if TYPE_CHECKING:
    from kplan.cluster.showing import Showing
    from kplan.documents.base import Report
    from kplan.effects.subject import Subject


_OPTIONS = {"limit": "--max", "only_these": "--only-given"}
"""Parameter -> its option, where that has another name."""


class Asked(Protocol):
    """A question whose answer is a report: one of `kplan.questions`."""

    def answer_about(self, subject: Subject, showing: Showing = ..., /) -> Report:
        """Return the answer."""


@contextmanager
def options_named() -> Iterator[None]:
    """Name the options of the command in errors about the parameters of a question."""
    try:
        yield
    except ParameterError as error:
        raise error.naming(option_of) from None


def option_of(parameter: str) -> str:
    """Return the option that sets a parameter: ``--node-start`` for ``node_start``."""
    return _OPTIONS.get(parameter) or f"--{parameter.replace('_', '-')}"


def reply(
    question: Asked,
    subject: Subject,
    showing: Showing,
    flags: CommonFlags,
    *,
    doing: str,
    words: str = "",
    sweeping: SweepFlags | None = None,
) -> None:
    """Answer a question, write the answer, and end the command with its exit code.

    Parameters
    ----------
    doing : what kplan does meanwhile
    words : of the progress, with its two numbers as ``{0}`` and ``{1}``; empty to count the steps of a simulation
    sweeping : how what can be answered in parallel is; None for one after the other
    """
    verbosity = flags.verbosity
    if sweeping is not None:
        showing = replace(showing, ask_all=sweeping.ask_all)
    if not verbosity.quiet:
        showing = replace(showing, on_no_effect=lambda name, because: tell_no_effect(option_of(name), because))
    with options_named():
        if not words:
            with counted(doing, subject.base, quiet=verbosity.quiet):
                document = question.answer_about(subject, showing)
        else:
            with busy(doing, quiet=verbosity.quiet) as tell:
                showing = replace(showing, progress=lambda n, of: tell(words.format(n, of)))
                document = question.answer_about(subject, showing)
    emit(document, flags.output, verbosity, subject.manifests)
