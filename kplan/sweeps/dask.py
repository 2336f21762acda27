"""Questions answered by a Dask cluster.

The planner is sent once, to all workers, and each worker builds the session when its first question comes. A worker
answers one question at a time, because a planner is not safe for threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from threading import Lock
from typing import Any, TypeVar

from kplan.cluster.base import Base
from kplan.errors import KplanError, UsageError
from kplan.sweeps.processes import MAX_LOSSES, in_parts

T = TypeVar("T")

_CONNECT_SECONDS = 20
"""How long the cluster may take to accept the connection."""

_planner_lock = Lock()


def _version() -> str:
    # By name, because the package itself offers sweeps: the two modules would import each other.
    version: str = import_module("kplan").__version__
    return version


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
    client = _connected(address)
    answers: dict[int, T] = {}
    try:
        with client:
            _check_versions(client)
            for _ in range(1 + MAX_LOSSES):
                remaining = [(index, question) for index, question in enumerate(questions) if index not in answers]
                if not remaining:
                    break
                _ask(client, planner, remaining, answers, lambda: report(len(answers), len(questions)))
    except OSError as error:
        # What the connection raises when its other end is gone, and Dask has waited for it to come back.
        if len(answers) < len(questions):
            hint = "does its scheduler still run? --workers N answers on this machine"
            raise KplanError(f"the Dask cluster at {address} is gone: {error}", hint=hint) from None
    if len(answers) < len(questions):
        raise KplanError("workers of the Dask cluster keep getting lost", hint="do they have enough memory?")
    return [answers[index] for index in range(len(questions))]


def check_address(address: str) -> None:
    """Raise UsageError where Dask is not installed, or no cluster answers at an address."""
    _connected(address).close()


def _connected(address: str) -> Any:
    """Return a client of a cluster; raises UsageError as `check_address`."""
    try:
        from distributed import Client
    except ImportError:
        raise UsageError("Dask is not installed", hint="pip install 'kplan[dask]'") from None
    try:
        return Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call] # Dask says nothing about its types
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"no Dask cluster at {address}: {error}", hint="such as tcp://10.0.0.1:8786") from None


def _check_versions(client: Any) -> None:
    """Refuse a cluster without workers, and workers with another version of kplan."""
    try:
        versions: dict[str, str] = client.run(_version)
    except Exception as error:  # noqa: BLE001 - whatever a worker without kplan raises
        raise UsageError(f"the Dask workers cannot run kplan: {error}", hint=f"install kplan {_version()}") from None
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
