from typing import Any

import pytest

from kplan.errors import ManifestError
from kplan.snapshot.model import Snapshot
from kplan.workloads.foreign import pod_templates
from kplan.workloads.manifests import ReadOptions, load_manifests
from tests.objects import head


def template(cpu: str = "1") -> dict[str, Any]:
    container = {"name": "c", "image": "c:1", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": {"app": "canary"}}, "spec": {"containers": [container], "restartPolicy": "Never"}}


def custom(kind: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": kind,
        "metadata": {"name": "canary", "namespace": "shop"},
        "spec": spec,
    }


ROLLOUT = custom("Rollout", replicas=5, template=template())
JOB = custom(
    "TrainJob",
    replicaSpecs={"Master": {"replicas": 1, "template": template()}, "Worker": {"replicas": 3, "template": template()}},
)
POD = head("Pod", name="p") | {"spec": {"containers": [{"name": "c", "image": "c"}]}}


def test_templates_are_found_with_the_number_of_their_pods() -> None:
    assert [(entry.path, entry.replicas) for entry in pod_templates(ROLLOUT)] == [(("spec", "template"), 5)]
    assert [entry.replicas for entry in pod_templates(JOB)] == [1, 3]
    assert pod_templates({"spec": {"containers": "many"}}) == []


def test_an_object_that_nests_without_end_is_given_up() -> None:
    nested: dict[str, Any] = {}
    for _ in range(100):
        nested = {"a": nested, "b": [nested, nested]}
    assert pod_templates({"spec": nested}) == []


def test_a_kind_that_is_not_known_is_a_warning() -> None:
    manifests = load_manifests([POD, ROLLOUT], ReadOptions(snapshot=Snapshot()))
    (warning,) = (warning for warning in manifests.warnings if warning.code == "UnknownPodTemplate")
    assert warning.object == "Rollout/shop/canary"
    assert "template of 5 pods" in warning.message
    assert len(manifests.pods) == 1


def test_its_pods_can_be_placed_as_those_of_a_deployment() -> None:
    manifests = load_manifests([ROLLOUT, JOB], ReadOptions(snapshot=Snapshot(), as_deployments=["rollout", "TrainJob"]))
    names = [(workload.kind, workload.name) for workload in manifests.workloads]
    assert names == [("Deployment", "canary"), ("Deployment", "canary-0"), ("Deployment", "canary-1")]
    assert len(manifests.pods) == 5 + 1 + 3
    assert {warning.code for warning in manifests.warnings} == {"PlacedAsDeployment"}


def test_where_there_is_nothing_else_the_option_is_named() -> None:
    with pytest.raises(ManifestError) as raised:
        load_manifests([ROLLOUT], ReadOptions(snapshot=Snapshot()))
    assert "--as-deployment Rollout" in str(raised.value.problems[0].hint)
