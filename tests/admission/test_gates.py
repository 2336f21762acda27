"""Fields behind a gate that is off are dropped, as the API server drops them, and nothing else is."""

from typing import Any

import msgspec
import pytest

import kplan
from kplan.admission.gates import FIELDS, disabled_fields, without_disabled_fields
from kplan.config.releases import release_of
from tests.objects import Object, head, node, pod
from tests.scenarios import scenarios


def off(*gates: str) -> Any:
    return disabled_fields(lambda gate: gate not in gates)


def test_a_field_goes_with_its_gate_and_takes_nothing_along() -> None:
    plain = pod("p", cpu="1")
    snapshot = kplan.load_snapshot([plain, pod("q", cpu="1", resources={"requests": {"cpu": "3"}})])
    kept = without_disabled_fields(snapshot, off("PodLevelResources"))
    assert [each.spec.resources for each in kept.pods] == [None, None]
    assert kept.pods[0] is snapshot.pods[0]
    assert (
        msgspec.structs.replace(kept.pods[1].spec, resources=snapshot.pods[1].spec.resources) == snapshot.pods[1].spec
    )


def test_fields_deep_inside_lists_are_dropped() -> None:
    for scenario in scenarios("dra2"):
        snapshot = kplan.load_snapshot(scenario["objects"])
        kept = without_disabled_fields(snapshot, disabled_fields(release_of("1.35").is_on))
        for each in kept.resource_slices:
            assert each.spec.shared_counters == ()
            assert all(device.taints == device.consumes_counters == () for device in each.spec.devices)
        for device_class in kept.device_classes:
            assert device_class.spec.extended_resource_name is None
    shared = {"name": "d", "capacity": {"memory": {"value": "1Gi", "requestPolicy": {"default": "1Mi"}}}}
    slice_ = head("ResourceSlice", name="s") | {"spec": {"driver": "d", "pool": {"name": "p"}, "devices": [shared]}}
    (kept_slice,) = without_disabled_fields(kplan.load_snapshot([slice_]), off("DRAConsumableCapacity")).resource_slices
    assert kept_slice.spec.devices[0].capacity["memory"].request_policy is None


def test_every_field_exists_and_belongs_to_a_gate_of_some_release() -> None:
    gates = set(release_of("1.36").gates)
    for gate, fields in FIELDS.items():
        assert gate in gates
        for cls, name in fields:
            assert name in {field.name for field in msgspec.structs.fields(cls)}


def test_pod_level_resources_count_where_their_gate_is_on() -> None:
    objects = [node("a", "2"), pod("p", cpu="1", resources={"requests": {"cpu": "3"}})]
    snapshot = kplan.load_snapshot(objects)
    assert kplan.Planner(snapshot).place("default/p").node is None
    assert kplan.Planner(snapshot, kubernetes="1.33").place("default/p").node == "a"
    gates = {"PodLevelResources": False, "InPlacePodLevelResourcesVerticalScaling": False}
    assert kplan.Planner(snapshot, feature_gates=gates).place("default/p").node == "a"
    assert kplan.Planner(snapshot, feature_gates=gates).place(objects[1]).node == "a"


@pytest.mark.parametrize(("version", "outcome"), [("1.33.5", "a"), ("1.33.6", None), ("1.36", None)])
@pytest.mark.parametrize("policy", ["Always", None])
def test_host_ports_of_sidecars_keep_pods_apart_where_the_scheduler_looks_at_them(
    version: str, outcome: str | None, policy: str | None
) -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}]
    always = {} if policy is None else {"restartPolicy": policy}
    init: dict[str, Any] = {"initContainers": [{"name": "sidecar", "image": "x", "ports": ports, **always}]}
    standing = pod("standing", cpu="1", **init)
    standing["spec"]["nodeName"] = "a"
    planner = kplan.Planner(kplan.load_snapshot([node("a"), standing]), kubernetes=version)
    assert planner.place(pod("new", cpu="1", **init)).node == (outcome if policy else "a")


def test_ports_of_other_containers_count_in_every_release() -> None:
    held = pod("standing", cpu="1")
    held["spec"]["nodeName"] = "a"
    wanted = pod("new", cpu="1")
    for each in (held, wanted):
        each["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    planner = kplan.Planner(kplan.load_snapshot([node("a"), held]), kubernetes="1.33.5")
    assert planner.place(wanted).node is None


_CLUSTER: list[Object] = [
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "b"}}},
    head("ResourceQuota", name="budget", namespace="default") | {"spec": {"hard": {"limits.memory": "1Gi"}}},
]


def _pod(container: Object | None = None, **spec: Any) -> Object:
    resources = {"limits": {"memory": "1Mi"}}
    containers = [{"name": "c", "image": "i", "resources": resources, **(container or {})}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}


def _made(manifest: Object, minor: str) -> Any:
    planner = kplan.Planner(kplan.load_snapshot(_CLUSTER), kubernetes=minor)
    (made,) = planner.pods([manifest])
    return made


_RULES = {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In"}}]}


@pytest.mark.parametrize(
    ("manifest", "since", "path"),
    [
        (_pod(hostnameOverride="h"), 35, "hostnameOverride"),
        (_pod(volumes=[{"name": "v", "image": {"reference": "i"}}]), 35, "image"),
        (_pod(_RULES), 35, "restartPolicyRules"),
        (_pod(resources={"limits": {"memory": "1Gi"}}), 34, '"limits": {"memory": "1Gi"}'),
        (_pod(resourceClaims=[{"name": "r", "resourceClaimName": "r"}]), 34, "resourceClaims"),
        (_pod(nodeName="n"), 35, '"topology.kubernetes.io/zone"'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_field_is_there_from_its_minor_on(manifest: Object, since: int, path: str) -> None:
    for minor in (33, 34, 35, 36):
        made = _made(manifest, f"1.{minor}")
        assert made.refusal == ""
        volumes = [each for each in made.object["spec"]["volumes"] if not each["name"].startswith("kube-api")]
        seen = str({**made.object, "spec": {**made.object["spec"], "volumes": volumes}}).replace("'", '"')
        told = f'"{path}"' if path.isalpha() else path
        is_there = bool(volumes) if path == "image" else told in seen
        assert is_there is (minor >= since), minor


_RESTART_ALL = _RULES | {"restartPolicyRules": [{"action": "RestartAllContainers", "exitCodes": {"operator": "In"}}]}
_BALANCED = {"type": "LoadBalancer", "ports": [{"port": 80}]}
_SIDECAR = _RULES | {"name": "s", "image": "i", "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("manifest", "words", "minors"),
    [
        (_pod(hostAliases=[{"ip": "010.0.0.1"}]), "must not have leading 0s", [36]),
        (head("Service", name="a") | {"spec": {**_BALANCED, "loadBalancerSourceRanges": ["0012::/16"]}}, "", []),
        (_pod(_RESTART_ALL), 'supported values: "Restart"', [35]),
        (_pod(initContainers=[_SIDECAR]), "are not allowed for init containers with restart policy Always", [35]),
        (head("Service", name="1") | {"spec": {"ports": [{"port": 80}]}}, "DNS-1035", [33, 34, 35]),
    ],
)
def test_rules_are_those_of_the_minor(manifest: Object, words: str, minors: list[int]) -> None:
    told = {}
    for minor in (33, 34, 35, 36):
        try:
            kplan.Planner(kplan.load_snapshot([]), kubernetes=f"1.{minor}").pods([pod("q"), manifest])
        except kplan.KplanError as error:
            told[minor] = words in str(error)
    assert told == dict.fromkeys(minors, True)
