"""Cron jobs and templates among other manifests: no pod of theirs comes before something asks for it."""

from typing import Any

import kplan
from kplan.workloads import load_manifests
from kplan.workloads.applied import started
from tests.objects import head

Object = dict[str, Any]
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
    found = started(load_manifests(list(objects), snapshot=SNAPSHOT), **options)
    return [pod.name for pod in found.pods], [warning.object for warning in found.warnings]


def test_among_others_only_what_starts_at_once_has_pods() -> None:
    assert names(JOB, CRON, TEMPLATE) == (["now"], ["CronJob/default/nightly", "PodTemplate/default/later"])


def test_a_run_of_each_cron_job_comes_when_it_is_asked_for() -> None:
    assert names(JOB, CRON, TEMPLATE, run_cronjobs=True) == (["now", "nightly"], ["PodTemplate/default/later"])


def test_where_nothing_else_is_given_the_question_is_about_them() -> None:
    assert names(CRON, TEMPLATE) == (["nightly", "later"], [])


def test_suspended_jobs_of_a_cron_job_are_told_by_its_name_where_a_run_would_count() -> None:
    jobs = {**CRON["spec"]["jobTemplate"]["spec"], "suspend": True}
    suspended = {**CRON, "spec": {**CRON["spec"], "jobTemplate": {"spec": jobs}}}

    [warning] = started(load_manifests([suspended], snapshot=SNAPSHOT)).warnings
    assert (warning.code, warning.object) == ("Suspended", "CronJob/default/nightly")
    assert "has suspended jobs" in warning.message
    [left_out] = started(load_manifests([JOB, suspended], snapshot=SNAPSHOT)).warnings
    assert (left_out.code, left_out.object) == ("NotStarted", "CronJob/default/nightly")
    assert names(JOB, suspended, run_cronjobs=True) == (["now"], ["CronJob/default/nightly"])


def test_changes_leave_cron_jobs_to_their_schedule_unless_a_run_is_asked_for() -> None:
    planner = kplan.Planner(SNAPSHOT)

    assert planner.roll_out([CRON]).after == ()
    run = planner.roll_out([CRON], run_cron_jobs=True)
    assert [(pod_at_rest.workload, pod_at_rest.node) for pod_at_rest in run.after] == [("Job/default/nightly", "n")]
    assert run.warnings == ()
