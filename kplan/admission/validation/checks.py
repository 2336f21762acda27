"""Checks of fields, what combines them into tables, and the formats of texts.

A check tells what is wrong with a value at a path. The table of a struct names its fields in upstream's order, which is
that of the errors; what concerns several fields at once stands in it as a function. Other modules read this one as
`check`. Upstream: k8s.io/apimachinery pkg/api/validation, pkg/util/validation.
"""

from __future__ import annotations

import ipaddress
import operator
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from kplan.api import names as api_names
from kplan.api.field_errors import NEVER, Errors, FieldError, duplicate, forbidden, invalid, not_supported, required

Object = dict[str, Any]
Check = Callable[[Any, str], Errors]
_LEFT_OUT = object()
_GROUPS = ("initContainers", "containers", "ephemeralContainers")


def below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def reached(obj: Object, path: str) -> Iterator[Any]:
    """Yield what a path leads to; ``*`` stands for all containers of a pod's spec, and a list for its items."""
    first, _, rest = path.partition(".")
    inner = [one for group in _GROUPS for one in obj.get(group) or ()] if first == "*" else obj.get(first)
    for item in inner if isinstance(inner, list) else () if inner is None else (inner,):
        yield from reached(item, rest) if rest else (item,)


def rules(*checks: Check) -> Check:
    if len(checks) == 1:
        return checks[0]
    return lambda value, path: [error for check in checks for error in check(value, path)]


def field(keys: str, *checks: Check, absent: Any = _LEFT_OUT, called: str = "") -> Check:
    """Return the checks of fields, whose names stand in `keys`; an absent one is left out, or counts as `absent`.

    `called` is the name of the field in errors, where that is another.
    """
    names, inner = keys.split(), rules(*checks)

    def check(obj: Object, path: str) -> Errors:
        for key in names:
            value = obj.get(key, absent)
            if value is not _LEFT_OUT:
                yield from inner(value, below(path, called or key))

    return check


def filled(keys: str, *checks: Check, called: str = "") -> Check:
    inner = rules(*checks)
    return field(keys, lambda value, path: inner(value, path) if value else (), called=called)


def needed(keys: str, *checks: Check, words: str = "") -> Check:
    inner = rules(*checks)
    return field(keys, lambda value, path: inner(value, path) if value else [required(path, words)], absent=None)


def present(keys: str, *checks: Check, words: str = "") -> Check:
    inner = rules(*checks)
    return field(
        keys, lambda value, path: [required(path, words)] if value is None else inner(value, path), absent=None
    )


def enum(key: str, *allowed: str) -> Check:
    return field(key, stated(*allowed), absent="")


def in_list(*checks: Check) -> Check:
    inner = rules(*checks)
    return lambda items, path: [error for index, item in enumerate(items) for error in inner(item, f"{path}[{index}]")]


def every_item(*checks: Check) -> Check:
    """Return the checks of the items of a list whose errors do not say which one it is."""
    inner = rules(*checks)
    return lambda items, path: [error for item in items for error in inner(item, path)]


def in_turn(*checks: Check) -> Check:
    """Return the check that tells an API server what the first of some checks says that says anything to it."""

    def errors_of(value: Any, path: str) -> Errors:
        earlier: list[FieldError] = []
        for check in checks:
            if some_go_on(earlier):
                earlier += list(behind(earlier, check(value, path)))
        return earlier

    return errors_of


def some_go_on(earlier: Iterable[FieldError]) -> bool:
    """Tell whether some API servers, the older ones, say nothing of these errors, and check on."""
    return all(error.since for error in earlier)


def behind(earlier: Sequence[FieldError], errors: Errors) -> Errors:
    """Yield errors for the API servers that say nothing of the `earlier` ones: those older than all of these."""
    oldest = min((one.since for one in earlier), default=NEVER)
    for error in errors:
        if error.since < oldest:
            yield replace(error, before=min(error.before, oldest))


def when(holds: str | Callable[[Any], object], *checks: Check) -> Check:
    """Return checks that count where something holds, or where a field is not empty."""
    inner = rules(*checks)
    is_so = operator.methodcaller("get", holds) if isinstance(holds, str) else holds
    return lambda value, path: inner(value, path) if is_so(value) else ()


def since(minor: int, inner: Check, older: Check = lambda _value, _path: ()) -> Check:
    """Return the check of API servers from a minor such as 36 on, and that of older ones."""
    return lambda value, path: [
        *(replace(error, since=minor) for error in inner(value, path)),
        *(replace(error, before=minor) for error in older(value, path)),
    ]


def barred(words: str) -> Check:
    return lambda _, path: [forbidden(path, words)]


def unset(keys: str, words: str) -> Check:
    """Return the check that fields are not there."""
    return field(keys, barred(words))


def items(keys: str, *checks: Check) -> Check:
    return field(keys, in_list(*checks))


def one_of(*allowed: str) -> Check:
    return lambda value, path: () if value in allowed else [not_supported(path, value, allowed)]


