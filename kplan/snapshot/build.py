"""Building a snapshot from objects: duplicates, completion, checks.

Checked are quantities, times, Karpenter's pools, pods on unknown nodes and nodes without allocatable. What Karpenter's
CRDs refuse, an API server never stores: sigs.k8s.io/karpenter pkg/apis/crds/karpenter.sh_nodepools.yaml,
karpenter.sh_nodeoverlays.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import force_setattr, replace

from kplan.api import core, provisioning, resource, scheduling, workloads
from kplan.api.kinds import KINDS, POD_MAKERS, SCALED, Kind, kind_of, type_of
from kplan.api.labels import parse_int64
from kplan.api.meta import QuantityLike, ResourceList, structs_in, types_of
from kplan.api.names import camel_case, nearest_texts, object_name
from kplan.api.provisioning import REASONS, REQUIREMENT_OPERATORS, Budget, NodeOverlay, NodePool, NodeRequirement
from kplan.api.quantity import MAX_INT64, InvalidQuantity, grouped, listing, natural, parse
from kplan.api.time import from_micros, to_micros
from kplan.api.workloads import ControllerRevision
from kplan.errors import ENOUGH_PROBLEMS, Problem, SnapshotError
from kplan.facts import MissingKind
from kplan.reading.items import IN_MEMORY, Run
from kplan.snapshot.defaults import complete, resolve_priority
from kplan.snapshot.model import LIVE, Snapshot, Warning, missing_warning  # noqa: A004 - the contract's word
from kplan.snapshot.own_file import lean_all

_COMPARISONS = frozenset({"Gt", "Gte", "Lt", "Lte"})
_POLICIES = ("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced")
_DURATION = r"(?a)([0-9]{1,9}[smh])+"
_NODES = r"(?a)(100|[0-9]{1,2})%|[0-9]{1,9}"
_PRICE = r"(?a)\d{1,12}(\.\d{1,12})?"
_ADJUSTMENT = r"(?a)[+-](\d{1,12}(\.\d{1,12})?|\.\d{1,12})%?"
# As in Karpenter's CRDs.
_MOST_VALUES, _MOST_WEIGHT, _MOST_OVERLAY_WEIGHT = 50, 100, 10_000
_MOST_COMPARED = 1000  #: so many names are compared at most, for all autoscalers together: each takes up to 1 ms

_MOST_SKEW = 3
"""How many minors older than the API server a kubelet may be (upstream: kubernetes.io/releases/version-skew-policy)."""


class Amount(NamedTuple):
    """One quantity of an object, with its path."""

    json_path: str
    name: str  #: the key of the map that it stands in, such as ``cpu``; else empty
    quantity: QuantityLike


def amounts_of(value: Any, path: str = "$", name: str = "") -> Iterator[Amount]:
    """Yield the quantities in an object, or in a part of it at a path; a map has their names."""
    if isinstance(value, msgspec.Struct):
        for attribute, json_name in _fields(type(value)):
            if (item := getattr(value, attribute)) is not None and item is not msgspec.UNSET:
                yield from amounts_of(item, f"{path}.{json_name}", name)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from amounts_of(item, f"{path}.{key}" if key.isalnum() else f"{path}[{key!r}]", key)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from amounts_of(item, f"{path}[{index}]", name)
    else:
        yield Amount(path, name, value)


@cache
def _fields(struct: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """Return the fields of a struct that hold quantities at any depth: attribute, and name in JSON."""
    kinds, names = types_of(struct), zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    # No other field of any kind may be a float.
    return tuple(
        (attribute, json_name)
        for attribute, json_name in names
        if float in kinds[attribute] or any(map(_fields, structs_in(kinds[attribute])))
    )


_NANOS = 10**9
#: Amounts up to this many whole units also fit into int64 in thousandths.
_UNQUESTIONED_NANOS = MAX_INT64 // 1000 * _NANOS
_QUANTITY_HINT = 'a quantity is a number with an optional suffix, such as "500m", "2", "1.5Gi" or "2e3"'


def _plain_amounts(pods: Iterable[core.Pod]) -> tuple[list[ResourceList], list[core.Pod]]:
    """Return the amounts of pods that have quantities where most have them, and the other pods."""
    amounts: list[ResourceList] = []
    others = []
    # Plain loops, because this runs for every pod.
    for pod in pods:
        spec, status = pod.spec, pod.status
        if (
            spec.overhead
            or spec.init_containers
            or spec.resources
            or status.resources
            or status.allocated_resources
            or status.init_container_statuses
            or status.node_allocatable_resource_claim_statuses
            or (spec.volumes and any(volume.empty_dir or volume.ephemeral for volume in spec.volumes))
        ):
            others.append(pod)
            continue
        for container in spec.containers:
            resources = container.resources
            amounts.append(resources.requests)
            if resources.limits:
                amounts.append(resources.limits)
        for reported in status.container_statuses:
            amounts.append(reported.allocated_resources)
            if reported.resources is not None:
                amounts += reported.resources.requests, reported.resources.limits
    return amounts, others


class QuantityCheck:
    """Checks quantities, each distinct text once; `refuses_odd`: also those that are negative or beyond int64."""

    def __init__(self, *, refuses_odd: bool) -> None:
        self._refuses_odd = refuses_odd
        self._good: set[QuantityLike] = set()

    def are_good(self, objects: Sequence[Any]) -> bool:
        """Tell whether objects of one kind have no problems; quicker than to look for the problems of each."""
        amounts: list[ResourceList] = []
        others: Sequence[Any] = objects
        if isinstance(objects[0], core.Pod):
            amounts, others = _plain_amounts(objects)
        elif isinstance(objects[0], core.Node):
            amounts, others = [own for node in objects for own in (node.status.allocatable, node.status.capacity)], ()
        quantities = set(chain.from_iterable(map(dict.values, amounts)))
        self._good.update(filter(_is_unquestioned, quantities - self._good))
        if quantities <= self._good:
            return not any(map(self._problems, others))
        if len(objects) > 1:
            return all(self.are_good([obj]) for obj in objects)
        return not self._problems(objects[0])

    def problems(self, obj: msgspec.Struct) -> list[Problem]:
        return [] if self.are_good([obj]) else self._problems(obj)

    def _problems(self, obj: msgspec.Struct) -> list[Problem]:
        return [problem for amount in amounts_of(obj) if (problem := self._problem(amount)) is not None]

    def _problem(self, amount: Amount) -> Problem | None:
        if amount.quantity in self._good:
            return None
        if _is_unquestioned(amount.quantity):
            self._good.add(amount.quantity)
            return None
        shown = f"{amount.name}: {str(amount.quantity)[:60]!r}" if amount.name else repr(str(amount.quantity)[:60])
        try:
            nanos = parse(amount.quantity).nanos
        except InvalidQuantity:
            return Problem(f"{shown} is not a quantity", json_path=amount.json_path, hint=_QUANTITY_HINT)
        if self._refuses_odd and nanos < 0:
            return Problem(f"{shown} is negative", json_path=amount.json_path, hint="amounts start at 0")
        return uncountable(amount.name, nanos, shown, amount.json_path) if self._refuses_odd else None


def uncountable(name: str, nanos: int, shown: str, json_path: str) -> Problem | None:
    """Return the problem of an amount of a resource that overflows int64, shown so; None where it does not."""
    if nanos <= (_UNQUESTIONED_NANOS if name == "cpu" else MAX_INT64 * _NANOS):
        return None
    hint = "check the suffix: m is a thousandth, M is a million, E is 10^18"
    return Problem(f"{shown} is more than Kubernetes can count", json_path=json_path, hint=hint)


def _is_unquestioned(quantity: QuantityLike) -> bool:
    try:
        return 0 <= parse(quantity).nanos <= _UNQUESTIONED_NANOS
    except InvalidQuantity:
        return False


TIME_HINT = "a time looks like 2026-03-01T10:00:00Z"

_OF_CONDITIONS: dict[str, tuple[str, ...]] = {"status.conditions": ("last_transition_time",)}
_TIMES: dict[type[msgspec.Struct], dict[str, tuple[str, ...]]] = {
    core.Pod: {"status": ("start_time",), **_OF_CONDITIONS},
    core.Node: {"status.conditions": ("last_transition_time", "last_heartbeat_time"), "spec.taints": ("time_added",)},
    core.ReplicationController: _OF_CONDITIONS,
    workloads.ReplicaSet: _OF_CONDITIONS,
    workloads.StatefulSet: _OF_CONDITIONS,
    workloads.Deployment: _OF_CONDITIONS,
    workloads.HorizontalPodAutoscaler: _OF_CONDITIONS,
    scheduling.Lease: {"spec": ("renew_time",)},
    workloads.Job: {**_OF_CONDITIONS, "status": ("start_time", "completion_time")},
    resource.ResourceClaim: {"status.allocation": ("allocation_timestamp",)},
    provisioning.NodePool: _OF_CONDITIONS,
    provisioning.NodeClaim: {**_OF_CONDITIONS, "status": ("last_pod_event_time",)},
}
"""Kind -> an object or list in it -> the fields of its times, or of those of its items, besides its metadata."""


def have_times(objects: Sequence[Any]) -> bool:
    """Tell whether all times of objects of one kind parse; quicker than `time_problems` of each."""
    metadata = [obj.metadata for obj in objects]
    texts = {own.creation_timestamp for own in metadata} | {own.deletion_timestamp for own in metadata}
    for way, names in _TIMES.get(type(objects[0]), {}).items():
        holders: list[Any] = [*filter(None, map(attrgetter(way), objects))]
        if holders and isinstance(holders[0], tuple):
            holders = [*chain.from_iterable(holders)]
        for name in names:
            texts.update(map(attrgetter(name), holders))
    return all(text is None or is_time(text) for text in texts)


def time_problems(obj: msgspec.Struct) -> list[Problem]:
    """Return the problems of an object's times that do not parse: an API server never stores such a time."""
    problems = []
    times = {**_TIMES.get(type(obj), {}), "metadata": ("creation_timestamp", "deletion_timestamp")}
    for way, names in times.items():
        holder: Any = attrgetter(way)(obj)
        for name in names:
            for index, item in enumerate(holder) if isinstance(holder, tuple) else ((None, holder),):
                if (text := getattr(item, name, None)) is not None and not is_time(text):
                    path = f"$.{way}{'' if index is None else f'[{index}]'}.{camel_case(name)}"
                    problems.append(Problem(f"{text[:60]!r} is not a time", json_path=path, hint=TIME_HINT))
    return problems


