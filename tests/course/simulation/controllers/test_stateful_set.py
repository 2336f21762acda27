"""The stateful set controller. Upstream: pkg/controller/statefulset/stateful_set_control_test.go."""

from msgspec.structs import replace

from kplan.course.simulation.controllers.observed import Create, Delete, ObservedPod
from kplan.course.simulation.controllers.stateful_set import ON_DELETE, RECREATE, WantedStatefulSet, actions
from tests.course.simulation.controllers.builders import pod, said

ORDERED = WantedStatefulSet(3, current="v1", update="v1")
PARALLEL = replace(ORDERED, is_ordered=False)
ROLLED = replace(ORDERED, update="v2")


def number(index: int, *, ready: bool = True, revision: str = "v1", phase: str | None = None) -> ObservedPod:
    node = f"n{index}" if ready else ""
    return pod(f"web-{index}", node=node, ready=ready, index=index, revision=revision, phase=phase)


def pods(n: int, revision: str = "v1") -> list[ObservedPod]:
    return [number(index, revision=revision) for index in range(n)]


def test_in_order_one_pod_is_made_at_a_time() -> None:
    assert said(actions(ORDERED, [])) == ["+0"]
    assert said(actions(ORDERED, [number(0, ready=False)])) == []
    assert said(actions(ORDERED, [number(0)])) == ["+1"]


def test_in_parallel_all_are_made_at_once() -> None:
    assert said(actions(PARALLEL, [])) == ["+0", "+1", "+2"]
    assert said(actions(PARALLEL, [number(1, ready=False)])) == ["+0", "+2"]


def test_numbers_may_start_elsewhere() -> None:
    wanted = replace(PARALLEL, start=4)
    assert said(actions(wanted, [number(4)])) == ["+5", "+6"]
    assert said(actions(replace(wanted, is_ordered=True), [number(3), *(number(i) for i in (4, 5, 6))])) == ["-web-3"]


def test_a_gap_is_filled_before_anything_else() -> None:
    assert said(actions(replace(ORDERED, replicas=2), [number(0), number(2)])) == ["+1"]


def test_in_order_the_highest_goes_first_and_only_when_all_before_are_ready() -> None:
    wanted = replace(ORDERED, replicas=1)
    assert said(actions(wanted, pods(3))) == ["-web-2"]
    assert said(actions(wanted, [number(0, ready=False), number(1)])) == []
    assert said(actions(wanted, [number(0), number(1), number(2, ready=False)])) == ["-web-2"]
    assert said(actions(wanted, [number(0), number(1, ready=False), number(2, ready=False)])) == []


def test_in_parallel_all_that_is_too_much_goes_at_once() -> None:
    assert said(actions(replace(PARALLEL, replicas=1), pods(3))) == ["-web-2", "-web-1"]


def test_an_update_goes_from_the_highest_down_one_at_a_time() -> None:
    assert said(actions(ROLLED, pods(3))) == ["-web-2"]
    assert said(actions(ROLLED, [*pods(2), number(2, ready=False, revision="v2")])) == []
    assert said(actions(ROLLED, [*pods(2), number(2, revision="v2")])) == ["-web-1"]
    assert said(actions(ROLLED, pods(3, "v2"))) == []


def test_an_update_in_parallel_waits_for_the_pods_above() -> None:
    wanted = replace(ROLLED, is_ordered=False)
    assert said(actions(wanted, [*pods(2), number(2, ready=False, revision="v2")])) == []
    assert said(actions(wanted, [number(0, ready=False), number(1), number(2, revision="v2")])) == ["-web-1"]


def test_pods_below_the_partition_stay_as_they_are() -> None:
    wanted = replace(ROLLED, partition=2)
    assert said(actions(wanted, pods(3))) == ["-web-2"]
    assert said(actions(wanted, [*pods(2), number(2, revision="v2")])) == []


def test_a_pod_is_made_again_at_the_revision_of_its_side_of_the_partition() -> None:
    wanted = replace(ROLLED, partition=1, is_ordered=False)
    made = [each for each in actions(wanted, [number(1)]) if isinstance(each, Create)]
    assert [(each.index, each.revision) for each in made] == [(0, "v1"), (2, "v2")]


def test_on_delete_waits_for_somebody_to_delete() -> None:
    wanted = replace(ROLLED, strategy=ON_DELETE)
    assert actions(wanted, pods(3)) == []
    made = actions(wanted, pods(2))
    assert [(each.index, each.revision) for each in made if isinstance(each, Create)] == [(2, "v2")]


def test_a_pod_that_has_ended_is_made_again() -> None:
    assert said(actions(ORDERED, [number(0), number(1, ready=False, phase="Failed")])) == ["-web-1"]


def test_several_may_be_updated_at_a_time_behind_the_feature_gate() -> None:
    wanted = replace(ROLLED, max_unavailable=2)
    assert said(actions(wanted, pods(3))) == ["-web-2", "-web-1"]
    assert said(actions(replace(wanted, is_ordered=False), [*pods(2), number(2, ready=False, revision="v2")])) == [
        "-web-1"
    ]


def test_in_parallel_making_shrinking_and_updating_go_side_by_side() -> None:
    wanted = replace(ROLLED, replicas=4, is_ordered=False)
    assert said(actions(wanted, [number(0), number(2), number(3), number(5)])) == ["+1", "-web-5", "-web-3"]
    assert said(actions(wanted, [number(0), number(1), number(2)])) == ["+3"]


def test_pods_that_are_missing_count_as_unavailable_behind_the_feature_gate() -> None:
    wanted = replace(ROLLED, replicas=5, max_unavailable="50%", is_ordered=False)
    assert said(actions(wanted, [number(0), number(1), number(2), number(4)])) == ["+3", "-web-4"]
    assert said(actions(replace(wanted, max_unavailable="1%"), pods(5))) == ["-web-4"]
    assert said(actions(replace(wanted, partition=4), pods(5))) == ["-web-4"]


def test_recreate_deletes_all_pods_of_the_old_revision_and_makes_none_until_they_are_gone() -> None:
    wanted = WantedStatefulSet(2, strategy=RECREATE, current="v1", update="v2")
    old = [number(0, ready=False), number(1), number(2, phase="Failed")]

    assert actions(wanted, old) == [Delete(pod, "Recreate, revision v2") for pod in reversed(old)]
    leaving = [replace(pod, is_terminating=True) for pod in old]
    assert actions(wanted, leaving) == []
    assert actions(wanted, [leaving[0], old[1]]) == [Delete(old[1], "Recreate, revision v2")]


def test_recreated_pods_are_made_as_the_policy_says() -> None:
    wanted = WantedStatefulSet(2, strategy=RECREATE, current="v1", update="v2")

    assert actions(wanted, []) == [Create("pod 0 is missing", "v2", 0)]
    assert actions(wanted, [number(0, revision="v2")]) == [Create("pod 1 is missing", "v2", 1)]
    at_once = actions(replace(wanted, is_ordered=False), [])
    assert at_once == [Create(f"pod {index} is missing", "v2", index) for index in range(2)]
    assert actions(wanted, [number(index, revision="v2") for index in range(2)]) == []
