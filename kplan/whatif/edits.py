"""What-if changes of a cluster: objects added, replaced or removed, nodes added and cordoned, workloads scaled.

Changes are applied one after the other. A removed object takes with it what it owns, as the garbage collector would; a
namespace takes its objects, and a node its pods and the objects that drivers publish for it. What controllers do about
that is not told here.

Node pools are left as Karpenter's controllers leave them; upstream: sigs.k8s.io/karpenter pkg/controllers/nodepool:
hash, readiness, validation; pkg/apis/v1/nodepool.go Hash.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from kplan.api.core import Node, NodeCondition, Pod
from kplan.api.decode import convert
from kplan.api.kinds import KINDS, Kind, by_kind_and_name, type_of
from kplan.api.labels import UNSCHEDULABLE
from kplan.api.names import object_name
from kplan.api.provisioning import HASH, HASH_VERSION, NodePool
from kplan.changes.values import taint_of
from kplan.cluster.workload_pods import no_node
from kplan.errors import UsageError
from kplan.facts import ChangeWord, ClusterChange
from kplan.framework.listers import key_of
from kplan.remedies.node_shapes import NodeShape, added_nodes, differing
from kplan.rules.nodes import claims_left
from kplan.snapshot.build import reference_warnings
from kplan.snapshot.defaults import resolve_priority
from kplan.snapshot.load import LoadedObjects, load_objects
from kplan.snapshot.model import Snapshot
from kplan.whatif.references import Reference, find, name_of, parse_reference
from kplan.workloads.merging import merged

_MOST_NAMED = 20  #: the number of objects of a change that reports name; the others are counted

_FRESH_TAINTS = ("node.kubernetes.io/",)
"""Prefixes of taints that describe the present condition of a node; a new node does not have them."""


class Written(NamedTuple):
    """Objects to add, or to put in place of objects of the same kind and name."""

    loaded: LoadedObjects
    what: str  #: the file, or the names of the objects


def read_objects(source: str | Mapping[str, Any]) -> Written:
    """Read a file, a directory, or one object; raises SnapshotError for unusable ones."""
    loaded = load_objects(source)
    what = source if isinstance(source, str) else ", ".join(name_of(type_of(obj), obj) for obj in loaded.objects)
    if not loaded.objects:
        raise UsageError(f"{what or 'with'}: no object that scheduling reads", hint="give nodes, pods, workloads, …")
    return Written(loaded, what)


class Removed(NamedTuple):
    """What the removal of objects leaves."""

    after: Snapshot  #: without the objects
    change: ClusterChange  #: the entry for `changes`
    lost: tuple[Pod, ...]  #: pods that are gone with their nodes
    deleted: tuple[Pod, ...]  #: the other pods that are gone


def nodes_named(name: str) -> Reference:
    """Return the nodes of this name, which may be a glob, or labels after a question mark."""
    separator = "" if name.startswith("?") and "=" in name else "/"
    return parse_reference(f"node{separator}{name}")


def with_updated(snapshot: Snapshot, attribute: str, objects: Iterable[Any]) -> Snapshot:
    """Return the snapshot with other versions of objects, in their places."""
    newer = {key_of(obj): obj for obj in objects}
    held = tuple(newer.get(key_of(obj), obj) for obj in getattr(snapshot, attribute))
    changes: dict[str, Any] = {attribute: held}
    return replace(snapshot, **changes)


def with_warnings(before: Snapshot, after: Snapshot) -> Snapshot:
    """Return a changed snapshot whose warnings about references are those of its own nodes and pods."""
    if before.nodes is after.nodes and before.pods is after.pods:
        return after
    stale = set(reference_warnings(before))
    others = tuple(warning for warning in after.warnings if warning not in stale)
    return replace(after, warnings=(*others, *reference_warnings(after)))


def change_of(change: ChangeWord, what: str, names: Sequence[str]) -> ClusterChange:
    """Return the entry of a change for reports."""
    return ClusterChange(change=change, what=what, count=len(names), objects=tuple(names[:_MOST_NAMED]))


def with_written(snapshot: Snapshot, written: Written) -> tuple[Snapshot, ClusterChange]:
    """Return the snapshot with objects; raises NotFoundError for a node that is like one that there is not."""
    loaded = written.loaded
    nodes = {**snapshot.node_by_name, **{obj.metadata.name: obj for obj in loaded.objects if isinstance(obj, Node)}}
    unknown = [model for model in loaded.likes.values() if model not in nodes]
    if unknown:
        raise no_node(unknown, snapshot.node_by_name)
    newer = by_kind_and_name(loaded.objects)
    classes = {(priority_class.metadata.name): priority_class for priority_class in snapshot.priority_classes}
    classes |= {name: priority_class for (_, name), priority_class in newer.get("priority_classes", {}).items()}
    changes: dict[str, Any] = {}
    for attribute, objects in newer.items():
        held = {key_of(obj): obj for obj in getattr(snapshot, attribute)}
        for key, obj in objects.items():
            held[key] = new = _merged(obj, held.get(key), classes)
            model = loaded.likes.get(key[1]) if isinstance(obj, Node) else None
            # A node without status gets that of the node that it is like.
            if model is not None and not (new.status.capacity or new.status.allocatable):
                held[key] = replace(new, status=nodes[model].status)
        changes[attribute] = tuple(held.values())
    names = [name_of(type_of(obj), obj) for obj in loaded.objects]
    whole = {**snapshot.whole, **loaded.whole}
    return replace(snapshot, **changes, whole=whole), change_of("with", written.what, names)


def _merged(obj: Any, older: Any, classes: Mapping[str, Any]) -> Any:
    """Return an object as the cluster holds it after the change: an update keeps uid and status."""
    if isinstance(obj, Pod):
        return _with_priority(obj, classes)
    if isinstance(obj, NodePool):
        obj = applied_pool(obj, older)
    if older is None:
        return obj
    if not obj.metadata.uid:
        obj = replace(obj, metadata=replace(obj.metadata, uid=older.metadata.uid))
    if hasattr(obj, "status") and obj.status == type(obj.status)():
        obj = replace(obj, status=older.status)
    return obj


def _with_priority(pod: Pod, classes: Mapping[str, Any]) -> Pod:
    if pod.metadata.uid or pod.spec.priority is not None:
        return pod
    resolved = resolve_priority(pod.spec.priority_class_name, classes.values())
    if resolved is None:
        raise UsageError(
            f"Pod/{pod.metadata.key}: no priority class {pod.spec.priority_class_name!r}",
            hint="give the class with --with, too, or leave it out",
        )
    return resolved.applied_to(pod)


def removed(snapshot: Snapshot, which: Reference) -> Removed:
    """Remove objects with all that goes with them; raises NotFoundError where there is none, as `find`."""
    kind = which.kind
    gone = {id(obj): (kind, obj) for obj in find(which, snapshot)}
    lost: list[Pod] = []
    if kind.name == "Node":
        names = {obj.metadata.name for _, obj in gone.values()}
        lost = [pod for pod in snapshot.pods if pod.spec.node_name in names]
        gone |= {id(obj): (published, obj) for published, obj in _published_for(snapshot, names)}
    elif kind.name == "Namespace":
        names = {obj.metadata.name for _, obj in gone.values()}
        gone |= {id(obj): (namespaced, obj) for namespaced, obj in _all(snapshot) if obj.metadata.namespace in names}
    gone |= {id(pod): (type_of(pod), pod) for pod in lost}
    _take_dependents(snapshot, gone)
    changes: dict[str, Any] = {
        attribute: tuple(obj for obj in snapshot.objects(attribute) if id(obj) not in gone)
        for attribute in dict.fromkeys(gone_kind.attribute for gone_kind, _ in gone.values())
    }
    keys = {object_name(gone_kind.name, obj.metadata.namespace, obj.metadata.name) for gone_kind, obj in gone.values()}
    whole = {key: value for key, value in snapshot.whole.items() if key not in keys}
    after = replace(snapshot, **changes, whole=whole)
    lost_ids = set(map(id, lost))
    deleted = [obj for gone_kind, obj in gone.values() if gone_kind.name == "Pod" and id(obj) not in lost_ids]
    names_gone = [name_of(gone_kind, obj) for gone_kind, obj in gone.values()]
    return Removed(after, change_of("without", which.text, names_gone), tuple(lost), tuple(deleted))


def _all(snapshot: Snapshot) -> Iterable[tuple[Kind, Any]]:
    return ((kind, obj) for kind in KINDS for obj in snapshot.objects(kind.attribute))


def _published_for(snapshot: Snapshot, nodes: set[str]) -> Iterable[tuple[Kind, Any]]:
    """Yield the objects that drivers and controllers publish for nodes, and Karpenter's claims of them."""
    claims = claims_left(snapshot.node_claims, (node for node in snapshot.nodes if node.metadata.name in nodes))
    left = set(map(id, claims))
    is_about: Mapping[str, Callable[[Any], bool]] = {
        "csi_nodes": lambda obj: obj.metadata.name in nodes,
        "volume_attachments": lambda obj: obj.spec.node_name in nodes,
        "resource_slices": lambda obj: obj.spec.node_name in nodes,
        "node_claims": lambda obj: id(obj) not in left,
    }
    return ((kind, obj) for kind, obj in _all(snapshot) if kind.attribute in is_about and is_about[kind.attribute](obj))