def is_time(text: str) -> bool:
    try:
        micros = to_micros(text)
        if not text.endswith("Z"):
            from_micros(micros)  # with an offset it may be in no year that has four digits
    except (ValueError, OverflowError):
        return False
    return True


def node_pool_problems(obj: msgspec.Struct) -> list[Problem]:
    """Return what is wrong with a NodePool or NodeOverlay; nothing for other objects."""
    if isinstance(obj, NodePool):
        return list(_of_pool(obj))
    return list(_of_overlay(obj)) if isinstance(obj, NodeOverlay) else []


def _of_pool(pool: NodePool) -> Iterator[Problem]:
    spec, template, disruption = pool.spec, pool.spec.template.spec, pool.spec.disruption
    yield from _of_requirements(template.requirements)
    for text, path, allows_never in (
        (template.expire_after, "$.spec.template.spec.expireAfter", True),
        (template.termination_grace_period, "$.spec.template.spec.terminationGracePeriod", False),
        (disruption.consolidate_after, "$.spec.disruption.consolidateAfter", True),
    ):
        yield from _of_duration(text, path, allows_never=allows_never)
    if disruption.consolidation_policy not in ("", *_POLICIES):
        yield _not_one_of(disruption.consolidation_policy, _POLICIES, "$.spec.disruption.consolidationPolicy")
    for index, budget in enumerate(disruption.budgets or ()):
        yield from _of_budget(budget, f"$.spec.disruption.budgets[{index}]")
    if spec.weight is not None and not 1 <= spec.weight <= _MOST_WEIGHT:
        yield Problem(f"weight {spec.weight} is out of range", json_path="$.spec.weight", hint="1 to 100")
    if spec.replicas is not None and spec.replicas < 0:
        yield Problem(f"{spec.replicas} replicas", json_path="$.spec.replicas", hint="0 or more")


