"""Pods with resource claims get nodes with the devices that they ask for."""

from typing import Any

import pytest

import kplan
from kplan.documents.remedies import NodesReport
from tests.autoscaling.karpenter.test_autoscaler import TYPES, node_pool, pod, report_of
from tests.objects import head

DRIVER = "gpu.example.com"
CLASS = head("DeviceClass", name="gpu") | {
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}
}


def gpu(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "attributes": {"model": {"string": "a100"}}, **more}


def types(devices: list[dict[str, Any]], **more: Any) -> list[dict[str, Any]]:
    """Return types of which only the largest has devices."""
    own = {"resourceSlices": [{"driver": DRIVER, "pool": "node", "devices": devices}], **more}
    return [*TYPES[:-1], TYPES[-1] | {"dynamicResources": own}]


def claim(name: str, constraints: Any = (), **wanted: Any) -> dict[str, Any]:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", **wanted}}
    return head("ResourceClaim", name=name, namespace="default") | {
        "spec": {"devices": {"requests": [request], "constraints": list(constraints)}}
    }


def user(name: str, claim_name: str) -> dict[str, Any]:
    return pod(name, "500m", resourceClaims=[{"name": "g", "resourceClaimName": claim_name}])


def decided(catalogue: list[dict[str, Any]], *objects: dict[str, Any]) -> NodesReport:
    karpenter = kplan.Karpenter(instance_types=catalogue, options={"ignoreDRARequests": False})
    return report_of(karpenter, node_pool(), CLASS, *objects)


def pods_by_node(report: NodesReport) -> list[tuple[str, ...]]:
    return [added.pods for added in report.adds]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"count": 3}, "no instance type can satisfy the allocation"),
        ({"deviceClassName": "absent"}, "request r: DeviceClass absent not found"),
        ({"selectors": [{"cel": {"expression": "device.attributes['x'].y == 1"}}]}, "no instance type can satisfy"),
        ({"count": 40}, "more than 32 devices"),
    ],
)
def test_a_claim_that_no_type_meets_is_told(wanted: dict[str, Any], why: str) -> None:
    report = decided(types([gpu("one"), gpu("two")]), claim("c", **wanted), user("p", "c"))
    ((text,),) = report.unhelped["default/p"].values()
    assert why in text


def test_all_devices_of_a_type_go_to_one_claim() -> None:
    claims = [claim("all", allocationMode="All"), claim("one")]
    report = decided(types([gpu("one"), gpu("two")]), *claims, user("a", "all"), user("b", "one"))
    assert sorted(pods_by_node(report)) == [("default/a",), ("default/b",)]


def test_a_claim_may_ask_for_all_devices_of_a_kind_and_some_of_another() -> None:
    is_large = f"device.attributes['{DRIVER}'].model == 'b200'"
    both = claim("c", allocationMode="All", selectors=[{"cel": {"expression": is_large}}])
    both["spec"]["devices"]["requests"].append({"name": "some", "exactly": {"deviceClassName": "gpu"}})
    large = gpu("two", attributes={"model": {"string": "b200"}})

    report = decided(types([gpu("one"), large]), both, user("p", "c"))

    assert pods_by_node(report) == [("default/p",)]


def test_capacity_of_shared_devices_is_shared() -> None:
    shared = gpu("one", capacity={"memory": {"value": "40Gi"}}, allowMultipleAllocations=True)
    claims = [claim(f"c{number}", capacity={"requests": {"memory": "16Gi"}}) for number in range(3)]
    users = [user(f"p{number}", f"c{number}") for number in range(3)]
    report = decided(types([shared]), *claims, *users)
    assert sorted(map(len, pods_by_node(report))) == [1, 2]


def test_devices_are_bound_by_attributes_that_only_the_node_will_know() -> None:
    root = "resource.kubernetes.io/pcieRoot"
    bound = [{"driver": DRIVER, "pool": "node", "device": name} for name in ("two", "three")]
    catalogue = types([gpu("one"), gpu("two"), gpu("three")], attributeBindings=[{"attribute": root, "devices": bound}])
    pair = decided(catalogue, claim("c", [{"matchAttribute": root}], count=2), user("p", "c"))
    triple = decided(catalogue, claim("c", [{"matchAttribute": root}], count=3), user("p", "c"))
    assert pods_by_node(pair) == [("default/p",)]
    assert "default/p" in triple.unhelped
