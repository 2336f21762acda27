"""Changes of a snapshot in which no controller takes part: of objects, nodes, budgets and quotas.

A removed object takes with it what it owns, as the garbage collector would; a namespace takes its objects, and a node
its pods and the objects that drivers publish for it. Node pools are left as Karpenter's controllers leave them;
upstream: sigs.k8s.io/karpenter pkg/controllers/nodepool: hash, readiness, validation; pkg/apis/v1/nodepool.go Hash.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from kplan.api.core import Node, NodeCondition, Pod, ResourceQuota, ResourceQuotaStatus
from kplan.api.decode import convert
from kplan.api.kinds import KINDS, by_kind_and_name, type_of
from kplan.api.provisioning import HASH, HASH_VERSION, NodePool
from kplan.changes.values import taint_of
from kplan.cluster.incoming import with_objects
from kplan.cluster.workload_pods import Reference, find, name_of, no_node, parse_reference
from kplan.diagnosis.intended import states_condition
from kplan.errors import UsageError
from kplan.facts import ChangeWord, ClusterChange
from kplan.framework.listers import key_of
from kplan.remedies.node_shapes import NodeShape, added_nodes, differing
from kplan.rules.nodes import claims_left, cordoned
from kplan.snapshot.defaults import resolve_priority
from kplan.snapshot.load import LoadedObjects, load_objects
from kplan.snapshot.model import Snapshot
from kplan.workloads.merging import merged

_MOST_NAMED = 20  #: the number of objects of a change that reports name; the others are counted


class Written(NamedTuple):
    """Objects to add, or to put in place of objects of the same kind and name."""

    loaded: LoadedObjects
    what: str  #: the file, or the names of the objects


def read_objects(source: str | Mapping[str, Any]) -> Written:
    """Read a file, a directory, or one object; raises SnapshotError for unusable ones."""
    loaded = load_objects(source)
    what = source if isinstance(source, str) else ", ".join(map(name_of, loaded.objects))
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


def entry_of(change: ChangeWord, what: str, names: Sequence[str]) -> ClusterChange:
    return ClusterChange(change=change, what=what, count=len(names), objects=tuple(names[:_MOST_NAMED]))


def with_written(snapshot: Snapshot, written: Written) -> tuple[Snapshot, ClusterChange]:
    """Return the snapshot with objects; raises NotFoundError for a node that is like one that there is not."""
    loaded = written.loaded
    nodes_of_file = {obj.metadata.name: obj for obj in loaded.objects if isinstance(obj, Node)}
    nodes = {**snapshot.node_by_name, **nodes_of_file}
    likes = (node.metadata.annotations.like for node in nodes_of_file.values())
    if unknown := [like for like in likes if like and like not in nodes]:
        raise no_node(unknown, snapshot.node_by_name)
    newer = by_kind_and_name(loaded.objects)
    classes = {priority_class.metadata.name: priority_class for priority_class in snapshot.priority_classes}
    classes |= {name: priority_class for (_, name), priority_class in newer.get("priority_classes", {}).items()}
    changes: dict[str, Any] = {}
    for attribute, objects in newer.items():
        held = {key_of(obj): obj for obj in getattr(snapshot, attribute)}
        for key, obj in objects.items():
            held[key] = new = _merged(obj, held.get(key), classes)
            if isinstance(new, Node) and (like := new.metadata.annotations.like):
                annotations = replace(new.metadata.annotations, like="")
                has_status = bool(new.status.capacity or new.status.allocatable)
                status = new.status if has_status else nodes[like].status
                held[key] = replace(new, metadata=replace(new.metadata, annotations=annotations), status=status)
        changes[attribute] = tuple(held.values())
    names = list(map(name_of, loaded.objects))
    whole = {**snapshot.whole, **loaded.whole}
    return replace(snapshot, **changes, whole=whole), entry_of("with", written.what, names)


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
    if isinstance(obj, ResourceQuota) and obj.spec != older.spec:
        obj = replace(obj, status=ResourceQuotaStatus())  # its controller counts anew
    elif hasattr(obj, "status") and obj.status == type(obj.status)():
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
    gone = {id(obj): obj for obj in find(which, snapshot)}
    names = {obj.metadata.name for obj in gone.values()}
    lost: list[Pod] = []
    others: list[Any] = []
    if which.kind.name == "Node":
        lost = [pod for pod in snapshot.pods if pod.spec.node_name in names]
        others = [*_published_for(snapshot, names), *lost]
    elif which.kind.name == "Namespace":
        others = [obj for obj in _all(snapshot) if obj.metadata.namespace in names]
    gone |= {id(obj): obj for obj in others}
    _take_dependents(snapshot, gone)
    changes: dict[str, Any] = {
        attribute: tuple(obj for obj in snapshot.objects(attribute) if id(obj) not in gone)
        for attribute in dict.fromkeys(type_of(obj).attribute for obj in gone.values())
    }
    names_gone = dict.fromkeys(map(name_of, gone.values()))
    whole = {key: value for key, value in snapshot.whole.items() if key not in names_gone}
    after = replace(snapshot, **changes, whole=whole)
    lost_ids = set(map(id, lost))
    deleted = tuple(obj for obj in gone.values() if isinstance(obj, Pod) and id(obj) not in lost_ids)
    return Removed(after, entry_of("without", which.text, [*names_gone]), tuple(lost), deleted)


def _all(snapshot: Snapshot) -> Iterable[Any]:
    return (obj for kind in KINDS for obj in snapshot.objects(kind.attribute))


def _published_for(snapshot: Snapshot, nodes: set[str]) -> Iterator[Any]:
    """Yield the objects that drivers and controllers publish for nodes, and Karpenter's claims of them."""
    yield from (one for one in snapshot.csi_nodes if one.metadata.name in nodes)
    yield from (one for one in snapshot.volume_attachments if one.spec.node_name in nodes)
    yield from (one for one in snapshot.resource_slices if one.spec.node_name in nodes)
    claims = claims_left(snapshot.node_claims, (node for node in snapshot.nodes if node.metadata.name in nodes))
    left = set(map(id, claims))
    yield from (one for one in snapshot.node_claims if id(one) not in left)


