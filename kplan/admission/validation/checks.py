"""Checks of fields, and what combines them into tables; metadata, labels, annotations and label selectors.

A check tells what is wrong with a value at a path. The table of a struct names its fields in upstream's order, which is
that of the errors; what concerns several fields at once stands in it as a function. Other modules read this one as
`check`. Upstream: k8s.io/apimachinery pkg/api/validation, pkg/apis/meta/v1/validation; core ValidateObjectMeta.
"""

from __future__ import annotations

import ipaddress
import json
import operator
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from kplan.api import names as api_names
from kplan.api.decode import convert
from kplan.api.kinds import split_api_version
from kplan.api.labels import InvalidSelector, selector_from
from kplan.api.meta import LabelSelector

OMITTED = object()  #: a value that the message leaves out


class GoStruct(dict[str, Any]):
    """An object whose keys Go writes in the order of a struct's fields; it sorts the keys of maps."""


def go_struct(obj: dict[str, Any], **fields: Any) -> GoStruct:
    """Return the fields of an object by their names in Go, in this order, with the values that absent ones have.

    A dict has the fields of an inner object in place of a value; an absent one is null.
    """
    shown = GoStruct()
    for name, zero in fields.items():
        value = obj.get(re.sub(_ACRONYM, lambda match: match[0].lower(), name))
        if isinstance(zero, dict):
            shown[name] = None if value is None else go_struct(value, **zero)
        else:
            shown[name] = zero if value is None else value
    return shown


_ACRONYM = r"^(?:[A-Z]+(?=[A-Z][a-z])|[A-Z])"  #: the letters at the beginning of a name in Go that are small in JSON


class FieldError(msgspec.Struct, frozen=True):
    """An error about a field."""

    field: str  #: its path, such as ``spec.containers[0].image``
    kind: str  #: ``Invalid value``, ``Required value``, ``Duplicate value``, …
    value: str = ""  #: its value as Go prints it; empty where the message does not show it
    detail: str = ""  #: what is expected

    @property
    def body(self) -> str:
        return ": ".join(part for part in (self.kind, self.value, self.detail) if part)

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


Errors = Iterable[FieldError]


def aggregate(errors: Iterable[FieldError | str]) -> str:
    """Return the distinct errors as one text (upstream ErrorList.ToAggregate)."""
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def required(path: str, detail: str = "") -> FieldError:
    return FieldError(path, "Required value", "", detail)


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError(path, "Forbidden", "", detail)


def invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError(path, "Invalid value", _shown(value), detail)


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError(path, "Duplicate value", _shown(value))


def not_found(path: str, value: Any, detail: str = "") -> FieldError:
    return FieldError(path, "Not found", _shown(value), detail)


def not_supported(path: str, value: Any, allowed: Sequence[str]) -> FieldError:
    detail = f"supported values: {', '.join(map(quoted, allowed))}"
    return FieldError(path, "Unsupported value", _shown(value), detail)


def quoted(text: str) -> str:
    """Return a text in quotes as Go's %q writes it."""
    return '"' + "".join(map(_escaped, text)) + '"'