def _take_dependents(snapshot: Snapshot, gone: dict[int, tuple[Kind, Any]]) -> None:
    """Add to `gone` all objects whose owners are all in it, as the garbage collector removes them."""
    owned = [(kind, obj) for kind, obj in _all(snapshot) if obj.metadata.owner_references]
    owners: set[tuple[str, str, str]] = set()
    fresh = list(gone.values())
    while fresh:
        owners |= {(kind.name, obj.metadata.namespace, obj.metadata.name) for kind, obj in fresh}
        fresh = [
            (kind, obj)
            for kind, obj in owned
            if id(obj) not in gone
            and all(
                (owner.kind, obj.metadata.namespace, owner.name) in owners or (owner.kind, "", owner.name) in owners
                for owner in obj.metadata.owner_references
            )
        ]
        gone |= {id(obj): (kind, obj) for kind, obj in fresh}


def with_nodes(
    snapshot: Snapshot, number: int, like: str, labels: Sequence[str] = (), room: Sequence[str] = ()
) -> tuple[Snapshot, ClusterChange]:
    """Return the snapshot with further nodes, as `AddNodes` says; raises NotFoundError without a node to be `like`."""
    model = snapshot.node_by_name.get(like)
    if model is None:
        raise no_node([like], snapshot.node_by_name)
    taints = tuple(taint for taint in model.spec.taints if not taint.key.startswith(_FRESH_TAINTS))
    fresh = differing(replace(model, spec=replace(model.spec, unschedulable=False, taints=taints)), labels, room)
    nodes, pods, csi_nodes = added_nodes(NodeShape(fresh, 1), number, snapshot, mark="more")
    added: dict[str, tuple[Any, ...]] = {"nodes": tuple(nodes), "pods": tuple(pods), "csi_nodes": csi_nodes}
    names = [node.metadata.name for node in nodes]
    added["resource_slices"] = tuple(
        _copied_slice(resource_slice, like, name)
        for name in names
        for resource_slice in snapshot.resource_slices
        if resource_slice.spec.node_name == like
    )
    changes: dict[str, Any] = {
        attribute: (*snapshot.objects(attribute), *objects) for attribute, objects in added.items() if objects
    }
    objects = [f"Node/{name}" for name in names]
    return replace(snapshot, **changes), change_of("add-nodes", f"{number}={like}", objects)


