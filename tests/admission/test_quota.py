from functools import partial
from typing import Any

import msgspec
import pytest

from kplan.admission import Admitter
from kplan.admission.limits import QuotaLedger, Rejection, usage_of
from kplan.api.core import PersistentVolumeClaim, Pod, Service
from kplan.api.decode import convert
from kplan.api.resource import DeviceClass, ResourceClaim
from kplan.snapshot import load_snapshot
from tests.objects import Object, head


def pod(spec: dict[str, Any] | None = None, phase: str = "Pending", **resources: Any) -> Pod:
    own = {"containers": [{"name": "c", "resources": resources}], **(spec or {})}
    return convert(head("Pod", name="p", namespace="d") | {"spec": own, "status": {"phase": phase}}, Pod)


def ledger(
    hard: dict[str, str], used: dict[str, str] | None = None, *others: Object, minor: int = 36, **spec: Any
) -> QuotaLedger:
    """Return the quota of a cluster that has other objects besides; without `used` nobody has counted them yet."""
    status = {} if used is None else {"hard": hard, "used": used}
    quota = head("ResourceQuota", name="q", namespace="d") | {"spec": {"hard": hard, **spec}, "status": status}
    return Admitter(load_snapshot([quota, *others]), minor=minor).quotas


def refusal(quotas: QuotaLedger, candidate: Any) -> Any:
    try:
        quotas.charge(candidate)
    except Rejection as rejection:
        return str(rejection)
    return None


def test_usage_names_every_way_a_quota_can_count() -> None:
    usage = usage_of(
        pod(
            {"overhead": {"cpu": "100m"}},
            requests={"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 2, "hugepages-2Mi": "4Mi"},
            limits={"cpu": "2", "ephemeral-storage": "1Gi"},
        )
    )
    assert {name: str(amount) for name, amount in usage.items()} == {
        "count/pods": "1", "pods": "1",
        "cpu": "1100m", "requests.cpu": "1100m", "limits.cpu": "2100m",
        "memory": "1Gi", "requests.memory": "1Gi", "limits.ephemeral-storage": "1Gi",
        "requests.nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi", "requests.hugepages-2Mi": "4Mi",
    }  # fmt: skip
    assert {*usage_of(pod(phase="Succeeded"))} == {"count/pods"}


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("Deferred", {"requests.cpu": "3", "limits.cpu": "5"}), ("Infeasible", {"requests.cpu": "2", "limits.cpu": "4"})],
)
def test_a_pod_that_is_being_resized_counts_for_what_it_runs_with_too(reason: str, expected: dict[str, str]) -> None:
    """Upstream: determineEffectiveRequests and determineEffectiveLimits; nothing infeasible is counted."""
    starting = {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "100m"}}}]}
    resizing = msgspec.to_builtins(pod(starting, requests={"cpu": "3"}, limits={"cpu": "5"}))
    running = {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}}
    resizing["status"] = {
        "phase": "Running",
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
        "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "2"}, "resources": running}],
    }
    usage = usage_of(convert(resizing, Pod))
    assert {name: str(usage[name]) for name in expected} == expected


def test_a_quota_that_no_controller_has_looked_at_refuses() -> None:
    unknown = "status unknown for quota: q, resources: pods,requests.example.com/a"
    assert refusal(ledger({"pods": "5", "requests.example.com/a": "1"}, {"pods": "0"}), pod()) == unknown


NEAR = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaceSelector": {}}]}}}


def by_class(operator: str) -> dict[str, Any]:
    return {
        "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": ["a"]}]}
    }


