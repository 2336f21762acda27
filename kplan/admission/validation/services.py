"""Services, with the defaults of the API server: how it fills in their addresses, and what may change in them.

What depends on the addresses, families and free node ports of a cluster is not known, and not judged.
Upstream: pkg/apis/core/validation validateService, ValidateServiceUpdate, ValidateServiceClusterIPsRelatedFields;
pkg/registry/core/service dropTypeDependentFields, and its storage: initIPFamilyFields, patchAllocatedValues,
normalizeClusterIPs; pkg/apis/core/v1 SetDefaults_Service.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from kplan.admission.validation import checks as check
from kplan.admission.validation.checks import Object
from kplan.admission.validation.metadata import label_errors, metadata_check
from kplan.api.core import HEADLESS
from kplan.api.field_errors import Errors, FieldError, GoStruct, duplicate, forbidden, invalid, not_supported, required
from kplan.api.names import dns_1035_label_problems

EXTERNAL_NAME = "ExternalName"
SINGLE, PREFER_DUAL, REQUIRE_DUAL = "SingleStack", "PreferDualStack", "RequireDualStack"
IPV4, IPV6 = "IPv4", "IPv6"
_BALANCED = "LoadBalancer"
_OUTSIDE = (_BALANCED, "NodePort")
_CLIENT_SECONDS = 10_800
_MOST_AFFINITY = 86_400  # a day (upstream MaxClientIPServiceAffinitySeconds)
_ONCE = "may not change once set"
_RELEASE = "must be set to 'SingleStack' when releasing the secondary {}"

_family_names = check.one_of(IPV4, IPV6)
_policy_names = check.field("ipFamilyPolicy", check.one_of(PREFER_DUAL, REQUIRE_DUAL, SINGLE))
_port = check.rules(
    check.field("port", check.PORT_NUMBER, absent=0), check.field("protocol", check.one_of("SCTP", "TCP", "UDP"))
)
_protocol = check.field("appProtocol", check.KEY)


def is_headless(spec: Object) -> bool:
    return bool(spec.get("clusterIPs") == [HEADLESS])


def family_of(address: str) -> str:
    return IPV6 if ":" in address else IPV4


def address_errors(spec: Object, path: str, stored: Sequence[str] = ()) -> Errors:
    """Return what is wrong with the addresses of a service, but for those `stored`, and with their families."""
    if spec.get("type") == EXTERNAL_NAME:
        return
    first, listed = spec.get("clusterIP", ""), spec.get("clusterIPs", [])
    at = f"{path}.clusterIPs"
    if first and not listed:
        yield required(at)
    elif first != (listed[0] if listed else ""):
        words = "first value must match `clusterIP`" if first else "must be empty when `clusterIP` is not specified"
        yield invalid(at, listed, words)
    yield from check.items("ipFamilies", _family_names, check.unique())(spec, path)
    yield from _policy_names(spec, path)
    wrong = list(_form_errors(listed, at, stored))
    yield from wrong
    if len(listed) > 2:
        yield invalid(at, listed, "may only hold up to 2 values")
    yield from check.behind(wrong, _mismatches(spec, listed, at))


def _mismatches(spec: Object, listed: list[str], at: str) -> Errors:
    if len(listed) > 1 and {family_of(address) for address in listed} != {IPV4, IPV6}:
        yield invalid(at, listed, "may specify no more than one IP for each IP family")
    if not is_headless(spec):
        for index, (address, family) in enumerate(zip(listed, spec.get("ipFamilies", ()), strict=False)):
            if family in (IPV4, IPV6) and family != family_of(address):
                words = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
                yield invalid(f"{at}[{index}]", address, words)


def _form_errors(addresses: list[str], path: str, stored: Sequence[str]) -> Errors:
    for index, address in enumerate(addresses):
        if index == 0 and address == HEADLESS:
            if len(addresses) > 1:
                yield invalid(path, addresses, "'None' must be the first and only value")
        elif address not in stored:
            yield from check.ip_errors(address, f"{path}[{index}]")


def settle_families(before: Object | None, spec: Object) -> list[FieldError]:
    """Fill in policy and families of a service's ``spec``, or return why not; `before` is its present one."""
    old = before or {}
    if spec.get("type") == EXTERNAL_NAME or (before is not None and _stays_dual(old, spec)):
        return []
    if "ipFamilyPolicy" not in spec:
        is_open = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
        spec["ipFamilyPolicy"] = old.get("ipFamilyPolicy") or (REQUIRE_DUAL if is_open else SINGLE)
    earlier = list(address_errors(spec, "spec", old.get("clusterIPs", ())))
    if not check.some_go_on(earlier):
        return earlier
    errors = [] if before is None else list(_released(old, spec))
    if spec["ipFamilyPolicy"] == SINGLE:
        for key, several in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")):
            if len(spec.get(key, [])) == 2:
                words = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {several} are specified"
                errors.append(invalid("spec.ipFamilyPolicy", SINGLE, words))
    families = list(spec.get("ipFamilies", []))
    addresses = [] if is_headless(spec) else spec.get("clusterIPs", [])
    families += map(family_of, addresses[len(families) :])
    if families:
        spec["ipFamilies"] = families
    return [*earlier, *check.behind(earlier, errors)]


