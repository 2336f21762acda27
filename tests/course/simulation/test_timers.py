"""What is to happen later in a simulation."""

from functools import partial
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kplan.course.simulation.timers import Timers


def _run(timers: Timers, end: float = 100.0) -> list[float]:
    """Let everything happen, and return when."""
    times = []
    while (due := timers.pop(end)) is not None:
        at, act = due
        times.append(at)
        act()
    return times


@given(st.lists(st.floats(0, 100)))
def test_what_is_due_first_comes_first_and_of_equals_what_was_posted_first(times: list[float]) -> None:
    timers, done = Timers(), []
    for number, at in enumerate(times):
        timers.post(at, partial(done.append, number))
    assert _run(timers) == sorted(times)
    assert done == sorted(range(len(times)), key=lambda number: (times[number], number))


def _drawn_order(seed: int) -> str:
    timers, done, draws = Timers(), [], Random(seed)
    for name in "abc":
        timers.post(1.0, partial(done.append, name))
    while (due := timers.pop(1.0, draws)) is not None:
        due[1]()
    return "".join(done)


def test_what_is_due_at_once_comes_in_any_order_where_chance_decides() -> None:
    orders = {_drawn_order(seed) for seed in range(20)}
    assert len(orders) > 3