def _take_dependents(snapshot: Snapshot, gone: dict[int, Any]) -> None:
    """Add to `gone` all objects whose owners are all in it, as the garbage collector removes them."""
    owned = [obj for obj in _all(snapshot) if obj.metadata.owner_references]
    owners: set[tuple[str, str, str]] = set()
    fresh = list(gone.values())
    while fresh:
        owners |= {(type_of(obj).name, obj.metadata.namespace, obj.metadata.name) for obj in fresh}
        fresh = [
            obj
            for obj in owned
            if id(obj) not in gone
            and all(
                (owner.kind, obj.metadata.namespace, owner.name) in owners or (owner.kind, "", owner.name) in owners
                for owner in obj.metadata.owner_references
            )
        ]
        gone |= {id(obj): obj for obj in fresh}


def with_nodes(
    snapshot: Snapshot, number: int, like: str, labels: Sequence[str] = (), room: Sequence[str] = ()
) -> tuple[Snapshot, ClusterChange]:
    """Return the snapshot with further nodes, as `AddNodes` says; raises NotFoundError without a node to be `like`."""
    model = snapshot.node_by_name.get(like)
    if model is None:
        raise no_node([like], snapshot.node_by_name)
    taints = tuple(taint for taint in model.spec.taints if not states_condition(taint.key))
    spec = replace(model.spec, unschedulable=False, taints=taints)
    status = replace(model.status, conditions=(NodeCondition(type="Ready", status="True"),))
    fresh = differing(replace(model, spec=spec, status=status), labels, room)
    new = added_nodes(NodeShape(fresh, 1), number, snapshot, mark="more")
    names = [f"Node/{node.metadata.name}" for node in new.nodes]
    return with_objects(snapshot, new.objects), entry_of("add-nodes", f"{number}={like}", names)


def with_cordons(
    snapshot: Snapshot, which: Reference, what: str, *, is_cordoned: bool
) -> tuple[Snapshot, ClusterChange]:
    """Return the snapshot with nodes cordoned or uncordoned; raises NotFoundError where there are none."""
    differing_now = (node for node in find(which, snapshot) if bool(node.spec.unschedulable) != is_cordoned)
    changed = [cordoned(node, is_cordoned=is_cordoned) for node in differing_now]
    word: ChangeWord = "cordon" if is_cordoned else "uncordon"
    names = [f"Node/{node.metadata.name}" for node in changed]
    return with_updated(snapshot, "nodes", changed), entry_of(word, what, names)


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
    return with_updated(snapshot, "nodes", [tainted]), entry_of("taint", f"{name} {' '.join(texts)}", [f"Node/{name}"])


def with_budget(snapshot: Snapshot, key: str, fields: Mapping[str, Any]) -> tuple[Snapshot, ClusterChange]:
    """Return the snapshot with fields of a disruption budget changed; raises NotFoundError where there is none."""
    (budget,) = find(parse_reference(f"poddisruptionbudget/{key}"), snapshot)
    return with_updated(snapshot, "pod_disruption_budgets", [patched(budget, fields)]), _of_object("budget", budget)


def patched(obj: Any, spec: Mapping[str, Any]) -> Any:
    """Return an object, or a template, after a strategic merge patch of its ``spec``."""
    return replace(obj, spec=convert(merged(msgspec.to_builtins(obj.spec), spec), type(obj.spec)))


def with_quota(snapshot: Snapshot, key: str, hard: Mapping[str, str]) -> tuple[Snapshot, ClusterChange]:
    """Return the snapshot with limits of a quota changed; raises NotFoundError where there is none."""
    (quota,) = find(parse_reference(f"resourcequota/{key}"), snapshot)
    spec = replace(quota.spec, hard={**quota.spec.hard, **hard})
    status = replace(quota.status, hard={**quota.status.hard, **hard}) if quota.status.hard else quota.status
    higher = replace(quota, spec=spec, status=status)
    return with_updated(snapshot, "resource_quotas", [higher]), _of_object("quota", quota)


def _of_object(word: ChangeWord, obj: Any) -> ClusterChange:
    return entry_of(word, obj.metadata.key, [name_of(obj)])


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