def _of_requirements(requirements: Iterable[NodeRequirement]) -> Iterator[Problem]:
    for index, wanted in enumerate(requirements):
        place = f"$.spec.template.spec.requirements[{index}]"
        if wanted.operator not in REQUIREMENT_OPERATORS:
            yield _not_one_of(wanted.operator, REQUIREMENT_OPERATORS, f"{place}.operator")
        if wanted.operator == "In" and not wanted.values:
            yield Problem("In without values", json_path=f"{place}.values", hint="give at least one value")
        number = parse_int64(wanted.values[0]) if len(wanted.values) == 1 else None
        if wanted.operator in _COMPARISONS and (number is None or number < 0):
            message = f"{wanted.operator} needs one whole number from 0"
            yield Problem(message, json_path=f"{place}.values", hint='for example values: ["4"]')
        if (least := wanted.min_values) is not None and not 1 <= least <= _MOST_VALUES:
            yield Problem(f"minValues {least} is out of range", json_path=f"{place}.minValues", hint="1 to 50")
        elif least is not None and wanted.operator == "In" and len(wanted.values) < least:
            message = f"minValues {least} with {len(wanted.values)} values"
            yield Problem(message, json_path=f"{place}.minValues", hint="give at least as many values")


def _of_duration(text: str | None, path: str, *, allows_never: bool) -> Iterator[Problem]:
    if text is None or (allows_never and text == "Never") or re.fullmatch(_DURATION, text):
        return
    hint = "for example 720h, 30s or 1h30m" + (", or Never" if allows_never else "")
    yield Problem(f"{text[:60]!r} is not a duration", json_path=path, hint=hint)


