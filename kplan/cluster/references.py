"""References to objects of a snapshot: ``KIND/[NS/]NAME``, with globs, or ``KIND?label=value``."""

from __future__ import annotations

import fnmatch
from typing import Any

import msgspec

from kplan.api.kinds import Kind, kind_called, type_of, words_of_kinds
from kplan.api.labels import InvalidSelector, Selector, parse_selector
from kplan.api.names import nearest_texts, object_name
from kplan.cluster.workload_pods import nearest_names
from kplan.errors import NotFoundError, UsageError
from kplan.snapshot.defaults import DEFAULT_NAMESPACE
from kplan.snapshot.model import Snapshot

_GLOB = "*?["


class Reference(msgspec.Struct, frozen=True):
    """A reference to objects."""

    text: str  #: as it was written
    kind: Kind
    #: namespace, name: globs; the namespace is empty for kinds that have none
    namespace: str
    name: str
    labels: Selector | None = None  #: of the objects; None for any

    @property
    def is_exact(self) -> bool:
        """Whether it names a single object."""
        return self.labels is None and not any(letter in self.namespace + self.name for letter in _GLOB)

    def is_in(self, snapshot: Snapshot) -> bool:
        held: tuple[Any, ...] = snapshot.objects(self.kind.attribute)
        return any(_is_meant(self, obj) for obj in held)


def parse_reference(text: str) -> Reference:
    """Read ``KIND/NAME``, ``KIND/NAMESPACE/NAME`` or ``KIND?labels``; kinds as kubectl takes them.

    Raises UsageError for anything else, and for kinds that scheduling does not read.
    """
    # After a slash a question mark belongs to a glob; labels only follow a kind.
    head, mark, labels = text.partition("?")
    by_labels = bool(mark) and "/" not in head
    word, *path = [head] if by_labels else text.split("/")
    kind = kind_called(word)
    if kind is None:
        near = nearest_texts(word.lower(), words_of_kinds(), 1)
        hint = f"did you mean {near[0]}?" if near else "such as node/NAME, pod/NS/NAME, deployment/NS/NAME, pod?app=web"
        raise UsageError(f"{text}: no kind that scheduling reads is called {word!r}", hint=hint)
    if by_labels:
        return Reference(text, kind, "*" if kind.is_namespaced else "", "*", _selector(text, labels))
    example = f"{word}/NS/NAME" if kind.is_namespaced else f"{word}/NAME"
    if not path or not all(path) or len(path) > 1 + kind.is_namespaced:
        raise UsageError(f"{text}: expected {example}", hint=f"for example {example} or {word}?label=value")
    namespace = path[0] if len(path) > 1 else DEFAULT_NAMESPACE if kind.is_namespaced else ""
    return Reference(text, kind, namespace, path[-1])


def _selector(text: str, labels: str) -> Selector:
    try:
        selector = parse_selector(labels)
    except InvalidSelector as error:
        raise UsageError(f"{text}: {error}", hint="for example node?pool=gpu") from None
    if selector.is_empty:
        raise UsageError(f"{text}: names no label", hint="for example node?pool=gpu")
    return selector


def find(reference: Reference, snapshot: Snapshot) -> list[Any]:
    """Return the objects of a reference, at least one, in their order; NotFoundError names the nearest."""
    held: tuple[Any, ...] = snapshot.objects(reference.kind.attribute)
    matches = [obj for obj in held if _is_meant(reference, obj)]
    if not matches:
        raise _no_match(reference, held)
    return matches


def _is_meant(reference: Reference, obj: Any) -> bool:
    metadata = obj.metadata
    if reference.labels is not None:
        return reference.labels.matches(metadata.labels)
    # A name may hold letters that mean something else in a glob, so it is compared as text too.
    return _fits(metadata.namespace, reference.namespace) and _fits(metadata.name, reference.name)


def _fits(text: str, wanted: str) -> bool:
    return text == wanted or fnmatch.fnmatchcase(text, wanted)


def _no_match(reference: Reference, held: tuple[Any, ...]) -> NotFoundError:
    kind = reference.kind
    known = {_path(obj): None for obj in held}
    wanted = f"{reference.namespace}/{reference.name}" if kind.is_namespaced else reference.name
    nearest = [f"{kind.name.lower()}/{path}" for path in nearest_names(wanted, list(known))]
    if nearest:
        hint = f"did you mean {', '.join(nearest)}?"
    elif known:
        hint = f"the snapshot has {len(known)} of that kind, such as {kind.name.lower()}/{next(iter(known))}"
    else:
        hint = f"the snapshot has no {kind.resource} at all"
    return NotFoundError(f"the snapshot has no {reference.text}", hint=hint)


def _path(obj: Any) -> str:
    return "/".join(part for part in (obj.metadata.namespace, obj.metadata.name) if part)


def name_of(obj: Any) -> str:
    """Return how an object is named in reports."""
    kind = type_of(obj)
    return object_name(kind.name, obj.metadata.namespace if kind.is_namespaced else "", obj.metadata.name)
