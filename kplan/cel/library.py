"""The CEL library (Google's cel-cpp): the evaluation of expressions, and values on either side."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from kplan.api.quantity import Quantity
from kplan.cel.tree import Node, encode
from kplan.cel.values import CelError, Format, OptionalValue, Semver, UnsupportedError, Value, type_name

_EXTENSIONS = ("optional", "sets", "lists", "strings", "regex", "two-var-comprehensions")


@cache
def library() -> Any:
    """Return the library, imported when it is first used; raises UnsupportedError on platforms without it."""
    try:
        # Importing it takes longer than most commands without devices.
        from cel_expr_python import cel  # type: ignore[import-untyped] # its stubs come without a py.typed marker
    except ImportError:
        raise UnsupportedError("the library that evaluates it, cel-expr-python, is not installed here") from None
    return cel


@cache
def _evaluator() -> Any:
    config = msgspec.json.encode({"extensions": [{"name": name} for name in _EXTENSIONS]}).decode()
    return library().NewEnv(config=library().NewEnvConfigFromYaml(config))


def program(root: Node) -> Callable[[Mapping[str, Value]], Value]:
    """Return a function that evaluates a tree with variables; they and its result are Python's.

    It raises CelError, CostLimitError if that fails; a `MissingError` if a variable is missing.
    """
    return partial(_run, _evaluator().deserialize(encode(root)))


def _run(compiled: Any, variables: Mapping[str, Value]) -> Value:
    data = {name: _to_cel(value) for name, value in variables.items()}
    try:
        return _from_cel(compiled.eval(data=data))
    except (RuntimeError, ValueError, LookupError, TypeError) as error:
        raise _translate(str(error)) from None


@cache
def _compiled(expression: str) -> Any:
    return _evaluator().compile(expression, disable_check=True)


def evaluate(expression: str, **variables: Value) -> Value:
    """Return the value of an expression of kplan's own, compiled once; raises CelError, CostLimitError if it fails."""
    return _run(_compiled(expression), variables)


_TEXT_OF: dict[str, Callable[[Value], str]] = {
    "kubernetes.Quantity": lambda amount: f"{amount.nanos:x}",
    "kubernetes.URL": SplitResult.geturl,
    "kubernetes.NamedFormat": lambda form: form.name,
}
_FROM_TEXT: dict[str, Callable[[str], Value]] = {
    "kubernetes.Quantity": lambda text: Quantity(int(text, 16)),
    "kubernetes.Semver": Semver.parse,
    "kubernetes.URL": urlsplit,
    "kubernetes.NamedFormat": Format,
    "net.IP": ip_address,
    "net.CIDR": ip_interface,
}


def _to_cel(value: Value) -> Value:  # noqa: PLR0911 - one return a kind of value
    """Return a value in the library's form; an optional becomes a list with one element or none."""
    match value:
        case str():
            # The library truncates a text at a zero character, and cannot represent a lone surrogate.
            if "\0" in value or (not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value)):
                raise UnsupportedError("a text with a zero character in it cannot be evaluated")
            return value
        case bool() | int() | float():
            return value
        case Quantity() | Semver() | SplitResult() | Format() | IPv4Address() | IPv6Address():  # networks are addresses
            kind = type_name(value)
            return {kind: _TEXT_OF.get(kind, str)(value)}
        case bytes():
            return bytearray(value)
        case list():
            return [_to_cel(item) for item in value]
        case dict():
            return {_to_cel(key): _to_cel(item) for key, item in value.items()}
        case OptionalValue():
            return [_to_cel(value.value)] if value.is_present else []
    raise UnsupportedError(f"a value of type {type_name(value)} cannot be evaluated")


def _from_cel(result: Any) -> Value:
    kind = result.type().name().partition("<")[0]
    match kind:
        case "BOOL" | "INT" | "UINT" | "DOUBLE" | "STRING":
            return result.value()
        case "BYTES":
            return bytes(result.value())
        case "LIST":
            return [_from_cel(item) for item in result.value()]
        case "MAP":
            entries = {key: _from_cel(item) for key, item in result.value().items()}
            name, text = next(iter(entries.items()), ("", ""))
            return _FROM_TEXT[name](text) if len(entries) == 1 and name in _FROM_TEXT else entries
        case "NULL":
            return None  # the library's None lacks a reference count
        case "ERROR":
            raise _translate(result.value())
    raise UnsupportedError(f"a value of type {kind.lower()} cannot be evaluated")


_STATUS = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")
_MISSING = re.compile(r'No value with name "(.*)" found in Activation')
_WORDS = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"divide by zero", "division by zero"),
        (r'Key not found in map : "?(.*?)"?', r"no such key: \1"),
        (r"Index error: index=(-?\d+) size=\d+", r"index out of bounds: \1"),
        (r"No matching overloads found : (_[<>]=?_)\((?:map|list|null).*", r"no such overload: \1"),
        (
            r"No matching overloads found : (?:[-!@_].*|.*\)\.(?:contains|endsWith|matches|startsWith)\(.*)",
            "no such overload",
        ),
        (r"No matching overloads found : \((.*)\)\.(\w+)\(\)", r"no such overload: \2(\1)"),
        (r"No matching overloads found : \(([^()]*)\)\.(\w+)\(([^()]*)\)", r"no such overload: \2(\1, \3)"),
        (r"No matching overloads found : (.*)", r"no such overload: \1"),
        (r"Applying SELECT to non-message type", "no such overload"),
        (r"invalid regular expression: (.*)", r"error parsing regexp: \1"),
    )
)


def without_status(message: str) -> str:
    return _STATUS.sub("", message)


class MissingError(CelError):
    """A variable has no value."""

    def __init__(self, name: str) -> None:
        super().__init__(f"undeclared reference to {name!r}")
        self.name = name


class IterationLimitError(UnsupportedError):
    """The macros of an evaluation exceed the library's limit of iterations; they may or may not cost too much."""


def _translate(message: str) -> Exception:
    """Return an error of the library with the message of cel-go, which API servers use, where it is known."""
    message = without_status(message)
    if "Iteration budget exceeded" in message:
        return IterationLimitError("macros of more than 10,000 rounds cannot be evaluated")
    missing = _MISSING.fullmatch(message)
    if missing is not None:
        return MissingError(missing[1])
    if "Unable to convert function return value" in message:
        return UnsupportedError("a value of type optional_type cannot be evaluated")
    for pattern, text in _WORDS:
        if (match := pattern.fullmatch(message)) is not None:
            return CelError(re.sub(r"\b(u?int)64\b", r"\1", match.expand(text)))
    return CelError(message)
