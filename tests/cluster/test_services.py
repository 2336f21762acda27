import json
from typing import Any

import pytest

import kplan
from kplan.snapshot.own_file import save_snapshot
from kplan.snapshot.redact import redact_snapshot
from tests.objects import Object, head, planner_of

LAST = "kubectl.kubernetes.io/last-applied-configuration"


def service(name: str, _last: Object | None = None, **spec: Any) -> Object:
    notes = {"annotations": {LAST: json.dumps({"spec": _last})}} if _last is not None else {}
    return head("Service", name=name, namespace="default", **notes) | {"spec": {"ports": [{"port": 80}], **spec}}


def refused(cluster: list[Object], *manifests: Object) -> dict[str, str]:
    """Apply manifests, and return what the API server refuses, with its words about the field."""
    change = planner_of(cluster).roll_out(manifests)
    warnings = [warning for warning in change.warnings if warning.code == "Refused"]
    return {warning.object.split("/")[-1]: warning.message.partition(" is invalid: ")[2] for warning in warnings}


WEB = service("web", clusterIP="10.0.0.1", clusterIPs=["10.0.0.1"], ipFamilies=["IPv4"])
BALANCED = {"type": "LoadBalancer", "loadBalancerClass": "example.com/lb"}


def test_a_manifest_changes_a_service_unless_it_changes_what_must_stay() -> None:
    assert refused([WEB], service("web", selector={"app": "web"})) == {}
    assert refused([WEB], service("web", clusterIP="None")) == {
        "web": 'spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set'
    }


def test_what_kubectl_applied_last_and_no_more_is_gone() -> None:
    web = {**WEB["spec"], **BALANCED}
    words = "spec.loadBalancerClass: Invalid value: null: may not change once set"
    assert refused([service("web", BALANCED, **web)], service("web", type="LoadBalancer")) == {"web": words}
    # Somebody else gave it its class: it stays.
    assert refused([service("web", **web)], service("web", type="LoadBalancer")) == {}


def test_no_two_services_have_one_address_or_one_node_port() -> None:
    own = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}
    taken = "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"
    address = 'spec.clusterIPs: Invalid value: ["10.0.0.1"]: failed to allocate IP 10.0.0.1: provided IP is already'
    checked = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30080}

    assert refused([service("web", **own)], service("web", **own), service("api", **own)) == {"api": taken}
    assert refused([service("web", **checked)], service("api", **own)) == {"api": taken}
    assert refused([WEB], service("api", clusterIP="10.0.0.1")) == {"api": f"{address} allocated"}
    assert refused([], service("web", **own), service("api", **own)) == {"api": taken}
    assert refused([service("a", clusterIP="None")], service("b", clusterIP="None")) == {}


def cidr(name: str, *cidrs: str, ready: str = "True", **metadata: Any) -> Object:
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return head("ServiceCIDR", "networking.k8s.io/v1", name=name, **metadata) | {
        "spec": {"cidrs": list(cidrs)},
        "status": status,
    }


@pytest.mark.parametrize(
    ("address", "is_outside"),
    [
        ("10.96.0.1", False),
        ("10.96.0.0", True),  # the network's
        ("10.96.0.255", True),  # for broadcasts
        ("10.97.0.1", True),
        ("fd00::1", False),
        ("fd00::", True),
        ("fd00::ffff", False),
        ("10.98.0.1", True),  # of a range that is not ready
        ("10.99.0.1", True),  # of a range that is being deleted
        ("None", False),
        ("", False),
    ],
)
def test_services_have_addresses_of_the_ranges_of_the_cluster(address: str, is_outside: bool) -> None:
    cluster = [
        cidr("kubernetes", "10.96.0.0/24", "fd00::/112"),
        cidr("new", "10.98.0.0/24", ready="False"),
        cidr("old", "10.99.0.0/24", deletionTimestamp="2026-01-01T00:00:00Z"),
    ]
    words = f"failed to allocate IP {address}: the provided network does not match the current range"
    expected = {"api": f'spec.clusterIPs: Invalid value: ["{address}"]: {words}'} if is_outside else {}

    assert refused(cluster, service("api", clusterIP=address)) == expected


def test_ranges_that_are_not_known_refuse_nothing() -> None:
    cluster = redact_snapshot(kplan.load_snapshot([head("Node", name="n"), cidr("kubernetes", "10.96.0.0/24")]))
    assert "10.96" not in str(cluster.service_cidrs)
    for snapshot in (cluster, kplan.load_snapshot([head("Node", name="n")])):
        assert not kplan.Planner(snapshot).roll_out([service("api", clusterIP="10.0.0.1")]).warnings


def test_a_node_port_that_a_service_gives_up_is_free() -> None:
    own = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}
    other = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30081}]}
    assert refused([service("web", **own)], service("web", **other), service("api", **own)) == {}


def test_a_saved_and_a_redacted_snapshot_judge_alike(tmp_path: Any) -> None:
    snapshot = kplan.load_snapshot([head("Node", name="n"), WEB, service("lb", **BALANCED, clusterIP="10.0.0.2")])
    file = tmp_path / "cluster.json"
    save_snapshot(snapshot, file)
    again = kplan.load_snapshot(file)

    assert again.services == snapshot.services
    redacted = redact_snapshot(snapshot)
    assert [text.spec.load_balancer_class is None for text in redacted.services].count(False) == 1
    assert "10.0.0" not in str(redacted.services)
