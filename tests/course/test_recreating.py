from typing import Any

import pytest

import kplan
from tests.course.simulation.test_jobs import FAIL_JOB, IGNORE, job, pods_of, policy
from tests.course.test_edits import vpa
from tests.objects import Object, daemon_set, node, owned_pod, planner_of, stateful_set


def left(without: str, workload: Object) -> list[tuple[str, str]]:
    """Name the pods and their nodes when all has settled without a node or a pod of the three."""
    objects = [node("n0", "8"), node("n1", "8"), workload, *pods_of(workload, "n0", "n0", "n1")]
    settled = planner_of(objects).changed(without=[without], settle=True)
    return sorted((pod.metadata.name, pod.spec.node_name) for pod in settled.snapshot.pods)


AGAIN = [("work-2", "n1"), ("work-3", "n1"), ("work-4", "n1")]
INDEXES_AGAIN = [("work-0-1", "n1"), ("work-1-1", "n1"), ("work-2", "n1")]


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        ({"backoffLimit": 2}, AGAIN),
        ({"backoffLimit": 1}, []),
        ({"backoffLimit": 0, **policy(IGNORE)}, AGAIN),
        ({"backoffLimit": 9, **policy(FAIL_JOB)}, []),
        ({"backoffLimit": None, "completionMode": "Indexed", "backoffLimitPerIndex": 0}, [("work-2", "n1")]),
        ({"backoffLimit": None, "completionMode": "Indexed", "backoffLimitPerIndex": 1}, INDEXES_AGAIN),
    ],
)
def test_pods_that_are_lost_with_their_nodes_count_as_failures(
    spec: dict[str, Any], pods: list[tuple[str, str]]
) -> None:
    assert left("node/n0", job(**spec)) == pods


def test_a_deleted_pod_counts_as_a_failure_that_no_policy_for_disruptions_ignores() -> None:
    assert left("pod/default/work-0", job(backoffLimit=0, **policy(IGNORE))) == []
    assert len(left("pod/default/work-0", job(backoffLimit=1))) == 3


def test_an_index_that_has_failed_as_often_as_it_may_is_not_tried_again() -> None:
    workload = job(backoffLimit=None, completionMode="Indexed", backoffLimitPerIndex=1)
    objects = [node("n0", "8"), node("n1", "8"), node("n2", "8"), workload, *pods_of(workload, "n0", "n1", "n1")]
    once = planner_of(objects).changed(without=["node/n0"], settle=True)
    [place] = [pod.spec.node_name for pod in once.snapshot.pods if pod.metadata.name.startswith("work-0")]
    twice = once.changed(without=[f"node/{place}"])
    assert twice.snapshot.jobs[0].status.failed_indexes == "0"
    assert "work-0" not in {pod.metadata.name[:6] for pod in twice.snapshot.pods}


def test_pods_that_end_or_leave_elsewhere_stay_as_they_are() -> None:
    workload = job(backoffLimit=9)
    lost, ended, leaving = pods_of(workload, "n0", "n0", "n1")
    ended["status"]["phase"] = "Succeeded"
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    planner = planner_of(node("n0", "8"), node("n1", "8"), workload, lost, ended, leaving)
    pods = planner.changed(without=["node/n0"]).snapshot.pods

    assert pods[0] == next(pod for pod in planner.snapshot.pods if pod.metadata.name == leaving["metadata"]["name"])
    assert {pod.status.phase for pod in pods[1:]} == {"Pending"}


def controlled(workload: Object, *nodes: str) -> list[Object]:
    """Return a workload and its pods, which are ready, on these nodes."""
    name = workload["metadata"]["name"]
    return [workload, *(owned_pod(workload, f"{name}-{index}", on) for index, on in enumerate(nodes))]


def places(planner: kplan.Planner) -> dict[str, str]:
    return {pod.metadata.name: pod.spec.node_name for pod in planner.snapshot.pods}


def test_an_ordered_stateful_set_creates_the_next_pod_once_the_one_before_runs() -> None:
    objects = [node("n0", "8"), node("n1", "8"), *controlled(stateful_set("db", 3), "n0", "n0", "n1")]
    planner = planner_of(objects)
    assert places(planner.changed(without=["node/n0"])) == {"db-0": "", "db-2": "n1"}
    assert places(planner.changed(without=["node/n0"], settle=True)) == {"db-0": "n1", "db-1": "n1", "db-2": "n1"}


def test_a_daemon_set_creates_a_pod_in_place_of_one_that_has_no_room_for_its_new_requests() -> None:
    objects = [node("n0", cpu="2"), node("n1", cpu="8"), *controlled(daemon_set("agent"), "n0", "n1")]
    recommended = vpa("agent", container="c", cpu="3")
    recommended["spec"]["targetRef"]["kind"] = "DaemonSet"
    planner = planner_of(*objects, recommended)
    assert places(planner.changed(recommendations=["vpa"])) == {"agent-1": "n1", "agent-2": ""}
    assert places(planner.changed(without=["node/n0"])) == {"agent-1": "n1"}
