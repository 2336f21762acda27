"""What a pod's rules probably mean where they match nothing: another toleration, topology key, label or namespace."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from kplan.api.affinity import PodAffinityTerm, Taint, Toleration, Tolerations, tolerates
from kplan.api.core import Node, Pod
from kplan.api.labels import ARCH, BETA_ARCH, BETA_OS, DELETION_CANDIDATE, DISRUPTED, OS, TO_BE_DELETED
from kplan.api.names import LONGEST, nearest_texts, similarity
from kplan.engine.cluster import NOWHERE
from kplan.engine.matching import PodMatch, is_hard
from kplan.engine.node_table import NodeTable
from kplan.facts import MissingName
from kplan.framework.session import Session
from kplan.health.nodes import is_startup_taint
from kplan.rules.pod_info import AffinityTerm, PodInfo
from kplan.snapshot.model import Snapshot

_MOST = 5
_FACTS = frozenset({ARCH, OS, BETA_ARCH, BETA_OS})


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the name that was probably meant; nothing where several come equally close."""
    near = near_names(name, known)
    return "" if not near or (len(near) > 1 and _rank(name, near[0]) == _rank(name, near[1])) else near[0]


_NO_ACCOUNT = r'serviceaccount "([a-z0-9][a-z0-9.-]{0,252})" not found'
"""How the API server says that a pod names no service account that exists."""


