"""Kubernetes' own CEL functions: quantities, semantic versions, IP addresses, networks, URLs and named formats.

Upstream: k8s.io/apiserver pkg/cel/library quantity.go, semverlib.go, ip.go, cidr.go, urls.go, format.go,
k8s.io/kube-openapi pkg/validation/strfmt.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from kplan.api import quantity
from kplan.api.names import dns_label_problems, dns_subdomain_problems, label_key_problems, label_value_problems
from kplan.api.quantity import InvalidQuantity, Quantity
from kplan.cel.library import evaluate
from kplan.cel.values import CelError, Format, OptionalValue, Semver, UnsupportedError, Value, equal, no_such_overload

_NANO = 10**9
_MAX_DIGITS = 1000
_MAX_INT64 = 2**63 - 1
#: How many values of a list ``includes`` compares.
_MAX_INCLUDES = 48

Address = IPv4Address | IPv6Address
Network = IPv4Interface | IPv6Interface


def _is_valid(read: Callable[..., object]) -> Callable[..., bool]:
    """Return a function that tests whether a text can be parsed."""

    def test(text: str, *options: Value) -> bool:
        try:
            read(text, *options)
        except CelError:
            return False
        return True

    return test


def _quantity(text: str) -> Quantity:
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


def _amount(value: int | Quantity) -> Quantity:
    return Quantity(value * _NANO, "DecimalExponent") if isinstance(value, int) else value


def _semver(text: str, normalize: bool = False) -> Semver:  # noqa: FBT001, FBT002 - as CEL passes it
    return Semver.parse_tolerant(text) if normalize else Semver.parse(text)


def _compare(left: Value, right: Value) -> int:
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return (left.nanos > right.nanos) - (left.nanos < right.nanos)
    if isinstance(left, Semver) and isinstance(right, Semver):
        return left.compare(right)
    raise no_such_overload("compareTo", left, right)


def _is_greater(left: Value, right: Value) -> bool:
    return _compare(left, right) > 0


def _is_less(left: Value, right: Value) -> bool:
    return _compare(left, right) < 0


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


def _ip(value: str | Network) -> Address:
    return _parsed_ip(value) if isinstance(value, str) else value.ip


def _cidr(text: str) -> Network:
    address, slash, bits = text.rpartition("/")
    if not slash or re.fullmatch("0|[1-9][0-9]{0,2}", bits) is None:
        raise CelError(f"network address parse error during conversion from string: {text!r}")
    _parsed_ip(address)
    try:
        return ip_interface(text)
    except ValueError as error:
        raise CelError(f"network address parse error during conversion from string: {error}") from None


def _contains_ip(network: Network, address: str | Address) -> bool:
    return (_parsed_ip(address) if isinstance(address, str) else address) in network.network


def _contains_cidr(network: Network, other: str | Network) -> bool:
    inner = _cidr(other) if isinstance(other, str) else other
    outer = network.network
    return outer.version == inner.version and outer.prefixlen <= inner.network.prefixlen and inner.ip in outer


def _string(value: Value) -> Value:
    return str(value) if isinstance(value, Address) else evaluate("string(value)", value=value)


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


def read_url(text: str) -> SplitResult:
    """Return the parts of an absolute URL or path; raises CelError if the text is neither."""
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


_Check = Callable[[str], Sequence[str]]

_DNS_1035_LABEL = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is"
    f" '{_DNS_1035_LABEL.pattern}')"
)
_UUID = re.compile("[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_BASE64 = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_CLOCK = re.compile("([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")


def _dns_1035_problems(text: str) -> list[str]:
    too_long = ["must be no more than 63 characters"] if len(text) > 63 else []
    return too_long if _DNS_1035_LABEL.fullmatch(text) else [*too_long, _DNS_1035_TEXT]


def _as_prefix(check: _Check) -> _Check:
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _must(holds: Callable[[str], object], problem: str) -> _Check:
    return lambda text: () if holds(text) else (problem,)


def _is_date(text: str) -> bool:
    try:
        return re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _is_datetime(text: str) -> bool:
    day, _, rest = text.lower().partition("t")
    clock = _CLOCK.fullmatch(rest.split("t")[0])
    return _is_date(day) and clock is not None and clock[1] <= "23" and clock[2] <= "59" and clock[3] <= "59"


def _uri_problems(text: str) -> Sequence[str]:
    try:
        read_url(text)
    except CelError as error:
        return (str(error),)
    return ()


#: Function -> the name of its format, and the check
_FORMATS: dict[str, tuple[str, _Check]] = {
    "dns1123Label": ("DNS1123Label", dns_label_problems),
    "dns1123Subdomain": ("DNS1123Subdomain", dns_subdomain_problems),
    "dns1035Label": ("DNS1035Label", _dns_1035_problems),
    "qualifiedName": ("QualifiedName", label_key_problems),
    "dns1123LabelPrefix": ("DNS1123LabelPrefix", _as_prefix(dns_label_problems)),
    "dns1123SubdomainPrefix": ("DNS1123SubdomainPrefix", _as_prefix(dns_subdomain_problems)),
    "dns1035LabelPrefix": ("DNS1035LabelPrefix", _as_prefix(_dns_1035_problems)),
    "labelValue": ("LabelValue", label_value_problems),
    "uri": ("URI", _uri_problems),
    "uuid": ("uuid", _must(_UUID.fullmatch, "does not match the UUID format")),
    "byte": ("byte", _must(_BASE64.fullmatch, "invalid base64")),
    "date": ("date", _must(_is_date, "invalid date")),
    "datetime": ("datetime", _must(_is_datetime, "invalid datetime")),
}
_CHECKS = dict(_FORMATS.values())


def _named(name: str) -> OptionalValue:
    return OptionalValue(Format(_FORMATS[name][0]), is_present=True) if name in _FORMATS else OptionalValue()


def _validate(form: Format, text: str) -> OptionalValue:
    problems = list(_CHECKS[form.name](text))
    return OptionalValue(problems, is_present=True) if problems else OptionalValue()


KUBERNETES_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "quantity(string): kubernetes.Quantity": _quantity,
    "isQuantity(string): bool": _is_valid(_quantity),
    "sign(kubernetes.Quantity): int": lambda amount: (amount.nanos > 0) - (amount.nanos < 0),
    "kubernetes.Quantity.asApproximateFloat(): double": _approximate,
    "kubernetes.Quantity.asInteger(): int": _as_integer,
    "kubernetes.Quantity.isInteger(): bool": _is_integer,
    "kubernetes.Quantity.add(kubernetes.Quantity|int): kubernetes.Quantity": lambda one, other: one.plus(
        _amount(other)
    ),
    "kubernetes.Quantity.sub(kubernetes.Quantity|int): kubernetes.Quantity": lambda one, other: one.minus(
        _amount(other)
    ),
    "kubernetes.Quantity.compareTo(kubernetes.Quantity): int": _compare,
    "kubernetes.Quantity.isGreaterThan(kubernetes.Quantity): bool": _is_greater,
    "kubernetes.Quantity.isLessThan(kubernetes.Quantity): bool": _is_less,
    "kubernetes.Semver.compareTo(kubernetes.Semver): int": _compare,
    "kubernetes.Semver.isGreaterThan(kubernetes.Semver): bool": _is_greater,
    "kubernetes.Semver.isLessThan(kubernetes.Semver): bool": _is_less,
    "semver(string[, bool]): kubernetes.Semver": _semver,
    "isSemver(string[, bool]): bool": _is_valid(_semver),
    "kubernetes.Semver.major(): int": lambda version: version.major,
    "kubernetes.Semver.minor(): int": lambda version: version.minor,
    "kubernetes.Semver.patch(): int": lambda version: version.patch,
    "ip(string): net.IP": _ip,
    "isIP(string): bool": _is_valid(_parsed_ip),
    "ip.isCanonical(string): bool": lambda text: str(_parsed_ip(text)) == text,
    "net.IP.family(): int": lambda address: address.version,
    "net.IP.isUnspecified(): bool": lambda address: address.is_unspecified,
    "net.IP.isLoopback(): bool": lambda address: address.is_loopback,
    "net.IP.isLinkLocalMulticast(): bool": _is_link_local_multicast,
    "net.IP.isLinkLocalUnicast(): bool": lambda address: address.is_link_local,
    "net.IP.isGlobalUnicast(): bool": _is_global_unicast,
    "cidr(string): net.CIDR": _cidr,
    "isCIDR(string): bool": _is_valid(_cidr),
    "net.CIDR.ip(): net.IP": _ip,
    "net.CIDR.containsIP(string|net.IP): bool": _contains_ip,
    "net.CIDR.containsCIDR(string|net.CIDR): bool": _contains_cidr,
    "net.CIDR.prefixLength(): int": lambda network: network.network.prefixlen,
    "net.CIDR.masked(): net.CIDR": lambda network: ip_interface(str(network.network)),
    "string(bool|int|uint|double|string|bytes|timestamp|duration|net.IP|net.CIDR): string": _string,
    "dyn.includes(dyn): bool": _includes,
    "url(string): kubernetes.URL": read_url,
    "isURL(string): bool": _is_valid(read_url),
    "kubernetes.URL.getScheme(): string": lambda url: url.scheme,
    "kubernetes.URL.getHost(): string": _host,
    "kubernetes.URL.getHostname(): string": _hostname,
    "kubernetes.URL.getPort(): string": _port,
    "kubernetes.URL.getEscapedPath(): string": _escaped_path,
    "kubernetes.URL.getQuery(): map<string,list<string>>": lambda url: parse_qs(url.query, keep_blank_values=True),
    **{f"format.{name}(): kubernetes.NamedFormat": partial(Format, title) for name, (title, _) in _FORMATS.items()},
    "format.named(string): optional_type<kubernetes.NamedFormat>": _named,
    "kubernetes.NamedFormat.validate(string): optional_type<list<string>>": _validate,
}
