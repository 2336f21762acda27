"""Questions answered by a Dask cluster.

The planner is sent once, to all workers, and each makes its session when it is first asked. A worker answers one
question at a time, since a planner is not made for threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from threading import Lock
from typing import Any, TypeVar

from kplan.errors import KplanError, UsageError
from kplan.planner.planner import Planner
from kplan.sweeps.processes import MAX_LOSSES, in_parts

T = TypeVar("T")

_CONNECTS = 20
"""Seconds that the cluster has to answer."""

_one_at_a_time = Lock()


def _version() -> str:
    # By name, for the package itself offers sweeps: each would import the other.
    version: str = import_module("kplan").__version__
    return version


def ask_dask(
    planner: Planner, questions: Sequence[Callable[[Planner], T]], address: str, tell: Callable[[int, int], None]
) -> list[T]:
    """Ask all questions; those of a worker that is lost are asked again.

    Raises
    ------
    UsageError
        When Dask is not installed, the cluster cannot be reached, or runs another version of kplan.
    KplanError
        What a question that cannot be answered raises, or when workers keep getting lost.
    """
    try:
        from distributed import Client
    except ImportError:
        raise UsageError("Dask is not installed", hint="pip install 'kplan[dask]'") from None
    try:
        client = Client(address, timeout=_CONNECTS, set_as_default=False)  # type: ignore[no-untyped-call] # Dask says nothing about its types
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"no Dask cluster at {address}: {error}", hint="such as tcp://10.0.0.1:8786") from None
    with client:
        _check_versions(client)
        answers: dict[int, T] = {}
        for _ in range(1 + MAX_LOSSES):
            left = [(index, question) for index, question in enumerate(questions) if index not in answers]
            if not left:
                break
            _ask(client, planner, left, answers, lambda: tell(len(answers), len(questions)))
    if len(answers) < len(questions):
        raise KplanError("workers of the Dask cluster keep getting lost", hint="do they have enough memory?")
    return [answers[index] for index in range(len(questions))]


def _check_versions(client: Any) -> None:
    """Refuse a cluster without workers, and workers that would answer otherwise."""
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
    planner: Planner,
    questions: Sequence[tuple[int, Callable[[Planner], T]]],
    answers: dict[int, T],
    tell: Callable[[], None],
) -> None:
    """Ask questions; what is lost together with all workers that knew the planner is left for another time."""
    from concurrent.futures import CancelledError

    from distributed import as_completed
    from distributed.scheduler import KilledWorker

    sent = client.scatter(planner, broadcast=True, hash=False)
    futures: dict[Any, list[int]] = {}
    for part in in_parts(questions, max(1, len(client.scheduler_info(n_workers=-1)["workers"]))):
        asked = client.submit(_answer, sent, [question for _, question in part], _version(), pure=False)
        futures[asked] = [index for index, _ in part]
    failed: dict[int, BaseException] = {}
    for future in as_completed(futures, loop=client.loop):  # type: ignore[no-untyped-call] # as above
        try:
            answers.update(zip(futures[future], future.result(), strict=True))
        except (CancelledError, KilledWorker):
            continue
        except KplanError as error:
            failed[futures[future][0]] = error
        tell()
    if failed:
        raise failed[min(failed)]


def _answer(planner: Planner, questions: Sequence[Callable[[Planner], T]], version: str) -> list[T]:
    if version != _version():  # a worker that has joined since
        raise UsageError(f"a Dask worker has kplan {_version()}, asked by {version}", hint="install the same version")
    with _one_at_a_time:
        return [question(planner) for question in questions]
