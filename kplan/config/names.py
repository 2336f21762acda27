"""Checks of names: label keys, label values, extended resources; each returns what is wrong, in Kubernetes' words.

Upstream: apimachinery api/validate/content/kube.go and dns.go, pkg/apis/core/v1/helper/helpers.go (v1.36).
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_extended_resource_name", "label_value_errors", "qualified_name_errors"]

_NAME_PATTERN: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_NAME: Final = re.compile(_NAME_PATTERN)
_VALUE_PATTERN: Final = f"({_NAME_PATTERN})?"
_VALUE: Final = re.compile(_VALUE_PATTERN)
_DNS_LABEL_PATTERN: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_PATTERN: Final = rf"{_DNS_LABEL_PATTERN}(\.{_DNS_LABEL_PATTERN})*"
_SUBDOMAIN: Final = re.compile(_SUBDOMAIN_PATTERN)

_NAME_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    f" (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME_PATTERN}')"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character"
    f" (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE_PATTERN}')"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN_PATTERN}')"
)

_MAX_NAME: Final = 63
_MAX_SUBDOMAIN: Final = 253


def qualified_name_errors(name: str) -> list[str]:
    """Say what keeps `name` from being `[prefix/]name` as label keys and resources are."""
    prefix, slash, base = name.rpartition("/")
    if "/" in prefix:
        example = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_NAME_RULE} {example}"]
    errors = []
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif slash:
        errors.extend(f"prefix part {error}" for error in _subdomain_errors(prefix))
    if not base:
        errors.append("name part must be non-empty")
    elif len(base.encode()) > _MAX_NAME:
        errors.append(f"name part must be no more than {_MAX_NAME} bytes")
    if not _NAME.fullmatch(base):
        errors.append(f"name part {_NAME_RULE}")
    return errors


def label_value_errors(value: str) -> list[str]:
    """Say what keeps `value` from being the value of a label."""
    errors = []
    if len(value.encode()) > _MAX_NAME:
        errors.append(f"must be no more than {_MAX_NAME} bytes")
    if not _VALUE.fullmatch(value):
        errors.append(_VALUE_RULE)
    return errors


def is_extended_resource_name(name: str) -> bool:
    """Tell whether a resource is outside Kubernetes' own: prefixed, and not by `kubernetes.io/` or `requests.`."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not qualified_name_errors(f"requests.{name}")


def _subdomain_errors(value: str) -> list[str]:
    errors = []
    if len(value.encode()) > _MAX_SUBDOMAIN:
        errors.append(f"must be no more than {_MAX_SUBDOMAIN} bytes")
    if not _SUBDOMAIN.fullmatch(value):
        errors.append(_SUBDOMAIN_RULE)
    return errors
