from typing import Any

from kplan.api.core import Pod
from kplan.api.decode import convert
from kplan.api.kinds import kind_of
from kplan.snapshot.defaults import complete, complete_pod


def completed_pod(labels: dict[str, str] | None = None, **spec: Any) -> Pod:
    return complete_pod(convert({"metadata": {"name": "p", "labels": labels or {}}, "spec": spec}, Pod))


def completed(api_version: str, kind: str, obj: dict[str, Any]) -> Any:
    found = kind_of(api_version, kind)
    assert found is not None
    return complete(convert({"metadata": {"name": "x"}, **obj}, found.type), found)


def test_completing_twice_changes_nothing_more() -> None:
    once = completed_pod(
        {"v": "1"},
        hostNetwork=True,
        containers=[{"name": "c", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}}}],
        resources={"limits": {"memory": "1Gi"}},
        topologySpreadConstraints=[{"matchLabelKeys": ["v"], "labelSelector": {}}],
    )
    assert complete_pod(once) == once


def test_requests_come_from_limits_where_there_are_none() -> None:
    limited = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
    found = completed_pod(
        containers=[{"name": "c", "resources": limited}],
        initContainers=[{"name": "i", "resources": {"limits": {"cpu": "3"}}}],
    )
    assert found.spec.containers[0].resources.requests == {"cpu": "1", "memory": "1Gi"}
    assert found.spec.init_containers[0].resources.requests == {"cpu": "3"}


def test_on_the_host_network_container_ports_are_host_ports() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 90, "hostPort": 91}]
    found = completed_pod(hostNetwork=True, containers=[{"name": "c", "ports": ports}])
    assert [port.host_port for port in found.spec.containers[0].ports] == [80, 91]


def test_pod_level_requests() -> None:
    found = completed_pod(
        resources={"limits": {"cpu": "8", "memory": "8Gi"}},
        containers=[
            {"name": "a", "resources": {"requests": {"cpu": "1"}}},
            {"name": "b", "resources": {"requests": {"cpu": "500m"}, "limits": {"hugepages-2Mi": "4Mi"}}},
        ],
        initContainers=[
            {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "250m"}}},
            {"name": "init", "resources": {"requests": {"cpu": "2"}}},
        ],
    )
    assert found.spec.resources is not None
    assert found.spec.resources.requests == {"cpu": "2250m", "memory": "8Gi", "hugepages-2Mi": "4Mi"}
    assert found.spec.resources.limits == {"cpu": "8", "memory": "8Gi", "hugepages-2Mi": "4Mi"}


def test_label_keys_are_merged_into_selectors_that_exist() -> None:
    labelled = {"labelSelector": {"matchLabels": {"app": "x"}}, "matchLabelKeys": ["v", "absent"]}
    term = {"topologyKey": "zone", **labelled, "mismatchLabelKeys": ["tenant"]}
    weighted = {"weight": 1, "podAffinityTerm": term}
    found = completed_pod(
        {"v": "1", "tenant": "t"},
        affinity={
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]},
        },
        topologySpreadConstraints=[{"matchLabelKeys": ["v"], "labelSelector": {}}, {"matchLabelKeys": ["v"]}],
    )
    near, apart = found.spec.affinity.pod_affinity, found.spec.affinity.pod_anti_affinity
    (required,) = near.required_during_scheduling_ignored_during_execution
    (preferred,) = apart.preferred_during_scheduling_ignored_during_execution
    for selector in (required.label_selector, preferred.pod_affinity_term.label_selector):
        assert [(e.key, e.operator, e.values) for e in selector.match_expressions] == [
            ("v", "In", ("1",)),
            ("tenant", "NotIn", ("t",)),
        ]
    with_selector, without = found.spec.topology_spread_constraints
    assert [e.key for e in with_selector.label_selector.match_expressions] == ["v"]
    assert without.label_selector is None


def test_other_kinds() -> None:
    assert completed("v1", "Node", {"status": {"capacity": {"cpu": "4"}}}).status.allocatable == {"cpu": "4"}
    namespace = completed("v1", "Namespace", {})
    assert namespace.metadata.labels == {"kubernetes.io/metadata.name": "x"}
    volume = completed("v1", "PersistentVolume", {"spec": {"claimRef": {"name": "c"}}})
    assert (volume.spec.volume_mode, volume.status.phase) == ("Filesystem", "Bound")
    claim = completed("v1", "PersistentVolumeClaim", {})
    assert (claim.metadata.namespace, claim.spec.volume_mode, claim.status.phase) == (
        "default",
        "Filesystem",
        "Pending",
    )
    assert completed("storage.k8s.io/v1", "StorageClass", {}).volume_binding_mode == "Immediate"
    driver = completed("storage.k8s.io/v1", "CSIDriver", {})
    assert (driver.spec.attach_required, driver.spec.storage_capacity) == (True, False)
    controller = completed("v1", "ReplicationController", {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}})
    assert controller.spec.selector == {"a": "b"}
