"""Headroom: every workload that has replicas, each asked alone."""

from typing import Any

import pytest

import kplan
from kplan.capacity.templates import next_replicas, own_workloads
from kplan.errors import UsageError
from tests.capacity.test_templates import workload
from tests.course.test_what_if import node, pod
from tests.objects import Object, head, planner_of, quota


def owned(made: Object, kind: str, name: str) -> Object:
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": kind, "name": name, "uid": name, "controller": True}
    ]
    return made


def fits(planner: kplan.Planner, **how: Any) -> dict[str, int]:
    return {counted.workload: counted.fits for counted in planner.headroom(**how).workloads}


def test_owners_that_are_known_from_their_pods_alone() -> None:
    pods = [owned(pod(f"kafka-{i}", on="a", cpu="1"), "Kafka", "broker") for i in range(2)]
    planner = planner_of(node("a"), *pods)
    assert own_workloads(planner) == {"Kafka/default/broker": 2}
    assert fits(planner) == {"Kafka/default/broker": 2}


def test_what_has_no_replicas_is_left_out() -> None:
    over = workload("Job", "over")
    over["spec"] = {"template": over["spec"]["template"]}
    over["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    old = workload("ReplicaSet", "old", replicas=0)
    owned(old, "Rollout", "web")
    planner = planner_of(
        node("a"),
        workload("DaemonSet", "agent"),
        pod("bare", on="a"),
        owned(pod("static", on="a"), "Node", "a"),
        owned(pod("daemon", on="a"), "DaemonSet", "unknown"),
        over,
        old,
        workload("ReplicaSet", "kept", replicas=0),
    )

    assert own_workloads(planner) == {"ReplicaSet/default/kept": 0}


def test_jobs_of_a_cron_job_count_as_its_own() -> None:
    job = workload("Job", "nightly-1")
    job["spec"] = {"parallelism": 1, "template": job["spec"]["template"]}
    cron = {**workload("CronJob", "nightly"), "spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": job["spec"]}}}
    owned(job, "CronJob", "nightly")
    running = owned(pod("nightly-1-x", on="a", cpu="1"), "Job", "nightly-1")
    planner = planner_of(node("a"), cron, job, running)

    assert own_workloads(planner) == {"CronJob/default/nightly": 1}
    assert fits(planner) == {"CronJob/default/nightly": 3}


def test_replicas_with_claims_of_their_own_are_made_one_by_one() -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    volumes = workload("StatefulSet", "db", volumeClaimTemplates=[claim])
    held = owned(pod("db-0", on="a", cpu="1", app="db"), "StatefulSet", "db")
    storage = head("StorageClass", name="std", annotations={"storageclass.kubernetes.io/is-default-class": "true"}) | {
        "provisioner": "example.com/disk",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    planner = planner_of(node("a"), volumes, held, storage)
    template, claims = next_replicas(planner, "StatefulSet/default/db", 3)

    assert [info.name for info in template.replicas] == ["db-1", "db-2", "db-3"]
    assert len(claims) == 3
    assert fits(planner) == {"StatefulSet/default/db": 3}


def test_quotas_stop_a_count() -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    (found,) = planner_of(node("a"), workload("Deployment", "web"), space, quota("few", pods="2")).headroom().workloads
    assert found.fits == 2
    assert found.stop is not None
    assert "exceeded quota: few" in found.stop.message


def test_manifests_are_asked_about_each_alone() -> None:
    planner = planner_of(node("a"))
    web, db, agent = workload("Deployment", "web"), workload("StatefulSet", "db", cpu="2"), workload("DaemonSet", "x")
    assert fits(planner, manifests=[web, db, agent]) == {"Deployment/default/web": 4, "StatefulSet/default/db": 2}
    with pytest.raises(UsageError, match="one pod per node"):
        planner.headroom([agent])
