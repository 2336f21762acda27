"""Objects of a snapshot, found as plugins ask for them."""

import pytest

from kplan.api.core import Namespace, Service
from kplan.api.decode import convert
from kplan.api.resource import DeviceClass
from kplan.api.workloads import PodDisruptionBudget
from kplan.framework.listers import Listers
from kplan.snapshot.model import Snapshot


def named(kind, *names, namespace="default"):
    return tuple(convert({"metadata": {"name": name, "namespace": namespace}}, kind) for name in names)


def test_namespaces_that_are_not_known_have_no_labels():
    blue = convert({"metadata": {"name": "blue", "labels": {"team": "a"}}}, Namespace)
    listers = Listers(Snapshot(namespaces=(blue,)))
    assert listers.namespace_labels("blue") == {"team": "a"}
    assert listers.namespace_labels("red") == {}


def test_services_are_found_by_namespace_in_their_order():
    services = (*named(Service, "b", "a"), *named(Service, "c", namespace="blue"))
    found = Listers(Snapshot(services=services)).services_by_namespace
    assert {key: [each.metadata.name for each in value] for key, value in found.items()} == {
        "default": ["b", "a"],
        "blue": ["c"],
    }


def test_budgets_come_in_order():
    budgets = (*named(PodDisruptionBudget, "b", "a"), *named(PodDisruptionBudget, "c", namespace="blue"))
    found = Listers(Snapshot(pod_disruption_budgets=budgets)).pod_disruption_budgets
    assert [(each.metadata.namespace, each.metadata.name) for each in found] == [
        ("blue", "c"),
        ("default", "a"),
        ("default", "b"),
    ]


def device_class(name, resource=None, hour=1):
    return convert(
        {
            "metadata": {"name": name, "creationTimestamp": f"2026-03-01T0{hour}:00:00Z"},
            "spec": {} if resource is None else {"extendedResourceName": resource},
        },
        DeviceClass,
    )


OWN = "deviceclass.resource.kubernetes.io/"


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        pytest.param([device_class("gpu")], {OWN + "gpu": "gpu"}, id="by its own name"),
        pytest.param([device_class("gpu", "example.com/gpu")], {OWN + "gpu": "gpu", "example.com/gpu": "gpu"},
                     id="by the resource that it names"),
        pytest.param([device_class("a", "example.com/gpu", 2), device_class("b", "example.com/gpu", 1)],
                     {OWN + "a": "a", "example.com/gpu": "a"}, id="the older of two loses, and its own name with it"),
        pytest.param([device_class("a", "example.com/gpu", 1), device_class("b", "example.com/gpu", 2)],
                     {OWN + "a": "a", OWN + "b": "b", "example.com/gpu": "b"}, id="the younger of two wins"),
        pytest.param([device_class("b", "example.com/gpu"), device_class("a", "example.com/gpu")],
                     {OWN + "a": "a", "example.com/gpu": "a"}, id="of two equally old the first by name"),
    ],
)  # fmt: skip
def test_classes_behind_extended_resources(classes, expected):
    found = Listers(Snapshot(device_classes=tuple(classes))).extended_resource_classes
    assert {resource: each.metadata.name for resource, each in found.items()} == expected