def _copied_slice(obj: Any, old: str, name: str) -> Any:
    """Return the resource slice with which a driver would publish the same devices of another node."""
    pool = obj.spec.pool
    moved = replace(pool, name=name if pool.name == old else f"{pool.name}-{name}")
    metadata = replace(obj.metadata, name=f"{obj.metadata.name}-{name}", uid=f"added-{obj.metadata.name}-{name}")
    return replace(obj, metadata=metadata, spec=replace(obj.spec, node_name=name, pool=moved))


def with_cordons(
    snapshot: Snapshot, which: Reference, what: str, *, is_cordoned: bool
) -> tuple[Snapshot, ClusterChange]:
    """Return the snapshot with nodes cordoned or uncordoned; raises NotFoundError where there are none."""
    changed = []
    for node in find(which, snapshot):
        if bool(node.spec.unschedulable) != is_cordoned:
            # The taint of a cordoned node is only removed, never added: the scheduler reads the field like the taint.
            taints = tuple(taint for taint in node.spec.taints if is_cordoned or taint.key != UNSCHEDULABLE)
            changed.append(replace(node, spec=replace(node.spec, unschedulable=is_cordoned, taints=taints)))
    word: ChangeWord = "cordon" if is_cordoned else "uncordon"
    names = [f"Node/{node.metadata.name}" for node in changed]
    return with_updated(snapshot, "nodes", changed), change_of(word, what, names)