def _stays_dual(old: Object, new: Object) -> bool:
    policies = {new.get("ipFamilyPolicy"), old.get("ipFamilyPolicy", PREFER_DUAL)}
    return policies == {PREFER_DUAL} and _is_same(old, new, "type", "clusterIP", "clusterIPs", "ipFamilies")


def _released(old: Object, new: Object) -> Errors:
    """Release the second address and family where the policy says so; else they may not be taken away."""
    is_single = new["ipFamilyPolicy"] == SINGLE
    for key, second in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        listed, former = new.get(key, []), old.get(key, [])
        is_same = listed == former and (key != "clusterIPs" or old.get("clusterIP", "") == new.get("clusterIP", ""))
        if is_single and is_same:
            if len(listed) > 1:
                new[key] = listed[:1]
        elif not is_single and 0 < len(listed) < len(former):
            words = f"must be 'SingleStack' to release the secondary {second}"
            yield invalid("spec.ipFamilyPolicy", new["ipFamilyPolicy"], words)


def _kind_errors(spec: Object, path: str) -> Errors:
    kind = spec["type"]
    if not spec.get("ports") and not is_headless(spec) and kind != EXTERNAL_NAME:
        yield required(f"{path}.ports")
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        yield invalid(f"{path}.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == EXTERNAL_NAME:
        for key in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(key) not in (None, []):  # an empty policy is set, too
                yield forbidden(f"{path}.{key}", "may not be set for ExternalName services")
        name = spec.get("externalName", "").removesuffix(".")
        yield from check.needed("externalName", check.SUBDOMAIN)({"externalName": name}, path)


def _ports_errors(ports: list[Object], path: str) -> Errors:
    is_new = check.unique()
    for index, port in enumerate(ports):
        at, name = f"{path}[{index}]", port.get("name", "")
        if name:
            yield from (*check.LABEL(name, f"{at}.name"), *is_new(name, f"{at}.name"))
        elif len(ports) > 1:
            yield required(f"{at}.name")
        yield from _port(port, at)
        yield from check.port_errors(port.get("targetPort") or port.get("port", 0), f"{at}.targetPort")
        yield from _protocol(port, at)


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
        if spec["type"] == "ClusterIP" and port.get("nodePort"):
            yield forbidden(f"{path}.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'")
    for key in ("nodePort", "port"):
        used: set[tuple[str, int]] = set()
        for index, port in enumerate(ports):
            at, pair = f"{path}.ports[{index}]", (port.get("protocol", "TCP"), port.get(key, 0))
            if pair in used and key == "port":
                shown = {"Name": "", "Protocol": pair[0], "AppProtocol": None, "Port": pair[1]}
                yield duplicate(at, GoStruct({**shown, "TargetPort": 0, "NodePort": 0}))
            elif pair in used and pair[1]:
                yield duplicate(f"{at}.nodePort", pair[1])
            used.add(pair)


def _traffic_errors(spec: Object, path: str) -> Errors:
    kind, policy = spec["type"], spec.get("externalTrafficPolicy", "")
    for key in ("loadBalancerSourceRanges", "allocateLoadBalancerNodePorts", "loadBalancerClass"):
        called = "LoadBalancerSourceRanges" if key == "loadBalancerSourceRanges" else key
        if kind != "LoadBalancer" and spec.get(key) not in (None, []):
            yield forbidden(f"{path}.{called}", "may only be used when `type` is 'LoadBalancer'")
        if called != key:
            yield from check.in_list(check.cidr_errors)(map(str.strip, spec.get(key, ())), f"{path}.{called}")
    if kind == "LoadBalancer" and spec.get("loadBalancerClass") is not None:
        yield from check.KEY(spec["loadBalancerClass"], f"{path}.loadBalancerClass")
    if policy and not _is_outside(spec):
        words = "may only be set for externally-accessible services"
        yield invalid(f"{path}.externalTrafficPolicy", policy, words)
    elif policy and policy not in ("Cluster", "Local"):
        yield not_supported(f"{path}.externalTrafficPolicy", policy, ("Cluster", "Local"))
    if spec.get("healthCheckNodePort") and not (kind == "LoadBalancer" and policy == "Local"):
        words = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield invalid(f"{path}.healthCheckNodePort", spec["healthCheckNodePort"], words)


_distributions = check.since(
    34, check.one_of("PreferClose", "PreferSameZone", "PreferSameNode"), check.one_of("PreferClose")
)
spec_errors = check.rules(
    _kind_errors,
    check.field("ports", _ports_errors),
    check.field("selector", label_errors),
    check.field("sessionAffinity", check.one_of("ClientIP", "None")),
    _affinity_errors,
    address_errors,
    check.items("externalIPs", check.in_turn(check.ip_errors, check.endpoint_errors)),
    check.field("type", check.one_of("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")),
    _unique_port_errors,
    _traffic_errors,
    check.field("internalTrafficPolicy", check.one_of("Cluster", "Local")),
    check.field("trafficDistribution", _distributions),
)
"""The check of the ``spec`` of a service, its defaults filled in."""

_service_errors = check.rules(
    check.since(36, metadata_check(check.dns_label), metadata_check(dns_1035_label_problems)),
    check.field("spec", spec_errors),
)


def service_errors(obj: Object, path: str) -> Errors:
    """Return what is wrong with a new Service; wrong families are told before anything else is checked."""
    spec = _fill_in(copy.deepcopy(obj.get("spec", {})))
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    return _settled_errors({**obj, "spec": spec}, path)


_settled_errors = check.in_turn(lambda obj, _: settle_families(None, obj["spec"]), _service_errors)


def updated_service(before: Object, after: Object) -> tuple[Object, list[FieldError]]:
    """Return the ``spec`` of a service as the API server stores it after an update, and why it refuses that."""
    old, new = _read(_with_defaults(before)), _with_defaults(after)
    _keep_allocated(old, new)
    # Let the list of addresses follow the single address that changes (normalizeClusterIPs).
    if not _is_same(old, new, "clusterIP") and _is_same(old, new, "clusterIPs"):
        if new.get("clusterIP"):
            new["clusterIPs"] = [new["clusterIP"]]
        else:
            new.pop("clusterIPs", None)
    earlier = settle_families(old, new)
    if not check.some_go_on(earlier):
        return new, earlier
    _wipe(old, new)
    known = set(spec_errors(old, "spec"))
    # The API server accepted the present object: what is wrong with it comes from fields that the snapshot lacks.
    errors = [*_change_errors(old, new), *(error for error in spec_errors(new, "spec") if error not in known)]
    return new, [*earlier, *check.behind(earlier, errors)]


def _with_defaults(spec: Object) -> Object:
    spec = copy.deepcopy({key: value for key, value in spec.items() if value not in (None, "", [], (), {})})
    for key in ("clusterIPs", "ipFamilies", "externalIPs", "ports"):
        if key in spec:
            spec[key] = list(spec[key])
    return _fill_in(spec)


def _fill_in(spec: Object) -> Object:
    kind = spec.setdefault("type", "ClusterIP")
    if spec.setdefault("sessionAffinity", "None") == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": _CLIENT_SECONDS}})
    for port in spec.get("ports", []):
        port.setdefault("protocol", "TCP")
    if _is_outside(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind != EXTERNAL_NAME:
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == _BALANCED:
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    return spec


def _read(spec: Object) -> Object:
    """Fill in what a stored service lacks that is older than some fields, or that comes from a file."""
    if spec.get("clusterIP") and "clusterIPs" not in spec:
        spec["clusterIPs"] = [spec["clusterIP"]]
    if spec["type"] != EXTERNAL_NAME and "ipFamilies" not in spec and "clusterIPs" in spec and not is_headless(spec):
        spec["ipFamilies"] = [family_of(address) for address in spec["clusterIPs"]]
        spec.setdefault("ipFamilyPolicy", "SingleStack" if len(spec["ipFamilies"]) == 1 else "RequireDualStack")
    return spec


def _is_outside(spec: Object) -> bool:
    kind = spec["type"]
    return kind in _OUTSIDE or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def _checks_health(spec: Object) -> bool:
    return bool(spec["type"] == _BALANCED and spec.get("externalTrafficPolicy") == "Local")


def _takes_node_ports(spec: Object) -> bool:
    return bool(spec["type"] == "NodePort" or (spec["type"] == _BALANCED and spec["allocateLoadBalancerNodePorts"]))


def _node_ports(spec: Object) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports", []) if port.get("nodePort")}


def _keep_allocated(old: Object, new: Object) -> None:
    """Keep addresses and ports that were allocated, where the update names none (patchAllocatedValues)."""
    if EXTERNAL_NAME not in (old["type"], new["type"]):
        _keep(old, new, "clusterIP", "clusterIPs")
    if _takes_node_ports(old) and _takes_node_ports(new):
        used = _node_ports(old) & _node_ports(new)
        by_name = {port.get("name", ""): port.get("nodePort", 0) for port in old.get("ports", [])}
        for port in new.get("ports", []):
            former = by_name.get(port.get("name", ""), 0)
            if not port.get("nodePort") and former and former not in used:
                port["nodePort"] = former
    if _checks_health(old) and _checks_health(new):
        _keep(old, new, "healthCheckNodePort")


def _keep(old: Object, new: Object, *keys: str) -> None:
    for key in keys:
        if not new.get(key) and old.get(key):
            new[key] = old[key]


def _is_same(old: Object, new: Object, *keys: str) -> bool:
    return all((old.get(key) or None) == (new.get(key) or None) for key in keys)


def _wipe(old: Object, new: Object) -> None:
    """Wipe fields that the new type does not have, and that the update leaves alone (dropTypeDependentFields)."""
    wiped: list[str] = []
    if new["type"] == EXTERNAL_NAME != old["type"]:
        groups = (("clusterIP", "clusterIPs"), ("ipFamilies",), ("ipFamilyPolicy",))
        wiped += [key for group in groups if _is_same(old, new, *group) for key in group]
    if old["type"] in _OUTSIDE and new["type"] not in _OUTSIDE and _node_ports(new) <= _node_ports(old):
        for port in new.get("ports", []):
            port.pop("nodePort", None)
    no_more = (
        ("healthCheckNodePort", _checks_health(old) and not _checks_health(new)),
        ("allocateLoadBalancerNodePorts", old["type"] == _BALANCED != new["type"]),
        ("loadBalancerClass", old["type"] == _BALANCED != new["type"]),
        ("externalTrafficPolicy", _is_outside(old) and not _is_outside(new)),
    )
    wiped += [key for key, is_moot in no_more if is_moot and old.get(key) == new.get(key)]
    for key in wiped:
        new.pop(key, None)


def _change_errors(old: Object, new: Object) -> Errors:
    if EXTERNAL_NAME not in (old["type"], new["type"]):
        if not (is_headless(old) and is_headless(new)):
            yield from _list_changes(old, new, "clusterIPs", "clusterIP")
        if not (is_headless(old) or is_headless(new)):
            yield from _list_changes(old, new, "ipFamilies", "ipFamily")
    if old["type"] == _BALANCED == new["type"] and not _is_same(old, new, "loadBalancerClass"):
        yield invalid("spec.loadBalancerClass", new.get("loadBalancerClass"), _ONCE)
    if _checks_health(old) and _checks_health(new) and not _is_same(old, new, "healthCheckNodePort"):
        yield forbidden("spec.healthCheckNodePort", "field is immutable")


def _list_changes(old: Object, new: Object, key: str, one: str) -> Errors:
    """Return what must not change in the addresses or families; the errors about families are all at the first one."""
    before, after, at = old.get(key, []), new.get(key, []), f"spec.{key}[0]"
    are_families = key == "ipFamilies"
    if len(before) == len(after):
        for index, pair in enumerate(zip(before, after, strict=True)):
            if pair[0] != pair[1]:
                yield invalid(at if are_families else f"spec.{key}[{index}]", after, _ONCE)
        return
    are_released = len(before) > len(after) and bool(old.get("clusterIPs")) and not new.get("clusterIPs")
    if are_released if are_families else not after:
        yield invalid(at, after or None, f"primary {one} can not be unset")
    if before and after and before[0] != after[0]:
        yield invalid(at, new.get("clusterIPs"), _ONCE)
    if len(before) > len(after) == 1 and new.get("ipFamilyPolicy") != "SingleStack":
        yield invalid("spec.ipFamilyPolicy", new.get("ipFamilyPolicy"), _RELEASE.format(one))
