from typing import Any

import pytest

import kplan
from kplan.errors import SnapshotError
from tests.objects import Object


def an_object(kind: str, version: str = "v1", **fields: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x", **fields.pop("metadata", {})}, **fields}


WRONG = {
    "created": (an_object("Node", metadata={"creationTimestamp": "yesterday"}), "$.metadata.creationTimestamp"),
    "empty": (an_object("Node", metadata={"creationTimestamp": ""}), "$.metadata.creationTimestamp"),
    "deleted": (an_object("Pod", metadata={"deletionTimestamp": "2026-13-01"}), "$.metadata.deletionTimestamp"),
    "started": (an_object("Pod", status={"startTime": "12:00"}), "$.status.startTime"),
    "condition": (
        an_object("Pod", status={"conditions": [{"type": "Ready"}, {"type": "A", "lastTransitionTime": "2026-03-01"}]}),
        "$.status.conditions[1].lastTransitionTime",
    ),
    "taint": (
        an_object("Node", spec={"taints": [{"key": "a", "effect": "NoExecute", "timeAdded": "never"}]}),
        "$.spec.taints[0].timeAdded",
    ),
    "job": (
        an_object("Job", "batch/v1", status={"completionTime": "9999-12-31T23:59:59-10:00"}),
        "$.status.completionTime",
    ),
    "claim": (
        an_object("ResourceClaim", "resource.k8s.io/v1", status={"allocation": {"allocationTimestamp": "x"}}),
        "$.status.allocation.allocationTimestamp",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("obj", "path"), WRONG.values(), ids=WRONG)
def test_times_that_are_none_are_problems_with_their_path(obj: Object, path: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        kplan.load_snapshot([obj])
    (problem,) = caught.value.problems
    assert problem.json_path == f"$[0]{path[1:]}"
    assert problem.message.endswith("is not a time")


@pytest.mark.parametrize("time", ["2026-03-01T10:00:00Z", "2026-03-01T10:00:00.123456Z", "2026-03-01T10:00:00+05:30"])
def test_times_as_api_servers_write_them_are_taken(time: str) -> None:
    snapshot = kplan.load_snapshot([an_object("Node", metadata={"creationTimestamp": time})])
    assert snapshot.nodes[0].metadata.creation_timestamp == time


# --- Karpenter's pools and overlays, which are refused as its CRDs refuse them ----------------------------------------


def pool(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"}, "spec": spec}


def overlay(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "o"}, "spec": spec}


def template(**spec: Any) -> dict[str, Any]:
    return pool(template={"spec": spec})


def requirement(**fields: Any) -> dict[str, Any]:
    return template(requirements=[{"key": "a", **fields}])


def budget(**fields: Any) -> dict[str, Any]:
    return pool(disruption={"budgets": [{"nodes": "1", **fields}]})


@pytest.mark.parametrize(
    ("obj", "place", "message"),
    [
        (requirement(operator="Has"), "spec.template.spec.requirements[0].operator", "choose from DoesNotExist"),
        (requirement(operator="In"), "spec.template.spec.requirements[0].values", "In without values"),
        (requirement(operator="Gt", values=["-1"]), "spec.template.spec.requirements[0].values", "whole number"),
        (requirement(operator="Lt", values=["1", "2"]), "spec.template.spec.requirements[0].values", "whole number"),
        (requirement(operator="Exists", minValues=51), "spec.template.spec.requirements[0].minValues", "1 to 50"),
        (requirement(operator="In", values=["b"], minValues=2), "requirements[0].minValues", "with 1 values"),
        (template(expireAfter="30 days"), "spec.template.spec.expireAfter", "is not a duration"),
        (template(terminationGracePeriod="Never"), "spec.template.spec.terminationGracePeriod", "is not a duration"),
        (pool(disruption={"consolidateAfter": "5"}), "spec.disruption.consolidateAfter", "or Never"),
        (pool(disruption={"consolidationPolicy": "Always"}), "spec.disruption.consolidationPolicy", "WhenEmpty"),
        (budget(nodes="101%"), "spec.disruption.budgets[0].nodes", "no number of nodes"),
        (budget(reasons=["Bored"]), "spec.disruption.budgets[0].reasons[0]", "choose from Drifted"),
        (budget(schedule="@daily"), "spec.disruption.budgets[0]", "go together"),
        (budget(schedule="@daily", duration="8"), "spec.disruption.budgets[0].duration", "is not a duration"),
        (pool(weight=101), "spec.weight", "1 to 100"),
        (pool(replicas=-1), "spec.replicas", "0 or more"),
        (overlay(price="cheap"), "spec.price", "is not a price"),
        (overlay(priceAdjustment="10%"), "spec.priceAdjustment", "is no change of a price"),
        (overlay(price="1", priceAdjustment="+1"), "spec", "exclude each other"),
        (overlay(weight=0), "spec.weight", "1 to 10,000"),
        (overlay(requirements=[{"key": "a", "operator": "Is"}]), "spec.requirements[0].operator", "choose from"),
    ],
)
def test_a_mistake_is_pointed_at(obj: dict[str, Any], place: str, message: str) -> None:
    with pytest.raises(kplan.SnapshotError) as refused:
        kplan.load_snapshot([obj])
    (problem,) = refused.value.problems
    assert problem.json_path.endswith(place)
    assert message in f"{problem.message} {problem.hint}"
