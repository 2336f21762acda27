"""Questions answered by processes on this machine."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.context import BaseContext
from typing import Any, TypeVar

from kplan.cluster.base import Base
from kplan.errors import KplanError

T = TypeVar("T")

MAX_LOSSES = 3
"""How many times the questions of lost workers are sent again; after that the questions may be the cause."""

_PARTS_PER_WORKER = 8
"""More parts than workers, so that no worker waits long for the slowest."""


def in_parts(items: Sequence[T], n_workers: int) -> list[list[T]]:
    """Split items into parts of about the same size, in order."""
    size = max(1, -(-len(items) // (n_workers * _PARTS_PER_WORKER)))
    remaining = iter(items)
    return list(iter(lambda: list(islice(remaining, size)), []))


_FORK = "fork"
_SIGNALS = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

_planner: list[Base] = []
"""The planner of a worker process."""


def ask_processes(
    planner: Base, questions: Sequence[Callable[[Any], T]], n_workers: int, report: Callable[[int, int], None]
) -> list[T]:
    """Answer all questions; those of a lost process are sent again.

    Raises
    ------
    KplanError
        The error of the first question without an answer, or an error when processes keep getting lost.
    """
    # Built before the fork, so that the processes share it.
    planner.session  # noqa: B018 - a cached property
    answers: dict[int, T] = {}
    for _ in range(1 + MAX_LOSSES):
        remaining = [(index, question) for index, question in enumerate(questions) if index not in answers]
        if not remaining:
            break
        try:
            _ask(planner, remaining, n_workers, answers, lambda: report(len(answers), len(questions)))
        except BrokenProcessPool:
            continue
    if len(answers) < len(questions):
        raise KplanError("processes that answer questions keep getting lost", hint="is there enough memory? try fewer")
    return [answers[index] for index in range(len(questions))]


def _ask(
    planner: Base,
    questions: Sequence[tuple[int, Callable[[Any], T]]],
    n_workers: int,
    answers: dict[int, T],
    report: Callable[[], None],
) -> None:
    with ProcessPoolExecutor(n_workers, start_method(), initializer=_set_planner, initargs=(planner,)) as pool:
        futures: dict[Future[list[T]], list[int]] = {}
        try:
            for part in in_parts(questions, n_workers):
                futures[pool.submit(_answer, [question for _, question in part])] = [index for index, _ in part]
            for future in as_completed(futures):
                answers.update(zip(futures[future], future.result(), strict=True))
                report()
        except KplanError:
            _raise_first(futures)
            raise
        except BaseException:
            # Nobody waits for answers any more: not for those of a process that was sent no signal, either.
            for process in multiprocessing.active_children():
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _raise_first(futures: dict[Future[Any], list[int]]) -> None:
    """Raise the error of the first question that has one, whichever error came first."""
    for future in futures:
        future.result()


def start_method() -> BaseContext:
    """Return how processes start: as forks, which share the planner, where there are forks; else with a copy of it."""
    methods = multiprocessing.get_all_start_methods()
    return multiprocessing.get_context(_FORK if _FORK in methods else None)


def _set_planner(planner: Base) -> None:
    end_without_a_word()
    _planner[:] = [planner]


def end_without_a_word() -> None:
    """Let signals end this process as they end any; whoever asked it says what there is to say."""
    for name in _SIGNALS:
        if callable(signal.getsignal(getattr(signal, name))):
            signal.signal(getattr(signal, name), signal.SIG_DFL)


def _answer(questions: Sequence[Callable[[Any], T]]) -> list[T]:
    return [question(_planner[0]) for question in questions]
