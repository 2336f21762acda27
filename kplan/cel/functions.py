"""What Kubernetes declares for device selectors: the variable ``device``, and functions that the CEL library lacks.

Among them are quantities, semantic versions, IP addresses, networks, URLs and named formats.
Upstream: k8s.io/apiserver pkg/cel/library quantity.go, semverlib.go, ip.go, cidr.go, urls.go, format.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from functools import partial, reduce
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface
from itertools import chain, pairwise, permutations, product
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

import msgspec

from kplan.api import quantity
from kplan.api.names import (
    as_prefix,
    dns_1035_label_problems,
    dns_label_problems,
    dns_subdomain_problems,
    label_key_problems,
    label_value_problems,
)
from kplan.api.quantity import MAX_INT64, InvalidQuantity, Quantity
from kplan.cel.library import evaluate
from kplan.cel.values import (
    CelError,
    Format,
    OptionalValue,
    Semver,
    TypeValue,
    UnsupportedError,
    Value,
    compare,
    equal,
    no_such_overload,
    sign,
    too_costly,
    type_name,
    typed,
)

_NANO = 10**9
_MAX_DIGITS = 1000  # arithmetic on more digits takes long, and no device has such a capacity
#: How many values of a list ``includes`` compares.
_MAX_INCLUDES = 48
Address = IPv4Address | IPv6Address
Network = IPv4Interface | IPv6Interface
_Check = Callable[[str], Sequence[str]]
_UUID = re.compile("[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_BASE64 = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_CLOCK = re.compile("([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")


def _is_valid(read: Callable[..., object]) -> Callable[..., bool]:
    def test(*values: Value) -> bool:
        try:
            read(*values)
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


def _as_integer(value: Quantity) -> int:
    if value.nanos % _NANO or abs(value.nanos // _NANO) > MAX_INT64:
        raise CelError("cannot convert value to integer")
    return value.nanos // _NANO


def _amount(value: int | Quantity) -> Quantity:
    return Quantity(value * _NANO, "DecimalExponent") if isinstance(value, int) else value


def _semver(text: str, normalize: bool = False) -> Semver:  # noqa: FBT001, FBT002 - as CEL passes it
    return Semver.parse_tolerant(text) if normalize else Semver.parse(text)


def _compare(left: Value, right: Value) -> int:
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return sign(left.nanos, right.nanos)
    if isinstance(left, Semver) and isinstance(right, Semver):
        return sign(left.precedence, right.precedence)
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


def _contains_cidr(network: Network, other: str | Network) -> bool:
    inner = _cidr(other) if isinstance(other, str) else other
    outer = network.network
    return outer.version == inner.version and outer.prefixlen <= inner.network.prefixlen and inner.ip in outer


def _is_global_unicast(address: Address) -> bool:
    """Whether an address is global unicast by Go's netip, which includes private addresses."""
    is_broadcast = isinstance(address, IPv4Address) and int(address) == 2**32 - 1
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not (is_broadcast or special)


def _is_link_local_multicast(address: Address) -> bool:
    bits = int(address)
    return bits >> 8 == 0xE00000 if isinstance(address, IPv4Address) else bits >> 112 & 0xFF0F == 0xFF02


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
    has_controls = re.search(r"[\x00-\x1f\x7f]", text)
    if re.match("[A-Za-z][A-Za-z0-9+.-]*:(?!/)", text) and not has_controls:  # nothing behind the scheme is looked at
        return SplitResult(text.partition(":")[0].lower(), "", "", text.partition("?")[2], "")
    if not is_request or has_controls or re.search("%(?![0-9A-Fa-f]{2})", text) or " " in parts.netloc:
        raise CelError(f"URL parse error during conversion from string: parse {text!r}: invalid URI for request")
    return parts


def _host(url: SplitResult) -> str:
    return url.netloc.rpartition("@")[2]


def _port(url: SplitResult) -> str:
    return "" if url.port is None else str(url.port)


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


#: Function -> the name of its format, and the check.
_FORMATS: dict[str, tuple[str, _Check]] = {
    "dns1123Label": ("DNS1123Label", dns_label_problems),
    "dns1123Subdomain": ("DNS1123Subdomain", dns_subdomain_problems),
    "dns1035Label": ("DNS1035Label", dns_1035_label_problems),
    "qualifiedName": ("QualifiedName", label_key_problems),
    "dns1123LabelPrefix": ("DNS1123LabelPrefix", lambda text: dns_label_problems(as_prefix(text))),
    "dns1123SubdomainPrefix": ("DNS1123SubdomainPrefix", lambda text: dns_subdomain_problems(as_prefix(text))),
    "dns1035LabelPrefix": ("DNS1035LabelPrefix", lambda text: dns_1035_label_problems(as_prefix(text))),
    "labelValue": ("LabelValue", label_value_problems),
    "uri": ("URI", _uri_problems),
    "uuid": ("uuid", _must(_UUID.fullmatch, "does not match the UUID format")),
    "byte": ("byte", _must(_BASE64.fullmatch, "invalid base64")),
    "date": ("date", _must(_is_date, "invalid date")),
    "datetime": ("datetime", _must(_is_datetime, "invalid datetime")),
}
_CHECKS = dict(_FORMATS.values())


