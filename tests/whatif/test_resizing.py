"""Recommended requests, given to workloads and their pods on paper."""

import json
from pathlib import Path
from typing import Any

import pytest

from kplan.errors import InputError, UsageError
from kplan.planner.planner import Planner
from tests.objects import Object, head, planner_of
from tests.questions.remedy.test_report import deployment, node


def vpa(name: str, *, mode: str = "Auto", container: str = "c", **target: str) -> Object:
    return head("VerticalPodAutoscaler", name=name, namespace="default") | {
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "resourcePolicy": {"containerPolicies": [{"containerName": "*", "mode": mode}]},
        },
        "status": {"recommendation": {"containerRecommendations": [{"containerName": container, "target": target}]}},
    }


def requests(planner: Planner) -> dict[str, tuple[str, str]]:
    return {
        pod.metadata.name: (str(pod.spec.containers[0].resources.requests["cpu"]), pod.spec.node_name)
        for pod in planner.objects.pods
    }


def test_templates_and_pods_take_what_is_recommended() -> None:
    planner = planner_of(node("a"), deployment("web", "2", ("a", "")), vpa("web", cpu="500m"))
    after = planner.changed(recommendations=["vpa"])

    assert requests(after) == {"web-h1-000": ("500m", "a"), "web-h1-001": ("500m", "")}
    assert after.objects.deployments[0].spec.template.spec.containers[0].resources.requests["cpu"] == "500m"
    (note,) = after.snapshot.changes
    assert (note.change, note.what, note.objects) == ("resize", "vpa", ("Deployment/default/web",))
    assert (note.requests["cpu"].before, note.requests["cpu"].after) == ("2", "500m")
    assert after.plan_queue().report().changes[0].to_node == "a"


def test_a_workload_that_an_operator_made_takes_what_is_recommended_for_it() -> None:
    objects = deployment("web", "2", ("a",))
    items = objects if isinstance(objects, list) else [objects]
    workload = next(obj for obj in items if obj["kind"] == "Deployment")
    shop = {"apiVersion": "example.com/v1", "kind": "Shop", "name": "all", "uid": "s", "controller": True}
    workload["metadata"]["ownerReferences"] = [shop]
    after = planner_of(node("a"), objects, vpa("web", cpu="500m")).changed(recommendations=["vpa"])

    assert requests(after) == {"web-h1-000": ("500m", "a")}
    assert after.objects.deployments[0].spec.template.spec.containers[0].resources.requests["cpu"] == "500m"
    assert after.snapshot.changes[0].objects == ("Deployment/default/web",)


def test_pods_that_have_grown_leave_a_node_on_which_not_all_fit() -> None:
    planner = planner_of(
        node("a"), node("b"), deployment("web", "1", ("a", "a")), deployment("db", "2", ("a",)), vpa("web", cpu="2")
    )
    after = planner.changed(recommendations=["vpa"])
    assert sorted(place for _, place in requests(after).values()) == ["", "a", "a"]
    settled = planner.changed(recommendations=["vpa"], settle=True)
    assert sorted(place for _, place in requests(settled).values()) == ["a", "a", "b"]


def test_a_container_whose_policy_is_off_stays_as_it_is() -> None:
    planner = planner_of(node("a"), deployment("web", "2", ("a",)), vpa("web", mode="Off", cpu="500m"))
    with pytest.raises(UsageError, match="no workload"):
        planner.changed(recommendations=["vpa"])


def krr(**requests: Any) -> Object:
    name = {"kind": "Deployment", "namespace": "default", "name": "web", "container": "c"}
    target = {"cluster": None, **name, "pods": []}
    recommended = {name: {"value": value, "severity": "GOOD"} for name, value in requests.items()}
    return {"scans": [{"object": target, "recommended": {"requests": recommended, "limits": {}}, "severity": "GOOD"}]}


def test_a_report_of_krr_is_read(tmp_path: Path) -> None:
    file = tmp_path / "krr.json"
    file.write_text(json.dumps(krr(cpu=0.2503, memory=268435456.0)))
    after = planner_of(node("a"), deployment("web", "2", ("a",))).changed(recommendations=[str(file)])
    container = after.objects.pods[0].spec.containers[0]
    assert container.resources.requests == {"cpu": "251m", "memory": "268435456"}


@pytest.mark.parametrize("content", [{}, {"scans": 3}, {"scans": [{"object": {}}]}, krr(cpu="?"), krr(cpu=-1)])
def test_what_is_no_report_of_krr_is_refused(content: Object, tmp_path: Path) -> None:
    file = tmp_path / "krr.json"
    file.write_text(json.dumps(content))
    with pytest.raises(InputError):
        planner_of(node("a")).changed(recommendations=[str(file)])


def test_a_container_that_has_another_name_stays_as_it_is() -> None:
    planner = planner_of(node("a"), deployment("web", "2", ("a",)), vpa("web", container="other", cpu="1"))
    assert requests(planner.changed(recommendations=["vpa"])) == {"web-h1-000": ("2", "a")}
