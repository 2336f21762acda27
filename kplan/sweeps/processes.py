"""Questions answered by processes on this machine."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, TypeVar

from kplan.errors import KplanError
from kplan.planner.planner import Planner

T = TypeVar("T")

MAX_LOSSES = 3
"""So often are questions asked again whose worker was lost; then they may well be what ends it."""

_PARTS_A_WORKER = 8
"""More parts than workers, so that none waits long for the slowest."""


def in_parts(items: Sequence[T], n_workers: int) -> list[list[T]]:
    """Split into parts of about the same size, in order."""
    size = max(1, -(-len(items) // (n_workers * _PARTS_A_WORKER)))
    left = iter(items)
    return list(iter(lambda: list(islice(left, size)), []))


_FORK = "fork"
_kept: list[Planner] = []
"""The planner of a worker process."""


def ask_processes(
    planner: Planner, questions: Sequence[Callable[[Planner], T]], n_workers: int, tell: Callable[[int, int], None]
) -> list[T]:
    """Ask all questions; those of a process that is lost are asked again.

    Raises
    ------
    KplanError
        What the first question that cannot be answered raises, or when processes keep getting lost.
    """
    # What is made before they are started is made once, where processes can share it.
    planner.session  # noqa: B018 - kept by the planner
    answers: dict[int, T] = {}
    for _ in range(1 + MAX_LOSSES):
        left = [(index, question) for index, question in enumerate(questions) if index not in answers]
        if not left:
            break
        try:
            _ask(planner, left, n_workers, answers, lambda: tell(len(answers), len(questions)))
        except BrokenProcessPool:
            continue
    if len(answers) < len(questions):
        raise KplanError("processes that answer questions keep getting lost", hint="is there enough memory? try fewer")
    return [answers[index] for index in range(len(questions))]


def _ask(
    planner: Planner,
    questions: Sequence[tuple[int, Callable[[Planner], T]]],
    n_workers: int,
    answers: dict[int, T],
    tell: Callable[[], None],
) -> None:
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context(_FORK if _FORK in methods else None)
    with ProcessPoolExecutor(n_workers, context, initializer=_keep, initargs=(planner,)) as pool:
        futures: dict[Future[list[T]], list[int]] = {}
        try:
            for part in in_parts(questions, n_workers):
                futures[pool.submit(_answer, [question for _, question in part])] = [index for index, _ in part]
            for future in as_completed(futures):
                answers.update(zip(futures[future], future.result(), strict=True))
                tell()
        except KplanError:
            _raise_first(futures)
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _raise_first(futures: dict[Future[Any], list[int]]) -> None:
    """Raise what the first of the questions raises, whichever was noticed first."""
    for future in futures:
        future.result()


def _keep(planner: Planner) -> None:
    _kept[:] = [planner]


def _answer(questions: Sequence[Callable[[Planner], T]]) -> list[T]:
    return [question(_kept[0]) for question in questions]