def go_json(value: Any) -> str:
    """Return JSON as Go writes it: with sorted keys of maps, and characters of HTML escaped."""
    text = json.dumps(_in_order(value), ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _in_order(value: Any) -> Any:
    if isinstance(value, list):
        return [_in_order(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _in_order(value[key]) for key in (value if isinstance(value, GoStruct) else sorted(value))}


def _shown(value: Any) -> str:
    if value is OMITTED:
        return ""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else go_json(value)


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char == " " or char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


_ESCAPES = {char: f"\\{letter}" for char, letter in zip('"\\\a\b\f\n\r\t\v', '"\\abfnrtv', strict=True)}

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
    """Return the check that tells what the first of some checks says that says anything."""
    return lambda value, path: next(filter(None, (list(check(value, path)) for check in checks)), [])


def when(holds: str | Callable[[Any], object], *checks: Check) -> Check:
    """Return checks that count where something holds, or where a field is not empty."""
    inner = rules(*checks)
    is_so = operator.methodcaller("get", holds) if isinstance(holds, str) else holds
    return lambda value, path: inner(value, path) if is_so(value) else ()


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
    yield from descending(target, path)
    if target.startswith("..") and not target.startswith("../"):
        yield invalid(path, target, "must not start with '..'")


file_mode = must(lambda mode: 0 <= mode <= 0o777, "must be a number between 0 and 0777 (octal), both inclusive")

_MOST_ANNOTATION_BYTES = 256 * 1024  # of all of an object (upstream TotalAnnotationSizeLimitB)

Names = Callable[[str], Sequence[str]]


def metadata(names: Names = dns_subdomain, *, checks_prefix: bool = True, is_namespaced: bool = True) -> Check:
    is_named = when(lambda obj: not obj.get("generateName"), needed("name", words="name or generateName is required"))
    prefix = formed(lambda text: names(api_names.as_prefix(text))) if checks_prefix else rules()
    name = filled("name", formed(names))
    namespace = needed("namespace", LABEL) if is_namespaced else unset("namespace", "not allowed on this type")
    return field("metadata", filled("generateName", prefix), is_named, name, namespace, *_COMMON, absent={})


def of_kind(meta: Check, *spec: Check) -> Check:
    return rules(meta, field("spec", *spec, absent={}))


def label_errors(labels: dict[str, str], path: str) -> Errors:
    for key, value in sorted(labels.items()):
        yield from KEY(key, path)
        yield from LABEL_VALUE(value, path)


_annotation_key = formed(lambda key: api_names.label_key_problems(key.lower()))
annotation_errors = rules(
    lambda annotations, path: every_item(_annotation_key)(sorted(annotations), path),
    at_most_bytes(_MOST_ANNOTATION_BYTES, n_bytes_of_pairs),
)
"""The check of annotations: their keys, and their total size."""


def _owner_errors(references: list[Object], path: str) -> Errors:
    controller = ""
    optional = ("controller", "blockOwnerDeletion")
    owners = [
        GoStruct({key: owner.get(key, "") for key in _IDENTITY} | {key: owner[key] for key in optional if key in owner})
        for owner in references
    ]
    for owner in owners:
        written = owner["apiVersion"]
        group, version = split_api_version(written) if written.count("/") < 2 else ("", "")
        if not version:
            yield invalid(f"{path}.apiVersion", written, "version must not be empty")
        yield from (invalid(f"{path}.{key}", "", "must not be empty") for key in _IDENTITY[1:] if not owner[key])
        if (group, version, owner["kind"]) == ("", "v1", "Event"):
            yield invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            name = f"{owner['kind']}/{owner['name']}"
            if controller:
                words = 'Only one reference can have Controller set to true. Found "true" in references for'
                yield invalid(path, owners, f"{words} {controller} and {name}")
            controller = controller or name


_IDENTITY = ("apiVersion", "kind", "name", "uid")


_DELETIONS = frozenset({"orphan", "foregroundDeletion"})
_finalizer = must(
    lambda name: "/" in name or name in {"kubernetes", *_DELETIONS},
    "name is neither a standard finalizer name nor is it fully qualified",
)
_COMMON = (
    field("labels", label_errors),
    field("annotations", annotation_errors),
    field("ownerReferences", _owner_errors),
    field(
        "finalizers",
        every_item(KEY),
        must(lambda names: not {*names} >= _DELETIONS, "finalizer orphan and foregroundDeletion cannot be both set"),
        in_list(_finalizer),
    ),
)


def _only_labels(obj: Object, path: str) -> Errors:
    stated = [key for key in obj if key not in ("annotations", "labels")]
    return [forbidden(f"{path}.{'uID' if key == 'uid' else key}", "cannot be set") for key in stated]


template_metadata = rules(field("annotations", annotation_errors), field("labels", label_errors), _only_labels)
"""The check of metadata that may hold labels and annotations only (claim templates)."""


def selector_matches(selector: Object | None, labels: dict[str, str]) -> bool | None:
    """Tell whether a selector matches labels, an absent one none; None: invalid (upstream LabelSelectorAsSelector)."""
    try:
        return selector_from(None if selector is None else convert(selector, LabelSelector)).matches(labels)
    except InvalidSelector:
        return None


def shown_selector(selector: Object) -> GoStruct:
    shown = GoStruct({"matchLabels": selector["matchLabels"]} if selector.get("matchLabels") else {})
    for expression in selector.get("matchExpressions", ()):
        values = {"values": expression["values"]} if expression.get("values") else {}
        requirement = {"key": expression.get("key", ""), "operator": expression.get("operator", ""), **values}
        shown.setdefault("matchExpressions", []).append(GoStruct(requirement))
    return shown


def operator_errors(expression: Object, path: str, *, numeric: bool = False) -> Errors:
    values: list[Any] = expression.get("values", [])
    match expression.get("operator", ""):
        case "In" | "NotIn":
            if not values:
                yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield forbidden(f"{path}.values", words)
        case "Gt" | "Lt" if numeric:
            if len(values) != 1:
                yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        case operator:
            yield invalid(f"{path}.operator", operator, "not a valid selector operator")


selector_errors = rules(
    field("matchLabels", label_errors),
    items("matchExpressions", operator_errors, field("key", KEY, absent=""), items("values", LABEL_VALUE)),
)
"""The check of a label selector (upstream ValidateLabelSelector)."""
