"""Kubernetes' named formats in CEL, such as ``format.dns1123Label().validate(text)``.

Upstream: k8s.io/apiserver pkg/cel/library/format.go, k8s.io/kube-openapi pkg/validation/strfmt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial

from kplan.api.names import dns_label_problems, dns_subdomain_problems, label_key_problems, label_value_problems
from kplan.cel.kubernetes import read_url
from kplan.cel.values import CelError, Format, OptionalValue, Value

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
    """Return the check for a prefix, to which text is appended, so that it may end in a dash."""
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


FORMAT_FUNCTIONS: dict[str, Callable[..., Value]] = {
    **{f"format.{name}(): kubernetes.NamedFormat": partial(Format, title) for name, (title, _) in _FORMATS.items()},
    "format.named(string): optional_type<kubernetes.NamedFormat>": _named,
    "kubernetes.NamedFormat.validate(string): optional_type<list<string>>": _validate,
}
