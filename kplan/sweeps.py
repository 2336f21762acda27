"""Many questions about one cluster in parallel, with the answers in the order of the questions.

They are answered by processes on this machine, or by a Dask cluster. To that the planner is sent once, to all workers,
and each worker builds the session when its first question comes. A worker answers one question at a time, because a
planner is not safe for threads.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import islice
from operator import methodcaller
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, overload

import msgspec

from kplan.cluster.base import Base
from kplan.course.asking import Asks, Notify
from kplan.errors import KplanError, UsageError
from kplan.reading.arguments import checked_by, listed

if TYPE_CHECKING:
    from concurrent.futures import Future
    from multiprocessing.context import BaseContext

A = TypeVar("A")
T = TypeVar("T")
B = TypeVar("B", bound=Base)
Question = Callable[[B], T]
"""Called with a planner; must be picklable, such as ``operator.methodcaller("place", "shop/web-0")``."""

_TRIAL_SECONDS = 1.0  #: for this long questions are answered one by one, to measure how long one takes
_MIN_SECONDS_LEFT = 4.0  #: processes start only if the remaining questions would take longer than this one by one
MAX_WORKERS = 512  #: more processes than any machine has cores are a mistake


@overload
def sweep(
    planner: B,
    questions: Sequence[Asks[A]],
    *,
    workers: int | None = None,
    dask: str = "",
    progress: Notify | None = None,
) -> list[A]: ...


@overload
def sweep(
    planner: B,
    questions: Sequence[Question[B, Any] | Asks[Any]],
    *,
    workers: int | None = None,
    dask: str = "",
    progress: Notify | None = None,
) -> list[Any]: ...


def sweep(
    planner: B,
    questions: Sequence[Question[B, Any] | Asks[Any]],
    *,
    workers: int | None = None,
    dask: str = "",
    progress: Notify | None = None,
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
    if not isinstance(planner, Base):
        raise UsageError(f"sweep: {type(planner).__name__} is no planner", hint="make one: kplan.Planner(snapshot)")
    calls = [_AsValues(one) if callable(one) else methodcaller("ask", one) for one in listed(questions)]
    return ask_all(planner, calls, workers=workers, dask=dask, progress=progress)


class _AsValues(msgspec.Struct, frozen=True):
    """A question whose answer is turned into JSON values, which can leave the process."""

    question: Question[Any, Any]

    def __call__(self, planner: Base) -> Any:
        answer = self.question(planner)
        return answer.to_dict() if hasattr(answer, "to_dict") else answer


class _Parameters(msgspec.Struct, frozen=True):
    workers: Annotated[int, msgspec.Meta(ge=1, le=MAX_WORKERS)] | None = None
    dask: str = ""
    progress: Callable[..., Any] | None = None


@checked_by(_Parameters, "sweep")
def ask_all(
    planner: B,
    questions: Sequence[Question[B, T]],
    *,
    workers: int | None = None,
    dask: str = "",
    progress: Notify | None = None,
) -> list[T]:
    """Answer many questions whose answers are picklable; parameters and errors as for `sweep`."""
    if dask and workers is not None:
        raise UsageError("workers on this machine and a Dask cluster", hint="choose one of them")
    report: Notify = progress or (lambda *_: None)
    if dask:
        return _ask_dask(planner, questions, dask, report)
    n_workers = workers or _cores()
    answers = [] if workers is not None and n_workers > 1 else _ask_one_by_one(planner, questions, n_workers, report)
    n_answered, remaining = len(answers), questions[len(answers) :]
    if not remaining:
        return answers
    return answers + _ask_processes(planner, remaining, n_workers, lambda n, _: report(n_answered + n, len(questions)))


def _ask_one_by_one(planner: B, questions: Sequence[Question[B, T]], n_workers: int, report: Notify) -> list[T]:
    """Answer one question after the other, until processes save time for the remaining ones."""
    answers: list[T] = []
    start = time.monotonic()
    for question in questions:
        seconds, n_left = time.monotonic() - start, len(questions) - len(answers)
        takes_long = answers and seconds > _TRIAL_SECONDS and seconds / len(answers) * n_left > _MIN_SECONDS_LEFT
        if n_workers > 1 and takes_long:
            break
        answers.append(question(planner))
        report(len(answers), len(questions))
    return answers


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


MAX_LOSSES = 3
"""How many times the questions of lost workers are sent again; after that the questions may be the cause."""

_PARTS_PER_WORKER = 8  #: more parts than workers, so that no worker waits long for the slowest


def in_parts(items: Sequence[T], n_workers: int) -> list[list[T]]:
    """Split items into parts of about the same size, in order."""
    size = max(1, -(-len(items) // (n_workers * _PARTS_PER_WORKER)))
    remaining = iter(items)
    return list(iter(lambda: list(islice(remaining, size)), []))


_FORK = "fork"
_SIGNALS = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_planner: list[Base] = []  #: the planner of a worker process


Questions = Sequence[Callable[[Any], T]]
Asked = Sequence[tuple[int, Callable[[Any], T]]]  #: questions with their numbers


def _ask_processes(planner: Base, questions: Questions[T], n_workers: int, report: Notify) -> list[T]:
    """Answer all, those of lost processes again; raises the first KplanError, or one after many losses."""
    from concurrent.futures.process import BrokenProcessPool

    # Built before the fork, so that the processes share it.
    planner.session  # noqa: B018 - a cached property
    answers: dict[int, T] = {}
    for remaining in _rounds(questions, answers):
        with suppress(BrokenProcessPool):
            _ask_pool(planner, remaining, n_workers, answers, lambda: report(len(answers), len(questions)))
    if len(answers) < len(questions):
        raise KplanError("processes that answer questions keep getting lost", hint="is there enough memory? try fewer")
    return [answers[index] for index in range(len(questions))]


def _rounds(questions: Questions[T], answers: Mapping[int, T]) -> Iterator[Asked[T]]:
    """Yield the questions without an answer, again and again, a few times."""
    for _ in range(1 + MAX_LOSSES):
        remaining = [(index, question) for index, question in enumerate(questions) if index not in answers]
        if not remaining:
            return
        yield remaining


def _ask_pool(
    planner: Base, questions: Asked[T], n_workers: int, answers: dict[int, T], report: Callable[[], None]
) -> None:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    with ProcessPoolExecutor(n_workers, start_method(), initializer=_set_planner, initargs=(planner,)) as pool:
        futures: dict[Future[list[T]], list[int]] = {}
        try:
            for part in in_parts(questions, n_workers):
                futures[pool.submit(_answer_here, [question for _, question in part])] = [index for index, _ in part]
            for future in as_completed(futures):
                answers.update(zip(futures[future], future.result(), strict=True))
                report()
        except KplanError:
            for future in futures:  # the error of the first question that has one, whichever error came first
                future.result()
            raise
        except BaseException:
            # Nobody waits for answers any more: not for those of a process that was sent no signal, either.
            for process in multiprocessing.active_children():
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def start_method() -> BaseContext:
    """Return how processes start: as forks, which share the planner, where there are forks; else with a copy of it."""
    import multiprocessing

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


def _answer_here(questions: Questions[T]) -> list[T]:
    return [question(_planner[0]) for question in questions]


_CONNECT_SECONDS = 20  #: how long the cluster may take to accept the connection

_RESTART_SECONDS = 10
"""How long a cluster may be without a worker, as when another one takes the place of the last that was lost."""

_RUNNING = "running"
_planner_lock = Lock()


def _version() -> str:
    # By name, because the package itself offers sweeps: the two modules would import each other.
    version: str = import_module("kplan").__version__
    return version


def check_address(address: str) -> None:
    """Raise UsageError as `ask_dask` does, before there are questions."""
    with _connected(address) as client:
        _check_versions(client)


def _ask_dask(planner: Base, questions: Questions[T], address: str, report: Notify) -> list[T]:
    """Answer all questions; those of a lost worker are sent again.

    Raises UsageError when Dask is not installed, the cluster cannot be reached, or runs another version of kplan; the
    KplanError of a question without an answer, or one when workers keep getting lost, or the scheduler.
    """
    answers: dict[int, T] = {}
    loss: OSError | None = None
    with _connected(address) as client:
        for remaining in _rounds(questions, answers):
            if client.status != _RUNNING:
                loss = loss or OSError("the connection to its scheduler is lost")
                break
            try:
                _check_versions(client)
                _ask_workers(client, planner, remaining, answers, lambda: report(len(answers), len(questions)))
            except OSError as error:
                # The other end of a connection is gone: that of a worker that was being set up, or of the scheduler.
                loss = error
    if len(answers) < len(questions):
        if loss is not None:
            hint = "does its scheduler still run? --workers N answers on this machine"
            raise KplanError(f"the Dask cluster at {address} is gone: {loss}", hint=hint)
        raise KplanError("workers of the Dask cluster keep getting lost", hint="do they have enough memory?")
    return [answers[index] for index in range(len(questions))]


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError:
        raise UsageError("Dask is not installed", hint="pip install 'kplan[dask]'") from None
    try:
        client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call] # Dask says nothing about its types
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"no Dask cluster at {address}: {error}", hint="such as tcp://10.0.0.1:8786") from None
    with client:
        yield client


def _check_versions(client: Any) -> None:
    """Refuse a cluster without workers, and workers with another version of kplan.

    A worker that is lost meanwhile is passed over, and one that takes its place is waited for.
    """
    versions: dict[str, str] = {}
    for _ in range(1 + MAX_LOSSES):
        try:
            client.wait_for_workers(1, timeout=_RESTART_SECONDS)
        except TimeoutError:
            break
        results: dict[str, str | Exception] = client.run(_version, on_error="return")
        for result in results.values():
            if isinstance(result, Exception) and not isinstance(result, OSError):
                hint = f"install kplan {_version()}"
                raise UsageError(f"the Dask workers cannot run kplan: {result}", hint=hint)
        versions = {worker: result for worker, result in results.items() if isinstance(result, str)}
        if versions:
            break
    if not versions:
        raise UsageError("the Dask cluster has no workers", hint="start some: dask worker ADDRESS --nthreads 1")
    others = {worker: version for worker, version in versions.items() if version != _version()}
    if others:
        worker, version = next(iter(others.items()))
        message = f"the Dask worker {worker} has kplan {version}, here it is {_version()}"
        raise UsageError(message, hint="install the same version on both sides")


def _ask_workers(
    client: Any, planner: Base, questions: Asked[T], answers: dict[int, T], report: Callable[[], None]
) -> None:
    """Answer questions; those that are lost together with their workers are left for the next round."""
    from concurrent.futures import CancelledError

    from distributed import as_completed
    from distributed.scheduler import KilledWorker

    sent = client.scatter(planner, broadcast=True, hash=False)
    futures: dict[Any, list[int]] = {}
    for part in in_parts(questions, max(1, len(client.scheduler_info(n_workers=-1)["workers"]))):
        future = client.submit(_answer, sent, [question for _, question in part], _version(), pure=False)
        futures[future] = [index for index, _ in part]
    failed: dict[int, BaseException] = {}
    for future in as_completed(futures, loop=client.loop):  # type: ignore[no-untyped-call] # as above
        try:
            answers.update(zip(futures[future], future.result(), strict=True))
        except (CancelledError, KilledWorker):
            continue
        except KplanError as error:
            failed[futures[future][0]] = error
        report()
    if failed:
        raise failed[min(failed)]


def _answer(planner: Base, questions: Questions[T], version: str) -> list[T]:
    if version != _version():  # the worker has joined after the check of all versions
        message = f"a Dask worker has kplan {_version()}, and its client has {version}"
        raise UsageError(message, hint="install the same version on both sides")
    with _planner_lock:
        return [question(planner) for question in questions]