def missing_name(snapshot: Snapshot, pod: Pod, message: str) -> MissingName | None:
    """Return the object that a refused pod names and that does not exist; `message` is the API server's."""
    accounts = [held for held in snapshot.service_accounts if held.metadata.namespace == pod.metadata.namespace]
    account = re.search(_NO_ACCOUNT, message)
    named: tuple[tuple[Literal["PriorityClass", "RuntimeClass", "ServiceAccount"], str | None, Sequence[Any]], ...] = (
        ("PriorityClass", pod.spec.priority_class_name, snapshot.priority_classes),
        ("RuntimeClass", pod.spec.runtime_class_name, snapshot.runtime_classes),
        ("ServiceAccount", account and account[1], accounts),
    )
    for kind, name, objects in named:
        names = [held.metadata.name for held in objects]
        is_missing = name and name not in names and not name.startswith("system-")
        if name and is_missing and re.search(rf'[ "]{re.escape(name)}[ "]', f"{message} "):
            return MissingName(kind, name, nearest(name, names))
    return None


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the names that resemble one, the nearest first; upper and lower case are alike.

    A name that has all words of the other one resembles it too, as ``gp3`` and ``gp3-fast`` do.
    """
    names = [other for other in sorted(set(known)) if other != name]
    by_folded: dict[str, str] = {}
    for other in names:
        by_folded.setdefault(other.casefold(), other)
    near = [by_folded[match] for match in nearest_texts(name.casefold(), by_folded, _MOST)]
    if words := _words(name):
        subsets = (other for other in names if (own := _words(other)) and (own <= words or words <= own))
        near += [other for other in subsets if other not in near][:_MOST]
    return sorted(near, key=lambda other: (*(-rank for rank in _rank(name, other)), other))


def _words(name: str) -> frozenset[str]:
    return frozenset(word for word in re.split("[-_./]", name.casefold()[:LONGEST]) if word)


def nearest_key(key: str, known: Iterable[str]) -> str:
    """Return the label key that was probably meant: one with the same name behind its prefix, else a similar one.

    Names are compared without their prefix, or ``kubernetes.io/host`` would resemble ``kubernetes.io/os`` more than
    ``kubernetes.io/hostname``.
    """
    keys = sorted(set(known))
    prefix, _, name = key.rpartition("/")
    alike = [other for other in keys if other.rpartition("/")[2] == name]
    stable = [other for other in alike if ".beta." not in other]
    if len(stable) == 1 or len(alike) == 1:
        return (stable or alike)[0]
    by_name = {other.rpartition("/")[2]: other for other in keys}
    siblings = {other.rpartition("/")[2]: other for other in keys if other.rpartition("/")[0] == prefix}
    suggested = nearest(name, siblings)
    return siblings[suggested] if suggested else by_name.get(nearest(name, by_name), "")


def _rank(name: str, other: str) -> tuple[float, int]:
    """Return how similar two names are, then the length of their common prefix."""
    own, others = name.casefold(), other.casefold()
    prefix = next((i for i, (left, right) in enumerate(zip(own, others, strict=False)) if left != right), len(own))
    return similarity(others, own), prefix


def is_fact(label: str) -> bool:
    """Return whether a node label states a property of the machine, so that another value needs another image."""
    return label in _FACTS


SYSTEM_TAINTS = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "karpenter.sh/",
    TO_BE_DELETED,
    DELETION_CANDIDATE,
)
"""Taints that state the condition of a node, not which pods it is for."""

LEAVING_TAINTS = (DISRUPTED, TO_BE_DELETED)
"""Taints of nodes that an autoscaler is about to remove."""


def states_condition(key: str) -> bool:
    """Tell whether a taint says how a node is, not which pods it is for.

    Pods should not tolerate it to get in, and a new node that is like this one does not have it.
    """
    return key.startswith(SYSTEM_TAINTS) or is_startup_taint(key)


def key_of_taint(text: str) -> str:
    return text.partition(":")[0].partition("=")[0]


_SIMILAR_VALUE = 0.6
_SIMILAR_KEY = 0.75
_MOST_NAMESPACES = 3
_MOST_TOLERATIONS = 100  #: so many tolerations of a pod are looked at for what they may mean


class MeantToleration(msgspec.Struct, frozen=True):
    """A toleration that tolerates no taint of the cluster, and what it would be for a taint that the nodes have."""

    index: int  #: of the toleration in the pod
    old: Toleration
    to: Toleration


class MeantLabel(msgspec.Struct, frozen=True):
    """A label in a required pod affinity that no pod has, and the one that was probably meant."""

    index: int  #: of the term
    old: tuple[str, str]
    to: tuple[str, str]


class MeantNamespace(msgspec.Struct, frozen=True):
    """A required pod affinity whose pods run in a namespace that it does not search."""

    index: int  #: of the term
    selector: str
    topology_key: str
    namespace: str


def toleration_text(toleration: Toleration) -> str:
    """Return a toleration in the form of a taint, KEY=VALUE:EFFECT."""
    value = f"={toleration.value}" if toleration.value else ""
    return f"{toleration.key}{value}" + (f":{toleration.effect}" if toleration.effect else "")


def untolerated(pod: Pod, node: Node, *, compares: bool) -> list[Taint]:
    """Return the taints of a node that keep the pod away; `compares` as in `kplan.api.affinity.tolerates`."""
    own = Tolerations(pod.spec.tolerations, compares=compares)
    return [taint for taint in node.spec.taints if is_hard(taint) and not own.tolerate(taint)]


def suggested_toleration(pod: Pod, taint: Taint, nodes: NodeTable) -> MeantToleration | None:
    """Return the toleration that was probably meant for a taint which the pod does not tolerate.

    Only a toleration that tolerates no taint of the cluster is a candidate: any other does what it says.
    """
    best: tuple[tuple[float, int], MeantToleration] | None = None
    for index, toleration in enumerate(pod.spec.tolerations[:_MOST_TOLERATIONS]):
        likeness = _likeness(toleration, taint)
        if likeness is None or is_used(toleration, nodes):
            continue
        by_value = toleration.operator in {"", "Equal"}
        to = replace(
            toleration,
            key=taint.key,
            value=taint.value if by_value else toleration.value,
            effect=taint.effect if toleration.effect else "",
        )
        if tolerates(to, taint) and (best is None or likeness > best[0]):
            best = likeness, MeantToleration(index, toleration, to)
    if best is None:
        return None
    others = {other for taints in nodes.taint_sets for other in taints if other != taint and is_hard(other)}
    ranks = (_likeness(best[1].old, other) for other in others)
    is_for_another = any(rank is not None and rank > best[0] for rank in ranks)
    return None if is_for_another else best[1]


def is_used(toleration: Toleration, nodes: NodeTable) -> bool:
    """Tell whether a toleration tolerates a taint of some node."""
    by_value = toleration.operator in {"", "Equal"}
    if not by_value and toleration.operator != "Exists":
        return False
    value = toleration.value if by_value else None
    tolerable = nodes.derived("tolerable", lambda: _tolerable(nodes), of_taints=True)
    return (toleration.key, value, toleration.effect) in tolerable


def _tolerable(nodes: NodeTable) -> frozenset[tuple[str, str | None, str]]:
    """Return key, value (None where it exists) and effect of all tolerations that tolerate a taint of the nodes."""
    return frozenset(
        (key, value, effect)
        for taints in nodes.taint_sets
        for taint in taints
        for key in (taint.key, "")
        for value in (taint.value, None)
        for effect in (taint.effect, "")
    )


def _likeness(toleration: Toleration, taint: Taint) -> tuple[float, int] | None:
    """Return how much a toleration resembles one of the taint; None where it was hardly meant for it."""
    by_value = toleration.operator in {"", "Equal"}
    if not toleration.key or toleration.key.startswith(SYSTEM_TAINTS) or taint.key.startswith(SYSTEM_TAINTS):
        return None
    if toleration.key == taint.key:
        likeness, prefix = _rank(toleration.value, taint.value) if by_value else (1.0, 0)
        return (likeness + 1, prefix) if likeness >= _SIMILAR_VALUE or not toleration.value else None
    likeness, prefix = _rank(toleration.key, taint.key)
    is_near = likeness >= _SIMILAR_KEY or toleration.key.rpartition("/")[2] == taint.key.rpartition("/")[2]
    return (likeness, prefix) if is_near and (not by_value or toleration.value == taint.value) else None


def meant_labels(key: str, value: str, nodes: NodeTable) -> list[tuple[str, str]]:
    """Return labels of nodes that were probably meant by one that none has: the nearest, or those that are as near."""
    column = nodes.label(key)
    if value in column.code_of:
        return []
    if column.values:
        near = nearest(value, column.values)
        return [(key, other) for other in ([near] if near else near_names(value, column.values))]
    name = nearest_key(key, {name for node in nodes.nodes for name in node.metadata.labels})
    return [(name, value)] if name and value in nodes.label(name).code_of else []


def suggested_topology_key(key: str, nodes: NodeTable) -> str:
    """Return the label of nodes that was probably meant by a topology key that no node has; empty for none."""
    if not key or nodes.label(key).values:
        return ""
    return nearest_key(key, {name for node in nodes.nodes for name in node.metadata.labels if not is_fact(name)})


def required_together(pod: Pod) -> Sequence[PodAffinityTerm]:
    affinity = pod.spec.affinity
    rules = None if affinity is None else affinity.pod_affinity
    return () if rules is None else rules.required_during_scheduling_ignored_during_execution


def suggested_pods(session: Session, info: PodInfo) -> Iterator[MeantLabel | MeantNamespace]:
    """Yield what the terms of the pod's required affinity probably mean, where they match no running pod."""
    compiled = info.affinity.required_affinity
    terms = required_together(info.pod)
    if len(compiled) != len(terms):
        return
    for index, (term, raw) in enumerate(zip(compiled, terms, strict=True)):
        if _running(session, term):
            continue
        for namespace in _other_namespaces(session, term):
            yield MeantNamespace(index, str(term.selector), term.topology_key, namespace)
        yield from _suggested_labels(session, index, raw)


