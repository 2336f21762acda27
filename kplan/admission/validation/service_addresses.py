"""The addresses of services: what is wrong with them, and how the API server fills them in.

Upstream: pkg/apis/core/validation ValidateServiceClusterIPsRelatedFields; pkg/registry/core/service/storage
initIPFamilyFields. Which families a cluster has is not known, nor which addresses are free.
"""

from __future__ import annotations

from kplan.admission.validation.checks import Object, field, items, one_of, unique
from kplan.admission.validation.errors import Errors, FieldError, invalid, required
from kplan.admission.validation.texts import ip_errors
from kplan.api.service import HEADLESS

EXTERNAL_NAME = "ExternalName"
SINGLE, PREFER_DUAL, REQUIRE_DUAL = "SingleStack", "PreferDualStack", "RequireDualStack"
IPV4, IPV6 = "IPv4", "IPv6"

_family_names = one_of(IPV4, IPV6)
_policy_names = field("ipFamilyPolicy", one_of(PREFER_DUAL, REQUIRE_DUAL, SINGLE))


def is_headless(spec: Object) -> bool:
    """Tell whether a service has no address on purpose."""
    return bool(spec.get("clusterIPs") == [HEADLESS])


def family_of(address: str) -> str:
    """Return the family of an address."""
    return IPV6 if ":" in address else IPV4


def address_errors(spec: Object, path: str) -> Errors:
    """Return what is wrong with the addresses of a service and with their families."""
    if spec.get("type") == EXTERNAL_NAME:
        return
    first, listed = spec.get("clusterIP", ""), spec.get("clusterIPs", [])
    families, at = spec.get("ipFamilies", []), f"{path}.clusterIPs"
    if first and not listed:
        yield required(at)
    elif first != (listed[0] if listed else ""):
        words = "first value must match `clusterIP`" if first else "must be empty when `clusterIP` is not specified"
        yield invalid(at, listed, words)
    yield from items("ipFamilies", _family_names, unique())(spec, path)
    yield from _policy_names(spec, path)
    wrong = list(_form_errors(listed, at))
    yield from wrong
    if len(listed) > 2:
        yield invalid(at, listed, "may only hold up to 2 values")
    if wrong:
        return
    if len(listed) > 1 and {family_of(address) for address in listed} != {IPV4, IPV6}:
        yield invalid(at, listed, "may specify no more than one IP for each IP family")
    if not is_headless(spec):
        for index, (address, family) in enumerate(zip(listed, families, strict=False)):
            if family in (IPV4, IPV6) and family != family_of(address):
                words = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
                yield invalid(f"{at}[{index}]", address, words)


def _form_errors(addresses: list[str], path: str) -> Errors:
    for index, address in enumerate(addresses):
        if index or address != HEADLESS:
            yield from ip_errors(address, f"{path}[{index}]")
        elif len(addresses) > 1:
            yield invalid(path, addresses, "'None' must be the first and only value")


def settle_families(before: Object | None, spec: Object) -> list[FieldError]:
    """Fill in the policy and the families of a service, and return why that cannot be.

    Parameters
    ----------
    before : its present ``spec``; None for a new service
    spec : its ``spec`` after the update; changed in place
    """
    old = before or {}
    if spec.get("type") == EXTERNAL_NAME or (before is not None and _stays_dual(old, spec)):
        return []
    if "ipFamilyPolicy" not in spec:
        is_open = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
        spec["ipFamilyPolicy"] = old.get("ipFamilyPolicy") or (REQUIRE_DUAL if is_open else SINGLE)
    if errors := list(address_errors(spec, "spec")):
        return errors
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
    return errors


def _stays_dual(old: Object, new: Object) -> bool:
    """Tell whether a service goes on to prefer two families, and keeps what it got."""
    is_same = all((old.get(key) or []) == (new.get(key) or []) for key in ("type", "clusterIPs", "ipFamilies"))
    is_same &= bool(old.get("clusterIP", "") == new.get("clusterIP", ""))
    return is_same and {new.get("ipFamilyPolicy"), old.get("ipFamilyPolicy", PREFER_DUAL)} == {PREFER_DUAL}


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
