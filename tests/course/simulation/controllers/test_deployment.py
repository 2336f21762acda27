"""The deployment controller, held against the cases of upstream's own tests.

Upstream: pkg/controller/deployment/rolling_test.go, sync_test.go, recreate_test.go, util/deployment_util_test.go.
"""

import pytest

from kplan.api.workloads import RECREATE
from kplan.course.simulation.controllers.deployment import ObservedReplicaSet, Scale, WantedDeployment, actions
from tests.course.simulation.controllers.builders import replica_set


def sizes(found: list[Scale]) -> dict[str | None, int]:
    return {each.name: each.replicas for each in found}


@pytest.mark.parametrize(
    ("surge", "old", "new", "expected"),
    [(0, 10, 0, None), (2, 10, 0, 2), (2, 5, 0, 7), (2, 10, 2, None), (2, 2, 11, 10)],
)
def test_the_new_set_grows_as_far_as_the_surge_allows(surge: int, old: int, new: int, expected: int | None) -> None:
    wanted = WantedDeployment(10, max_surge=surge, max_unavailable=0 if surge else 1)
    # Nothing of the old set is available, so that shrinking it is not what comes first.
    found = actions(wanted, [replica_set("new", new, 0, new=True, age=1), replica_set("old", old, old)])
    assert sizes(found).get("new") == expected


@pytest.mark.parametrize(
    ("unavailable", "old", "new", "old_ready", "new_ready", "expected"),
    [(0, 10, 0, 10, 0, 9), (2, 10, 0, 10, 0, 8), (2, 10, 0, 8, 0, 8), (2, 10, 0, 9, 0, 8), (2, 8, 2, 8, 0, None)],
    ids=[
        "both fenceposts at nought mean one",
        "two may be missing",
        "unhealthy ones go first",
        "one unhealthy and one ready go",
        "new ones that are not ready count as missing",
    ],
)
def test_old_sets_shrink_as_far_as_enough_stays_available(
    unavailable: int, old: int, new: int, old_ready: int, new_ready: int, expected: int | None
) -> None:
    wanted = WantedDeployment(10, max_surge=0, max_unavailable=unavailable)
    sets = [replica_set("old", old, old_ready), replica_set("new", new, new_ready, new=True, age=1)]
    assert sizes(actions(wanted, sets)).get("old") == expected


_SCALES: list[tuple[str, int, int, list[tuple[str, int]], dict[str, int]]] = [
    ("10 -> 12", 10, 12, [("v1", 10)], {"v1": 12}),
    ("10 -> 5", 10, 5, [("v1", 10)], {"v1": 5}),
    ("5 -> 10", 5, 10, [("v1", 3), ("v2", 2)], {"v1": 6, "v2": 4}),
    ("5 -> 3", 5, 3, [("v1", 3), ("v2", 2)], {"v1": 2, "v2": 1}),
    ("9 -> 4", 9, 4, [("v1", 1), ("v2", 8)], {"v1": 0, "v2": 4}),
    ("7 -> 10", 7, 10, [("v1", 2), ("v2", 3), ("v3", 2)], {"v1": 3, "v2": 4, "v3": 3}),
    ("13 -> 8", 13, 8, [("v1", 3), ("v2", 8), ("v3", 2)], {"v1": 2, "v2": 5, "v3": 1}),
    ("leftover 3 -> 4", 3, 4, [("v1", 1), ("v2", 1), ("v3", 1)], {"v1": 1, "v2": 1, "v3": 2}),
    ("leftover 3 -> 2", 3, 2, [("v1", 1), ("v2", 1), ("v3", 1)], {"v1": 0, "v2": 1, "v3": 1}),
    ("6 -> 0", 6, 0, [("v1", 1), ("v2", 2), ("v3", 3)], {"v1": 0, "v2": 0, "v3": 0}),
]


def _after(sets: list[ObservedReplicaSet], found: list[Scale]) -> dict[str, int]:
    return {each.name: each.replicas for each in sets} | {str(each.name): each.replicas for each in found}


@pytest.mark.parametrize(
    ("before", "after", "have", "expected"), [row[1:] for row in _SCALES], ids=[r[0] for r in _SCALES]
)
def test_scaling_keeps_the_proportions_of_a_rollout(
    before: int, after: int, have: list[tuple[str, int]], expected: dict[str, int]
) -> None:
    sets = [
        replica_set(name, n, age=age, new=age == len(have) - 1, desired=before, most=before)
        for age, (name, n) in enumerate(have)
    ]
    wanted = WantedDeployment(after, max_surge=0, max_unavailable=1)
    assert _after(sets, actions(wanted, sets)) == expected


