"""Services (pkg/apis/core/validation validateService), with the defaults of the API server.

What depends on the addresses of a cluster, such as free node ports, is not judged.
"""

from __future__ import annotations

from kplan.admission.validation.checks import Object, field, items, needed, one_of, rules, unique
from kplan.admission.validation.errors import Errors, GoStruct, duplicate, forbidden, invalid, not_supported, required
from kplan.admission.validation.metadata import label_errors, metadata
from kplan.admission.validation.service_addresses import (
    EXTERNAL_NAME,
    address_errors,
    is_headless,
    settle_families,
)
from kplan.admission.validation.texts import KEY, LABEL, PORT, PORT_NUMBER, SUBDOMAIN, dns_label, ip_errors

_MOST_AFFINITY = 86_400


def _kind(spec: Object) -> str:
    return str(spec.get("type", "ClusterIP"))


def _kind_errors(spec: Object, path: str) -> Errors:
    kind, addresses = _kind(spec), spec.get("clusterIPs", [])
    if not spec.get("ports") and not is_headless(spec) and kind != EXTERNAL_NAME:
        yield required(f"{path}.ports")
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        yield invalid(f"{path}.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == EXTERNAL_NAME:
        stated = {
            "clusterIPs": addresses,
            "ipFamilies": spec.get("ipFamilies"),
            "ipFamilyPolicy": "ipFamilyPolicy" in spec,
        }
        for key, value in stated.items():
            if value:
                yield forbidden(f"{path}.{key}", "may not be set for ExternalName services")
        name = spec.get("externalName", "").removesuffix(".")
        yield from needed("externalName", SUBDOMAIN)({"externalName": name}, path)


def _ports_errors(ports: list[Object], path: str) -> Errors:
    is_new = unique()
    for index, port in enumerate(ports):
        at, name = f"{path}[{index}]", port.get("name", "")
        if name:
            yield from (*LABEL(name, f"{at}.name"), *is_new(name, f"{at}.name"))
        elif len(ports) > 1:
            yield required(f"{at}.name")
        yield from _port(port, at)
        yield from PORT(port.get("targetPort") or port.get("port", 0), f"{at}.targetPort")
        yield from _protocol(port, at)


_port = rules(
    field("port", PORT_NUMBER, absent=0),
    field("protocol", one_of("SCTP", "TCP", "UDP")),
)
_protocol = field("appProtocol", KEY)


def _affinity_errors(spec: Object, path: str) -> Errors:
    kind, config = spec.get("sessionAffinity", "None"), spec.get("sessionAffinityConfig")
    if kind == "None" and config is not None:
        yield forbidden(f"{path}.sessionAffinityConfig", "must not be set when session affinity is None")
    timeout = (config or {}).get("clientIP", {}).get("timeoutSeconds", 1)
    if kind == "ClientIP" and not 0 < timeout <= _MOST_AFFINITY:
        words = f"must be greater than 0 and less than {_MOST_AFFINITY}"
        yield invalid(f"{path}.sessionAffinityConfig.clientIP.timeoutSeconds", timeout, words)


def _unique_port_errors(spec: Object, path: str) -> Errors:
    ports = spec.get("ports", [])
    for index, port in enumerate(ports):
        if _kind(spec) == "ClusterIP" and port.get("nodePort"):
            yield forbidden(f"{path}.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'")
    for key in ("nodePort", "port"):
        used: set[tuple[str, int]] = set()
        for index, port in enumerate(ports):
            at, pair = f"{path}.ports[{index}]", (port.get("protocol", "TCP"), port.get(key, 0))
            if pair in used and key == "port":
                shown = {"name": "", "protocol": pair[0], "appProtocol": None, "port": pair[1]}
                yield duplicate(at, GoStruct({**shown, "targetPort": 0, "nodePort": 0}))
            elif pair in used and pair[1]:
                yield duplicate(f"{at}.nodePort", pair[1])
            used.add(pair)


def _traffic_errors(spec: Object, path: str) -> Errors:
    kind, policy = _kind(spec), spec.get("externalTrafficPolicy", "")
    for key in ("loadBalancerSourceRanges", "allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if kind != "LoadBalancer" and spec.get(key) not in (None, []):
            called = "LoadBalancerSourceRanges" if key == "loadBalancerSourceRanges" else key
            yield forbidden(f"{path}.{called}", "may only be used when `type` is 'LoadBalancer'")
    if kind == "LoadBalancer" and spec.get("loadBalancerClass") is not None:
        yield from KEY(spec["loadBalancerClass"], f"{path}.loadBalancerClass")
    is_outside = kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))
    if policy and not is_outside:
        words = "may only be set for externally-accessible services"
        yield invalid(f"{path}.externalTrafficPolicy", policy, words)
    elif policy and policy not in ("Cluster", "Local"):
        yield not_supported(f"{path}.externalTrafficPolicy", policy, ("Cluster", "Local"))
    if spec.get("healthCheckNodePort") and not (kind == "LoadBalancer" and policy == "Local"):
        words = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield invalid(f"{path}.healthCheckNodePort", spec["healthCheckNodePort"], words)


spec_errors = rules(
    _kind_errors,
    field("ports", _ports_errors),
    field("selector", label_errors),
    field("sessionAffinity", one_of("ClientIP", "None")),
    _affinity_errors,
    address_errors,
    items("externalIPs", ip_errors),
    field("type", one_of("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")),
    _unique_port_errors,
    _traffic_errors,
    field("internalTrafficPolicy", one_of("Cluster", "Local")),
    field("trafficDistribution", one_of("PreferClose", "PreferSameZone", "PreferSameNode")),
)
"""The check of the ``spec`` of a service, its defaults filled in."""

_service_errors = rules(metadata(dns_label), field("spec", spec_errors))


def service_errors(obj: Object, path: str) -> Errors:
    """Return what is wrong with a new Service; wrong families are told before anything else is checked."""
    spec = dict(obj.get("spec", {}))
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    if errors := settle_families(None, spec):
        return errors
    return _service_errors({**obj, "spec": spec}, path)