def _validate(form: Format, text: str) -> OptionalValue:
    problems = list(_CHECKS[form.name](text))
    return OptionalValue(problems, is_present=True) if problems else OptionalValue()


KUBERNETES_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "quantity(string): kubernetes.Quantity": _quantity,
    "isQuantity(string): bool": _is_valid(_quantity),
    "sign(kubernetes.Quantity): int": lambda amount: sign(amount.nanos, 0),
    "kubernetes.Quantity.asApproximateFloat(): double": Quantity.approximate,
    "kubernetes.Quantity.asInteger(): int": _as_integer,
    "kubernetes.Quantity.isInteger(): bool": _is_valid(_as_integer),
    "kubernetes.Quantity.add(kubernetes.Quantity|int): kubernetes.Quantity": lambda x, y: x.plus(_amount(y)),
    "kubernetes.Quantity.sub(kubernetes.Quantity|int): kubernetes.Quantity": lambda x, y: x.minus(_amount(y)),
    **{
        f"kubernetes.{kind}.{function}(kubernetes.{kind}): {result}": compute
        for kind in ("Quantity", "Semver")
        for function, result, compute in (
            ("compareTo", "int", _compare),
            ("isGreaterThan", "bool", lambda left, right: _compare(left, right) > 0),
            ("isLessThan", "bool", lambda left, right: _compare(left, right) < 0),
        )
    },
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
    "net.CIDR.containsIP(string|net.IP): bool": lambda network, address: (
        (_parsed_ip(address) if isinstance(address, str) else address) in network.network
    ),
    "net.CIDR.containsCIDR(string|net.CIDR): bool": _contains_cidr,
    "net.CIDR.prefixLength(): int": lambda network: network.network.prefixlen,
    "net.CIDR.masked(): net.CIDR": lambda network: ip_interface(str(network.network)),
    "string(bool|int|uint|double|string|bytes|timestamp|duration|net.IP|net.CIDR): string": lambda value: (
        str(value) if isinstance(value, Address) else evaluate("string(value)", value=value)
    ),
    "dyn.includes(dyn): bool": _includes,  # stored expressions have it whether its gate is on or off
    "url(string): kubernetes.URL": read_url,
    "isURL(string): bool": _is_valid(read_url),
    "kubernetes.URL.getScheme(): string": lambda url: url.scheme,
    "kubernetes.URL.getHost(): string": _host,
    "kubernetes.URL.getHostname(): string": lambda url: _host(url).removesuffix(f":{_port(url)}").strip("[]"),
    "kubernetes.URL.getPort(): string": _port,
    "kubernetes.URL.getEscapedPath(): string": lambda url: quote(unquote(url.path), safe="/:@!$&'()*+,;=~-._"),
    "kubernetes.URL.getQuery(): map<string,list<string>>": lambda url: parse_qs(url.query, keep_blank_values=True),
    **{f"format.{name}(): kubernetes.NamedFormat": partial(Format, title) for name, (title, _) in _FORMATS.items()},
    "format.named(string): optional_type<kubernetes.NamedFormat>": lambda name: (
        OptionalValue(Format(_FORMATS[name][0]), is_present=True) if name in _FORMATS else OptionalValue()
    ),
    "kubernetes.NamedFormat.validate(string): optional_type<list<string>>": _validate,
}

