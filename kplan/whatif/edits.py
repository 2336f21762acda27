"""What-if changes of a cluster: objects added, replaced or removed, nodes added and cordoned, workloads scaled.

Changes are applied one after the other. A removed object takes with it what it owns, as the garbage collector would; a
namespace takes its objects, and a node its pods and the objects that drivers publish for it. What controllers do about
that is not told here.

Recommended requests are taken by templates and pods at once. Where the pods of a node do not fit there any more, those
whose requests have grown leave, by name, until the others fit.

Node pools are left as Karpenter's controllers leave them; upstream: sigs.k8s.io/karpenter pkg/controllers/nodepool:
hash, readiness, validation; pkg/apis/v1/nodepool.go Hash.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from kplan.api import decode
from kplan.api.core import Container, Node, NodeCondition, Pod, PodSpec, ResourceQuota, ResourceQuotaStatus
from kplan.api.decode import convert
from kplan.api.kinds import KINDS, MADE, POD_MAKERS, Kind, by_kind_and_name, type_of
from kplan.api.names import controller_name, object_name
from kplan.api.pod import ENDED
from kplan.api.provisioning import HASH, HASH_VERSION, NodePool
from kplan.api.quantity import grouped, milli_value, value
from kplan.api.workloads import ContainerResourcePolicy, VerticalPodAutoscaler
from kplan.changes.values import taint_of
from kplan.cluster.incoming import with_objects
from kplan.cluster.workload_pods import no_node
from kplan.diagnosis.intended import states_condition
from kplan.errors import InputError, Problem, UsageError
from kplan.facts import ChangeWord, ClusterChange, RequestSum
from kplan.framework.listers import key_of
from kplan.reading.documents import read_documents
from kplan.reading.files import REPORTS
from kplan.remedies.node_shapes import NodeShape, added_nodes, differing
from kplan.rules.nodes import claims_left, cordoned
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import CPU, MEMORY, quantity_text
from kplan.snapshot.build import reference_warnings
from kplan.snapshot.defaults import resolve_priority
from kplan.snapshot.load import LoadedObjects, load_objects
from kplan.snapshot.model import Snapshot
from kplan.whatif.references import Reference, find, name_of, parse_reference
from kplan.workloads.merging import merged

_MOST_NAMED = 20  #: the number of objects of a change that reports name; the others are counted


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
    taints = tuple(taint for taint in model.spec.taints if not states_condition(taint.key))
    spec = replace(model.spec, unschedulable=False, taints=taints)
    status = replace(model.status, conditions=(NodeCondition(type="Ready", status="True"),))
    fresh = differing(replace(model, spec=spec, status=status), labels, room)
    new = added_nodes(NodeShape(fresh, 1), number, snapshot, mark="more")
    names = [f"Node/{node.metadata.name}" for node in new.nodes]
    return with_objects(snapshot, new.objects), change_of("add-nodes", f"{number}={like}", names)


def with_cordons(
    snapshot: Snapshot, which: Reference, what: str, *, is_cordoned: bool
) -> tuple[Snapshot, ClusterChange]:
    """Return the snapshot with nodes cordoned or uncordoned; raises NotFoundError where there are none."""
    differing_now = (node for node in find(which, snapshot) if bool(node.spec.unschedulable) != is_cordoned)
    changed = [cordoned(node, is_cordoned=is_cordoned) for node in differing_now]
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


VPA = "vpa"
_MOST = 2**53
_OFF, _ANY = "Off", "*"
_CONTROLLED = (CPU, MEMORY)

Requests = Mapping[str, Mapping[str, str]]  #: container -> resource -> amount


class Recommendations(msgspec.Struct, frozen=True):
    """Recommended requests.

    `requests` are by KIND/NAMESPACE/NAME of a workload; None for those of the cluster's VerticalPodAutoscalers.
    """

    what: str
    requests: Mapping[str, Requests] | None = None


class _Amount(msgspec.Struct):
    value: Any = None


class _Recommended(msgspec.Struct):
    requests: dict[str, _Amount | float | str | None] = {}


class _Target(msgspec.Struct):
    name: str
    container: str
    kind: str
    namespace: str


class _Scan(msgspec.Struct):
    object: _Target
    recommended: _Recommended


class _Krr(msgspec.Struct):
    scans: tuple[_Scan, ...]


def read_recommendations(source: str) -> Recommendations:
    """Return those of the VerticalPodAutoscalers for ``vpa``, or of a report of krr; InputError for no report."""
    if source == VPA:
        return Recommendations(VPA)
    problems: list[Problem] = []
    requests: dict[str, dict[str, dict[str, str]]] = {}
    for document in read_documents(source, problems, limits=REPORTS, expected="a report of krr, as JSON"):
        try:
            report = decode.convert(document.value(), _Krr)
        except decode.DecodeError as error:
            problems += map(document.locate, error.problems)
            continue
        for scan in report.scans:
            target = scan.object
            amounts = {name: text for name, text in _amounts(scan.recommended) if name in _CONTROLLED}
            if amounts:
                key = object_name(target.kind, target.namespace, target.name)
                requests.setdefault(key, {})[target.container] = amounts
    if not problems and not requests:
        problems.append(Problem("recommends no request", path=source, hint="write one with krr simple -f json"))
    if problems:
        raise InputError(problems)
    return Recommendations(source, requests)


def _amounts(recommended: _Recommended) -> Iterator[tuple[str, str]]:
    """Yield the recommended requests that are numbers; krr writes ``?`` where it knows too little."""
    for name, amount in recommended.requests.items():
        number = amount.value if isinstance(amount, _Amount) else amount
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < _MOST:
            continue
        yield name, f"{math.ceil(number * 1000)}m" if name == CPU else str(math.ceil(number))


class Resized(msgspec.Struct, frozen=True):
    """A cluster with recommended requests."""

    snapshot: Snapshot
    workloads: list[str]  #: KIND/NAMESPACE/NAME of the workloads that have them
    evicted: list[Pod]  #: pods of the snapshot that have to leave, because their nodes have no room for their requests
    requests: dict[str, RequestSum]  #: resource -> what the pods on nodes that have a recommendation request in all


def resized(snapshot: Snapshot, recommended: Recommendations) -> Resized:
    """Give workloads and pods the recommended requests; raises UsageError where none has a recommendation."""
    own = _recommended(snapshot.vertical_pod_autoscalers)
    wanted = dict(own) if recommended.requests is None else recommended.requests
    owners = _owners(snapshot)
    objects: list[Any] = []
    names: set[str] = set()
    for kind in POD_MAKERS.values():
        workloads: Iterable[Any] = snapshot.objects(kind.attribute)
        for obj in workloads:
            key = object_name(kind.name, obj.metadata.namespace, obj.metadata.name)
            if (requests := wanted.get(owners.get(key, key))) is not None:
                names |= {key} - owners.keys()
                objects.append(_with_template(obj, requests))
    grown: dict[str, list[Pod]] = {}
    before: Counter[str] = Counter()
    then: Counter[str] = Counter()
    for pod in snapshot.pods:
        key = controller_name(pod.metadata)
        workload = owners.get(key, key)
        if workload not in wanted or pod.status.phase in ENDED:
            continue
        changed = _resized_pod(pod, wanted[workload])
        objects.append(changed)
        names.add(workload)
        if pod.spec.node_name:
            had, has = PodInfo(pod).requests, PodInfo(changed).requests
            before.update(had)
            then.update(has)
            if any(amount > had.get(name, 0) for name, amount in has.items()):
                grown.setdefault(pod.spec.node_name, []).append(changed)
    if not names:
        hint = "see kubectl get vpa -A" if recommended.requests is None else "is the report about this cluster?"
        raise UsageError("no workload of the cluster has a recommendation", hint=hint)
    after = with_objects(snapshot, objects)
    keys = {*names, *(key for key, owner in owners.items() if owner in wanted)}
    after = replace(after, whole={key: whole for key, whole in after.whole.items() if key not in keys})
    sums = {
        name: RequestSum(before=quantity_text(name, before[name]), after=quantity_text(name, then[name]))
        for name in _CONTROLLED
        if before[name] != then[name]
    }
    return Resized(after, sorted(names), _without_room(after, grown), sums)


def _recommended(autoscalers: Iterable[VerticalPodAutoscaler]) -> Iterator[tuple[str, Requests]]:
    for autoscaler in autoscalers:
        target = autoscaler.spec.target_ref
        policies = {policy.container_name: policy for policy in autoscaler.spec.resource_policy.container_policies}
        requests: dict[str, Mapping[str, str]] = {}
        for container in autoscaler.status.recommendation.container_recommendations:
            name = container.container_name
            policy = policies.get(name) or policies.get(_ANY) or ContainerResourcePolicy()
            controlled = _CONTROLLED if policy.controlled_resources is None else policy.controlled_resources
            amounts = {resource: str(amount) for resource, amount in container.target.items() if resource in controlled}
            if amounts and policy.mode != _OFF:
                requests[name] = amounts
        if requests:
            yield object_name(target.kind, autoscaler.metadata.namespace, target.name), requests


def _owners(snapshot: Snapshot) -> dict[str, str]:
    """Return the workload that made another one, such as the Deployment of a ReplicaSet, by KIND/NAMESPACE/NAME.

    What made a workload that people write, such as an operator's resource, is none of these: recommendations name the
    workload itself.
    """
    controllers = snapshot.controllers
    return {workload: owner for workload, owner in controllers.items() if workload.partition("/")[0] in MADE}


def _with_template(obj: Any, requests: Requests) -> Any:
    spec = obj.spec
    if hasattr(spec, "job_template"):
        return replace(obj, spec=replace(spec, job_template=_with_template(spec.job_template, requests)))
    if spec.template is None:
        return obj
    pods = replace(spec.template, spec=_with_requests(spec.template.spec, requests))
    return replace(obj, spec=replace(spec, template=pods))


def _resized_pod(pod: Pod, requests: Requests) -> Pod:
    """Return a pod with other requests, which its node has already granted."""
    statuses = tuple(
        replace(status, allocated_resources={}, resources=None) if status.name in requests else status
        for status in pod.status.container_statuses
    )
    status = replace(pod.status, container_statuses=statuses)
    return replace(pod, spec=_with_requests(pod.spec, requests), status=status)


def _with_requests(spec: PodSpec, requests: Requests) -> PodSpec:
    def changed(container: Container) -> Container:
        amounts = requests.get(container.name)
        if amounts is None:
            return container
        resources = container.resources
        return replace(container, resources=replace(resources, requests={**resources.requests, **amounts}))

    return replace(spec, containers=tuple(map(changed, spec.containers)))


def _without_room(snapshot: Snapshot, grown: Mapping[str, Sequence[Pod]]) -> list[Pod]:
    """Return the pods that leave nodes until the others fit, the first by name first; `grown`: node -> which may."""
    running = (pod for pod in snapshot.pods if pod.spec.node_name in grown and pod.status.phase not in ENDED)
    pods_on = grouped((pod.spec.node_name, pod) for pod in running)
    evicted: list[Pod] = []
    for name in sorted(grown.keys() & snapshot.node_by_name):
        allocatable = snapshot.node_by_name[name].status.allocatable
        offered = {CPU: milli_value(allocatable.get(CPU, 0)), MEMORY: value(allocatable.get(MEMORY, 0))}
        used: Counter[str] = Counter()
        for pod in pods_on[name]:
            used.update(PodInfo(pod).requests)
        for pod in sorted(grown[name], key=lambda pod: pod.metadata.key):
            if all(used[resource] <= offered[resource] for resource in _CONTROLLED):
                break
            used.subtract(PodInfo(pod).requests)
            evicted.append(pod)
    return evicted
