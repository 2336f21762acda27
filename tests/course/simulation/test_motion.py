"""Circles in which things go are noticed, times are stamped, and what is over is let go."""

import weakref

import pytest
from msgspec.structs import replace

from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.motion import Circles
from kplan.course.simulation.objects import stamp
from kplan.course.simulation.timers import Timers
from tests.objects import node, planner_of, pod

POD = ObservedPod(1, "default", "p", "uid", "n1", "Running", 0.0, 0.0)


@pytest.mark.parametrize(("waits", "seconds", "closed"), [(False, 1, True), (True, 1, False), (True, 0, True)])
def test_a_state_that_comes_back_too_often_closes_a_circle(waits: bool, seconds: int, closed: bool) -> None:
    """Unless something else that was to come from the beginning still is, and time passes until then."""
    circles, timers = Circles(), Timers()
    timers.post(9.0, lambda: None, is_idle=not waits)
    circles.note(POD, 1)

    seen = []
    for turn in range(3):
        circles.note(POD, -1)
        circles.note(replace(POD, node="n2"), 1)
        seen.append(circles.is_closed(turn * seconds, timers))
        circles.note(replace(POD, node="n2"), -1)
        circles.note(POD, 1)

    assert seen == [False, False, closed]


def test_a_sum_of_fractions_of_a_second_that_is_almost_whole_is_stamped_as_whole() -> None:
    assert (stamp(1764380002.9999998), stamp(1764380002.6)) == ("2025-11-29T01:33:23Z", "2025-11-29T01:33:22Z")


def test_what_a_simulation_lets_go_of_is_free_at_once() -> None:
    simulation = planner_of(node("n0"), pod("a", "n0")).drain(["n0"]).simulation
    parts = [weakref.ref(part) for part in (simulation.life, simulation.kubelets, simulation.scheduler)]
    simulation.let_go()
    assert [part() for part in parts] == [None, None, None]
