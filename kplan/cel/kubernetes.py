"""Kubernetes' own CEL functions: quantities, semantic versions, IP addresses, networks and URLs.

Upstream: k8s.io/apiserver pkg/cel/library quantity.go, semverlib.go, ip.go, cidr.go, urls.go.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from kplan.api import quantity
from kplan.api.quantity import InvalidQuantity, Quantity
from kplan.cel.library import evaluate
from kplan.cel.values import CelError, Semver, UnsupportedError, Value, equal, no_such_overload, typed

_NANO = 10**9
_MAX_DIGITS = 1000
_MAX_INT64 = 2**63 - 1
#: How many values of a list ``includes`` compares.
_MAX_INCLUDES = 48

Address = IPv4Address | IPv6Address
Network = IPv4Interface | IPv6Interface


def _text(function: str, value: Value) -> str:
    if isinstance(value, str):
        return value
    raise no_such_overload(function, value)


def _is_valid(read: Callable[..., object]) -> Callable[..., bool]:
    """Return a function that tests whether a text can be parsed; a value of another type is an error."""

    def test(value: Value, *options: Value) -> bool:
        _text("isValid", value)
        try:
            read(value, *options)
        except CelError:
            return False
        return True

    return test


def _quantity(value: Value) -> Quantity:
    text = _text("quantity", value)
    if len(text) > _MAX_DIGITS:
        raise UnsupportedError(f"a quantity of more than {_MAX_DIGITS} digits cannot be evaluated")
    try:
        return quantity.parse(text)
    except InvalidQuantity as error:
        raise CelError(str(error)) from None


def _approximate(value: Quantity) -> float:
    try:
        return value.nanos / _NANO
    except OverflowError:
        return math.inf if value.nanos > 0 else -math.inf


def _is_integer(value: Quantity) -> bool:
    return value.nanos % _NANO == 0 and abs(value.nanos // _NANO) <= _MAX_INT64


def _as_integer(value: Quantity) -> int:
    if not _is_integer(value):
        raise CelError("cannot convert value to integer")
    return value.nanos // _NANO


def _sum(function: str, sign: int) -> Callable[[Value, Value], Quantity]:
    def call(left: Value, right: Value) -> Quantity:
        amount = Quantity(right * _NANO, "DecimalExponent") if type(right) is int else right
        if not isinstance(left, Quantity) or not isinstance(amount, Quantity):
            raise no_such_overload(function, left, right)
        return left.plus(amount) if sign > 0 else left.minus(amount)

    return call


def _semver(value: Value, normalize: Value = False) -> Semver:  # noqa: FBT002 - as CEL passes it
    if not isinstance(normalize, bool):
        raise no_such_overload("semver", value, normalize)
    text = _text("semver", value)
    return Semver.parse_tolerant(text) if normalize else Semver.parse(text)


def _compare(left: Value, right: Value) -> int:
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return (left.nanos > right.nanos) - (left.nanos < right.nanos)
    if isinstance(left, Semver) and isinstance(right, Semver):
        return left.compare(right)
    raise no_such_overload("compareTo", left, right)


def _parsed_ip(text: str) -> Address:
    try:
        address = ip_address(text)
    except ValueError:
        raise CelError(f"IP Address {text!r} parse error during conversion from string") from None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise CelError(f"IP address {text!r} with zone value is not allowed")
        if address.ipv4_mapped is not None:
            raise CelError(f"IPv4-mapped IPv6 address {text!r} is not allowed")
    return address


def _ip(value: Value) -> Address:
    if isinstance(value, Network):
        return value.ip
    return _parsed_ip(_text("ip", value))


def _is_address(value: Value) -> bool:
    return isinstance(value, Address) and not isinstance(value, Network)


def _cidr(value: Value) -> Network:
    text = _text("cidr", value)
    address, slash, bits = text.rpartition("/")
    if not slash or re.fullmatch("0|[1-9][0-9]{0,2}", bits) is None:
        raise CelError(f"network address parse error during conversion from string: {text!r}")
    _parsed_ip(address)
    try:
        return ip_interface(text)
    except ValueError as error:
        raise CelError(f"network address parse error during conversion from string: {error}") from None


def _contains_ip(network: Value, address: Value) -> bool:
    inner = _parsed_ip(address) if isinstance(address, str) else address
    if not isinstance(network, Network) or not _is_address(inner):
        raise no_such_overload("containsIP", network, address)
    return inner in network.network


def _contains_cidr(network: Value, other: Value) -> bool:
    inner = _cidr(other) if isinstance(other, str) else other
    if not isinstance(network, Network) or not isinstance(inner, Network):
        raise no_such_overload("containsCIDR", network, other)
    outer = network.network
    return outer.version == inner.version and outer.prefixlen <= inner.network.prefixlen and inner.ip in outer


def _on_address(function: str, compute: Callable[[Address], Value]) -> Callable[[Value], Value]:
    def call(value: Value) -> Value:
        if _is_address(value):
            return compute(value)
        raise no_such_overload(function, value)

    return call


def _is_global_unicast(address: Address) -> bool:
    """Whether an address is global unicast by Go's netip, which includes private addresses."""
    is_broadcast = isinstance(address, IPv4Address) and int(address) == 2**32 - 1
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not (is_broadcast or special)