def _two(one: int, other: int, *, new: bool = True, **known: int) -> list[ObservedReplicaSet]:
    return [replica_set("v1", one, **known), replica_set("v2", other, age=1, new=new, **known)]


@pytest.mark.parametrize(
    ("sets", "wanted", "expected"),
    [
        (_two(2, 2, new=False, desired=4, most=4), WantedDeployment(5, max_surge=0, max_unavailable=1), (2, 3)),
        (_two(0, 0), WantedDeployment(6), (0, 6)),
        (_two(6, 6, desired=10, most=12), WantedDeployment(20, max_surge=2, max_unavailable=0), (11, 11)),
        (_two(8, 5, desired=10, most=13), WantedDeployment(50, max_surge=6, max_unavailable=0), (34, 22)),
        (_two(3, 7, new=False, desired=10, most=10), WantedDeployment(14, max_surge=0, max_unavailable=1), (4, 10)),
        (_two(1, 3, desired=3, most=4), WantedDeployment(3, paused=True), (0, 3)),
        (_two(2, 4, new=False, desired=6), WantedDeployment(9, paused=True), (4, 8)),
        (_two(2, 2, desired=4, most=4), WantedDeployment(9, strategy=RECREATE), (2, 2)),
    ],
    ids=[
        "without a new set the latest grows first",
        "scaling from nought grows the new set",
        "surge pods are scaled along",
        "surge and size may change together",
        "size and template may change together",
        "a new set that is complete leaves nothing to the old one",
        "what sets had at most is not always known",
        "Recreate leaves several sets as they are",
    ],
)
def test_two_sets_are_scaled(
    sets: list[ObservedReplicaSet], wanted: WantedDeployment, expected: tuple[int, int]
) -> None:
    assert tuple(_after(sets, actions(wanted, sets)).values()) == expected


def test_pods_that_are_not_available_leave_the_oldest_sets_and_no_more_than_may_leave() -> None:
    sets = [replica_set("v1", 3, 0), replica_set("v2", 3, 0, age=1), replica_set("v3", 8, age=2, new=True)]
    found = actions(WantedDeployment(10, max_surge=0, max_unavailable=1), sets)
    assert sizes(found) == {"v1": 0, "v2": 1}


def test_a_new_set_that_does_not_work_leaves_the_old_one_alone() -> None:
    sets = [replica_set("v1", 1, desired=2, most=3), replica_set("v2", 2, 0, age=1, new=True, desired=2, most=3)]
    assert actions(WantedDeployment(2, max_surge=1, max_unavailable=1), sets) == []


def test_recreate_first_empties_the_old_set_and_then_fills_the_new_one() -> None:
    wanted = WantedDeployment(3, RECREATE)
    assert sizes(actions(wanted, [replica_set("old", 3)])) == {"old": 0}
    emptying = ObservedReplicaSet("old", is_new=False, age=0, replicas=0, available=0, pods=1)
    assert actions(wanted, [emptying]) == []
    assert sizes(actions(wanted, [replica_set("old", 0)])) == {None: 3}


def test_a_paused_deployment_is_scaled_but_not_rolled() -> None:
    wanted = WantedDeployment(4, paused=True)
    assert sizes(actions(wanted, [replica_set("old", 3, desired=3, most=4)])) == {"old": 4}
    assert actions(wanted, [replica_set("old", 4, desired=4, most=5)]) == []
    assert actions(WantedDeployment(3, paused=True), []) == []
    wanted = WantedDeployment(4, max_surge=1, max_unavailable=0, paused=True)
    assert actions(wanted, _two(2, 3, desired=4, most=5)) == []


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "expected"),
    [
        ("0%", "0%", 0, (0, 0)), ("39%", "39%", 10, (4, 3)), ("0%", "0%", 10, (0, 1)), (2, "0%", 10, (2, 0)),
        ("25%", "25%", 6, (2, 1)), ("100%", "100%", 3, (3, 3)), (0, 7, 3, (0, 3)),
    ],
)  # fmt: skip
def test_a_surge_is_rounded_up_and_what_may_be_missing_down(
    surge: int | str, unavailable: int | str, replicas: int, expected: tuple[int, int]
) -> None:
    assert WantedDeployment(replicas, max_surge=surge, max_unavailable=unavailable).fenceposts == expected