MAX_ELEMENTS = 1000  #: how many elements a list may have that an expression creates, by a range or from another list
#: How long a text may be that is joined from others. An API server limits the cost of all steps together instead.
_MAX_TEXT = 65_536
#: The capturing groups of a pattern (group 1), and everything that may contain a bracket without opening a group.
_CAPTURING = re.compile(
    r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*+(?:\]|\\?\Z)|(\((?!\?)|\(\?P?<\w+>)", re.DOTALL
)


def _extreme(name: str, direction: int) -> Callable[[list[Value]], Value]:
    def choose(items: list[Value]) -> Value:
        if not items:
            raise CelError(f"{name} called on empty list")
        return reduce(lambda best, item: item if compare(name, item, best) == direction else best, items)

    return choose


def _position(step: int) -> Callable[[list[Value], Value], int]:
    def search(items: list[Value], item: Value) -> int:
        return next((index for index in range(len(items))[::step] if equal(items[index], item)), -1)

    return search


def _range(count: int) -> list[int]:
    if count > MAX_ELEMENTS:
        raise UnsupportedError(f"lists.range of more than {MAX_ELEMENTS} numbers cannot be evaluated")
    return list(range(count))


def _check_length(length: int) -> None:
    if length > _MAX_TEXT:
        raise too_costly()


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    n_replaced = text.count(old) if limit < 0 else min(text.count(old), limit)
    _check_length(len(text) + n_replaced * (len(new) - len(old)))
    return text.replace(old, new, n_replaced)


def _join(parts: list[Value], separator: str = "") -> str:
    if not all(isinstance(part, str) for part in parts):
        raise no_such_overload("join", parts)
    _check_length(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


def _format(template: str, values: list[Value]) -> str:
    if not all(value is None or isinstance(value, bool | int | float | str | bytes | list | dict) for value in values):
        raise CelError("error during formatting: string clause can only be used on strings, numbers, lists and maps")
    _check_length(len(template) + sum(len(value) for value in values if isinstance(value, str | bytes)))
    return str(evaluate("template.format(values)", template=template, values=values))


def _find(text: str, pattern: str) -> str:
    return str(_search("regex.extract(text, pattern).orValue('')", text, pattern))


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    if evaluate("''.matches(pattern)", pattern=f"^(?:{pattern})$"):
        raise UnsupportedError(f"findAll with a pattern that matches nothing, {pattern!r}, cannot be evaluated")
    matches: list[str] = _search("regex.extractAll(text, pattern)", text, pattern)
    return matches if limit < 0 else matches[:limit]


def _search(expression: str, text: str, pattern: str) -> Value:
    without_captures = _CAPTURING.sub(lambda match: "(?:" if match[1] else match[0], pattern)
    try:
        return evaluate(expression, text=text, pattern=without_captures)
    except CelError as error:
        raise CelError(f"Illegal regex: {error}") from None


def _read(kind: str, syntax: str) -> Callable[[Value], Value]:
    """Return a conversion that accepts texts as Go does; the library also accepts spaces around them."""
    pattern = re.compile(syntax)

    def convert(value: Value) -> Value:
        if isinstance(value, str) and pattern.fullmatch(value) is None:
            raise CelError(f"type conversion error from 'string' to '{kind}'")
        if isinstance(value, bool) and kind != "bool":
            raise no_such_overload(kind, value)
        return evaluate(f"{kind}(value)", value=value.lower() if isinstance(value, str) else value)

    return convert


_PLAIN: dict[str, Callable[..., Value]] = {
    "isSorted(list)": lambda items: all(compare("isSorted", *pair) <= 0 for pair in pairwise(items)),
    "sum(list)": lambda items: (
        reduce(lambda left, right: evaluate("left + right", left=left, right=right), items) if items else 0
    ),
    "min(list)": _extreme("min", -1),
    "max(list)": _extreme("max", 1),
    "list<~A>.indexOf(~A): int": _position(1),
    "list<~A>.lastIndexOf(~A): int": _position(-1),
    "lists.range(int)": _range,
    "size(string|bytes|list)": len,
    "@in(dyn, list)": lambda element, items: any(equal(element, item) for item in items),
    "type(dyn)": lambda value: TypeValue(type_name(value)),
    "_==_(dyn, dyn)": equal,
    "_!=_(dyn, dyn)": lambda left, right: not equal(left, right),
    "string.replace(string, string[, int]): string": _replace,
    "list<string>.join([string]): string": _join,
    "string.format(list<dyn>): string": _format,
    "string.find(string): string": _find,
    "string.findAll(string[, int]): list<string>": _find_all,
    "bool(dyn)": _read("bool", "1|t|T|TRUE|true|True|0|f|F|FALSE|false|False"),
    "int(dyn)": _read("int", "[+-]?[0-9]+"),
    "uint(dyn)": _read("uint", "[0-9]+"),
    "double(dyn)": _read("double", r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))"),
}

DEVICE_FIELDS = {
    "allowMultipleAllocations": "bool",
    "attributes": "map<string,map<string,any>>",  # dyn instead of any where attributes may be lists
    "capacity": "map<string,map<string,kubernetes.Quantity>>",
    "driver": "string",
}

_WITH_LISTS = "map<string,map<string,dyn>>"
_EXTENSIONS = ("bindings", "optional", "sets", "lists", "two-var-comprehensions")
_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_NUMBERS = ("int", "uint", "double")

#: The functions that the library computes, beyond those of its standard library and of its extensions.
_OF_THE_LIBRARY = (
    "string.charAt(int): string",
    "string.lowerAscii(): string",
    "string.upperAscii(): string",
    "string.trim(): string",
    "string.split(string[, int]): list<string>",
    "string.substring(int[, int]): string",
    "strings.quote(string): string",
    "string.indexOf(string[, int]): int",
    "string.lastIndexOf(string[, int]): int",
    *(f"list<{kind}>.isSorted(): bool" for kind in _COMPARABLE),
    *(f"list<{kind}>.{name}(): {kind}" for name in ("min", "max") for kind in _COMPARABLE),
    *(f"list<{kind}>.sum(): {kind}" for kind in (*_NUMBERS, "duration")),
)
_COMPUTED = {**KUBERNETES_FUNCTIONS, **_PLAIN}
_SIGNATURE = re.compile(r"(?:(?P<receiver>.+)\.)?(?P<name>@?\w+|_[=!]=_)\((?P<parameters>.*)\)(?:: (?P<result>.+))?")
_NAMESPACES = frozenset({"ip", "strings", "format", "lists"})
_Overload = dict[str, object]


class _Signature(msgspec.Struct):
    """A signature: ``|`` is between alternatives, brackets around what may be left out."""

    name: str
    receiver: str | None
    parameters: list[list[str]]
    n_required: int
    result: str | None  #: None where the library declares it

    @staticmethod
    def read(text: str) -> _Signature:
        match = _SIGNATURE.fullmatch(text)
        assert match is not None, text  # noqa: S101 - the tables of this room
        receiver, name = match["receiver"], match["name"]
        required, _, optional = match["parameters"].partition("[")
        parameters = [part.split("|") for part in f"{required}{optional.rstrip(']')}".split(", ") if part]
        if receiver in _NAMESPACES:
            receiver, name = None, f"{receiver}.{name}"
        return _Signature(name, receiver, parameters, len(list(filter(None, required.split(", ")))), match["result"])

    def overloads(self) -> Iterator[tuple[str, _Overload]]:
        for n_parameters in sorted({self.n_required, len(self.parameters)}) if self.result else ():
            for parameters in product(*self.parameters[:n_parameters]):
                yield self.name, _overload(parameters, self.result or "", self.receiver)

    def accepted(self) -> list[set[str]]:
        """Return the names of the types of each argument; none for any."""
        arguments = [*([] if self.receiver is None else [[self.receiver]]), *self.parameters]
        return [{shape.partition("<")[0] for shape in shapes if shape[0] != "~"} - {"dyn"} for shapes in arguments]


def _by_name() -> Iterator[tuple[str, Callable[..., Value]]]:
    signatures = [(_Signature.read(text), compute) for text, compute in _COMPUTED.items()]
    for signature, compute in signatures:
        alike = [other.accepted() for other, _ in signatures if other.name == signature.name]
        accepted = [set[str]().union(*names) for names in zip(*alike, strict=True)]
        yield signature.name, typed(signature.name, compute, accepted)


FUNCTIONS: dict[str, Callable[..., Value]] = dict(_by_name())  #: the functions that kplan computes


def environment_config(*, lists: bool) -> str:
    """Return the declarations as a configuration of the CEL library, which is YAML (here: JSON).

    With `lists` attributes may be lists (gate DRAListTypeAttributes), so that macros over lists apply to them.
    """
    functions: dict[str, list[_Overload]] = {}
    signatures = map(_Signature.read, (*_COMPUTED, *_OF_THE_LIBRARY))
    # Numbers of different types compare, too: an option that Kubernetes enables.
    pairs = [*zip(_COMPARABLE, _COMPARABLE, strict=True), *permutations(_NUMBERS, 2)]
    operators = product(("_<_", "_<=_", "_>_", "_>=_"), pairs)
    comparisons = ((operator, _overload(pair, "bool")) for operator, pair in operators)
    for name, overload in chain(*(signature.overloads() for signature in signatures), comparisons):
        overloads = functions.setdefault(name, [])
        overloads.append({"id": f"{name}_{len(overloads)}", **overload})
    shapes = {**DEVICE_FIELDS, "attributes": _WITH_LISTS} if lists else DEVICE_FIELDS
    variables = {"device": "dyn", **{f"device.{field}": shape for field, shape in shapes.items()}}
    redefined = [{"name": name} for name in ("string", "_<_", "_<=_", "_>_", "_>=_")]
    config = {
        "stdlib": {"exclude_functions": redefined},
        "extensions": [{"name": name} for name in _EXTENSIONS],
        "variables": [{"name": name, "type": shape} for name, shape in variables.items()],
        "functions": [{"name": name, "overloads": overloads} for name, overloads in functions.items()],
    }
    return msgspec.json.encode(config).decode()


def _overload(parameters: Iterable[str], result: str, receiver: str | None = None) -> _Overload:
    overload: _Overload = {"args": [{"type": shape} for shape in parameters], "return": {"type": result}}
    return overload if receiver is None else {**overload, "target": {"type": receiver}}
