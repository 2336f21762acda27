"""Names of objects, label keys and values, checked with the API machinery's messages, and those that resemble others.

Pods and workloads by name are values: the one place that writes and reads ``KIND/NAMESPACE/NAME``.
"""

from __future__ import annotations

import difflib
import re
import uuid
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import msgspec

from kplan.api.meta import OwnerReference, PlainMeta, controller_of
from kplan.facts import DerivedOnce

try:
    from _sha1 import sha1  # type: ignore[import-not-found] # Python's own, where it has one
except ImportError:
    from hashlib import sha1

_UIDS = uuid.UUID("6b706c61-6e00-5000-8000-000000000000")
"""Namespace of the generated uids: an object always has the same uid."""

_NAME_PART = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_NAME_PART})?"
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_1035_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"

_NAME_PART_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    f" (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME_PART}')"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    f" '{_LABEL_VALUE}')"
)
_DNS_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    f" an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_DNS_LABEL}')"
)
_DNS_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is"
    f" '{_DNS_1035_LABEL}')"
)
_DNS_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_DNS_SUBDOMAIN}')"
)
_MAX_LABEL = 63
_MAX_SUBDOMAIN = 253
GENERATED_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  #: of generated names: they form no words
LONGEST = 320
"""Longer texts resemble nothing: keys of labels have 317 characters at most, and comparing takes time by the square."""

_MOST_CHARACTERS = 1_000_000  #: names of so many characters together are compared at most: the first ones


def in_letters(data: bytes) -> str:
    """Write bytes in the letters of generated names (apimachinery rand.SafeEncodeString)."""
    return "".join(GENERATED_LETTERS[byte % len(GENERATED_LETTERS)] for byte in data)


