"""Pods of all workloads have names of their own, and an object that is written twice is an update."""

from typing import Any

import pytest

import kplan
from tests.objects import node, planner_of, pod
from tests.workloads.test_manifests import job, load, names, workload

Object = dict[str, Any]


def test_workloads_of_one_name_have_pods_of_different_names() -> None:
    found = load(
        workload("Deployment", replicas=2), job(), workload("ReplicationController", "v1", selector={"app": "web"})
    )
    assert len(set(names(found))) == len(names(found)) == 4


def test_a_name_that_is_written_is_drawn_for_no_other_pod() -> None:
    found = load(workload("Deployment", replicas=2), workload("StatefulSet", replicas=2), pod("web-2", cpu="1"))
    assert names(found) == ["default/web-3", "default/web-4", "default/web-0", "default/web-1", "default/web-2"]


def test_daemon_pods_and_others_have_different_names() -> None:
    deployment = workload("Deployment")
    cluster = [node("0"), node("b")]
    assert names(load(deployment, workload("DaemonSet"), cluster=cluster)) == [
        "default/web-0",
        "default/web-0-0",
        "default/web-b",
    ]


def test_an_object_that_leaves_its_name_to_the_server_gets_none_that_is_written() -> None:
    nameless = {**job(), "metadata": {"generateName": "web-"}}
    written = {**job(), "metadata": {"name": "web-0"}}
    assert [workload.name for workload in load(nameless, written).workloads] == ["web-1", "web-0"]


def test_in_a_simulation_pods_of_a_job_have_other_names_than_those_of_a_stateful_set() -> None:
    planner = planner_of(node("a", cpu="32"))
    once = job(parallelism=3)
    change = planner.roll_out([once, workload("StatefulSet", replicas=3)])
    pods = [step.pod for step in change.steps if step.event == "created"]
    assert len(set(pods)) == len(pods) == 6
    assert {f"default/web-{ordinal}" for ordinal in range(3)} <= set(pods)


def test_of_an_object_that_is_there_twice_the_last_one_counts() -> None:
    found = load(workload("Deployment", replicas=2), workload("Deployment", replicas=3))
    assert names(found) == ["default/web-0", "default/web-1", "default/web-2"]
    (warning,) = found.warnings
    assert (warning.code, warning.object) == ("WrittenTwice", "Deployment/default/web")
    assert "standard input:4 and standard input:25" in warning.message


def test_the_same_file_twice_is_no_update(tmp_path: Any) -> None:
    file = tmp_path / "web.yaml"
    file.write_text("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}")
    from kplan.workloads import load_manifests

    found = load_manifests([file, file], snapshot=kplan.load_snapshot([node("a")]))
    assert (len(found.pods), found.warnings) == (1, ())


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_objects_of_one_name_in_two_namespaces_are_two(kind: str) -> None:
    other = workload(kind)
    other["metadata"] = {"name": "web", "namespace": "other"}
    assert names(load(workload(kind), other)) == ["default/web-0", "other/web-0"]
