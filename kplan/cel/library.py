"""The CEL library (Google's cel-cpp): evaluating trees, and carrying values to and fro.

It has CEL's own functions; Kubernetes' are computed between its programs, see `kplan.cel.pieces`. It could call Python
functions by itself, but it never lets go of their arguments and results, and null and optionals crash it there.

Kubernetes' values cross as maps of one entry, from the name of the type to a text that is the same for equal values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
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
    """Return the library itself."""
    # Loading the library takes longer than most questions that have nothing to do with devices.
    from cel_expr_python import cel  # type: ignore[import-untyped] # its stubs come without a py.typed marker

    return cel


@cache
def _evaluator() -> Any:
    config = msgspec.json.encode({"extensions": [{"name": name} for name in _EXTENSIONS]}).decode()
    return library().NewEnv(config=library().NewEnvConfigFromYaml(config))


class Program:
    """A tree that the library evaluates; what it reads from outside are its variables."""

    def __init__(self, root: Node) -> None:
        self._program = _evaluator().deserialize(encode(root))

    def __call__(self, variables: Mapping[str, Value]) -> Value:
        """Evaluate, with Python values in and out.

        Raises CelError, CostLimitError if that fails; a `MissingError` if that is for want of a variable.
        """
        data = {name: _sent(value) for name, value in variables.items()}
        try:
            return _received(self._program.eval(data=data))
        except (RuntimeError, ValueError, LookupError, TypeError) as error:
            raise _translated(str(error)) from None


@cache
def _fixed(expression: str) -> Any:
    return _evaluator().compile(expression, disable_check=True)


def ask(expression: str, **variables: Value) -> Value:
    """Evaluate an expression of this program's own, which is compiled once.

    Raises CelError, CostLimitError if it fails.
    """
    try:
        return _received(_fixed(expression).eval(data={name: _sent(value) for name, value in variables.items()}))
    except (RuntimeError, ValueError, LookupError, TypeError) as error:
        raise _translated(str(error)) from None


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


def _sent(value: Value) -> Value:  # noqa: PLR0911 - one return a kind of value
    """Return a value as the library takes it; an optional goes as a list of one or none."""
    match value:
        case str():
            return _sent_text(value)
        case bool() | int() | float():
            return value
        case Quantity() | Semver() | SplitResult() | Format() | IPv4Address() | IPv6Address():  # networks are addresses
            kind = type_name(value)
            return {kind: _TEXT_OF.get(kind, str)(value)}
        case bytes():
            return bytearray(value)
        case list():
            return [_sent(item) for item in value]
        case dict():
            return {_sent(key): _sent(item) for key, item in value.items()}
        case OptionalValue():
            return [_sent(value.value)] if value.is_present else []
    raise UnsupportedError(f"a value of type {type_name(value)} cannot be evaluated")


def _sent_text(text: str) -> str:
    # The library would cut a text at a zero, and has no form for half a character.
    if "\0" in text or (not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text)):
        raise UnsupportedError("a text with a zero character in it cannot be evaluated")
    return text


def _received(answer: Any) -> Value:
    """Return what the library hands over in Python's and kplan's own values."""
    kind = answer.type().name().partition("<")[0]
    match kind:
        case "BOOL" | "INT" | "UINT" | "DOUBLE" | "STRING":
            return answer.value()
        case "BYTES":
            return bytes(answer.value())
        case "LIST":
            return [_received(item) for item in answer.value()]
        case "MAP":
            return _map({key: _received(item) for key, item in answer.value().items()})
        case "NULL":
            return None  # the library's own would be one reference to None short
        case "ERROR":
            raise _translated(answer.value())
    raise UnsupportedError(f"a value of type {kind.lower()} cannot be evaluated")


def _map(found: dict[Value, Value]) -> Value:
    if len(found) == 1:
        ((kind, text),) = found.items()
        if kind in _FROM_TEXT:
            return _FROM_TEXT[kind](text)
    return found


_STATUS = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")
_MISSING = re.compile(r'No value with name "(.*)" found in Activation')
_WORDS = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"divide by zero", "division by zero"),
        (r'Key not found in map : "?(.*?)"?', r"no such key: \1"),
        (r"Index error: index=(-?\d+) size=\d+", r"index out of bounds: \1"),
        (r"No matching overloads found : (.*)", r"no such overload: \1"),
        (r"Applying SELECT to non-message type", "no such overload"),
        (r"invalid regular expression: (.*)", r"error parsing regexp: \1"),
    )
)


def without_status(message: str) -> str:
    """Return a message of the library without the codes around it."""
    return _STATUS.sub("", message)


class MissingError(CelError):
    """A variable that was not given."""

    def __init__(self, name: str) -> None:
        super().__init__(f"undeclared reference to {name!r}")
        self.name = name


class RoundsError(UnsupportedError):
    """An evaluation of more rounds of macros than the library goes; it may or may not cost too much."""


def _translated(message: str) -> Exception:
    """Return an error of the library in the words of the one that API servers use, where they are known."""
    message = without_status(message)
    if "Iteration budget exceeded" in message:
        return RoundsError("macros of more than 10,000 rounds cannot be evaluated")
    missing = _MISSING.fullmatch(message)
    if missing is not None:
        return MissingError(missing[1])
    if "Unable to convert function return value" in message:
        return UnsupportedError("a value of type optional_type cannot be evaluated")
    for pattern, text in _WORDS:
        if pattern.fullmatch(message):
            return CelError(re.sub(r"\b(u?int)64\b", r"\1", pattern.sub(text, message)))
    return CelError(message)
