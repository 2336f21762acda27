"""Calls side by side, each in a process of its own.

A call that takes long blocks no other one, and one that nobody waits for ends: only a process can be ended wherever it
is. The processes are started by one that has the prepared cluster and nothing else, so that they share it as forks.
Where there are no forks, each gets a copy of the cluster, and prepares it anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
import sysconfig
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from importlib.machinery import all_suffixes
from itertools import count
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

import anyio

import kplan
from kplan.catalogue import TOOLS, VIEWS
from kplan.cluster.base import Base
from kplan.course.beginning import unmoved
from kplan.errors import KplanError, UsageError
from kplan.mcp.tools import ToolAnswer, call, refusal, type_of
from kplan.report.registry import view_of
from kplan.sweeps import end_without_a_word, start_method

MOST_AT_ONCE = 16  #: calls that are answered at the same time; others wait for their turn

_SMALLER_HINT = "ask about fewer pods or nodes"


class ToolCall(NamedTuple):
    """A call on its way; without arguments it is one that nobody waits for any more."""

    number: int
    name: str = ""
    arguments: Mapping[str, Any] | None = None


class Calls:
    """Answers calls about one cluster; `seconds`: after which a call ends without an answer."""

    def __init__(self, base: Base, seconds: float) -> None:
        self._seconds = seconds
        self._numbers = count(1)
        self._waiting: dict[int, Future[ToolAnswer]] = {}
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)
        self._sending = threading.Lock()
        context: Any = start_method()
        self._connection, theirs = context.Pipe()
        other_end = self._connection if context.get_start_method() == "fork" else None
        # Forked before this process has any thread, which a fork would not have.
        self._starter: BaseProcess = context.Process(target=_start_calls, args=(base, theirs, other_end))
        self._starter.start()
        theirs.close()
        threading.Thread(target=self._take_answers, daemon=True).start()

    async def answer(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Return the answer of a tool; cancelled, end its process."""
        async with self._turns:
            request = ToolCall(next(self._numbers), name, arguments)
            future: Future[ToolAnswer] = Future()
            future.set_running_or_notify_cancel()  # from now on it is ended by an answer only
            self._waiting[request.number] = future
            try:
                with anyio.fail_after(self._seconds):
                    await anyio.to_thread.run_sync(self._send, request)
                    return await asyncio.wrap_future(future)
            except TimeoutError:
                message = f"no answer within {self._seconds:g} s"
                hint = f"{_SMALLER_HINT}, or start kplan mcp with a larger --timeout"
                return refusal(KplanError(message, hint=hint))
            except (OSError, EOFError):
                return _lost()
            finally:
                if self._waiting.pop(request.number, None) is not None:
                    with contextlib.suppress(OSError):
                        self._send(ToolCall(request.number))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._send(None)
        self._starter.join()

    def _send(self, request: ToolCall | None) -> None:
        with self._sending:
            self._connection.send(request)

    def _take_answers(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                number, answer = self._connection.recv()
                if (future := self._waiting.pop(number, None)) is not None:
                    future.set_result(answer)
        for number in list(self._waiting):
            if (future := self._waiting.pop(number, None)) is not None:
                future.set_result(_lost())


def _lost() -> ToolAnswer:
    hint = f"is there enough memory? {_SMALLER_HINT}; if it happens again, start kplan mcp anew"
    return refusal(KplanError("the process of this call is gone", hint=hint))


class _Running(NamedTuple):
    number: int
    process: BaseProcess


def _start_calls(base: Base, requests: Any, other_end: Any) -> None:
    """Start a process for each call, and pass its answer on, until nobody asks any more."""
    if other_end is not None:
        other_end.close()
    end_without_a_word()
    # What is printed by mistake must not get between the messages.
    with contextlib.suppress(OSError):
        os.dup2(2, 1)
    _prepare(base)
    running: dict[Any, _Running] = {}
    while True:
        ready: Any
        for ready in wait([requests, *running]):
            if ready is not requests:
                _pass_on(ready, running.pop(ready), requests)
                continue
            try:
                request: ToolCall | None = requests.recv()
            except (OSError, EOFError):
                request = None
            if request is None:
                for one in running.values():
                    one.process.kill()
                return
            if request.arguments is not None:
                _start(base, request, running, requests)
                continue
            for connection in [end for end, one in running.items() if one.number == request.number]:
                running[connection].process.kill()
                running.pop(connection).process.join()
                connection.close()


def _prepare(base: Base) -> None:
    """Compute and load what all calls need, so that their processes share it."""
    for kind in TOOLS.values():
        type_of(kind)
    for kind in VIEWS:
        view_of(kind)
    with contextlib.suppress(KplanError):  # those that need it say what is wrong
        unmoved(base)
    gc.freeze()


def _start(base: Base, request: ToolCall, running: dict[Any, _Running], requests: Any) -> None:
    context: Any = start_method()
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(base, request.name, request.arguments, theirs), daemon=True)
    try:
        process.start()
    except OSError as error:
        ours.close()
        message = f"no process can be started: {error.strerror}"
        requests.send((request.number, refusal(KplanError(message, hint="ask again later"))))
    else:
        running[ours] = _Running(request.number, process)
    theirs.close()


def _pass_on(connection: Any, ended: _Running, requests: Any) -> None:
    try:
        answer = connection.recv()
    except (OSError, EOFError):
        answer = _lost()
    connection.close()
    ended.process.join()
    with contextlib.suppress(OSError):
        requests.send((ended.number, answer))


def _answer(base: Base, name: str, arguments: Mapping[str, Any], answers: Any) -> None:
    end_without_a_word()
    sys.dont_write_bytecode = True
    sys.addaudithook(_open_nothing)
    answers.send(call(base, name, arguments))


_PATHS = ("stdlib", "platstdlib", "purelib", "platlib")
_OWN = tuple(f"{folder}{os.sep}" for folder in (*kplan.__path__, *map(sysconfig.get_paths().get, _PATHS)))
_MODULES = tuple(all_suffixes())
_LOOKING = ("open", "os.listdir", "os.scandir")
_RUNNING = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")


def _open_nothing(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse to open any file but those of which this program and its libraries are made.

    No question for agents names a file; if one did after all, it would end here.
    """
    if event in _RUNNING or (event in _LOOKING and not _is_own(arguments[0])):
        raise UsageError("nothing is opened or run for an agent")


def _is_own(source: Any) -> bool:
    if not isinstance(source, str | bytes | os.PathLike):
        return isinstance(source, int)  # open already
    path = os.path.abspath(os.fsdecode(source))  # noqa: PTH100 - as Python makes a path of it
    return path.startswith(_OWN) or path.endswith(_MODULES)
