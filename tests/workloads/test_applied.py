"""Manifests that are held against what a cluster has."""

from pathlib import Path
from typing import Any

import pytest

import kplan
from kplan.errors import ManifestError
from kplan.workloads.expansion import started
from kplan.workloads.manifests import ReadOptions, load_manifests, read_changes
from tests.objects import Object, head

WEB: dict[str, Any] = head("Deployment", name="web") | {"spec": {"replicas": 2}}


def test_objects_are_kept_as_they_are_written() -> None:
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    monitor = {"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": {"name": "m"}}
    workloads, objects, _ = read_changes([WEB, budget, monitor], "shop")
    assert [workload.content for workload in workloads] == [{**WEB, "metadata": {"name": "web", "namespace": "shop"}}]
    assert [type(obj).__name__ for obj in objects] == ["PodDisruptionBudget"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"spec": {"replica": 2}}, 'object 1: $.spec.replica: unknown field "spec.replica"'),
        ({"spec": {"replicas": "2"}}, "cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas"),
        ({"apiVersion": "app/v1"}, 'no matches for kind "Deployment" in version "app/v1"'),
        ({"metadata": {}}, "object 1: $.metadata.name: has no name"),
    ],
)
def test_what_does_not_decode_is_told(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read_changes([{**WEB, **change}], "shop")
    assert words in str(caught.value)


def test_directories_pass_over_what_holds_no_manifests(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("replicas: 2\n")
    (tmp_path / "web.yaml").write_text("{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}\n")
    workloads, _, _ = read_changes([tmp_path], "shop")
    assert [workload.content["metadata"] for workload in workloads] == [{"name": "web", "namespace": "shop"}]


ROOM = {"allocatable": {"cpu": "8", "pods": "9"}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": ROOM}
POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "app"}]}
CRON = head("CronJob", name="nightly") | {
    "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": POD}}}}
}
TEMPLATE = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "later"}, "template": {"spec": POD}}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "now"}, "spec": {"template": {"spec": POD}}}
SNAPSHOT = kplan.load_snapshot([NODE])


def names(*objects: Object, **options: bool) -> tuple[list[str], list[str]]:
    found = started(load_manifests(list(objects), ReadOptions(snapshot=SNAPSHOT)), **options)
    return [pod.name for pod in found.pods], [warning.object for warning in found.warnings]


def test_what_starts_at_once_has_pods_and_what_is_asked_for_or_stands_alone() -> None:
    assert names(JOB, CRON, TEMPLATE) == (["now"], ["CronJob/default/nightly", "PodTemplate/default/later"])
    assert names(JOB, CRON, TEMPLATE, run_cronjobs=True) == (["now", "nightly"], ["PodTemplate/default/later"])
    assert names(CRON, TEMPLATE) == (["nightly", "later"], [])


def test_suspended_jobs_of_a_cron_job_are_told_by_its_name_where_a_run_would_count() -> None:
    jobs = {**CRON["spec"]["jobTemplate"]["spec"], "suspend": True}
    suspended = {**CRON, "spec": {**CRON["spec"], "jobTemplate": {"spec": jobs}}}

    [warning] = started(load_manifests([suspended], ReadOptions(snapshot=SNAPSHOT))).warnings
    assert (warning.code, warning.object) == ("Suspended", "CronJob/default/nightly")
    assert "has suspended jobs" in warning.message
    [left_out] = started(load_manifests([JOB, suspended], ReadOptions(snapshot=SNAPSHOT))).warnings
    assert (left_out.code, left_out.object) == ("NotStarted", "CronJob/default/nightly")
    assert names(JOB, suspended, run_cronjobs=True) == (["now"], ["CronJob/default/nightly"])


def test_changes_leave_cron_jobs_to_their_schedule_unless_a_run_is_asked_for() -> None:
    planner = kplan.Planner(SNAPSHOT)
    assert planner.roll_out([CRON]).after == ()
    run = planner.roll_out([CRON], run_cron_jobs=True)
    assert [(pod_at_rest.workload, pod_at_rest.node) for pod_at_rest in run.after] == [("Job/default/nightly", "n")]
    assert run.warnings == ()