def stated(*allowed: str, words: str = "") -> Check:
    known = one_of(*allowed)
    return lambda value, path: known(value, path) if value else [required(path, words)]


def formed(problems: Callable[[Any], Iterable[str]]) -> Check:
    """Return the check of a format, from the function that tells what is wrong with a text."""
    return lambda value, path: [invalid(path, value, problem) for problem in problems(value)]


def must(holds: Callable[[Any], object], words: str) -> Check:
    """Return the check that something holds; `words` say what."""
    return lambda value, path: () if holds(value) else [invalid(path, value, words)]


def never(words: str) -> Check:
    return must(lambda _: False, words)


def between(low: int, high: int, *, least: int | None = None) -> Check:
    """Return the check of a number; upstream's words may state another least one."""
    words = f"must be between {low if least is None else least} and {high}, inclusive"
    return must(lambda number: low <= number <= high, words)


def at_most(most: int, when: str = "") -> Check:
    return must(lambda number: number <= most, f"must be less than or equal to {most} {when}".rstrip())


not_negative = must(lambda number: number >= 0, "must be greater than or equal to 0")
positive = must(lambda number: number > 0, "must be greater than zero")


def _n_bytes(text: str) -> int:
    return len(text.encode())


def at_most_bytes(most: int, size: Callable[[Any], int] = _n_bytes) -> Check:
    words = f"may not be more than {most} bytes"
    return lambda value, path: [FieldError(path, "Too long", "", words)] if size(value) > most else ()


def n_bytes_of_pairs(pairs: dict[str, str]) -> int:
    return sum(map(_n_bytes, (*pairs, *pairs.values())))


def at_most_items(most: int) -> Check:
    words = f"must have at most {most} item{'' if most == 1 else 's'}"
    return lambda listed, path: [FieldError(path, "Too many", str(len(listed)), words)] if len(listed) > most else ()


def unique() -> Check:
    """Return a check that remembers values, for one list: of equal values the later ones are errors."""
    used: set[Hashable] = set()

    def check(value: Hashable, path: str) -> Errors:
        if value in used:
            return [duplicate(path, value)]
        used.add(value)
        return []

    return check


def distinct(item_of: Callable[[Check], Check] = lambda is_new: is_new) -> Check:
    """Return the check of a list, from the function that takes a check of uniqueness into that of its items."""

    def check(items: list[Any], path: str) -> Errors:
        return in_list(item_of(unique()))(items, path)

    return check


def choice(kinds: dict[str, Check], what: str) -> Check:
    """Return the check of an object with one field of several, such as handlers: of two, the later is the error."""

    def check(obj: Object, path: str) -> Errors:
        stated = [key for key in kinds if key in obj]
        if not stated:
            return [required(path, f"must specify a {what}")]
        first = kinds[stated[0]](obj[stated[0]], f"{path}.{stated[0]}")
        return [*first, *(forbidden(f"{path}.{key}", f"may not specify more than 1 {what}") for key in stated[1:])]

    return check


MOST_ID = 2**31 - 1  #: the largest user or group id

_UNDERSCORE_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORE_SUBDOMAIN = rf"{_UNDERSCORE_LABEL}(\.{_UNDERSCORE_LABEL})*"
_PATH = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+"
_MOST_PORT = 65535


def dns_label(value: str) -> list[str]:
    return _in_characters(api_names.dns_label_problems(value))


def dns_subdomain(value: str) -> list[str]:
    return _in_characters(api_names.dns_subdomain_problems(value))


def _in_characters(problems: Sequence[str]) -> list[str]:
    """Return problems of names, whose messages say characters where those of labels say bytes; both mean bytes."""
    return [problem[: -len("bytes")] + "characters" if problem.endswith(" bytes") else problem for problem in problems]


