"""Declarations for device selectors: the variable ``device`` and the functions beyond CEL's standard library.

The signatures are in CEL's notation, an overload per line; ``~A`` is any type. The fields of ``device`` are declared as
variables of their own, ``device.attributes`` and so on, so that the checker knows their types; ``device`` itself is
declared for ``has`` and ``cel.bind``, and only these fields may be selected from it.

Selectors are checked as stored expressions, which may use functions of every feature: so ``includes`` is declared
even while attributes may not be lists. Only the authorizer's functions are missing, because selectors have no
authorizer.

Upstream: k8s.io/dynamic-resource-allocation cel/compile.go, k8s.io/apiserver pkg/cel/environment/base.go and
pkg/cel/library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from kplan.cel.formats import FORMAT_NAMES

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

_SIGNATURES = """
string(bool): string
string(int): string
string(uint): string
string(double): string
string(string): string
string(bytes): string
string(timestamp): string
string(duration): string
string(net.IP): string
string(net.CIDR): string

quantity(string): kubernetes.Quantity
isQuantity(string): bool
sign(kubernetes.Quantity): int
kubernetes.Quantity.asApproximateFloat(): double
kubernetes.Quantity.asInteger(): int
kubernetes.Quantity.isInteger(): bool
kubernetes.Quantity.add(kubernetes.Quantity): kubernetes.Quantity
kubernetes.Quantity.add(int): kubernetes.Quantity
kubernetes.Quantity.sub(kubernetes.Quantity): kubernetes.Quantity
kubernetes.Quantity.sub(int): kubernetes.Quantity
kubernetes.Quantity.compareTo(kubernetes.Quantity): int
kubernetes.Quantity.isGreaterThan(kubernetes.Quantity): bool
kubernetes.Quantity.isLessThan(kubernetes.Quantity): bool

semver(string): kubernetes.Semver
semver(string, bool): kubernetes.Semver
isSemver(string): bool
isSemver(string, bool): bool
kubernetes.Semver.major(): int
kubernetes.Semver.minor(): int
kubernetes.Semver.patch(): int
kubernetes.Semver.compareTo(kubernetes.Semver): int
kubernetes.Semver.isGreaterThan(kubernetes.Semver): bool
kubernetes.Semver.isLessThan(kubernetes.Semver): bool

ip(string): net.IP
isIP(string): bool
ip.isCanonical(string): bool
net.IP.family(): int
net.IP.isUnspecified(): bool
net.IP.isLoopback(): bool
net.IP.isLinkLocalMulticast(): bool
net.IP.isLinkLocalUnicast(): bool
net.IP.isGlobalUnicast(): bool
cidr(string): net.CIDR
isCIDR(string): bool
net.CIDR.ip(): net.IP
net.CIDR.masked(): net.CIDR
net.CIDR.prefixLength(): int
net.CIDR.containsIP(string): bool
net.CIDR.containsIP(net.IP): bool
net.CIDR.containsCIDR(string): bool
net.CIDR.containsCIDR(net.CIDR): bool

url(string): kubernetes.URL
isURL(string): bool
kubernetes.URL.getScheme(): string
kubernetes.URL.getHost(): string
kubernetes.URL.getHostname(): string
kubernetes.URL.getPort(): string
kubernetes.URL.getEscapedPath(): string
kubernetes.URL.getQuery(): map<string,list<string>>

string.find(string): string
string.findAll(string): list<string>
string.findAll(string, int): list<string>
string.charAt(int): string
string.lowerAscii(): string
string.upperAscii(): string
string.trim(): string
string.replace(string, string): string
string.replace(string, string, int): string
string.split(string): list<string>
string.split(string, int): list<string>
string.substring(int): string
string.substring(int, int): string
string.format(list<dyn>): string
strings.quote(string): string
list<string>.join(): string
list<string>.join(string): string

format.named(string): optional_type<kubernetes.NamedFormat>
kubernetes.NamedFormat.validate(string): optional_type<list<string>>

dyn.includes(dyn): bool
list<~A>.indexOf(~A): int
string.indexOf(string): int
string.indexOf(string, int): int
list<~A>.lastIndexOf(~A): int
string.lastIndexOf(string): int
string.lastIndexOf(string, int): int
"""

_SIGNATURE = re.compile(r"(?:(?P<receiver>.+)\.)?(?P<name>\w+)\((?P<parameters>.*)\): (?P<result>.+)")
_Overload = dict[str, object]


def environment_config(*, lists: bool) -> str:
    """Return the declarations as a configuration of the CEL library, which is YAML (here: JSON).

    Parameters
    ----------
    lists : attributes may be lists (gate DRAListTypeAttributes), so that macros over lists apply to them
    """
    functions: dict[str, list[_Overload]] = {}
    for name, overload in (*_written(), *_comparisons(), *_families()):
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


def _overload(parameters: list[str], result: str, receiver: str | None = None) -> _Overload:
    overload: _Overload = {"args": [_shape(parameter) for parameter in parameters], "return": _shape(result)}
    if receiver is not None:
        overload["target"] = _shape(receiver)
    return overload


def _shape(text: str) -> dict[str, object]:
    """Return the configuration of a type such as ``map<string,list<~A>>``."""
    name, _, parameters = text.partition("<")
    shape: dict[str, object] = {"type_name": name.removeprefix("~")}
    if name.startswith("~"):
        shape["is_type_param"] = True
    if parameters:
        # Only a map has two parameters, the first of which has no parameters itself.
        inner = parameters.removesuffix(">")
        parts = inner.split(",", 1) if name == "map" else [inner]
        shape["params"] = [_shape(part) for part in parts]
    return shape


def _written() -> Iterator[tuple[str, _Overload]]:
    for line in filter(None, _SIGNATURES.splitlines()):
        match = _SIGNATURE.fullmatch(line)
        assert match is not None, line  # noqa: S101 - the table above
        parameters = list(filter(None, match["parameters"].split(", ")))
        receiver, name = match["receiver"], match["name"]
        if receiver in {"ip", "strings", "format"}:  # a namespace, not a receiver
            yield f"{receiver}.{name}", _overload(parameters, match["result"])
        else:
            yield name, _overload(parameters, match["result"], receiver)


def _comparisons() -> Iterator[tuple[str, _Overload]]:
    """Yield CEL's comparisons, with those of numbers of different types, an option that Kubernetes enables."""
    for operator in ("_<_", "_<=_", "_>_", "_>=_"):
        for kind in _COMPARABLE:
            yield operator, _overload([kind, kind], "bool")
        for left in _NUMBERS:
            for right in _NUMBERS:
                if left != right:
                    yield operator, _overload([left, right], "bool")


def _families() -> Iterator[tuple[str, _Overload]]:
    """Yield functions that exist for many types, or under many names."""
    for kind in _COMPARABLE:
        yield "isSorted", _overload([], "bool", f"list<{kind}>")
        yield "min", _overload([], kind, f"list<{kind}>")
        yield "max", _overload([], kind, f"list<{kind}>")
    for name in FORMAT_NAMES:
        yield f"format.{name}", _overload([], "kubernetes.NamedFormat")
    for kind in (*_NUMBERS, "duration"):
        yield "sum", _overload([], kind, f"list<{kind}>")
