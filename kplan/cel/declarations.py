"""Declarations for device selectors: the variable ``device`` and the functions beyond CEL's standard library.

The signatures are in CEL's notation, as the tables of functions have them; ``~A`` is any type. The fields of ``device``
are declared as variables of their own, ``device.attributes`` and so on, so that the checker knows their types;
``device`` itself is declared for ``has`` and ``cel.bind``, and only these fields may be selected from it.

Selectors are checked as stored expressions, which may use functions of every feature: so ``includes`` is declared
even while attributes may not be lists. Only the authorizer's functions are missing, because selectors have no
authorizer.

Upstream: k8s.io/dynamic-resource-allocation cel/compile.go, k8s.io/apiserver pkg/cel/environment/base.go and
pkg/cel/library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import product

import msgspec

from kplan.cel.functions import FUNCTIONS as OTHER_FUNCTIONS
from kplan.cel.kubernetes import KUBERNETES_FUNCTIONS
from kplan.cel.values import Value, typed

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
_COMPUTED = {**KUBERNETES_FUNCTIONS, **OTHER_FUNCTIONS}

_SIGNATURE = re.compile(r"(?:(?P<receiver>.+)\.)?(?P<name>@?\w+|_[=!]=_)\((?P<parameters>.*)\)(?:: (?P<result>.+))?")
_NAMESPACES = frozenset({"ip", "strings", "format", "lists"})
_Overload = dict[str, object]


class _Signature(msgspec.Struct):
    """A signature: ``|`` is between alternatives, brackets are around what may be left out.

    One without a result is declared by the library.
    """

    name: str
    receiver: str | None
    parameters: list[list[str]]
    n_required: int
    result: str | None

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
    """Yield the functions that kplan computes, each with the types of all its signatures."""
    signatures = [(_Signature.read(text), compute) for text, compute in _COMPUTED.items()]
    for signature, compute in signatures:
        alike = [other.accepted() for other, _ in signatures if other.name == signature.name]
        accepted = [set[str]().union(*names) for names in zip(*alike, strict=True)]
        yield signature.name, typed(signature.name, compute, accepted)


#: The functions that kplan computes.
FUNCTIONS: dict[str, Callable[..., Value]] = dict(_by_name())


def environment_config(*, lists: bool) -> str:
    """Return the declarations as a configuration of the CEL library, which is YAML (here: JSON).

    Parameters
    ----------
    lists : attributes may be lists (gate DRAListTypeAttributes), so that macros over lists apply to them
    """
    functions: dict[str, list[_Overload]] = {}
    declared = (overload for text in (*_COMPUTED, *_OF_THE_LIBRARY) for overload in _Signature.read(text).overloads())
    for name, overload in (*declared, *_comparisons()):
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


def _comparisons() -> Iterator[tuple[str, _Overload]]:
    """Yield CEL's comparisons, with those of numbers of different types, an option that Kubernetes enables."""
    for operator in ("_<_", "_<=_", "_>_", "_>=_"):
        for kind in _COMPARABLE:
            yield operator, _overload([kind, kind], "bool")
        for left in _NUMBERS:
            for right in _NUMBERS:
                if left != right:
                    yield operator, _overload([left, right], "bool")
