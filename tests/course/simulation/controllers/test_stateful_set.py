"""The stateful set controller. Upstream: pkg/controller/statefulset/stateful_set_control_test.go."""

import pytest
from msgspec.structs import replace

from kplan.api.workloads import ON_DELETE, RECREATE
from kplan.course.simulation.controllers.observed import Create, Delete, ObservedPod
from kplan.course.simulation.controllers.stateful_set import WantedStatefulSet, actions
from tests.course.simulation.controllers.builders import pod, said

ORDERED = WantedStatefulSet(3, current="v1", update="v1")
PARALLEL = replace(ORDERED, is_ordered=False)
ROLLED = replace(ORDERED, update="v2")
BOTH = replace(ROLLED, is_ordered=False)
GATED = replace(ROLLED, replicas=5, max_unavailable="50%", is_ordered=False)
RECREATED = WantedStatefulSet(2, strategy=RECREATE, current="v1", update="v2")


def number(index: int, *, ready: bool = True, revision: str = "v1", phase: str | None = None) -> ObservedPod:
    node = f"n{index}" if ready else ""
    return pod(f"web-{index}", node=node, ready=ready, index=index, revision=revision, phase=phase)


def pods(text: str) -> list[ObservedPod]:
    """Write pods down in short: numbers, with ! where a pod is not ready, and + where it is of the new revision."""
    return [
        number(int(word.rstrip("!+")), ready="!" not in word, revision="v2" if "+" in word else "v1")
        for word in text.split()
    ]


@pytest.mark.parametrize(
    ("wanted", "there", "expected"),
    [
        # In order one pod is made at a time, in parallel all at once; numbers may start elsewhere, and gaps are filled.
        (ORDERED, "", "+0"), (ORDERED, "0!", ""), (ORDERED, "0", "+1"), (PARALLEL, "", "+0 +1 +2"),
        (PARALLEL, "1!", "+0 +2"), (replace(PARALLEL, start=4), "4", "+5 +6"),
        (replace(ORDERED, start=4), "3 4 5 6", "-web-3"),
        (replace(ORDERED, replicas=2), "0 2", "+1"),
        # The highest goes first, in order only when all before it are ready.
        (replace(ORDERED, replicas=1), "0 1 2", "-web-2"),
        (replace(ORDERED, replicas=1), "0! 1", ""),
        (replace(ORDERED, replicas=1), "0 1 2!", "-web-2"),
        (replace(ORDERED, replicas=1), "0 1! 2!", ""),
        (replace(PARALLEL, replicas=1), "0 1 2", "-web-2 -web-1"),
        # An update goes from the highest down, one at a time, and waits for the pods above.
        (ROLLED, "0 1 2", "-web-2"), (ROLLED, "0 1 2!+", ""), (ROLLED, "0 1 2+", "-web-1"), (ROLLED, "0+ 1+ 2+", ""),
        (BOTH, "0 1 2!+", ""), (BOTH, "0! 1 2+", "-web-1"),
        # Pods below the partition stay as they are, and OnDelete waits for somebody to delete.
        (replace(ROLLED, partition=2), "0 1 2", "-web-2"),
        (replace(ROLLED, partition=2), "0 1 2+", ""),
        (replace(ROLLED, strategy=ON_DELETE), "0 1 2", ""),
        # In parallel making, shrinking and updating go side by side.
        (replace(BOTH, replicas=4), "0 2 3 5", "+1 -web-5 -web-3"),
        (replace(BOTH, replicas=4), "0 1 2", "+3"),
        # Behind the feature gate several may be updated at a time; pods that are missing count as unavailable.
        (replace(ROLLED, max_unavailable=2), "0 1 2", "-web-2 -web-1"),
        (replace(BOTH, max_unavailable=2), "0 1 2!+", "-web-1"),
        (GATED, "0 1 2 4", "+3 -web-4"),
        (GATED, "0 1 2 3 4 5", "-web-5 -web-4 -web-3"),
        (replace(GATED, max_unavailable="1%"), "0 1 2 3 4", "-web-4"),
        (replace(GATED, partition=4), "0 1 2 3 4", "-web-4"),
    ],
)  # fmt: skip
def test_what_is_made_and_what_goes(wanted: WantedStatefulSet, there: str, expected: str) -> None:
    assert said(actions(wanted, pods(there))) == expected.split()


def test_a_pod_that_has_ended_is_made_again() -> None:
    assert said(actions(ORDERED, [number(0), number(1, ready=False, phase="Failed")])) == ["-web-1"]
    assert said(actions(ORDERED, [pod("odd", node="n", ready=True), number(0)])) == ["+1"]  # it is none of the set's


@pytest.mark.parametrize(
    ("wanted", "there", "misfits", "expected"),
    [
        (PARALLEL, "5", (5,), "+4 +6"),
        (PARALLEL, "4 7", (4, 7), ""),
        (ORDERED, "5", (5,), "+4"),
        (ORDERED, "4 6", (4, 6), ""),
        (ORDERED, "4 5", (5,), ""),
    ],
)
def test_the_controller_comes_no_further_than_to_a_pod_that_it_cannot_update(
    wanted: WantedStatefulSet, there: str, misfits: tuple[int, ...], expected: str
) -> None:
    standing = [replace(one, is_misfit=one.index in misfits) for one in pods(there)]
    assert said(actions(replace(wanted, start=4, replicas=4), standing)) == expected.split()


@pytest.mark.parametrize(
    ("wanted", "there", "expected"),
    [
        (replace(BOTH, partition=1), "1", [(0, "v1"), (2, "v2")]),
        (replace(ROLLED, strategy=ON_DELETE), "0 1", [(2, "v2")]),
        (RECREATED, "", [(0, "v2")]),
        (RECREATED, "0+", [(1, "v2")]),
        (replace(RECREATED, is_ordered=False), "", [(0, "v2"), (1, "v2")]),
        (RECREATED, "0+ 1+", []),
    ],
)
def test_a_pod_is_made_at_the_revision_of_its_side_of_the_partition(
    wanted: WantedStatefulSet, there: str, expected: list[tuple[int, str]]
) -> None:
    assert [(one.index, one.revision) for one in actions(wanted, pods(there)) if isinstance(one, Create)] == expected


def test_recreate_deletes_all_pods_of_the_old_revision_and_makes_none_until_they_are_gone() -> None:
    old = [number(0, ready=False), number(1), number(2, phase="Failed")]
    assert actions(RECREATED, old) == [Delete(pod, "Recreate, revision v2") for pod in reversed(old)]
    leaving = [replace(pod, is_terminating=True) for pod in old]
    assert actions(RECREATED, leaving) == []
    assert actions(RECREATED, [leaving[0], old[1]]) == [Delete(old[1], "Recreate, revision v2")]
