from typing import Any

import pytest

from tests.objects import Object, daemon_set, deployment, node, owned_pod, planner_of, stateful_set

NODES = ["n1", "n2"]
ON_DELETE = {"updateStrategy": {"type": "OnDelete"}}
WAITS = "its update strategy is OnDelete: pods stay until somebody deletes them"


def at_rest(workload: Object) -> list[Object]:
    """Return a cluster in which a workload has all its pods, of the revision ``old``."""
    name, old = workload["metadata"]["name"], {"controller-revision-hash": "old"}
    pods = [owned_pod(workload, f"{name}-{index}", on, **old) for index, on in enumerate(NODES)]
    status = {"currentRevision": "old", "updateRevision": "old", "replicas": 2}
    return [*map(node, NODES), {**workload, "status": status}, *pods]


def outcome(cluster: list[Object], wanted: Object) -> tuple[int, str, str]:
    (workload,) = planner_of(cluster).roll_out([wanted]).workloads
    return workload.updated, workload.state, workload.because


@pytest.mark.parametrize("make", [lambda image: stateful_set("db", 2, image), lambda image: daemon_set("db", image)])
def test_pods_that_only_somebody_else_replaces_wait_for_that(make: Any) -> None:
    before, after = make("app:1"), make("app:2")
    before["spec"] |= ON_DELETE
    after["spec"] |= ON_DELETE
    assert outcome(at_rest(before), after) == (0, "stuck", WAITS)


def test_a_set_has_rolled_out_when_all_pods_above_its_partition_have() -> None:
    before, after = stateful_set("db", 2), stateful_set("db", 2, "app:2")
    after["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    assert outcome(at_rest(before), after) == (1, "complete", "")


def test_a_paused_deployment_says_so() -> None:
    paused = deployment("web", 2)
    paused["spec"]["paused"] = True
    assert outcome([node("n1", "8")], paused) == (0, "stuck", "it is paused")
