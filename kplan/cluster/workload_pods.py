"""The pods of workloads, found through their chain of owners, and objects of a snapshot as people name them.

Names of pods and workloads are NAMESPACE/POD, KIND/NAME or KIND/NAMESPACE/NAME. References are to objects of any kind:
KIND/[NS/]NAME, with globs, or KIND?label=value.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from kplan.api.core import Pod
from kplan.api.kinds import DAEMON_SET, POD_MAKERS, SHORT_NAMES, Kind, kind_called, type_of, words_of_kinds
from kplan.api.labels import InvalidSelector, Selector, parse_selector
from kplan.api.meta import controller_of
from kplan.api.names import PodKey, nearest_texts, object_name
from kplan.api.pod import ENDED
from kplan.errors import NotFoundError, UsageError
from kplan.health.workloads import workloads_above
from kplan.snapshot.defaults import DEFAULT_NAMESPACE
from kplan.snapshot.model import Snapshot

_MOST = 3  # names that a hint lists
_HOW = {"Succeeded": "has succeeded", "Failed": "has failed"}


def no_pod(key: str, known: Iterable[str], workloads: Iterable[str] = ()) -> NotFoundError:
    """Return the error for a pod that does not exist; its hint prefers workloads of that name to similar pods."""
    hint = _meant([*workloads][:_MOST]) or did_you_mean([key], known)
    hint = hint or "name it as NAMESPACE/NAME, as kubectl get pods -A lists them"
    return NotFoundError(f"the snapshot has no pod {key}", hint=hint)


def has_ended(pod: Pod) -> UsageError | None:
    how = _HOW.get(pod.status.phase)
    if how is None:
        return None
    return UsageError(
        f"pod {pod.metadata.key} {how}; it no longer takes up room, so there is nothing to decide",
        hint="name a pod that runs or waits: kubectl get pods -A lists them",
    )


def no_node(names: Iterable[str], known: Iterable[str]) -> NotFoundError:
    unknown = list(names)
    hint = did_you_mean(unknown, known) or "kubectl get nodes lists those that there are"
    return NotFoundError(f"the snapshot has no node {', '.join(unknown)}", hint=hint)


def did_you_mean(names: Iterable[str], known: Iterable[str]) -> str:
    """Return a hint with the names nearest to unknown ones; empty if none is near.

    The same name in another namespace is nearer than a similar name, which in a namespace is compared without it.
    """
    candidates = list(known)
    return _meant(dict.fromkeys(near for name in names for near in nearest_names(name, candidates)))


def _meant(names: Collection[str]) -> str:
    return f"did you mean {', '.join(names)}?" if names else ""


def nearest_names(name: str, candidates: Sequence[str]) -> list[str]:
    """Return the names nearest to an unknown one, as `did_you_mean`."""
    namespace, slash, last = name.rpartition("/")
    elsewhere = [candidate for candidate in candidates if candidate.endswith(f"/{last}")] if namespace else []
    if elsewhere:
        return elsewhere[:_MOST]
    prefix = f"{namespace}{slash}" if namespace else ""
    own = [candidate.removeprefix(prefix) for candidate in candidates if candidate.startswith(prefix)]
    if not own:
        return nearest_texts(f"{prefix}{last}", candidates, _MOST)
    return [f"{prefix}{text}" for text in nearest_texts(last, own, _MOST)]


_POD = "Pod"
_SHORT = {kind: short for short, kind in SHORT_NAMES.items()}
_NEAR = 0.8  #: how alike a name must be that was probably meant, from 0 to 1


def kind_with_pods(text: str) -> str:
    """Return ``Pod``, or the kind of `POD_MAKERS`, that kubectl understands by a word; empty for anything else."""
    kind = kind_called(text)
    return kind.name if kind is not None and (kind.name == _POD or kind.name in POD_MAKERS) else ""


def living_pods(snapshot: Snapshot, kind: str, namespace: str, name: str) -> list[Pod]:
    """Return the pods of a workload, of one of the `POD_MAKERS`, that have not ended, by name, pending pods first.

    Raises NotFoundError when neither the workload nor a pod of it exists.
    """
    wanted = object_name(kind, namespace, name)
    alive = (pod for pod in snapshot.pods if pod.status.phase not in ENDED)
    pods = [pod for pod in alive if wanted in workloads_above(pod, snapshot.controllers)]
    if not pods:
        key = f"{namespace}/{name}"
        held = {obj.metadata.key for obj in getattr(snapshot, POD_MAKERS[kind].attribute)}
        if key not in held:
            hint = _meant(workloads_called(snapshot, key)) or did_you_mean([key], snapshot.pod_by_key)
            hint = hint or f"kubectl get {POD_MAKERS[kind].resource} -A lists those that there are"
            raise NotFoundError(f"the snapshot has no {kind} {key}", hint=hint)
    return sorted(pods, key=lambda pod: (bool(pod.spec.node_name), pod.metadata.name))


def workload_name(kind: str, namespace: str, name: str) -> str:
    """Return a workload as kubectl takes it, ``deploy/shop/cart``."""
    return f"{_SHORT.get(kind, kind.lower())}/{namespace}/{name}"


def workloads_called(snapshot: Snapshot, key: str) -> list[str]:
    """Return the workloads of a NAMESPACE/NAME, or else of names that are near, as kubectl takes them.

    Where the namespace has no workload of the name, those of other namespaces count.
    """
    namespace, _, name = key.partition("/")
    workloads = [
        (kind.name, obj.metadata.namespace, obj.metadata.name)
        for kind in POD_MAKERS.values()
        for obj in getattr(snapshot, kind.attribute)
        if controller_of(obj.metadata) is None
    ]
    called = [workload for workload in workloads if workload[2] == name]
    called = [workload for workload in called if workload[1] == namespace] or called
    if not called:
        near = nearest_texts(key, {f"{where}/{other}" for _, where, other in workloads}, at_least=_NEAR)
        called = [workload for workload in workloads if f"{workload[1]}/{workload[2]}" in near]
    return [workload_name(*workload) for workload in called]


class PodOrWorkload(NamedTuple):
    """A pod or a workload that an argument names."""

    kind: str  #: ``Pod``, or a kind of `kplan.api.kinds.POD_MAKERS`
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"


_AUTOSCALERS = ("hpa", "horizontalpodautoscaler", "horizontalpodautoscalers")
_SERVICES = ("svc", "service", "services")


def object_named(text: str, namespace: str, snapshot: Snapshot) -> PodOrWorkload:
    """Return the pod or the workload that a text names.

    A pod takes precedence: ``rs/web`` is the pod ``web`` of the namespace ``rs`` where it exists. The namespace is for
    texts that name none; empty for ``default``. Raises UsageError when the text names neither.
    """
    namespace = namespace or DEFAULT_NAMESPACE
    if text in snapshot.pod_by_key:
        return PodOrWorkload(_POD, *PodKey.parse(text))
    first, *rest = text.split("/")
    kind = kind_with_pods(first) if rest else ""
    if len(rest) == 1 and not kind:
        return PodOrWorkload(_POD, first, rest[0])
    if not rest:
        return PodOrWorkload(_POD, namespace, first)
    if not kind and first.lower() in _AUTOSCALERS and len(rest) == 2:
        scalers = snapshot.horizontal_pod_autoscalers
        target = next((one.spec.scale_target_ref for one in scalers if one.metadata.key == "/".join(rest)), None)
        if target is not None and target.kind in POD_MAKERS:
            return PodOrWorkload(target.kind, rest[0], target.name)
    if not kind or len(rest) > 2:
        names = [*(name for kind in POD_MAKERS for name in (kind.lower(), _SHORT.get(kind, ""))), "pod"]
        meant = nearest_texts(first, names, most=1) if len(rest) <= 2 else []
        hint = "name it as NAMESPACE/POD or KIND/NAMESPACE/NAME"
        if first.lower() in _SERVICES:
            hint = f"a Service has no pods of its own: name the workload behind it, such as deploy/{'/'.join(rest)}"
        elif meant:
            hint = f"did you mean {'/'.join([*meant, *rest])}?"
        raise UsageError(f"{text} names neither a pod nor a workload", hint=hint)
    return PodOrWorkload(kind, rest[0] if len(rest) == 2 else namespace, rest[-1])


def no_replicas(daemon_set: str, hint: str) -> UsageError:
    return UsageError(f"DaemonSet {daemon_set} has one pod per node, so there are no replicas to count", hint=hint)


def workloads_named(what: Sequence[str], namespace: str, snapshot: Snapshot) -> set[str]:
    """Return the workloads that arguments name, as KIND/NAMESPACE/NAME; parameters and errors as `object_named`."""
    named = (object_named(text, namespace, snapshot) for text in what)
    return {object_name(*name) for name in named if name.kind != _POD}


def scalable_workloads(names: Sequence[str], namespace: str, snapshot: Snapshot) -> list[str]:
    """Return the workloads with replicas that texts name, as KIND/NAMESPACE/NAME; parameters as for `object_named`.

    Raises UsageError for what is no such workload, and NotFoundError where the snapshot has none.
    """
    workloads = []
    for text in names:
        named = object_named(text, namespace, snapshot)
        if named.kind == _POD:
            hint = _meant(workloads_called(snapshot, named.key)) or "name it as KIND/NAMESPACE/NAME, or name a manifest"
            raise UsageError(f"{text} is neither a manifest nor a workload", hint=hint)
        if named.kind == DAEMON_SET:
            raise no_replicas(named.key, f"kplan explain ds/{named.key} shows its pods")
        living_pods(snapshot, *named)
        workloads.append(object_name(*named))
    return workloads


def pods_named(names: Sequence[str], namespace: str, snapshot: Snapshot, *, may_have_none: bool = False) -> list[str]:
    """Return the pods that texts name, as NAMESPACE/NAME, none twice; parameters and errors as `object_named`.

    Raises UsageError for a workload without pods that run or wait, unless it `may_have_none`.
    """
    keys: list[str] = []
    for text in names:
        named = object_named(text, namespace, snapshot)
        if named.kind == _POD:
            keys.append(named.key)
            continue
        pods = living_pods(snapshot, *named)
        if not pods and not may_have_none:
            hint = f"kplan place {workload_name(*named)} shows where its next pod would go"
            raise UsageError(f"{named.kind} {named.key} has no pods that run or wait", hint=hint)
        keys += [pod.metadata.key for pod in pods]
    return list(dict.fromkeys(keys))


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
        return any(_is_meant(self, obj) for obj in snapshot.objects(self.kind.attribute))


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
    kind = reference.kind
    held: tuple[Any, ...] = snapshot.objects(kind.attribute)
    if matches := [obj for obj in held if _is_meant(reference, obj)]:
        return matches
    known = ["/".join(filter(None, (obj.metadata.namespace, obj.metadata.name))) for obj in held]
    wanted = f"{reference.namespace}/{reference.name}" if kind.is_namespaced else reference.name
    nearest = [f"{kind.name.lower()}/{path}" for path in nearest_names(wanted, known)]
    hint = _meant(nearest)
    if not hint and known:
        hint = f"the snapshot has {len(known)} of that kind, such as {kind.name.lower()}/{known[0]}"
    raise NotFoundError(
        f"the snapshot has no {reference.text}", hint=hint or f"the snapshot has no {kind.resource} at all"
    )


def _is_meant(reference: Reference, obj: Any) -> bool:
    metadata = obj.metadata
    if reference.labels is not None:
        return reference.labels.matches(metadata.labels)
    # A name may hold letters that mean something else in a glob, so it is compared as text too.
    sides = ((metadata.namespace, reference.namespace), (metadata.name, reference.name))
    return all(text == wanted or fnmatch.fnmatchcase(text, wanted) for text, wanted in sides)


def name_of(obj: Any) -> str:
    """Return how an object is named in reports."""
    kind = type_of(obj)
    return object_name(kind.name, obj.metadata.namespace if kind.is_namespaced else "", obj.metadata.name)