def _of_budget(budget: Budget, path: str) -> Iterator[Problem]:
    if not re.fullmatch(_NODES, budget.nodes):
        message = f"{budget.nodes[:60]!r} is no number of nodes"
        yield Problem(message, json_path=f"{path}.nodes", hint="such as 5 or 10%")
    for index, reason in enumerate(budget.reasons or ()):
        if reason not in REASONS:
            yield _not_one_of(reason, REASONS, f"{path}.reasons[{index}]")
    if (budget.schedule is None) != (budget.duration is None):
        yield Problem("schedule and duration go together", json_path=path, hint="give both, or neither")
    yield from _of_duration(budget.duration, f"{path}.duration", allows_never=False)


def _of_overlay(overlay: NodeOverlay) -> Iterator[Problem]:
    spec = overlay.spec
    for index, wanted in enumerate(spec.requirements):
        if wanted.operator not in REQUIREMENT_OPERATORS:
            yield _not_one_of(wanted.operator, REQUIREMENT_OPERATORS, f"$.spec.requirements[{index}].operator")
    if spec.price is not None and not re.fullmatch(_PRICE, spec.price):
        yield Problem(f"{spec.price[:60]!r} is not a price", json_path="$.spec.price", hint="for example 0.25")
    if spec.price_adjustment is not None and not re.fullmatch(_ADJUSTMENT, spec.price_adjustment):
        message = f"{spec.price_adjustment[:60]!r} is no change of a price"
        yield Problem(message, json_path="$.spec.priceAdjustment", hint="for example +0.1, -10% or +15%")
    if spec.price is not None and spec.price_adjustment is not None:
        yield Problem("price and priceAdjustment exclude each other", json_path="$.spec", hint="give one of them")
    if spec.weight is not None and not 1 <= spec.weight <= _MOST_OVERLAY_WEIGHT:
        yield Problem(f"weight {spec.weight} is out of range", json_path="$.spec.weight", hint="1 to 10,000")


