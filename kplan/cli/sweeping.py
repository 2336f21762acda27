"""The options of commands that answer many questions in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, ClassVar, TypeVar

from kplan.cli.options import flag, options
from kplan.errors import UsageError

if TYPE_CHECKING:
    from kplan.cluster.base import Base

T = TypeVar("T")
_MOST = 512


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
    dask: str = flag("--dask ADDRESS", "Scheduler of a Dask cluster, whose workers are used instead.")

    def check(self) -> None:
        """Refuse options that contradict each other."""
        if self.workers is not None and self.dask:
            raise UsageError("--workers and --dask are two ways to answer", hint="choose one of them")

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
