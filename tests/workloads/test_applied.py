"""Manifests that are held against what a cluster has."""

from pathlib import Path
from typing import Any

import pytest

from kplan.errors import ManifestError
from kplan.workloads.applied import read_changes
from tests.objects import head

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