def _not_one_of(text: str, known: tuple[str, ...], path: str) -> Problem:
    return Problem(f"{text[:60]!r} is unknown", json_path=path, hint=f"choose from {', '.join(known)}")


def reference_warnings(snapshot: Snapshot) -> Iterator[Warning]:
    """Yield warnings about nodes and workloads that are named and not there, and nodes without room or too old."""
    yield from _scaling_nothing(snapshot)
    yield from _skewed_kubelets(snapshot)
    known = snapshot.node_by_name
    on_nodes = ((pod.spec.node_name, pod) for pod in snapshot.pods)
    strays = grouped((name, pod.metadata.key) for name, pod in on_nodes if name not in known and name)
    for node_name, pods in sorted(strays.items()):
        verb = "runs" if len(pods) == 1 else "run"
        yield Warning(
            "UnknownNode",
            object_name("Node", "", node_name),
            f"not in the snapshot, but {listing(sorted(pods))} {verb} there; they take no room on any other node",
        )
    for node in [node for node in snapshot.nodes if "pods" not in node.status.allocatable]:
        name = object_name("Node", "", node.metadata.name)
        if not node.status.allocatable:
            yield Warning("NoAllocatable", name, "has neither allocatable nor capacity; counted as having no resources")
        else:
            yield Warning("NoPodCapacity", name, "allocatable has no number of pods; it counts as 0, so no pod fits")


def _scaling_nothing(snapshot: Snapshot) -> Iterator[Warning]:
    """Yield a warning for each autoscaler whose target does not exist, as far as that is known."""
    scalers = snapshot.horizontal_pod_autoscalers
    workloads_of: dict[str, set[str]] = {scaler.metadata.namespace: set() for scaler in scalers}
    for kind in SCALED if scalers else ():
        for obj in getattr(snapshot, POD_MAKERS[kind].attribute):
            if obj.metadata.namespace in workloads_of:
                workloads_of[obj.metadata.namespace].add(f"{kind} {obj.metadata.name}")
    left = _MOST_COMPARED
    for scaler in scalers:
        target, namespace = scaler.spec.scale_target_ref, scaler.metadata.namespace
        wanted, known = f"{target.kind} {target.name}", workloads_of[namespace]
        of = kind_of(target.api_version, target.kind)
        if of is None or of.name not in SCALED or wanted in known or not snapshot.knows_all(of.attribute):
            continue
        near: list[str] = []
        if len(known) <= left:
            near = nearest_texts(wanted, sorted(known), 1)
            left -= len(known)
        meant = f" (did you mean {near[0]}?)" if near else ""
        name = object_name("HorizontalPodAutoscaler", namespace, scaler.metadata.name)
        yield Warning("NoScaleTarget", name, f"scales nothing, as there is no {wanted} in its namespace{meant}")


def _skewed_kubelets(snapshot: Snapshot) -> Iterator[Warning]:
    """Yield a warning for each version of kubelets that the API server does not support."""
    if (server := core.parse_version(snapshot.server_version or "")) is None:
        return
    newest = server[0]
    of_nodes = ((node.status.node_info.kubelet_version, node.metadata.name) for node in snapshot.nodes)
    for version, names in sorted(grouped(of_nodes).items()):
        kubelet = core.parse_version(version)
        if kubelet is not None and not newest - _MOST_SKEW <= kubelet[0] <= newest:
            on = f"{listing(names)} {'runs' if len(names) == 1 else 'run'} kubelet {version}"
            supported = f"supports kubelets from v1.{newest - _MOST_SKEW} to v1.{newest}"
            message = f"{on}, and API server {snapshot.server_version} {supported}"
            yield Warning("KubeletSkew", object_name("Node", "", names[0]), message)