def with_taints(snapshot: Snapshot, name: str, texts: Sequence[str]) -> tuple[Snapshot, ClusterChange]:
    """Return the snapshot with taints of a node added and removed; raises NotFoundError where there is no such node."""
    node = snapshot.node_by_name.get(name)
    if node is None:
        raise no_node([name], snapshot.node_by_name)
    read = [taint_of(text) for text in texts]
    taints = [
        taint
        for taint in node.spec.taints
        if not any(taint.key == named.key and named.effect in ("", taint.effect) for named, _ in read)
    ]
    taints += [taint for taint, goes in read if not goes]
    tainted = replace(node, spec=replace(node.spec, taints=tuple(taints)))
    return with_updated(snapshot, "nodes", [tainted]), change_of("taint", f"{name} {' '.join(texts)}", [f"Node/{name}"])


def with_budget(snapshot: Snapshot, key: str, fields: Mapping[str, Any]) -> tuple[Snapshot, ClusterChange]:
    """Return the snapshot with fields of a disruption budget changed; raises NotFoundError where there is none."""
    (budget,) = find(parse_reference(f"poddisruptionbudget/{key}"), snapshot)
    spec = convert(merged(msgspec.to_builtins(budget.spec), fields), type(budget.spec))
    return with_updated(snapshot, "pod_disruption_budgets", [replace(budget, spec=spec)]), _of_object("budget", budget)


def with_quota(snapshot: Snapshot, key: str, hard: Mapping[str, str]) -> tuple[Snapshot, ClusterChange]:
    """Return the snapshot with limits of a quota changed; raises NotFoundError where there is none."""
    (quota,) = find(parse_reference(f"resourcequota/{key}"), snapshot)
    spec = replace(quota.spec, hard={**quota.spec.hard, **hard})
    status = replace(quota.status, hard={**quota.status.hard, **hard}) if quota.status.hard else quota.status
    higher = replace(quota, spec=spec, status=status)
    return with_updated(snapshot, "resource_quotas", [higher]), _of_object("quota", quota)


def _of_object(word: ChangeWord, obj: Any) -> ClusterChange:
    return change_of(word, obj.metadata.key, [name_of(type_of(obj), obj)])


_VERSION = "v3"
_CHANGED = "changed-on-paper"
_READY = tuple(
    NodeCondition(type=name, status="True", reason=name) for name in ("NodeClassReady", "Ready", "ValidationSucceeded")
)


def applied_pool(pool: NodePool, older: NodePool | None) -> NodePool:
    """Return a pool of a manifest with what controllers add: its nodes drift where the hash of its template changes.

    A new pool is taken for ready, as if its node class exists.
    """
    if older is None:
        annotations = {HASH_VERSION: _VERSION, HASH: _CHANGED} | pool.metadata.annotations
    else:
        known = {key: text for key, text in older.metadata.annotations.items() if key in {HASH, HASH_VERSION}}
        if known and _hashed(pool) != _hashed(older):
            known[HASH] = _CHANGED
        annotations = pool.metadata.annotations | known
    if not pool.status.conditions and older is None:
        pool = replace(pool, status=replace(pool.status, conditions=_READY))
    return replace(pool, metadata=replace(pool.metadata, annotations=annotations))


def _hashed(pool: NodePool) -> Hashable:
    """Return the fields of the template that the hash covers: not the requirements, which are compared themselves."""
    template, spec = pool.spec.template, pool.spec.template.spec
    return (
        frozenset(template.metadata.labels.items()),
        frozenset(template.metadata.annotations.items()),
        frozenset(spec.taints),
        frozenset(spec.startup_taints),
        spec.node_class_ref,
        spec.termination_grace_period,
        spec.expire_after,
    )
