import signal
import threading
import time
from functools import partial

import pytest

from kplan.live.connections import side_by_side


def test_results_come_as_they_are_ready() -> None:
    first_may_end = threading.Event()

    def slow() -> str:
        first_may_end.wait(5)
        return "slow"

    results = side_by_side([slow, lambda: "quick"], 2)

    assert next(results) == "quick"
    first_may_end.set()
    assert list(results) == ["slow"]


def test_no_more_threads_run_than_asked_for() -> None:
    def task() -> int:
        time.sleep(0.01)
        return threading.get_ident()

    assert len(set(side_by_side([task] * 10, 3))) <= 3


def test_the_first_error_is_raised_and_what_has_not_begun_is_dropped() -> None:
    done: list[int] = []

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        list(side_by_side([fail, *(partial(done.append, index) for index in range(1000))], 1))

    assert done == []


def test_leaving_early_waits_for_nobody() -> None:
    never = threading.Event()
    results = side_by_side([lambda: 1, never.wait], 2)
    assert next(results) == 1
    results.close()
    never.set()
    assert list(side_by_side([], 4)) == []


def test_a_signal_that_another_thread_gets_ends_the_waiting() -> None:
    """The system chooses the thread, and a lock on which the main one waits is woken by its own signals only."""

    class InterruptedWaitError(Exception):
        pass

    def interrupt(_number: int, _frame: object) -> None:
        raise InterruptedWaitError

    def signal_itself() -> None:
        time.sleep(0.2)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    released, ended = threading.Event(), threading.Event()

    def answer() -> None:
        released.wait(5)
        ended.set()

    before = signal.signal(signal.SIGUSR1, interrupt)
    threading.Thread(target=signal_itself).start()
    try:
        with pytest.raises(InterruptedWaitError):
            list(side_by_side([answer], 1))
        assert not ended.is_set()
    finally:
        signal.signal(signal.SIGUSR1, before)
        released.set()
