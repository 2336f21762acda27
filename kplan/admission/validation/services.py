"""Services (pkg/apis/core/validation validateService), with the defaults of the API server.

What depends on the addresses of a cluster, such as free node ports, is not judged.
"""

from __future__ import annotations

from typing import Any

from kplan.admission.validation.errors import (
    Errors,
    GoStruct,
    duplicate,
    enum_errors,
    forbidden,
    invalid,
    invalids,
    not_supported,
    required,
)
from kplan.admission.validation.metadata import label_errors, metadata_errors
from kplan.admission.validation.texts import (
    dns_label,
    dns_label_error,
    dns_subdomain_error,
    ip_errors,
    label_key_errors,
    port_name,
    port_number,
)

Object = dict[str, Any]
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_MOST_AFFINITY = 86_400


def service_errors(obj: Object) -> Errors:
    """Return what is wrong with a Service."""
    spec: Object = obj.get("spec", {})
    kind, ports = spec.get("type", "ClusterIP"), spec.get("ports", [])
    addresses: list[str] = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
    is_headless = addresses[:1] == ["None"]
    errors = _name_errors(obj.get("metadata", {}))
    if not ports and not is_headless and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if kind in ("LoadBalancer", "NodePort") and is_headless:
        errors.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        errors += _external_name_errors(spec, addresses)
    names: set[str] = set()
    for index, port in enumerate(ports):
        errors += _port_errors(port, names, f"spec.ports[{index}]", needs_name=len(ports) > 1)
    errors += label_errors(spec.get("selector", {}), "spec.selector")
    errors += _affinity_errors(spec)
    if kind != "ExternalName":
        errors += _address_errors(spec, addresses)
    for index, address in enumerate(spec.get("externalIPs", [])):
        errors += ip_errors(address, f"spec.externalIPs[{index}]")
    errors += enum_errors(kind, _TYPES, "spec.type")
    return errors + _unique_port_errors(ports, kind) + _traffic_errors(spec, kind)


def _name_errors(metadata: Object) -> Errors:
    return metadata_errors(metadata, dns_label)


def _external_name_errors(spec: Object, addresses: list[str]) -> Errors:
    errors: Errors = []
    for key, is_set in (("clusterIPs", bool(addresses)), ("ipFamilies", bool(spec.get("ipFamilies")))):
        errors += [forbidden(f"spec.{key}", "may not be set for ExternalName services")] if is_set else []
    if "ipFamilyPolicy" in spec:
        errors.append(forbidden("spec.ipFamilyPolicy", "may not be set for ExternalName services"))
    name = spec.get("externalName", "").removesuffix(".")
    return errors + (dns_subdomain_error(name, "spec.externalName") if name else [required("spec.externalName")])


def _port_errors(port: Object, names: set[str], path: str, *, needs_name: bool) -> Errors:
    errors: Errors = []
    name = port.get("name", "")
    if name:
        errors += dns_label_error(name, f"{path}.name")
        errors += [duplicate(f"{path}.name", name)] if name in names else []
        names.add(name)
    elif needs_name:
        errors.append(required(f"{path}.name"))
    number = port.get("port", 0)
    errors += invalids(f"{path}.port", number, port_number(number))
    protocol = port.get("protocol", "TCP")
    errors += enum_errors(protocol, _PROTOCOLS, f"{path}.protocol")
    target = port.get("targetPort") or number
    problems = port_name(target) if isinstance(target, str) else port_number(target)
    errors += invalids(f"{path}.targetPort", target, problems)
    if "appProtocol" in port:
        errors += label_key_errors(port["appProtocol"], f"{path}.appProtocol")
    return errors


