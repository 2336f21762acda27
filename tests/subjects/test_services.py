import json
from typing import Any

import kplan
from kplan.snapshot.own_file import save_snapshot
from kplan.snapshot.redact import redact_snapshot
from tests.objects import head

Object = dict[str, Any]

LAST = "kubectl.kubernetes.io/last-applied-configuration"


def service(name: str, _last: Object | None = None, **spec: Any) -> Object:
    notes = {"annotations": {LAST: json.dumps({"spec": _last})}} if _last is not None else {}
    return head("Service", name=name, namespace="default", **notes) | {"spec": {"ports": [{"port": 80}], **spec}}


def refused(cluster: list[Object], *manifests: Object) -> dict[str, str]:
    """Apply manifests, and return what the API server refuses, with its words about the field."""
    change = kplan.Planner(kplan.load_snapshot(cluster)).roll_out(manifests)
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


def test_ports_that_a_manifest_names_no_more_are_gone() -> None:
    assert refused([WEB], service("web", ports=[{"port": 8080}])) == {}


def test_no_two_services_have_one_address_or_one_node_port() -> None:
    own = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}
    taken = "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"
    address = 'spec.clusterIPs: Invalid value: ["10.0.0.1"]: failed to allocate IP 10.0.0.1'

    assert refused([service("web", **own)], service("web", **own), service("api", **own)) == {"api": taken}
    assert refused([WEB], service("api", clusterIP="10.0.0.1")) == {
        "api": f"{address}: provided IP is already allocated"
    }
    assert refused([], service("web", **own), service("api", **own)) == {"api": taken}
    assert refused([service("a", clusterIP="None")], service("b", clusterIP="None")) == {}


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
