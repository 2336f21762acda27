"""Changes of services: what the API server fills in, what it wipes, and what it refuses.

Upstream: pkg/registry/core/service/storage beginUpdate (patchAllocatedValues, normalizeClusterIPs, initIPFamilyFields),
pkg/registry/core/service dropTypeDependentFields, pkg/apis/core/v1 SetDefaults_Service, and pkg/apis/core/validation
ValidateServiceUpdate. Which addresses and node ports are free is not known.
"""

from __future__ import annotations

import copy

from kplan.admission.validation.checks import Object
from kplan.admission.validation.errors import Errors, FieldError, forbidden, invalid
from kplan.admission.validation.services import EXTERNAL_NAME, family_of, is_headless, settle_families, spec_errors

_OUTSIDE = ("LoadBalancer", "NodePort")
_BALANCED = "LoadBalancer"
_CLIENT_SECONDS = 10_800
_ONCE = "may not change once set"
_RELEASE = "must be set to 'SingleStack' when releasing the secondary {}"


def updated_service(before: Object, after: Object) -> tuple[Object, list[FieldError]]:
    """Return the ``spec`` of a service as the API server stores it after an update, and why it refuses that.

    Parameters
    ----------
    before : the present ``spec``, plain values
    after : the ``spec`` that is sent
    """
    old, new = _read(_with_defaults(before)), _with_defaults(after)
    _keep_allocated(old, new)
    _match_addresses(old, new)
    if errors := settle_families(old, new):
        return new, errors
    _wipe(old, new)
    known = set(spec_errors(old, "spec"))
    # The API server accepted the present object: what is wrong with it comes from fields that the snapshot lacks.
    errors = [*_change_errors(old, new), *(error for error in spec_errors(new, "spec") if error not in known)]
    return new, errors


def _with_defaults(spec: Object) -> Object:
    spec = copy.deepcopy({key: value for key, value in spec.items() if value not in (None, "", [], (), {})})
    for key in ("clusterIPs", "ipFamilies", "externalIPs", "ports"):
        if key in spec:
            spec[key] = list(spec[key])
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


def _match_addresses(old: Object, new: Object) -> None:
    """Let the list of addresses follow the single address that changes (normalizeClusterIPs)."""
    if not _is_same(old, new, "clusterIP") and _is_same(old, new, "clusterIPs"):
        if new.get("clusterIP"):
            new["clusterIPs"] = [new["clusterIP"]]
        else:
            new.pop("clusterIPs", None)


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
            yield from _address_changes(old, new)
        if not (is_headless(old) or is_headless(new)):
            yield from _family_changes(old, new)
    if old["type"] == _BALANCED == new["type"] and not _is_same(old, new, "loadBalancerClass"):
        yield invalid("spec.loadBalancerClass", new.get("loadBalancerClass"), _ONCE)
    if _checks_health(old) and _checks_health(new) and not _is_same(old, new, "healthCheckNodePort"):
        yield forbidden("spec.healthCheckNodePort", "field is immutable")


def _address_changes(old: Object, new: Object) -> Errors:
    before, after, at = old.get("clusterIPs", []), new.get("clusterIPs", []), "spec.clusterIPs"
    if len(before) == len(after):
        for index, pair in enumerate(zip(before, after, strict=True)):
            if pair[0] != pair[1]:
                yield invalid(f"{at}[{index}]", after, _ONCE)
        return
    if not after:
        yield invalid(f"{at}[0]", None, "primary clusterIP can not be unset")
    elif before and before[0] != after[0]:
        yield invalid(f"{at}[0]", after, _ONCE)
    if len(before) > len(after) == 1 and new.get("ipFamilyPolicy") != "SingleStack":
        yield invalid("spec.ipFamilyPolicy", new.get("ipFamilyPolicy"), _RELEASE.format("clusterIP"))


def _family_changes(old: Object, new: Object) -> Errors:
    before, after, at = old.get("ipFamilies", []), new.get("ipFamilies", []), "spec.ipFamilies[0]"
    if len(before) == len(after):
        yield from (invalid(at, after, _ONCE) for first, second in zip(before, after, strict=True) if first != second)
        return
    if len(before) > len(after) and old.get("clusterIPs") and not new.get("clusterIPs"):
        yield invalid(at, after or None, "primary ipFamily can not be unset")
    if before and after and before[0] != after[0]:
        yield invalid(at, new.get("clusterIPs"), _ONCE)
    if len(before) > len(after) == 1 and new.get("ipFamilyPolicy") != "SingleStack":
        yield invalid("spec.ipFamilyPolicy", new.get("ipFamilyPolicy"), _RELEASE.format("ipFamily"))