def _is_link_local_multicast(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return int(address) >> 8 == 0xE00000
    return int(address) >> 112 & 0xFF0F == 0xFF02


def _includes(value: Value, element: Value) -> bool:
    if not isinstance(value, list):
        return equal(value, element)
    if any(equal(item, element) for item in value[:_MAX_INCLUDES]):
        return True
    if len(value) > _MAX_INCLUDES:
        raise CelError(f"'includes' function cannot be applied to lists longer than {_MAX_INCLUDES} values")
    return False


def read_url(value: Value) -> SplitResult:
    """Return the parts of an absolute URL or path; raises CelError if the text is neither."""
    text = _text("url", value)
    try:
        parts = urlsplit(text)
        has_port = parts.port is None or parts.port >= 0
    except ValueError:
        has_port = False
    is_request = has_port and (text.startswith("/") or re.match("[A-Za-z][A-Za-z0-9+.-]*:/", text) is not None)
    if not is_request or re.search(r"[\x00-\x1f\x7f]|%(?![0-9A-Fa-f]{2})", text) or " " in parts.netloc:
        raise CelError(f"URL parse error during conversion from string: parse {text!r}: invalid URI for request")
    return parts


def _host(url: SplitResult) -> str:
    return url.netloc.rpartition("@")[2]


def _port(url: SplitResult) -> str:
    return "" if url.port is None else str(url.port)


def _hostname(url: SplitResult) -> str:
    return _host(url).removesuffix(f":{_port(url)}").strip("[]")


def _escaped_path(url: SplitResult) -> str:
    return quote(unquote(url.path), safe="/:@!$&'()*+,;=~-._")


KUBERNETES_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "quantity": _quantity,
    "isQuantity": _is_valid(_quantity),
    "sign": typed("sign", lambda amount: (amount.nanos > 0) - (amount.nanos < 0), Quantity),
    "asApproximateFloat": typed("asApproximateFloat", _approximate, Quantity),
    "asInteger": typed("asInteger", _as_integer, Quantity),
    "isInteger": typed("isInteger", _is_integer, Quantity),
    "add": _sum("add", 1),
    "sub": _sum("sub", -1),
    "compareTo": _compare,
    "isGreaterThan": lambda left, right: _compare(left, right) > 0,
    "isLessThan": lambda left, right: _compare(left, right) < 0,
    "semver": _semver,
    "isSemver": _is_valid(_semver),
    "major": typed("major", lambda version: version.major, Semver),
    "minor": typed("minor", lambda version: version.minor, Semver),
    "patch": typed("patch", lambda version: version.patch, Semver),
    "ip": _ip,
    "isIP": _is_valid(_ip),
    "ip.isCanonical": lambda value: str(_parsed_ip(_text("ip.isCanonical", value))) == value,
    "family": _on_address("family", lambda address: address.version),
    "isUnspecified": _on_address("isUnspecified", lambda address: address.is_unspecified),
    "isLoopback": _on_address("isLoopback", lambda address: address.is_loopback),
    "isLinkLocalMulticast": _on_address("isLinkLocalMulticast", _is_link_local_multicast),
    "isLinkLocalUnicast": _on_address("isLinkLocalUnicast", lambda address: address.is_link_local),
    "isGlobalUnicast": _on_address("isGlobalUnicast", _is_global_unicast),
    "cidr": _cidr,
    "isCIDR": _is_valid(_cidr),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "prefixLength": typed("prefixLength", lambda network: network.network.prefixlen, Network),
    "masked": typed("masked", lambda network: ip_interface(str(network.network)), Network),
    "string": lambda value: str(value) if isinstance(value, Address) else evaluate("string(value)", value=value),
    "includes": _includes,
    "url": read_url,
    "isURL": _is_valid(read_url),
    "getScheme": typed("getScheme", lambda url: url.scheme, SplitResult),
    "getHost": typed("getHost", _host, SplitResult),
    "getHostname": typed("getHostname", _hostname, SplitResult),
    "getPort": typed("getPort", _port, SplitResult),
    "getEscapedPath": typed("getEscapedPath", _escaped_path, SplitResult),
    "getQuery": typed("getQuery", lambda url: parse_qs(url.query, keep_blank_values=True), SplitResult),
}
