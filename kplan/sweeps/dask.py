"""Questions answered by a Dask cluster.

The planner is sent once, to all workers, and each worker builds the session when its first question comes. A worker
answers one question at a time, because a planner is not safe for threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from threading import Lock
from typing import Any, TypeVar

from kplan.cluster.base import Base
from kplan.errors import KplanError, UsageError
from kplan.sweeps.processes import MAX_LOSSES, in_parts

T = TypeVar("T")

_CONNECT_SECONDS = 20
"""How long the cluster may take to accept the connection."""

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


def ask_dask(
    planner: Base, questions: Sequence[Callable[[Any], T]], address: str, report: Callable[[int, int], None]
) -> list[T]:
    """Answer all questions; those of a lost worker are sent again.

    Raises
    ------
    UsageError
        When Dask is not installed, the cluster cannot be reached, or runs another version of kplan.
    KplanError
        The error of a question without an answer, or an error when workers keep getting lost, or the scheduler.
    """
    answers: dict[int, T] = {}
    loss: OSError | None = None
    with _connected(address) as client:
        for _ in range(1 + MAX_LOSSES):
            remaining = [(index, question) for index, question in enumerate(questions) if index not in answers]
            if not remaining:
                break
            if client.status != _RUNNING:
                loss = loss or OSError("the connection to its scheduler is lost")
                break
            try:
                _check_versions(client)
                _ask(client, planner, remaining, answers, lambda: report(len(answers), len(questions)))
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


def _ask(
    client: Any,
    planner: Base,
    questions: Sequence[tuple[int, Callable[[Any], T]]],
    answers: dict[int, T],
    report: Callable[[], None],
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


def _answer(planner: Base, questions: Sequence[Callable[[Any], T]], version: str) -> list[T]:
    if version != _version():  # the worker has joined after the check of all versions
        message = f"a Dask worker has kplan {_version()}, and its client has {version}"
        raise UsageError(message, hint="install the same version on both sides")
    with _planner_lock:
        return [question(planner) for question in questions]
