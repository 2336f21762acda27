"""Which pods go first, held against upstream's TestGetPodsToDelete and TestSortingActivePodsWithRanks."""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from kplan.course.simulation.controllers import replica_set
from kplan.course.simulation.controllers.job import youngest_first
from kplan.course.simulation.controllers.observed import ObservedPod, in_map_order
from kplan.course.simulation.controllers.replica_set import to_delete
from tests.course.simulation.controllers.builders import NOW, pod


def first(pods: list[ObservedPod], n: int, related: dict[str, int] | None = None) -> list[str]:
    return [each.name for each in to_delete(pods, n, related or {}, NOW)]


_PAIRS: list[tuple[str, ObservedPod, ObservedPod]] = [
    ("without a node before with one", pod("a"), pod("b", node="n", phase="Pending")),
    ("pending before running", pod("a", node="n", phase="Pending"), pod("b", node="n")),
    ("unknown before running", pod("a", node="n", phase="Unknown"), pod("b", node="n")),
    ("not ready before ready", pod("a", node="n"), pod("b", node="n", ready=True)),
    ("cheap before dear", pod("a", node="n", ready=True, cost=-1), pod("b", node="n", ready=True)),
    ("ready for a short time before ready for long", pod("a", node="n", ready=True, since=NOW - 1),
     pod("b", node="n", ready=True, since=NOW - 1000)),
    ("of about the same age the lower uid", pod("a", node="n", ready=True, since=NOW - 1000, uid="1"),
     pod("b", node="n", ready=True, since=NOW - 1001, uid="2")),
    ("often restarted before seldom", pod("a", node="n", ready=True, restarts=(3, 0)),
     pod("b", node="n", ready=True, restarts=(1, 0))),
    ("sidecars count where the others have restarted alike", pod("a", node="n", restarts=(1, 3)),
     pod("b", node="n", restarts=(1, 1))),
    ("young before old", pod("a", node="n", created=NOW - 1), pod("b", node="n", created=NOW - 1000)),
    ("equal in all: as the controller came to know them", pod("a", node="n"), pod("b", node="n")),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), [row[1:] for row in _PAIRS], ids=[row[0] for row in _PAIRS])
def test_of_two_pods_the_one_goes(one: ObservedPod, other: ObservedPod) -> None:
    assert first([one, other], 1) == first([other, one], 1) == [one.name]


def test_what_is_least_far_on_goes_first() -> None:
    pods = [
        pod("ready-1", node="n1", ready=True),
        pod("ready-2", node="n2", ready=True),
        pod("running", node="n"),
        pod("scheduled", node="n", phase="Pending"),
        pod("pending"),
    ]
    assert first(pods, 3) == ["pending", "scheduled", "running"]


def test_pods_that_do_not_say_when_they_were_created_go_first() -> None:
    assert first([pod("old", node="n"), pod("unknown", node="n", created=0)], 1) == ["unknown"]


def test_jobs_delete_by_plain_ages_without_costs() -> None:
    pods = [
        pod("cheap", node="n", ready=True, since=NOW - 1000, cost=-5),
        pod("younger", node="n", ready=True, since=NOW - 999),
        pod("restarted", node="n", ready=True, since=NOW - 1000, restarts=(3, 0)),
        pod("running", node="n"),
        pod("pending"),
    ]
    assert [each.name for each in youngest_first(pods, 5)] == ["pending", "running", "younger", "restarted", "cheap"]


def test_a_small_map_is_walked_through_from_a_random_place_on_and_a_large_one_anyhow() -> None:
    draws = Random(7)
    starts = Counter(in_map_order("abc", draws)[0] for _ in range(800))
    assert in_map_order("abc", None) == ["a", "b", "c"]
    assert {"".join(in_map_order("abc", draws)) for _ in range(100)} == {"abc", "bca", "cab"}
    assert 550 < starts["a"] < 650  # six of eight places
    assert len({tuple(in_map_order(range(9), draws)) for _ in range(50)}) > 40


def test_pods_of_the_same_second_are_drawn_and_others_never() -> None:
    equal = [pod(name, node=name, ready=True, since=NOW - 10) for name in "abc"]
    young = pod("young", node="d", ready=True, since=NOW - 1)

    def drawn(choose: Callable[[Random], list[ObservedPod]]) -> set[tuple[str, ...]]:
        return {tuple(sorted(one.name for one in choose(Random(seed)))) for seed in range(60)}

    two = {(name, "young") for name in "abc"}
    assert drawn(lambda draws: to_delete([*equal, young], 2, {}, NOW, draws)) == two
    assert drawn(lambda draws: youngest_first([*equal, young], 2, draws)) == two
    assert drawn(lambda draws: to_delete([*equal, young], 1, {}, NOW, draws)) == {("young",)}


def test_a_replica_set_makes_and_deletes_five_hundred_pods_in_one_go() -> None:
    assert len(replica_set.actions(1200, [pod()], {}, NOW)) == 500
    assert len(replica_set.actions(0, [pod() for _ in range(507)], {}, NOW)) == 500
