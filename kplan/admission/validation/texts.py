"""Formats of names and other texts, in the API machinery's words (k8s.io/apimachinery pkg/util/validation)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from kplan.admission.validation.checks import formed, inclusive, must
from kplan.admission.validation.errors import Errors, invalid, required
from kplan.api.names import dns_label_problems, dns_subdomain_problems, label_key_problems, label_value_problems

MOST_ID = 2**31 - 1
"""The largest user or group id."""

_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_PERCENT = "[0-9]+%"
_HEADER = "[-A-Za-z0-9]+"
_UNDERSCORE_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORE_SUBDOMAIN = rf"{_UNDERSCORE_LABEL}(\.{_UNDERSCORE_LABEL})*"
_PATH = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+"
_MOST_PORT = 65535
_MOST_SUBDOMAIN = 253


def dns_label(value: str) -> list[str]:
    """Return what is wrong with a DNS label."""
    return _in_characters(dns_label_problems(value))


def dns_subdomain(value: str) -> list[str]:
    """Return what is wrong with a DNS subdomain."""
    return _in_characters(dns_subdomain_problems(value))


def _in_characters(problems: Sequence[str]) -> list[str]:
    """Return problems of names, whose messages say characters where those of labels say bytes; both mean bytes."""
    return [problem[: -len("bytes")] + "characters" if problem.endswith(" bytes") else problem for problem in problems]


def regex_error(message: str, expression: str, *examples: str) -> str:
    """Return the message about a text that does not match a regular expression."""
    if not examples:
        return f"{message} (regex used for validation is '{expression}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{expression}')"


def port_number(value: int) -> list[str]:
    """Return what is wrong with a port number."""
    return [] if 1 <= value <= _MOST_PORT else [inclusive(1, _MOST_PORT)]


def port_name(value: str) -> list[str]:
    """Return what is wrong with the name of a port."""
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


def percent(value: str) -> list[str]:
    """Return what is wrong with a percentage."""
    if re.fullmatch(_PERCENT, value):
        return []
    message = "a valid percent string must be a numeric string followed by an ending '%'"
    return [regex_error(message, _PERCENT, "1%", "93%")]


def header_name(value: str) -> list[str]:
    """Return what is wrong with the name of an HTTP header."""
    if re.fullmatch(_HEADER, value):
        return []
    message = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return [regex_error(message, _HEADER, "X-Header-Name")]


def env_name(value: str) -> list[str]:
    """Return what is wrong with the name of an environment variable."""
    if not value:
        return ["environment variable name must be non-empty"]
    if all(" " <= char <= "~" and char != "=" for char in value):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def config_key(value: str) -> list[str]:
    """Return what is wrong with a key of a ConfigMap or Secret."""
    problems = ["must be no more than 253 characters"] if len(value.encode()) > _MOST_SUBDOMAIN else []
    if not re.fullmatch(_CONFIG_KEY, value):
        message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        problems.append(regex_error(message, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if value in {".", ".."}:
        problems.append(f"must not be '{value}'")
    elif value.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def subdomain_with_underscore(value: str) -> list[str]:
    """Return what is wrong with a DNS subdomain that may have underscores."""
    problems = ["must be no more than 253 characters"] if len(value.encode()) > _MOST_SUBDOMAIN else []
    if not re.fullmatch(_UNDERSCORE_SUBDOMAIN, value):
        message = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and"
            " must start and end with an alphanumeric character"
        )
        problems.append(regex_error(message, _UNDERSCORE_SUBDOMAIN, "example.com"))
    return problems


def port(value: int | str) -> list[str]:
    """Return what is wrong with the name or number of a port."""
    return port_name(value) if isinstance(value, str) else port_number(value)


def as_prefix(prefix: str) -> str:
    """Return a name that is valid where names with the prefix are (upstream maskTrailingDash)."""
    return f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix


LABEL, SUBDOMAIN = formed(dns_label), formed(dns_subdomain)
KEY, LABEL_VALUE = formed(label_key_problems), formed(label_value_problems)
PORT, PORT_NUMBER = formed(port), formed(port_number)
ENV_NAME, PATH_SEGMENT = formed(env_name), formed(path_segment)


def domain_prefixed_path(value: str, path: str) -> Errors:
    """Return what is wrong with a path such as ``acme.io/foo``."""
    if not value:
        return [required(path)]
    host, _, rest = value.partition("/")
    if not host or not rest:
        return [invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    is_path = re.fullmatch(_PATH, rest)
    return [*SUBDOMAIN(host, path), *([] if is_path else [invalid(path, rest, regex_error("Invalid path", _PATH))])]


def ip_errors(value: str, path: str) -> Errors:
    """Return what is wrong with an IP address (upstream IsValidIPForLegacyField, strict)."""
    sloppy = re.sub(r"(?<![0-9A-Fa-f:])0+(?=\d)", "", value) if "." in value else value
    try:
        address = ipaddress.ip_address("" if "%" in value else sloppy)
    except ValueError:
        yield invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
        return
    if sloppy != value:
        yield invalid(path, value, "must not have leading 0s")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        yield invalid(path, value, "must not be an IPv4-mapped IPv6 address")


no_backsteps = must(lambda target: ".." not in target.split("/"), "must not contain '..'")
"""The check of a path without ``..`` (pkg/apis/core/validation)."""


def descending(target: str, path: str) -> Errors:
    """Return what is wrong with a path that must be relative and without ``..`` (validateLocalDescendingPath)."""
    if target.startswith("/"):
        yield invalid(path, target, "must be a relative path")
    yield from no_backsteps(target, path)


def unreserved(target: str, path: str) -> Errors:
    """Return what is wrong with the path of a file in a volume."""
    yield from descending(target, path)
    if target.startswith("..") and not target.startswith("../"):
        yield invalid(path, target, "must not start with '..'")


file_mode = must(lambda mode: 0 <= mode <= 0o777, "must be a number between 0 and 0777 (octal), both inclusive")