def _affinity_errors(spec: Object) -> Errors:
    kind, config = spec.get("sessionAffinity", "None"), spec.get("sessionAffinityConfig")
    errors = enum_errors(kind, ("ClientIP", "None"), "spec.sessionAffinity")
    if kind == "None" and config is not None:
        errors.append(forbidden("spec.sessionAffinityConfig", "must not be set when session affinity is None"))
    timeout = (config or {}).get("clientIP", {}).get("timeoutSeconds", 1)
    if kind == "ClientIP" and not 0 < timeout <= _MOST_AFFINITY:
        words = f"must be greater than 0 and less than {_MOST_AFFINITY}"
        errors.append(invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", timeout, words))
    return errors


def _address_errors(spec: Object, addresses: list[str]) -> Errors:
    errors: Errors = []
    first, listed = spec.get("clusterIP", ""), spec.get("clusterIPs", [])
    if first and listed and listed[0] != first:
        errors.append(invalid("spec.clusterIPs", listed, "first value must match `clusterIP`"))
    families: list[str] = spec.get("ipFamilies", [])
    for index, family in enumerate(families):
        errors += enum_errors(family, ("IPv4", "IPv6"), f"spec.ipFamilies[{index}]")
        errors += [duplicate(f"spec.ipFamilies[{index}]", family)] if family in families[:index] else []
    allowed = ("PreferDualStack", "RequireDualStack", "SingleStack")
    errors += enum_errors(spec.get("ipFamilyPolicy"), allowed, "spec.ipFamilyPolicy")
    for index, address in enumerate(addresses):
        if index == 0 and address == "None":
            if len(addresses) > 1:
                errors.append(invalid("spec.clusterIPs", addresses, "'None' must be the first and only value"))
            continue
        errors += ip_errors(address, f"spec.clusterIPs[{index}]")
    if len(addresses) > 2:
        errors.append(invalid("spec.clusterIPs", addresses, "may only hold up to 2 values"))
    return errors


def _unique_port_errors(ports: list[Object], kind: str) -> Errors:
    errors: Errors = []
    if kind == "ClusterIP":
        words = "may not be used when `type` is 'ClusterIP'"
        with_node_port = [index for index, port in enumerate(ports) if port.get("nodePort")]
        errors += [forbidden(f"spec.ports[{index}].nodePort", words) for index in with_node_port]
    for key in ("nodePort", "port"):
        used: set[tuple[str, int]] = set()
        for index, port in enumerate(ports):
            pair = (port.get("protocol", "TCP"), port.get(key, 0))
            if pair in used and (key == "port" or pair[1]):
                shown = {"name": "", "protocol": pair[0], "appProtocol": None, "port": pair[1]}
                shown |= {"targetPort": 0, "nodePort": 0}
                at = f"spec.ports[{index}]"
                is_node_port = key == "nodePort"
                errors.append(duplicate(f"{at}.nodePort", pair[1]) if is_node_port else duplicate(at, GoStruct(shown)))
            used.add(pair)
    return errors


def _traffic_errors(spec: Object, kind: str) -> Errors:
    errors: Errors = []
    balanced = {
        "loadBalancerSourceRanges": "LoadBalancerSourceRanges",
        "loadBalancerClass": "loadBalancerClass",
        "allocateLoadBalancerNodePorts": "allocateLoadBalancerNodePorts",
    }
    for key, shown in balanced.items():
        if kind != "LoadBalancer" and spec.get(key) not in (None, []):
            errors.append(forbidden(f"spec.{shown}", "may only be used when `type` is 'LoadBalancer'"))
    policy = spec.get("externalTrafficPolicy", "")
    is_outside = kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))
    if policy and not is_outside:
        words = "may only be set for externally-accessible services"
        errors.append(invalid("spec.externalTrafficPolicy", policy, words))
    elif policy and policy not in ("Cluster", "Local"):
        errors.append(not_supported("spec.externalTrafficPolicy", policy, ("Cluster", "Local")))
    if spec.get("healthCheckNodePort") and not (kind == "LoadBalancer" and policy == "Local"):
        words = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.append(invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], words))
    errors += enum_errors(spec.get("internalTrafficPolicy"), ("Cluster", "Local"), "spec.internalTrafficPolicy")
    return errors + enum_errors(spec.get("trafficDistribution"), _DISTRIBUTIONS, "spec.trafficDistribution")
