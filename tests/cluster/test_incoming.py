"""Manifests on their way into a cluster: validated, admitted, with all that comes with them."""

from typing import Any

import pytest
import yaml

import kplan
from kplan.api.scheduling import PodGroup
from kplan.cluster.incoming import admit_manifests
from kplan.workloads.manifests import ReadOptions, load_manifests
from kplan.workloads.sources import Text
from tests.objects import Object, head, node, planner_of, pod
from tests.workloads.test_manifests import job, workload


def plan(cluster: list[Object], *manifests: Object, **options: Any) -> tuple[kplan.Plan, kplan.Planner]:
    snapshot = kplan.load_snapshot(cluster)
    text = Text("standard input", yaml.safe_dump_all(manifests).encode())
    incoming = admit_manifests(load_manifests([text], ReadOptions(snapshot=snapshot, **options)), snapshot)
    planner = kplan.Planner(snapshot, additions=incoming.objects, warnings=incoming.warnings)
    return planner.plan(incoming.pods), planner


def test_replicas_are_placed_and_say_where_they_come_from() -> None:
    found, _ = plan([node("a"), node("b")], workload("Deployment", replicas=2))

    placements = found.to_dict()["placements"]
    assert [placement["node"] for placement in placements] == ["a", "b"]
    assert placements[0]["pod"]["from"] == {
        "file": "standard input",
        "document": 1,
        "line": 4,
        "kind": "Deployment",
        "name": "web",
    }


def test_what_comes_with_a_manifest_counts_but_the_snapshot_stays_what_it_was() -> None:
    claim = head("PersistentVolumeClaim", name="data") | {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    user = pod("user", cpu="1", volumes=volumes)
    cluster = [node("a")]

    without, _ = plan(cluster, user)
    together, planner = plan(cluster, user, claim)

    assert "not found" in without.placements[0].message
    assert "unbound immediate PersistentVolumeClaims" in together.placements[0].message
    assert planner.snapshot.persistent_volume_claims == ()


CRON_JOB: Object = head("CronJob", name="web") | {
    "spec": {"schedule": "@daily", "jobTemplate": {"spec": job()["spec"]}}
}


@pytest.mark.parametrize(
    ("manifest", "counted"), [(workload("Deployment"), "replicasets.apps"), (CRON_JOB, "jobs.batch")]
)
def test_quotas_count_what_stands_between_a_workload_and_its_pods(manifest: Object, counted: str) -> None:
    quota = head("ResourceQuota", name="q", namespace="default") | {"spec": {"hard": {f"count/{counted}": "0"}}}
    found, _ = plan([node("a"), quota], manifest)
    message = found.placements[0].message
    assert f'{counted} "web' in message
    assert f"is forbidden: exceeded quota: q, requested: count/{counted}=1, used: count/{counted}=0" in message


def test_a_pod_that_the_api_server_would_refuse_is_an_error_with_its_text() -> None:
    limits = head("LimitRange", name="limits", namespace="default", uid="limits") | {
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "50m"}}]}
    }
    found, _ = plan([node("a"), limits], workload("Deployment", replicas=1))
    assert found.placements[0].outcome.value == "Error"
    assert "is forbidden" in found.placements[0].message


def test_objects_that_an_api_server_would_not_take_are_errors_with_their_place() -> None:
    bare = workload("Deployment", replicas=3)
    bare["spec"]["template"]["spec"]["containers"] = []
    with pytest.raises(kplan.ManifestError) as caught:
        plan([node("a")], bare)
    (problem,) = caught.value.problems
    assert (problem.document, problem.json_path) == (1, "$.spec.template.spec.containers")


def _claim(name: str = "data", **more: Any) -> Object:
    claim_spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return head("PersistentVolumeClaim", name=name, **more.pop("metadata", {})) | {"spec": {**claim_spec, **more}}


def test_what_exists_keeps_its_status_and_what_it_is_bound_to() -> None:
    bound = _claim(volumeName="disk", metadata={"annotations": {"pv.kubernetes.io/bind-completed": "yes"}})
    budget = head("PodDisruptionBudget", name="web") | {
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    }
    cluster = [node("a"), bound, {**budget, "status": {"disruptionsAllowed": 1}}]

    _, planner = plan(
        cluster, pod("p", cpu="1"), _claim(), {**budget, "spec": {"selector": {"matchLabels": {"app": "x"}}}}
    )

    (claim,) = planner.objects.persistent_volume_claims
    (held,) = planner.objects.pod_disruption_budgets
    assert claim.spec.volume_name == "disk"
    assert held.status.disruptions_allowed == 1
    assert held.spec.selector is not None
    assert held.spec.selector.match_labels == {"app": "x"}


def test_a_claim_that_is_refused_is_told_and_is_not_there() -> None:
    claim = head("PersistentVolumeClaim", name="data") | {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "3Gi"}}}
    }
    quota = head("ResourceQuota", name="q", namespace="default") | {"spec": {"hard": {"requests.storage": "2Gi"}}}
    user = pod("user", cpu="1", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])

    found, planner = plan([node("a"), quota], claim, user)

    assert "not found" in found.placements[0].message
    assert [warning.message for warning in planner.warnings] == [
        (
            'persistentvolumeclaims "data" is forbidden: exceeded quota: q, requested: requests.storage=3Gi,'
            " used: requests.storage=0, limited: requests.storage=2Gi"
        )
    ]


def test_a_namespace_that_enforces_a_level_of_security_refuses_what_is_below() -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": labels}}
    web = workload("Deployment", replicas=1)
    found, _ = plan([node("a"), namespace], web)
    assert 'is forbidden: violates PodSecurity "restricted:latest": allowPriv' in found.placements[0].message


def test_a_quota_that_changes_is_counted_anew() -> None:
    def quota(pods: str) -> Object:
        return head("ResourceQuota", name="q", namespace="default") | {
            "spec": {"hard": {"pods": pods}},
            "status": {"hard": {"pods": "2"}, "used": {"pods": "2"}},
        }

    planner = planner_of(node("a"), quota("2"))

    def n_pods(*manifests: Object) -> int:
        return len(planner.roll_out([*manifests, workload("Deployment", replicas=4)]).after)

    assert (n_pods(), n_pods(quota("2")), n_pods(quota("3")), n_pods(quota("1"))) == (0, 0, 3, 1)


def pod_group(name: str = "train", **spec: Any) -> dict[str, Any]:
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    return head("PodGroup", name=name, namespace="default") | {"spec": {**policy, **spec}}


def applied_groups(*objects: dict[str, Any]) -> tuple[list[Any], list[str]]:
    snapshot = kplan.load_snapshot([node("a"), head("PriorityClass", name="high") | {"value": 100}])
    text = Text("standard input", yaml.safe_dump_all([*objects, workload("Deployment", replicas=1)]).encode())
    read = load_manifests([text], ReadOptions(snapshot=snapshot))
    incoming = admit_manifests(read, snapshot, keeps_groups=True)
    groups = [obj for obj in incoming.objects if isinstance(obj, PodGroup)]
    return [group.spec.priority for group in groups], [warning.message for warning in incoming.warnings]


def test_a_pod_group_of_an_unknown_class_or_another_priority_is_refused() -> None:
    groups, warnings = applied_groups(pod_group(priorityClassName="nope"))
    assert groups == []
    assert warnings[0].endswith('"train" is forbidden: no PriorityClass with name nope was found')
    groups, warnings = applied_groups(pod_group(priorityClassName="high", priority=7))
    assert groups == []
    assert "must match the priority computed (100)" in warnings[0]
