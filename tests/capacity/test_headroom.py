"""Headroom: every workload that has replicas, each asked alone."""

from typing import Any

import pytest

import kplan
from kplan.capacity.templates import next_replicas, own_workloads
from kplan.errors import UsageError
from tests.capacity.test_templates import workload
from tests.course.test_what_if import node, pod
from tests.objects import head

Object = dict[str, Any]


def owner(kind: str, name: str) -> Object:
    return {"apiVersion": "v1", "kind": kind, "name": name, "uid": name}


def asking(*objects: Object) -> kplan.Planner:
    return kplan.Planner(kplan.load_snapshot(list(objects)))


def fits(planner: kplan.Planner, **how: Any) -> dict[str, int]:
    return {counted.workload: counted.fits for counted in planner.headroom(**how).workloads}


def test_each_is_counted_alone() -> None:
    planner = asking(node("a"), node("b"), workload("Deployment", "web"), workload("StatefulSet", "db", cpu="2"))

    assert fits(planner) == {"StatefulSet/default/db": 4, "Deployment/default/web": 8}
    assert fits(planner, limit=3) == {"StatefulSet/default/db": 3, "Deployment/default/web": 3}


def test_what_runs_takes_its_room() -> None:
    held = pod("web-x", on="a", cpu="3", owner=owner("ReplicaSet", "web"), app="web")
    planner = asking(node("a"), workload("ReplicaSet", "web"), held)

    assert own_workloads(planner) == {"ReplicaSet/default/web": 1}
    assert fits(planner) == {"ReplicaSet/default/web": 1}


def test_the_pods_of_a_deployment_are_those_of_its_template() -> None:
    planner = asking(node("a"), workload("Deployment", "web", cpu="2"))
    template, claims = next_replicas(planner, "Deployment/default/web", 5)

    (info,) = template.replicas
    assert (info.namespace, info.labels["app"], info.controller[1]) == ("default", "web", "ReplicaSet")
    assert "pod-template-hash" in info.labels
    assert claims == []


def test_owners_that_are_known_from_their_pods_alone() -> None:
    pods = [pod(f"kafka-{i}", on="a", cpu="1", owner=owner("Kafka", "broker")) for i in range(2)]
    planner = asking(node("a"), *pods)

    assert own_workloads(planner) == {"Kafka/default/broker": 2}
    assert fits(planner) == {"Kafka/default/broker": 2}


def test_what_has_no_replicas_is_left_out() -> None:
    over = workload("Job", "over")
    over["spec"] = {"template": over["spec"]["template"]}
    over["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    old = workload("ReplicaSet", "old", replicas=0)
    old["metadata"]["ownerReferences"] = [{**owner("Rollout", "web"), "controller": True}]
    planner = asking(
        node("a"),
        workload("DaemonSet", "agent"),
        pod("bare", on="a"),
        pod("static", on="a", owner=owner("Node", "a")),
        pod("daemon", on="a", owner=owner("DaemonSet", "unknown")),
        over,
        old,
        workload("ReplicaSet", "kept", replicas=0),
    )

    assert own_workloads(planner) == {"ReplicaSet/default/kept": 0}


def test_jobs_of_a_cron_job_count_as_its_own() -> None:
    job = workload("Job", "nightly-1")
    job["spec"] = {"parallelism": 1, "template": job["spec"]["template"]}
    cron = {**workload("CronJob", "nightly"), "spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": job["spec"]}}}
    job["metadata"]["ownerReferences"] = [{**owner("CronJob", "nightly"), "controller": True}]
    running = pod("nightly-1-x", on="a", cpu="1", owner=owner("Job", "nightly-1"))
    planner = asking(node("a"), cron, job, running)

    assert own_workloads(planner) == {"CronJob/default/nightly": 1}
    assert fits(planner) == {"CronJob/default/nightly": 3}


def test_replicas_with_claims_of_their_own_are_made_one_by_one() -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    volumes = workload("StatefulSet", "db", volumeClaimTemplates=[claim])
    held = pod("db-0", on="a", cpu="1", owner=owner("StatefulSet", "db"), app="db")
    storage = head("StorageClass", name="std", annotations={"storageclass.kubernetes.io/is-default-class": "true"}) | {
        "provisioner": "example.com/disk",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    planner = asking(node("a"), volumes, held, storage)
    template, claims = next_replicas(planner, "StatefulSet/default/db", 3)

    assert [info.name for info in template.replicas] == ["db-1", "db-2", "db-3"]
    assert len(claims) == 3
    assert fits(planner) == {"StatefulSet/default/db": 3}


def test_quotas_stop_a_count() -> None:
    quota = head("ResourceQuota", name="few", namespace="default") | {
        "spec": {"hard": {"pods": "2"}},
        "status": {"hard": {"pods": "2"}, "used": {"pods": "0"}},
    }
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    (found,) = asking(node("a"), workload("Deployment", "web"), space, quota).headroom().workloads

    assert found.fits == 2
    assert found.stop is not None
    assert "exceeded quota: few" in found.stop.message


def test_counts_that_are_made_one_by_one_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kplan.capacity.headroom.DEFAULT_HEADROOM", 3)
    spread = {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    spreading = workload("Deployment", "web")
    spreading["spec"]["template"]["spec"]["topologySpreadConstraints"] = [spread]
    report = asking(node("a", z="1"), spreading, workload("Deployment", "plain")).headroom()

    assert {counted.workload: (counted.fits, counted.stop is None) for counted in report.workloads} == {
        "Deployment/default/web": (3, True),
        "Deployment/default/plain": (4, False),
    }
    assert report.limit == 3


def test_a_number_that_is_wanted_is_held_against_every_workload() -> None:
    planner = asking(node("a"), workload("Deployment", "web"), workload("Deployment", "db", cpu="2"))

    assert not planner.headroom(wanted=2).verdict.failed
    short = planner.headroom(wanted=3)
    assert short.verdict.because == ("Deployment/default/db: Unschedulable",)
    assert [counted.fits for counted in short.workloads] == [2, 3]


def test_manifests_are_asked_about_each_alone() -> None:
    planner = asking(node("a"))
    web, db, agent = workload("Deployment", "web"), workload("StatefulSet", "db", cpu="2"), workload("DaemonSet", "x")

    assert fits(planner, manifests=[web, db, agent]) == {"Deployment/default/web": 4, "StatefulSet/default/db": 2}
    with pytest.raises(UsageError, match="one pod per node"):
        planner.headroom([agent])


def test_without_any_workload_it_says_so() -> None:
    with pytest.raises(UsageError, match="has no workload"):
        asking(node("a")).headroom()
