from typing import Any

from kplan.admission.validation.services import updated_service
from kplan.api.field_errors import errors_in
from tests.objects import Object

PLAIN: Object = {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"]} | {
    "ipFamilyPolicy": "SingleStack",
    "ports": [{"port": 80}],
}
HEADLESS = {**PLAIN, "clusterIP": "None", "clusterIPs": ["None"]}
_FAMILIES = {"clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilies": ["IPv4", "IPv6"]}
DUAL = {**PLAIN, **_FAMILIES, "ipFamilyPolicy": "RequireDualStack"}
_LOCAL = {"externalTrafficPolicy": "Local", "healthCheckNodePort": 31000, "ports": [{"port": 80, "nodePort": 30080}]}
BALANCED: Object = {**PLAIN, **_LOCAL, "type": "LoadBalancer", "loadBalancerClass": "example.com/lb"}
ELSEWHERE = {"type": "ExternalName", "externalName": "db.example.com"}
OLD = {**PLAIN, "clusterIP": "010.0.0.5", "clusterIPs": ["010.0.0.5"]}
ONCE = "may not change once set"


def said(before: Object, **changes: Any) -> list[str]:
    return list(map(str, updated_service(before, before | changes)[1]))


def test_an_external_name_has_no_address_and_needs_a_name() -> None:
    stored, errors = updated_service(PLAIN, PLAIN | ELSEWHERE)
    assert errors == []
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} & stored.keys()
    assert said(PLAIN, type="ExternalName") == ["spec.externalName: Required value"]
    assert said(PLAIN, **ELSEWHERE, clusterIP="10.0.0.2") == [
        "spec.clusterIPs: Forbidden: may not be set for ExternalName services"
    ]


def test_the_second_family_comes_and_goes_with_the_policy() -> None:
    keep = "must be 'SingleStack' to release the secondary"
    several = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"
    policy = "spec.ipFamilyPolicy: Invalid value:"
    assert said(DUAL, ipFamilyPolicy="SingleStack") == []
    assert said(DUAL, clusterIPs=["10.0.0.1"]) == [f'{policy} "RequireDualStack": {keep} cluster IP']
    assert said(DUAL, ipFamilies=["IPv4"]) == [f'{policy} "RequireDualStack": {keep} IP family']
    assert said(PLAIN, ipFamilies=["IPv4", "IPv6"]) == [f'{policy} "SingleStack": {several}']
    assert said(PLAIN, ipFamilies=["IPv4", "IPv6"], ipFamilyPolicy="PreferDualStack") == []
    assert said(PLAIN, ipFamilyPolicy="RequireDualStack") == []


def test_a_stored_service_with_one_address_alone_has_its_family() -> None:
    stored, errors = updated_service({"clusterIP": "10.0.0.1", "ports": [{"port": 80}]}, {"ports": [{"port": 81}]})
    assert (errors, stored["clusterIPs"], stored["ipFamilies"]) == ([], ["10.0.0.1"], ["IPv4"])


def test_the_first_family_stays() -> None:
    turned = {"ipFamilies": ["IPv6", "IPv4"], "clusterIPs": ["fd00::1", "10.0.0.1"], "clusterIP": "fd00::1"}
    errors = said(DUAL, **turned)
    assert f'spec.ipFamilies[0]: Invalid value: ["IPv6","IPv4"]: {ONCE}' in errors
    assert f'spec.clusterIPs[1]: Invalid value: ["fd00::1","10.0.0.1"]: {ONCE}' in errors
    assert said(PLAIN, ipFamilies=["IPv6"]) == [
        'spec.clusterIPs[0]: Invalid value: "10.0.0.1": expected an IPv6 value as indicated by `ipFamilies[0]`'
    ]
    assert said(HEADLESS, ipFamilies=["IPv6"]) == []
    assert said(OLD) == []
    changes = updated_service(OLD, OLD | {"clusterIP": "010.0.0.6"})[1]
    assert [error.detail for error in errors_in(35, changes)] == [ONCE]
    assert [error.detail for error in errors_in(36, changes)] == ["must not have leading 0s"]


def test_a_load_balancer_keeps_its_class_and_the_port_of_its_health_check() -> None:
    assert said(BALANCED, loadBalancerClass=None) == [f"spec.loadBalancerClass: Invalid value: null: {ONCE}"]
    assert said(BALANCED, loadBalancerClass="b") == [f'spec.loadBalancerClass: Invalid value: "b": {ONCE}']
    assert said(BALANCED, healthCheckNodePort=31001) == ["spec.healthCheckNodePort: Forbidden: field is immutable"]
    assert said(BALANCED, healthCheckNodePort=0) == []


def test_what_another_type_lacks_is_wiped_unless_the_manifest_changes_it() -> None:
    stored, errors = updated_service(BALANCED, BALANCED | {"type": "ClusterIP"})
    assert errors == []
    assert stored["ports"] == [{"port": 80, "protocol": "TCP"}]
    assert not {"loadBalancerClass", "healthCheckNodePort", "externalTrafficPolicy"} & stored.keys()
    assert said(BALANCED, type="ClusterIP", externalTrafficPolicy="Cluster") == [
        'spec.externalTrafficPolicy: Invalid value: "Cluster": may only be set for externally-accessible services'
    ]
    assert said(HEADLESS, type="NodePort") == [
        "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"
    ]


def test_node_ports_stay_with_the_names_of_their_ports() -> None:
    before = {**PLAIN, "type": "NodePort", "ports": [{"name": "http", "port": 80, "nodePort": 30080}]}
    stored, errors = updated_service(before, before | {"ports": [{"name": "http", "port": 8080}]})
    assert errors == []
    assert stored["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP", "nodePort": 30080}]