@pytest.mark.parametrize(
    ("scopes", "spec", "resources", "counts"),
    [
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 5}, {}, True),
        ({"scopes": ["Terminating"]}, {}, {}, False),
        ({"scopes": ["NotTerminating"]}, {}, {}, True),
        ({"scopes": ["BestEffort"]}, {}, {}, True),
        ({"scopes": ["BestEffort"]}, {}, {"requests": {"cpu": "1"}}, False),
        ({"scopes": ["NotBestEffort"]}, {}, {"limits": {"memory": "1"}}, True),
        ({"scopes": ["PriorityClass"]}, {"priorityClassName": "a"}, {}, True),
        ({"scopes": ["PriorityClass"]}, {}, {}, False),
        ({"scopes": ["Unheard"]}, {}, {}, False),
        ({"scopes": ["CrossNamespacePodAffinity"]}, {}, {}, False),
        ({"scopes": ["CrossNamespacePodAffinity"]}, NEAR, {}, True),
        (by_class("In"), {"priorityClassName": "a"}, {}, True),
        (by_class("In"), {"priorityClassName": "b"}, {}, False),
        (by_class("NotIn"), {"priorityClassName": "a"}, {}, False),
        (by_class("NotIn"), {"priorityClassName": ""}, {}, True),
        (by_class("DoesNotExist"), {"priorityClassName": ""}, {}, True),
        (by_class("DoesNotExist"), {"priorityClassName": "a"}, {}, False),
    ],
)
def test_scopes(scopes: dict[str, Any], spec: dict[str, Any], resources: dict[str, Any], counts: bool) -> None:
    quotas = ledger({"pods": "0"}, {"pods": "0"}, **scopes)
    assert (refusal(quotas, pod(spec, **resources)) is not None) == counts


def written(name: str, storage: str = "1Gi", **spec: str) -> Object:
    own = {"resources": {"requests": {"storage": storage}}, **spec}
    return head("PersistentVolumeClaim", name=name, namespace="d") | {"spec": own}


def claim(name: str, storage: str, storage_class: str) -> PersistentVolumeClaim:
    return convert(written(name, storage, storageClassName=storage_class), PersistentVolumeClaim)


def with_attributes(name: str, attributes: str) -> PersistentVolumeClaim:
    return convert(written(name, volumeAttributesClassName=attributes), PersistentVolumeClaim)


def test_claims_count_by_number_size_and_class() -> None:
    of_class = "gold.storageclass.storage.k8s.io"
    hard = {"persistentvolumeclaims": "3", "requests.storage": "10Gi", f"{of_class}/requests.storage": "4Gi"}
    charge = partial(refusal, ledger(hard, dict.fromkeys(hard, "0")))
    assert charge(claim("a", "3Gi", "gold")) is None
    assert charge(claim("b", "2Gi", "gold")) == (
        f"exceeded quota: q, requested: {of_class}/requests.storage=2Gi, used: {of_class}/requests.storage=3Gi,"
        f" limited: {of_class}/requests.storage=4Gi"
    )
    assert charge(claim("b", "6Gi", "iron")) is None
    assert "requested: requests.storage=2Gi, used: requests.storage=9Gi" in charge(claim("c", "2Gi", "iron"))
    assert charge(claim("c", "1Gi", "iron")) is None
    assert "persistentvolumeclaims=1, used: persistentvolumeclaims=3" in charge(claim("d", "0", "iron"))


def test_a_quota_without_status_measures_its_own_namespace_only() -> None:
    elsewhere = [
        head("Pod", name="p", namespace="b") | {"spec": {"containers": [{"name": "c", "image": "x"}]}},
        head("PersistentVolumeClaim", name="c", namespace="b") | {"spec": {}},
    ]
    quotas = ledger({"persistentvolumeclaims": "1", "pods": "1"}, None, *elsewhere)
    here = convert(written("c"), PersistentVolumeClaim)

    quotas.charge(here)

    with pytest.raises(Rejection, match="used: persistentvolumeclaims=1"):
        quotas.charge(here)


@pytest.mark.parametrize(
    ("operator", "values", "refused"),
    [
        ("In", ["gold"], {"gold"}),
        ("NotIn", ["gold"], {"silver", ""}),
        ("Exists", [], {"gold", "silver"}),
        ("DoesNotExist", [], {""}),
    ],
)
def test_scopes_choose_claims_by_their_volume_attributes_class(
    operator: str, values: list[str], refused: set[str]
) -> None:
    chosen = {"scopeName": "VolumeAttributesClass", "operator": operator, "values": values}
    quotas = ledger({"persistentvolumeclaims": "0"}, scopeSelector={"matchExpressions": [chosen]})
    assert {name for name in ("gold", "silver", "") if refusal(quotas, with_attributes("new", name))} == refused