def _running(session: Session, term: AffinityTerm) -> bool:
    infos = (session.cluster.pods.infos[row] for row in _placed(session, term))
    labels_of = session.listers.namespace_labels
    return any(term.matches(info.namespace, info.labels, labels_of(info.namespace)) for info in infos)


def _placed(session: Session, term: AffinityTerm) -> Iterator[int]:
    """Yield the pods with a node, of any namespace, that a term's selector matches."""
    cluster = session.cluster
    rows = cluster.pods.rows_matching(PodMatch(((None, term.selector),)))
    return (row for row in rows.tolist() if cluster.node_of[row] != NOWHERE)


def _other_namespaces(session: Session, term: AffinityTerm) -> list[str]:
    """Return the namespaces in which most pods run that a term would match if it searched there."""
    if term.selector.is_empty or term.selector.is_nothing:
        return []
    infos = session.cluster.pods.infos
    numbers = Counter(infos[row].namespace for row in _placed(session, term))
    return sorted(numbers, key=lambda namespace: (-numbers[namespace], namespace))[:_MOST_NAMESPACES]


def _suggested_labels(session: Session, index: int, term: PodAffinityTerm) -> Iterator[MeantLabel]:
    for key, value in _wanted(term):
        pods = session.cluster.pods
        if value in (values := pods.label_values(key)):
            continue
        if values:
            to = key, nearest(value, values)
        else:
            keys = {name for info in pods.infos for name in info.labels}
            suggested = nearest_key(key, (name for name in keys if value in pods.label_values(name)))
            to = suggested, value if suggested else ""
        if all(to):
            yield MeantLabel(index, (key, value), to)


def _wanted(term: PodAffinityTerm) -> Iterable[tuple[str, str]]:
    selector = term.label_selector
    if selector is None:
        return
    yield from selector.match_labels.items()
    for expression in selector.match_expressions:
        if expression.operator == "In" and len(expression.values) == 1:
            yield expression.key, expression.values[0]