def port_name(value: str) -> list[str]:
    problems = ["must be no more than 15 characters"] if len(value.encode()) > 15 else []
    if not re.fullmatch("[-a-z0-9]+", value):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        problems.append("must contain at least one letter (a-z)")
    if "--" in value:
        problems.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def path_segment(value: str) -> list[str]:
    """Return what is wrong with a name that is part of a path (upstream IsPathSegmentName)."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in value]


def matching(expression: str, message: str, *examples: str) -> Callable[[str], list[str]]:
    """Return what tells the problem of a text that an expression does not match."""
    shown = " or ".join(f"'{example}', " for example in examples)
    problem = f"{message} ({shown and f'e.g. {shown}'}regex used for validation is '{expression}')"
    return lambda value: [] if re.fullmatch(expression, value) else [problem]


percent = matching("[0-9]+%", "a valid percent string must be a numeric string followed by an ending '%'", "1%", "93%")
_HEADER_TEXT = "a valid HTTP header must consist of alphanumeric characters or '-'"
_UNDERSCORE_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start"
    " and end with an alphanumeric character"
)
_KEY_TEXT = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
_key_problems = matching("[-._a-zA-Z0-9]+", _KEY_TEXT, "key.name", "KEY_NAME", "key-name")
_underscore_problems = matching(_UNDERSCORE_SUBDOMAIN, _UNDERSCORE_TEXT, "example.com")


def _length_problems(value: str) -> list[str]:
    return ["must be no more than 253 characters"] if len(value.encode()) > 253 else []


def env_name(value: str) -> list[str]:
    if not value:
        return ["environment variable name must be non-empty"]
    if all(" " <= char <= "~" and char != "=" for char in value):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def config_key(value: str) -> list[str]:
    problems = [*_length_problems(value), *_key_problems(value)]
    if value in {".", ".."}:
        problems.append(f"must not be '{value}'")
    elif value.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def subdomain_with_underscore(value: str) -> list[str]:
    return [*_length_problems(value), *_underscore_problems(value)]


LABEL, SUBDOMAIN = formed(dns_label), formed(dns_subdomain)
KEY, LABEL_VALUE = formed(api_names.label_key_problems), formed(api_names.label_value_problems)
PORT_NAME, PORT_NUMBER = formed(port_name), between(1, _MOST_PORT)
ENV_NAME, PATH_SEGMENT = formed(env_name), formed(path_segment)
_path_errors = formed(matching(_PATH, "Invalid path"))
HEADER = formed(matching("[-A-Za-z0-9]+", _HEADER_TEXT, "X-Header-Name"))


def port_errors(port: int | str, path: str) -> Errors:
    return PORT_NAME(port, path) if isinstance(port, str) else PORT_NUMBER(port, path)


def domain_prefixed_path(value: str, path: str) -> Errors:
    """Return what is wrong with a path such as ``acme.io/foo``."""
    if not value:
        return [required(path)]
    host, _, rest = value.partition("/")
    if not host or not rest:
        return [invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    return [*SUBDOMAIN(host, path), *_path_errors(rest, path)]


def _without_leading_zeros(value: str) -> str:
    """Return an IP address, or a range, with decimal numbers as older API servers took them."""
    numbers = r"(?<![0-9A-Fa-f])\d++(?=\.)|(?<=[./])\d++(?=/|$)"
    return re.sub(numbers, lambda number: number[0].lstrip("0") or "0", value)


def _is_mapped(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def _strict(path: str, value: str, words: str) -> FieldError:
    return replace(invalid(path, value, words), since=36)  # upstream StrictIPCIDRValidation


def ip_errors(value: str, path: str) -> Errors:
    """Return what is wrong with an IP address (upstream IsValidIPForLegacyField, strict)."""
    sloppy = _without_leading_zeros(value)
    try:
        address = ipaddress.ip_address("" if "%" in value else sloppy)
    except ValueError:
        yield invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
        return
    if sloppy != value:
        yield _strict(path, value, "must not have leading 0s")
    elif _is_mapped(address):
        yield _strict(path, value, "must not be an IPv4-mapped IPv6 address")


def endpoint_errors(value: str, path: str) -> Errors:
    """Return what is wrong with an IP address of something outside (upstream ValidateEndpointIP)."""
    address = ipaddress.ip_address(_without_leading_zeros(value))
    if address.is_unspecified:
        yield invalid(path, value, f"may not be unspecified ({value})")
    if address.is_loopback:
        yield invalid(path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        yield invalid(path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if address in _LOCAL_MULTICAST[address.version]:
        words = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        yield invalid(path, value, words)


def cidr_errors(value: str, path: str) -> Errors:
    """Return what is wrong with a range of IP addresses (upstream IsValidCIDRForLegacyField, strict)."""
    sloppy = _without_leading_zeros(value)
    _, slash, length = sloppy.partition("/")
    try:
        known = ipaddress.ip_interface(sloppy if slash and length.isdecimal() and "%" not in value else "")
    except ValueError:
        yield invalid(path, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")
        return
    if sloppy != value:
        yield _strict(path, value, "must not have leading 0s in IP or prefix length")
    elif _is_mapped(known.ip):
        yield _strict(path, value, "must not have an IPv4-mapped IPv6 address")
    elif known.ip != known.network.network_address:
        yield _strict(path, value, "must not have bits set beyond the prefix length")


_LOCAL_MULTICAST = {4: ipaddress.ip_network("224.0.0.0/24"), 6: ipaddress.ip_network("ff02::/16")}

no_backsteps = must(lambda target: ".." not in target.split("/"), "must not contain '..'")
"""The check of a path without ``..`` (pkg/apis/core/validation)."""


def descending(target: str, path: str) -> Errors:
    """Return what is wrong with a path that must be relative and without ``..`` (validateLocalDescendingPath)."""
    if target.startswith("/"):
        yield invalid(path, target, "must be a relative path")
    yield from no_backsteps(target, path)


def unreserved(target: str, path: str) -> Errors:
    yield from descending(target, path)
    if target.startswith("..") and not target.startswith("../"):
        yield invalid(path, target, "must not start with '..'")


file_mode = must(lambda mode: 0 <= mode <= 0o777, "must be a number between 0 and 0777 (octal), both inclusive")
