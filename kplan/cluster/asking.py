"""Many questions about one cluster, answered one after the other or in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from kplan.cluster.base import Base

T = TypeVar("T")

Count = Callable[[int, int], None]
"""Called with the number of answered questions (or runs), and the number of all."""


class AskAll(Protocol):
    """Answers questions in parallel, such as `kplan.sweeps.ask_all`."""

    def __call__(
        self, base: Base, questions: Sequence[Callable[[Base], T]], /, *, progress: Count | None = None
    ) -> Iterable[T]:
        """Return the answers in the order of the questions, which must be picklable."""


def answers(
    base: Base,
    questions: Sequence[Callable[[Base], T]],
    ask_all: AskAll | None,
    *,
    progress: Count | None = None,
) -> list[T]:
    """Return the answers to questions, in order.

    Parameters
    ----------
    ask_all : answers them in parallel; None for one after the other
    progress : called while they are answered
    """
    if ask_all is not None:
        return list(ask_all(base, questions, progress=progress))
    ready: list[T] = []
    for question in questions:
        ready.append(question(base))
        if progress is not None:
            progress(len(ready), len(questions))
    return ready