def test_claims_that_stand_are_measured_within_the_scope() -> None:
    chosen = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"]}
    hard = {"count/persistentvolumeclaims": "1", "requests.storage": "9Gi"}
    there = (written(name, volumeAttributesClassName=of) for name, of in (("a", "gold"), ("b", ""), ("c", "silver")))
    quotas = ledger(hard, None, *there, scopeSelector={"matchExpressions": [chosen]})

    quotas.charge(with_attributes("d", "silver"))
    with pytest.raises(Rejection, match="used: count/persistentvolumeclaims=1"):
        quotas.charge(with_attributes("d", "gold"))


def test_a_quota_without_status_measures_pods_and_objects_of_other_kinds_once_each() -> None:
    there = [
        head("Pod", name="p", namespace="d") | {"spec": {"containers": [{"name": "c", "image": "x"}]}},
        *(head("Deployment", name="d", namespace=namespace) | {"spec": {"selector": {}}} for namespace in "de"),
    ]
    quotas = ledger({"pods": "1", "count/deployments.apps": "1"}, None, *there)
    new = convert(there[0], Pod)
    assert refusal(quotas, new) == "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    with pytest.raises(Rejection, match=r"used: count/deployments\.apps=1, limited"):
        quotas.charge_object("d", "apps", "deployments")


_PORTS = [{"port": 80}, {"port": 81, "nodePort": 30000}]
_EITHER = [{"deviceClassName": "gpu", "count": 2}, {"deviceClassName": "gpu"}, {"deviceClassName": "nic"}]
_DEVICES = [
    {"name": "a", "exactly": {"deviceClassName": "gpu"}},
    {"name": "b", "exactly": {"deviceClassName": "fpga", "allocationMode": "All"}},
    {"name": "c", "firstAvailable": _EITHER},
]


@pytest.mark.parametrize(
    ("kind", "spec", "used"),
    [
        (Service, {"ports": _PORTS}, {"services": "1", "services.nodeports": "0", "services.loadbalancers": "0"}),
        (Service, {"ports": _PORTS, "type": "NodePort"}, {"services.nodeports": "2", "services.loadbalancers": "0"}),
        (Service, {"ports": _PORTS, "type": "LoadBalancer", "allocateLoadBalancerNodePorts": False},
         {"services.nodeports": "1", "services.loadbalancers": "1", "count/services": "1"}),
        (ResourceClaim, {"devices": {"requests": _DEVICES}},
         {f"{of}.deviceclass.resource.k8s.io/devices": n for of, n in (("gpu", "3"), ("fpga", "32"), ("nic", "1"))}
         | {"requests.x/gpu": "3", "requests.deviceclass.resource.kubernetes.io/gpu": "3"}),
    ],
)  # fmt: skip
def test_services_and_claims_for_devices_count_by_what_they_take(
    kind: type[Service | ResourceClaim], spec: dict[str, Any], used: dict[str, str]
) -> None:
    """Upstream: serviceEvaluator and claimEvaluator in pkg/quota/v1/evaluator/core."""
    obj = head(kind.__name__, name="x", namespace="d") | {"spec": spec}
    classes = head("DeviceClass", name="gpu") | {"spec": {"extendedResourceName": "x/gpu"}}
    usage = usage_of(convert(obj, kind), [convert(classes, DeviceClass)])
    assert {name: str(amount) for name, amount in usage.items() if name in used} == used
    newer, older = (refusal(ledger(used, None, obj, classes, minor=n), convert(obj, kind)) for n in (36, 35))
    shown = ",".join(f"{name}={usage[name]}" for name in sorted(used) if usage[name].nanos)
    assert newer == f"exceeded quota: q, requested: {shown}, used: {shown}, limited: {shown}"
    assert (older == newer) == ("requests.x/gpu" not in used)