def build_snapshot(
    objects: Iterable[msgspec.Struct],
    *,
    source: str = "objects",
    taken_at: str | None = None,
    server_version: str | None = None,
    missing: Iterable[MissingKind] = (),
    skipped: dict[str, int] | None = None,
    warnings: Iterable[Warning] = (),
    whole: Mapping[str, msgspec.Raw | dict[str, Any]] | None = None,
    completes: bool = True,
) -> Snapshot:
    """Build a snapshot from objects; without `completes`, they have all defaults already.

    Raises SnapshotError if two objects of one kind and name differ, or a quantity does not parse.
    """
    builder = SnapshotBuilder()
    for kind, alike in groupby(objects, type_of):
        builder.add(list(alike), kind, completes=completes)
    about = Snapshot(
        source=source,
        from_server=source.startswith(LIVE),
        taken_at=taken_at,
        server_version=server_version,
        missing=tuple(missing),
        skipped=skipped or {},
        warnings=tuple(warnings),
        whole=whole or {},
    )
    return builder.finish(about)


class SnapshotBuilder:
    """Collects objects and their problems; `refuses_odd`: also amounts below 0 or beyond int64, as in files by hand."""

    def __init__(self, *, refuses_odd: bool = False) -> None:
        self.problems: list[Problem] = []
        self.unchecked = 0  #: objects that were not added, as there are problems enough
        self.warnings: list[Warning] = []
        self._quantities = QuantityCheck(refuses_odd=refuses_odd)
        #: attribute of a kind -> NAMESPACE/NAME -> object
        self._objects: dict[str, dict[str, Any]] = {kind.attribute: {} for kind in KINDS}
        #: attribute of a kind -> the same objects as the snapshot has them
        self._lean: dict[str, list[Any]] = {kind.attribute: [] for kind in KINDS}
        self._not_stored: set[str] = set()  #: attributes of the kinds of which an object has no uid

    def has_enough_problems(self) -> bool:
        """Tell whether a further object need not be checked, and count it then."""
        if len(self.problems) < ENOUGH_PROBLEMS:
            return False
        self.unchecked += 1
        return True

    def add(self, objects: Sequence[Any], kind: Kind, run: Run = IN_MEMORY, *, completes: bool = True) -> None:
        """Add objects of one kind: all at once where they are sound, else one by one, without those with problems."""
        if not self.problems and not kind.is_open and self._are_sound(objects):
            self._keep(objects, kind, run, completes=completes)
            return
        for index, obj in enumerate(objects):
            if self.has_enough_problems() or (isinstance(obj, ControllerRevision) and obj.is_foreign):
                continue
            wrong = [*self._quantities.problems(obj), *time_problems(obj), *node_pool_problems(obj)]
            if not obj.metadata.name:
                hint = "every object of a cluster has one"
                wrong.append(Problem("has no name", json_path="$.metadata.name", hint=hint))
            if wrong:
                name = object_name(kind.name, obj.metadata.namespace, obj.metadata.name)
                named = (problem._replace(message=f"{name}: {problem.message}") for problem in wrong)
                self.problems += [run.locate(index, problem) for problem in named]
            else:
                self._keep([obj], kind, run, completes=completes, first=index)

    def _are_sound(self, objects: Sequence[Any]) -> bool:
        """Tell whether no object of one kind has a problem; quicker than to look for the problems of each."""
        return (
            all(obj.metadata.name for obj in objects)
            and self._quantities.are_good(objects)
            and have_times(objects)
            and not (isinstance(objects[0], NodePool | NodeOverlay) and any(map(node_pool_problems, objects)))
        )

    def _keep(self, objects: Sequence[Any], kind: Kind, run: Run, *, completes: bool, first: int = 0) -> None:
        same_kind = self._objects[kind.attribute]
        new = []
        for index, obj in enumerate([complete(obj, kind) for obj in objects] if completes else objects, first):
            metadata = obj.metadata
            if not metadata.uid:
                self._not_stored.add(kind.attribute)
            key = f"{metadata.namespace}/{metadata.name}"
            if key not in same_kind:
                same_kind[key] = obj
                new.append(obj)
            elif same_kind[key] is not obj:
                name = object_name(kind.name, metadata.namespace, metadata.name)
                if same_kind[key] == obj:
                    message = "is in the input twice with equal content; the second is ignored"
                    self.warnings.append(Warning("Duplicate", name, message))
                    continue
                hint = "leave one of them out, or give it another name"
                message = f"{name}: is in the input twice with different content"
                self.problems.append(run.locate(index, Problem(message, json_path="$.metadata.name", hint=hint)))
        if new:
            self._lean[kind.attribute] += lean_all(new)  # duplicates are compared with all they have

    def objects(self) -> tuple[msgspec.Struct, ...]:
        """Return the objects, kind by kind, without what does not affect scheduling; SnapshotError has all problems."""
        if self.problems:
            raise SnapshotError(self.problems, unchecked=self.unchecked)
        return tuple(chain.from_iterable(self._lean.values()))

    def finish(self, about: Snapshot) -> Snapshot:
        """Return the snapshot, with what `about` says besides its objects; raises SnapshotError with all problems."""
        if self.problems:
            raise SnapshotError(self.problems, unchecked=self.unchecked)
        objects: dict[str, Any] = {name: tuple(reduced) for name, reduced in self._lean.items()}
        if "pods" in self._not_stored:
            objects["pods"] = tuple(
                pod if pod.metadata.uid else self._with_priority(pod, objects["priority_classes"])
                for pod in objects["pods"]
            )
        objects["nodes"] = tuple(self._with_allocatable(node) for node in objects["nodes"])
        pods = self._objects["pods"]
        versions = {
            key: number
            for key, pod in pods.items()
            if (text := pod.metadata.resource_version) and (number := natural(text, MAX_INT64)) is not None
        }
        snapshot = replace(about, **objects, versions=versions)
        snapshot.__dict__["pod_by_key"] = dict(zip(pods, objects["pods"], strict=True))  # what it would derive itself
        unread = map(missing_warning, about.missing)
        all_warnings = (*about.warnings, *self.warnings, *unread, *reference_warnings(snapshot))
        force_setattr(snapshot, "warnings", all_warnings)
        return snapshot

    def _with_priority(self, pod: core.Pod, classes: tuple[Any, ...]) -> core.Pod:
        if pod.spec.priority is not None:
            return pod
        if (resolved := resolve_priority(pod.spec.priority_class_name, classes)) is None:
            name = object_name("Pod", pod.metadata.namespace, pod.metadata.name)
            missing = f"priority class {pod.spec.priority_class_name!r} is not in the snapshot"
            self.warnings.append(Warning("UnknownPriorityClass", name, f"{missing}; the priority counts as 0"))
            return replace(pod, spec=replace(pod.spec, priority=0))
        return resolved.applied_to(pod)

    def _with_allocatable(self, node: core.Node) -> core.Node:
        """Fill in an absent allocatable from capacity, as the API server does when it reads a node."""
        if node.status.allocatable or not node.status.capacity:
            return node
        name = object_name("Node", "", node.metadata.name)
        self.warnings.append(Warning("NoAllocatable", name, "has no allocatable; its capacity counts instead"))
        return replace(node, status=replace(node.status, allocatable=node.status.capacity))
