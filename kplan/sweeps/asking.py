"""Questions in, answers out, in order; who answers them makes no difference."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kplan.errors import UsageError
from kplan.planner.planner import Planner

T = TypeVar("T")
Question = Callable[[Planner], T]
"""Asks a planner; must be something that can be sent, such as ``operator.methodcaller("place", "shop/web-0")``."""

Progress = Callable[[int, int], None]
"""Told how many questions are answered, and how many there are."""

_TRIED = 1.0
"""Seconds for which questions are asked one by one, to see how long one takes."""

_PAYS = 4.0
"""Seconds that must be left for starting processes to pay."""

MAX_WORKERS = 512


def sweep(
    planner: Planner,
    questions: Sequence[Question[Any]],
    *,
    workers: int | None = None,
    dask: str = "",
    progress: Progress | None = None,
) -> list[Any]:
    """Ask a planner many questions, side by side.

    Parameters
    ----------
    questions : called with the planner: functions of a module, or ``operator.methodcaller("place", "shop/web-0")``
    workers : processes on this machine; None for as many as it has cores, where that pays
    dask : address of the scheduler of a Dask cluster, such as ``tcp://10.0.0.1:8786``, that answers instead
    progress : told how many are answered, and how many there are

    Returns
    -------
    answers : in the order of the questions, as JSON values where an answer has them: the same as one by one

    Raises
    ------
    KplanError
        What the first question that cannot be answered raises, or when workers keep getting lost.
    """
    return ask_all(
        planner, [_AsValues(question) for question in questions], workers=workers, dask=dask, progress=progress
    )


@dataclass(frozen=True, slots=True)
class _AsValues:
    """A question whose answer outlasts the process that gives it."""

    question: Question[Any]

    def __call__(self, planner: Planner) -> Any:
        answer = self.question(planner)
        return answer.to_dict() if hasattr(answer, "to_dict") else answer


def ask_all(
    planner: Planner,
    questions: Sequence[Question[T]],
    *,
    workers: int | None = None,
    dask: str = "",
    progress: Progress | None = None,
) -> list[T]:
    """Ask many questions whose answers can be sent; parameters and errors as for `sweep`."""
    if workers is not None and not 1 <= workers <= MAX_WORKERS:
        raise UsageError(f"{workers} workers", hint=f"choose a number from 1 to {MAX_WORKERS}")
    if dask and workers is not None:
        raise UsageError("workers on this machine and a Dask cluster", hint="choose one of them")
    tell = progress or _in_silence
    if dask:
        from kplan.sweeps.dask import ask_dask

        return ask_dask(planner, questions, dask, tell)
    n_workers = _cores() if workers is None else workers
    alone = [] if workers is not None and n_workers > 1 else _ask_alone(planner, questions, n_workers, tell)
    left = questions[len(alone) :]
    if not left:
        return alone
    from kplan.sweeps.processes import ask_processes

    return [*alone, *ask_processes(planner, left, n_workers, lambda n, _: tell(len(alone) + n, len(questions)))]


def _ask_alone(planner: Planner, questions: Sequence[Question[T]], n_workers: int, tell: Progress) -> list[T]:
    """Ask one question after the other, until processes would pay for those that are left."""
    answers: list[T] = []
    start = time.monotonic()
    for question in questions:
        if n_workers > 1 and _pays(time.monotonic() - start, len(answers), len(questions)):
            break
        answers.append(question(planner))
        tell(len(answers), len(questions))
    return answers


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pays(seconds: float, n_answered: int, n_questions: int) -> bool:
    """Tell whether so much is left that processes are worth their start."""
    return n_answered > 0 and seconds > _TRIED and seconds / n_answered * (n_questions - n_answered) > _PAYS


def _in_silence(_answered: int, _questions: int) -> None:
    pass
