"""Karpenter's pools and overlays are refused as its CRDs refuse them, with the place of each mistake."""

from typing import Any

import pytest

import kplan


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


@pytest.mark.parametrize(
    "obj",
    [
        requirement(operator="Gte", values=["0"]),
        template(expireAfter="Never", terminationGracePeriod="1h30m"),
        budget(nodes="100%", reasons=["Empty"], schedule="0 9 * * mon-fri", duration="8h"),
        budget(reasons=[]),
        overlay(priceAdjustment="-10%", weight=10_000),
        overlay(price="0.25", requirements=[{"key": "a", "operator": "Exists"}]),
    ],
)
def test_what_a_crd_takes_is_taken(obj: dict[str, Any]) -> None:
    snapshot = kplan.load_snapshot([obj])

    assert len(snapshot.node_pools) + len(snapshot.node_overlays) == 1