@lru_cache(maxsize=1 << 14)
def label_key_problems(key: str) -> tuple[str, ...]:
    """Check a label key: an optional DNS prefix with a slash, and a name."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        suffix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {_NAME_PART_TEXT} {suffix}",)
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems += [f"prefix part {problem}" for problem in dns_subdomain_problems(prefix)]
    if not name:
        problems.append("name part must be non-empty")
    elif _bytes(name) > _MAX_LABEL:
        problems.append(f"name part must be no more than {_MAX_LABEL} bytes")
    if not re.fullmatch(_NAME_PART, name):
        problems.append(f"name part {_NAME_PART_TEXT}")
    return tuple(problems)


@lru_cache(maxsize=1 << 14)
def label_value_problems(value: str) -> tuple[str, ...]:
    return _problems(value, _MAX_LABEL, _LABEL_VALUE, _LABEL_VALUE_TEXT)


def dns_label_problems(name: str) -> tuple[str, ...]:
    """Check a name without dots, as namespaces, containers and volumes have."""
    has_dots = "." in name and re.fullmatch(_DNS_SUBDOMAIN, name)
    return _problems(name, _MAX_LABEL, _DNS_LABEL, "must not contain dots" if has_dots else _DNS_LABEL_TEXT)


def dns_1035_label_problems(name: str) -> tuple[str, ...]:
    """Check a name without dots that begins with a letter, as those of services once; bytes count as characters."""
    return _problems(name, _MAX_LABEL, _DNS_1035_LABEL, _DNS_1035_TEXT, unit="characters")


def dns_subdomain_problems(name: str) -> tuple[str, ...]:
    """Check a name that may contain dots, as pods, nodes and most objects have."""
    return _problems(name, _MAX_SUBDOMAIN, _DNS_SUBDOMAIN, _DNS_SUBDOMAIN_TEXT)


def _problems(text: str, most: int, pattern: str, message: str, *, unit: str = "bytes") -> tuple[str, ...]:
    """Return what is wrong with a text of at most so many bytes, called `unit`, that is to match a pattern."""
    too_long = [f"must be no more than {most} {unit}"] if _bytes(text) > most else []
    return (*too_long, *([] if re.fullmatch(pattern, text) else [message]))


def as_prefix(prefix: str) -> str:
    """Return a name that is valid where names with the prefix are (upstream maskTrailingDash)."""
    return f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def similarity(text: str, other: str) -> float:
    """Return how much two texts have in common, from 0 to 1."""
    if text == other:
        return 1.0
    if max(len(text), len(other)) > LONGEST:
        return 0.0
    return difflib.SequenceMatcher(None, text, other).ratio()


def choice_hint(text: str, known: Iterable[str], at_least: float = 0.6) -> str:
    """Return the hint to use the known text that resembles a text, or else to choose from all."""
    names = list(known)
    near = nearest_texts(text, names, 1, at_least)
    return f"did you mean {near[0]}?" if near else f"choose from {', '.join(names)}"


def nearest_texts(text: str, known: Iterable[str], most: int = 3, at_least: float = 0.6) -> list[str]:
    """Return known texts that resemble a text, the most similar first; `at_least` is from 0 to 1, for equal texts."""
    if len(text) > LONGEST:
        return []
    comparable = [other for other in known if len(other) <= LONGEST]
    lengths = accumulate(map(len, comparable))
    first = [other for other, total in zip(comparable, lengths, strict=True) if total <= _MOST_CHARACTERS]
    return difflib.get_close_matches(text, first, most, at_least)


class PodKey(NamedTuple):
    """The name of a pod."""

    namespace: str
    name: str

    @staticmethod
    def parse(text: str) -> PodKey:
        """Return the key of NAMESPACE/NAME; a text without slash is a namespace."""
        namespace, _, name = text.partition("/")
        return PodKey(namespace, name)

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"


class WorkloadRef(msgspec.Struct, frozen=True, dict=True):
    """A reference to a workload, as in a pod's owner references."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    api_version: str = "apps/v1"

    @staticmethod
    def parse(key: str) -> WorkloadRef:
        """Return the workload of KIND/NAMESPACE/NAME; raises ValueError for another text."""
        kind, namespace, name = key.split("/", 2)
        return WorkloadRef(kind, namespace, name)

    @staticmethod
    def of_title(title: str) -> WorkloadRef:
        """Return what has a `title`, which documents name it by."""
        return WorkloadRef.parse(title.replace(" ", "/", 1))

    @DerivedOnce
    def key(self) -> str:
        """KIND/NAMESPACE/NAME."""
        return object_name(self.kind, self.namespace, self.name)

    @property
    def as_controller(self) -> OwnerReference:
        return OwnerReference(
            api_version=self.api_version, kind=self.kind, name=self.name, uid=self.uid, controller=True
        )

    @property
    def parts(self) -> tuple[str, str, str]:
        return self.kind, self.namespace, self.name

    @property
    def path(self) -> str:
        """NAMESPACE/NAME, as `PlainMeta.key` has it."""
        return f"{self.namespace}/{self.name}"

    @property
    def title(self) -> str:
        """KIND NAMESPACE/NAME, as people read it."""
        return f"{self.kind} {self.path}"

    @property
    def short(self) -> str:
        return f"{self.kind}/{self.name}"


def camel_case(name: str) -> str:
    """Return the name that a field has in documents: ``oneByOne`` for ``one_by_one``."""
    return re.sub("_(.)", lambda letter: letter[1].upper(), name)


def object_name(kind: str, namespace: str, name: str) -> str:
    return f"{kind}/{namespace}/{name}" if namespace else f"{kind}/{name}"


def controller_name(metadata: PlainMeta) -> str:
    """Return the controller of an object as `object_name`; empty for none."""
    owner = controller_of(metadata)
    return "" if owner is None else object_name(owner.kind, metadata.namespace, owner.name)


def generated_uid(*names: str) -> str:
    """Return the uid of an object with these names: that of `uuid.uuid5`, which loads OpenSSL for one digest."""
    digest = sha1(_UIDS.bytes + "/".join(names).encode(), usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest[:16], version=5))
