"""Answers to many questions, in the order of the questions, whichever workers compute them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any, TypeVar, overload

import msgspec

from kplan.cluster.base import Base
from kplan.course.asking import Asks, Count
from kplan.errors import UsageError

A = TypeVar("A")
T = TypeVar("T")
B = TypeVar("B", bound=Base)
Question = Callable[[B], T]
"""Called with a planner; must be picklable, such as ``operator.methodcaller("place", "shop/web-0")``."""

_TRIAL_SECONDS = 1.0
"""For this long questions are answered one by one, to measure how long one takes."""

_MIN_SECONDS_LEFT = 4.0
"""Processes start only if the remaining questions would take longer than this one by one."""

MAX_WORKERS = 512


@overload
def sweep(
    planner: B,
    questions: Sequence[Asks[A]],
    *,
    workers: int | None = None,
    dask: str = "",
    progress: Count | None = None,
) -> list[A]: ...


@overload
def sweep(
    planner: B,
    questions: Sequence[Question[B, Any] | Asks[Any]],
    *,
    workers: int | None = None,
    dask: str = "",
    progress: Count | None = None,
) -> list[Any]: ...


def sweep(
    planner: B,
    questions: Sequence[Question[B, Any] | Asks[Any]],
    *,
    workers: int | None = None,
    dask: str = "",
    progress: Count | None = None,
) -> list[Any]:
    """Answer many questions to a planner in parallel.

    Parameters
    ----------
    questions : values of `kplan.questions`; or what is called with the planner: functions of a module, or
        ``operator.methodcaller("place", "shop/web-0")``
    workers : number of processes on this machine; None for one per core, where starting them saves time
    dask : address of the scheduler of a Dask cluster, such as ``tcp://10.0.0.1:8786``, whose workers answer instead
    progress : called with the number of answered questions and the number of all

    Returns
    -------
    answers : in the order of the questions, the same as one by one: those of `Planner.ask`; of what is called, as JSON
        values if an answer has them

    Raises
    ------
    KplanError
        The error of the first question without an answer, or an error when workers keep getting lost.
    """
    calls = [_AsValues(one) if callable(one) else methodcaller("ask", one) for one in questions]
    return ask_all(planner, calls, workers=workers, dask=dask, progress=progress)


class _AsValues(msgspec.Struct, frozen=True):
    """A question whose answer is turned into JSON values, which can leave the process."""

    question: Question[Any, Any]

    def __call__(self, planner: Base) -> Any:
        answer = self.question(planner)
        return answer.to_dict() if hasattr(answer, "to_dict") else answer


def ask_all(
    planner: B,
    questions: Sequence[Question[B, T]],
    *,
    workers: int | None = None,
    dask: str = "",
    progress: Count | None = None,
) -> list[T]:
    """Answer many questions whose answers are picklable; parameters and errors as for `sweep`."""
    if workers is not None and not 1 <= workers <= MAX_WORKERS:
        raise UsageError(f"{workers} workers", hint=f"choose a number from 1 to {MAX_WORKERS}")
    if dask and workers is not None:
        raise UsageError("workers on this machine and a Dask cluster", hint="choose one of them")
    report = progress or _ignore_progress
    if dask:
        from kplan.sweeps.dask import ask_dask

        return ask_dask(planner, questions, dask, report)
    n_workers = _cores() if workers is None else workers
    answers = [] if workers is not None and n_workers > 1 else _ask_one_by_one(planner, questions, n_workers, report)
    n_answered, remaining = len(answers), questions[len(answers) :]
    if not remaining:
        return answers
    from kplan.sweeps.processes import ask_processes

    return answers + ask_processes(planner, remaining, n_workers, lambda n, _: report(n_answered + n, len(questions)))


def _ask_one_by_one(planner: B, questions: Sequence[Question[B, T]], n_workers: int, report: Count) -> list[T]:
    """Answer one question after the other, until processes save time for the remaining ones."""
    answers: list[T] = []
    start = time.monotonic()
    for question in questions:
        if n_workers > 1 and _saves_time(time.monotonic() - start, len(answers), len(questions)):
            break
        answers.append(question(planner))
        report(len(answers), len(questions))
    return answers


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _saves_time(seconds: float, n_answered: int, n_questions: int) -> bool:
    if not n_answered or seconds <= _TRIAL_SECONDS:
        return False
    return seconds / n_answered * (n_questions - n_answered) > _MIN_SECONDS_LEFT


def _ignore_progress(_answered: int, _questions: int) -> None:
    pass
