"""Asking of the question that a command has built from its options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from msgspec.structs import replace

from kplan.cli.answer import emit
from kplan.cli.common import CommonFlags
from kplan.cli.flags import SPELLED
from kplan.cli.no_effect import tell_no_effect
from kplan.cli.options import flag, options
from kplan.cli.phases import busy, counted
from kplan.errors import ParameterError, UsageError

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.course.asking import Showing
    from kplan.course.subject import Subject
    from kplan.documents.base import Report
T = TypeVar("T")
R = TypeVar("R", bound="Report")
_MOST = 512
_ADDRESS = re.compile(r"([a-z]+://)?([^\s/:\[\]]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}/?")


def _checked_address(address: str) -> str:
    """Return the address of a Dask scheduler; raises UsageError for what is none, even if the option has no effect."""
    if address and _ADDRESS.fullmatch(address) is None:
        raise UsageError(f"--dask {address}: is no address", hint="write host and port, such as tcp://10.0.0.1:8786")
    return address


@options
class SweepFlags:
    """Options for the workers that answer many questions."""

    panel: ClassVar[str] = "Many questions"

    workers: int | None = flag(
        "--workers N",
        "Number of processes (default: one per core where that is faster).",
        default=None,
        min=1,
        max=_MOST,
    )
    dask: str = flag(
        "--dask ADDRESS", "Scheduler of a Dask cluster, whose workers are used instead.", callback=_checked_address
    )

    def check(self) -> None:
        """Refuse options that contradict each other, and a Dask cluster that does not answer."""
        if self.workers is not None and self.dask:
            raise UsageError("--workers and --dask are two ways to answer", hint="choose one of them")
        if self.dask:
            from kplan.sweeps import check_address

            with _quiet():
                check_address(self.dask)

    def ask_all(
        self,
        base: Base,
        questions: Sequence[Callable[[Base], T]],
        /,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[T]:
        """Return the answers to questions, in order; `progress` is called with the numbers of answers and questions."""
        from kplan.sweeps import ask_all

        with _quiet() if self.dask else nullcontext():
            return ask_all(base, questions, workers=self.workers, dask=self.dask, progress=progress)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what Dask logs about its connections from standard error; what matters of it is in kplan's own error."""
    import logging

    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


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
    return SPELLED.get(parameter) or f"--{parameter.replace('_', '-')}"


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
    """Answer a question as `answered`, write the answer, and end the command with its exit code."""
    document = answered(question, subject, showing, flags, doing=doing, words=words, sweeping=sweeping)
    emit(document, flags.output, flags.verbosity)


def answered(
    question: Asked,
    subject: Subject,
    showing: Showing,
    flags: CommonFlags,
    *,
    doing: str,
    words: str = "",
    sweeping: SweepFlags | None = None,
) -> Report:
    """Return the answer to a question, with the lines of what is at fault in its manifests.

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
    return located(document, subject)


def located(document: R, subject: Subject) -> R:
    """Return an answer with the lines of what is at fault in its manifests."""
    if subject.manifests is None:
        return document
    from kplan.cluster.field_lines import with_lines

    return with_lines(document, subject.manifests)
