"""The limits of a namespace, LimitRanger and ResourceQuota, and the refusals of new objects.

Upstream: plugin/pkg/admission/limitranger; apiserver admission plugin resourcequota,
pkg/quota/v1/evaluator/core/pods.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from kplan.api import core
from kplan.api.affinity import PodAffinityTerm
from kplan.api.field_errors import aggregate, qualified
from kplan.api.kinds import KINDS
from kplan.api.labels import ANNOTATION_CLASS
from kplan.api.meta import ResourceList
from kplan.api.pod import ENDED
from kplan.api.quantity import MAX_MILLI_VALUE, Quantity, parse
from kplan.api.resource import (
    ALLOCATION_RESULTS_MAX_SIZE,
    MODE_ALL,
    RESOURCE_DEVICE_CLASS_PREFIX,
    DeviceClass,
    ResourceClaim,
)
from kplan.facts import LimitChange, QuotaRaise, QuotaUse, RefusedPods
from kplan.rules.resources import COMPUTE, CPU, MEMORY, QUOTA_COMPUTE, QUOTA_PREFIX, is_native, stored_totals
from kplan.snapshot.model import Snapshot

Usage = dict[str, Quantity]
Measured = core.Pod | core.PersistentVolumeClaim | core.Service | ResourceClaim
"""An object whose fields say what it uses; objects of other kinds count by their number alone."""

Amounts = Mapping[str, Quantity]
_BY_LIMIT_RANGER = "LimitRanger plugin set: "
_POD_LEVEL = (CPU, MEMORY)
_ZERO, _ONE = Quantity(0), Quantity(10**9)
_OBJECT_ALONE: Usage = {"count/pods": _ONE}
_OF_CLASS = ".storageclass.storage.k8s.io/"
_FOR_EXTENDED_RESOURCE = "resource.kubernetes.io/extended-resource-claim"
_DEVICES_OF_CLASS = ".deviceclass.resource.k8s.io/devices"
_POD_RESOURCES = QUOTA_COMPUTE | {"count/pods", "pods"}
#: Core kinds whose number a quota can name without ``count/``, and that are not measured.
_COUNTED = frozenset({"replicationcontrollers", "resourcequotas", "secrets", "configmaps"})
#: A quota over one of these requires a value in every container.
_MUST_STATE = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})


class Rejection(Exception):  # noqa: N818 - a verdict, not an error; it never leaves admission
    """A pod that an admission plugin forbids; the message is the plugin's, and `because` has the facts behind it."""

    def __init__(self, message: str, because: RefusedPods = RefusedPods()) -> None:  # noqa: B008 - it is frozen
        super().__init__(message)
        self.because = because

    def answer(self, group: str, resource: str, name: str) -> str:
        """Return the API server's answer to such an object (403)."""
        return f'{qualified(resource, group)} "{name}" is forbidden: {self}'

    @property
    def facts(self) -> RefusedPods:
        """The facts behind it, with its message."""
        return replace(self.because, message=str(self))


class Refusal(Rejection):
    """An object that is refused with a complete message: not found, or invalid."""

    def answer(self, group: str, resource: str, name: str) -> str:
        del group, resource, name
        return str(self)


def apply_defaults(pod: core.Pod, limit_range: core.LimitRange) -> core.Pod:
    """Return the pod with default requests and limits for containers without their own."""
    requests: ResourceList = {}
    limits: ResourceList = {}
    for item in limit_range.spec.limits:
        if item.type == "Container":
            requests |= item.default_request
            limits |= item.default
    if not requests and not limits:
        return pod
    spec = pod.spec
    notes: list[str] = []
    containers = _with_defaults(spec.containers, requests, limits, "container", notes)
    init_containers = _with_defaults(spec.init_containers, requests, limits, "init container", notes)
    metadata = pod.metadata
    if notes:
        text = f"{_BY_LIMIT_RANGER}{'; '.join(notes)}"
        metadata = replace(metadata, annotations=replace(metadata.annotations, limit_ranger=text))
    return replace(pod, metadata=metadata, spec=replace(spec, containers=containers, init_containers=init_containers))


def _with_defaults(
    containers: Sequence[core.Container], requests: ResourceList, limits: ResourceList, kind: str, notes: list[str]
) -> tuple[core.Container, ...]:
    """Return containers with defaults, and add to `notes` which of them have some, as upstream's annotation does."""
    changed = []
    for container in containers:
        own = container.resources
        for name, defaults, stated in (("request", requests, own.requests), ("limit", limits, own.limits)):
            if added := sorted(defaults.keys() - stated.keys()):
                notes.append(f"{', '.join(added)} {name} for {kind} {container.name}")
        resources = replace(own, requests={**requests, **own.requests}, limits={**limits, **own.limits})
        changed.append(replace(container, resources=resources))
    return tuple(changed)


def defaulted(pod: core.Pod) -> set[str]:
    """Return the resources of which a container has the default request of a limit range, as the API server notes."""
    text = pod.metadata.annotations.limit_ranger
    resources: set[str] = set()
    if text.startswith(_BY_LIMIT_RANGER):
        for part in text.removeprefix(_BY_LIMIT_RANGER).split("; "):
            listed, _, holder = part.partition(" request for ")
            if holder.startswith(("container ", "init container ")):
                resources.update(listed.split(", "))
    return resources


def check(obj: core.Pod | core.PersistentVolumeClaim, limit_ranges: Iterable[core.LimitRange]) -> None:
    """Check a pod, or the requests of a claim, against the bounds of its namespace.

    Raises Rejection with all violations of the first limit range that has any.
    """
    for limit_range in of_namespace(obj, limit_ranges):
        if problems := [problem for item in limit_range.spec.limits for problem in _problems(item, obj)]:
            raise Rejection(aggregate(problems), RefusedPods(by=f"LimitRange {limit_range.metadata.key}"))


def of_namespace(
    obj: core.Pod | core.PersistentVolumeClaim, limit_ranges: Iterable[core.LimitRange]
) -> list[core.LimitRange]:
    return [entry for entry in limit_ranges if entry.metadata.namespace == obj.metadata.namespace]


def _problems(item: core.LimitRangeItem, obj: core.Pod | core.PersistentVolumeClaim) -> Iterator[str]:
    match item.type, obj:
        case "PersistentVolumeClaim", core.PersistentVolumeClaim(spec=claim):
            yield from _beyond(item, ("request", core.parsed(claim.resources.requests)))
        case "Container", core.Pod(spec=spec):
            for container in (*spec.containers, *spec.init_containers):
                yield from _violations(
                    item, core.parsed(container.resources.requests), core.parsed(container.resources.limits)
                )
        case "Pod", core.Pod(spec=spec):
            requests, limits = core.container_totals(spec, core.REQUESTS), core.container_totals(spec, core.LIMITS)
            if spec.resources is not None:
                requests |= {k: v for k, v in core.parsed(spec.resources.requests).items() if k in _POD_LEVEL}
                limits |= {k: v for k, v in core.parsed(spec.resources.limits).items() if k in _POD_LEVEL}
            yield from _violations(item, requests, limits)


def _violations(item: core.LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    """Yield what is outside the bounds; resources by name, as upstream iterates over them in random order."""
    yield from _beyond(item, ("request", requests), ("limit", limits))
    for name, bound in sorted(core.parsed(item.max_limit_request_ratio).items()):
        request, limit, _ = _comparable(requests.get(name, _ZERO), limits.get(name, _ZERO), bound)
        what = f"{name} max limit to request ratio per {item.type} is {bound}"
        if request == 0:
            yield f"{what}, but no request is specified or request is 0"
        elif limit == 0:
            yield f"{what}, but no limit is specified or limit is 0"
        elif (ratio := limit / request) * 1000 > bound.milli_value():
            yield f"{what}, but provided ratio is {ratio:f}"


def _beyond(item: core.LimitRangeItem, *sides: tuple[str, Amounts]) -> Iterator[str]:
    """Yield what is outside the bounds, of both sides the first; a minimum wants a request, a maximum a limit."""
    for what, sign, bounds, order in (("minimum", -1, item.min, sides), ("maximum", 1, item.max, sides[::-1])):
        for name, bound in sorted(core.parsed(bounds).items()):
            words = f"{what} {name} usage per {item.type} is {bound}"
            side, stated = order[0]
            if name not in stated:
                yield f"{words}.  No {side} is specified"
                continue
            *amounts, most = _comparable(*(own.get(name, _ZERO) for _, own in order), bound)
            yield from [
                f"{words}, but {side} is {own[name]}"
                for (side, own), amount in zip(order, amounts, strict=True)
                if name in own and amount * sign > most * sign
            ][:1]


def _comparable(*amounts: Quantity) -> list[int]:
    """Return amounts in thousandths where they are all small enough (upstream requestLimitEnforcedValues)."""
    if all(amount.value() <= MAX_MILLI_VALUE for amount in amounts):
        return [amount.milli_value() for amount in amounts]
    return [amount.value() for amount in amounts]


class QuotaLedger:
    """The quotas of a snapshot, used by all its objects or only the `existing` ones; every charged object adds."""

    def __init__(self, snapshot: Snapshot, existing: Snapshot | None = None) -> None:
        self._quotas: dict[str, list[tuple[core.ResourceQuota, Usage, Usage]]] = {}
        self._classes, there = snapshot.device_classes, existing or snapshot
        for quota in snapshot.resource_quotas:
            hard = core.parsed(quota.status.hard or quota.spec.hard)
            known = quota.status.used if quota.status.hard else None
            used = _measure(quota, hard, there, self._classes) if known is None else core.parsed(known)
            self._quotas.setdefault(quota.metadata.namespace, []).append((quota, hard, used))

    def charge(self, item: Measured) -> None:
        """Count a new object of these kinds; raises Rejection, and counts nothing, where a quota does not allow it."""
        if item.metadata.namespace in self._quotas:
            self._charge(item.metadata.namespace, usage_of(item, self._classes), item)

    def charge_object(self, namespace: str, group: str, resource: str) -> None:
        """Count a new object of another kind; raises Rejection, and counts nothing, where a quota does not allow it."""
        if namespace in self._quotas:
            self._charge(namespace, _object_usage(group, resource), None)

    def _charge(self, namespace: str, amounts: Usage, item: Measured | None) -> None:
        quotas = self._quotas[namespace]
        usage = {name: amount for name, amount in amounts.items() if amount.nanos}
        matching: list[tuple[core.ResourceQuota, Usage, Usage]] = []
        for quota, hard, used in sorted(quotas, key=lambda entry: entry[0].metadata.name):
            tracked = {name for name in hard if (_is_tracked(name) if isinstance(item, core.Pod) else name in amounts)}
            if not tracked or not _matches(quota, item):
                continue
            if isinstance(item, core.Pod):
                _require_stated(quota, tracked, item)
            if tracked - used.keys():
                names = ",".join(sorted(tracked))
                raise Rejection(f"status unknown for quota: {quota.metadata.name}, resources: {names}")
            matching.append((quota, hard, used))
        charged: list[tuple[Usage, Usage]] = []
        for quota, hard, used in matching:
            requested = {resource: amount for resource, amount in usage.items() if resource in hard}
            new = {resource: used.get(resource, _ZERO).plus(amount) for resource, amount in requested.items()}
            if exceeded := sorted(one for one, amount in new.items() if amount.nanos > hard[one].nanos):
                text = (
                    f"exceeded quota: {quota.metadata.name}, requested: {_show(requested, exceeded)},"
                    f" used: {_show(used, exceeded)}, limited: {_show(hard, exceeded)}"
                )
                uses = tuple(
                    QuotaUse(
                        resource=one, requested=str(requested[one]), used=str(used.get(one, _ZERO)), hard=str(hard[one])
                    )
                    for one in exceeded
                )
                raise Rejection(text, RefusedPods(by=f"ResourceQuota {quota.metadata.key}", uses=uses))
            charged.append((used, new))
        for used, new in charged:
            used.update(new)

    def lacking(self, items: Iterable[tuple[core.Pod | core.PersistentVolumeClaim, int]]) -> Iterator[QuotaRaise]:
        """Yield what quotas have to allow so that they take so many of each of some pods or claims besides."""
        wanted = [(item, number, usage_of(item)) for item, number in items]
        for namespace in sorted({item.metadata.namespace for item, *_ in wanted}):
            for quota, hard, used in self._quotas.get(namespace, ()):
                sums = dict(used)
                for item, number, usage in wanted:
                    if item.metadata.namespace == namespace and _matches(quota, item):
                        for name in usage.keys() & hard.keys() & used.keys():
                            sums[name] = sums[name].plus(Quantity(usage[name].nanos * number, usage[name].format))
                limits = tuple(
                    LimitChange(name, str(hard[name]), str(Quantity(sums[name].nanos, hard[name].format)))
                    for name in sorted(sums.keys() & hard.keys())
                    if sums[name].nanos > max(hard[name].nanos, used[name].nanos)
                )
                if limits:
                    yield QuotaRaise(quota.metadata.key, limits)

    def release(self, item: core.Pod | core.PersistentVolumeClaim) -> None:
        if item.metadata.namespace in self._quotas:
            self._release(item.metadata.namespace, usage_of(item), item)

    def note_end(self, pod: core.Pod) -> None:
        """Count a pod that has ended as an object alone, which stays."""
        usage = usage_of(pod) if pod.metadata.namespace in self._quotas else {}
        self._release(pod.metadata.namespace, {name: usage[name] for name in usage.keys() - _OBJECT_ALONE.keys()}, pod)

    def release_object(self, namespace: str, group: str, resource: str) -> None:
        self._release(namespace, _object_usage(group, resource), None)

    def _release(self, namespace: str, usage: Usage, item: Measured | None) -> None:
        for quota, hard, used in self._quotas.get(namespace, ()):
            for name in usage.keys() & hard.keys() & used.keys() if _matches(quota, item) else ():
                used[name] = Quantity(max(used[name].nanos - usage[name].nanos, 0), used[name].format)


def with_usage(after: Snapshot, before: Snapshot) -> Snapshot:
    """Return a changed snapshot whose quotas count what was added and no longer count what was removed.

    Their status may count more than the snapshot holds, so that only the difference is applied.
    """
    if not after.resource_quotas:
        return after
    known = {id(quota) for quota in before.resource_quotas}
    quotas = []
    for quota in after.resource_quotas:
        if id(quota) not in known or not quota.status.hard:
            quotas.append(quota)
            continue
        hard = core.parsed(quota.status.hard)
        old, new = (_measure(quota, hard, there, there.device_classes) for there in (before, after))
        used = dict(quota.status.used)
        for name in used.keys() & new.keys():
            if old[name].nanos != new[name].nanos:
                amount = parse(used[name]).plus(new[name]).minus(old[name])
                used[name] = str(Quantity(max(amount.nanos, 0), amount.format))
        quotas.append(replace(quota, status=replace(quota.status, used=used)))
    return replace(after, resource_quotas=tuple(quotas))


def _object_usage(group: str, resource: str) -> Usage:
    usage = {f"count/{qualified(resource, group)}": _ONE}
    return usage | {resource: _ONE} if not group and resource in _COUNTED else usage


def usage_of(item: Measured, classes: Iterable[DeviceClass] = ()) -> Usage:
    """Return the usage of an object; a finished pod is only an object (upstream pkg/quota/v1/evaluator/core).

    Claims for devices of `classes` that have an extended resource count as that, too.
    """
    match item:
        case core.Pod():
            is_over = item.status.phase in ENDED
            return _OBJECT_ALONE if is_over else {**_OBJECT_ALONE, **_compute_usage(*stored_totals(item))}
        case core.Service(spec=spec):
            is_balanced = spec.type == "LoadBalancer"
            # Node ports count before they are allocated.
            n_ports = len(spec.ports) if is_balanced or spec.type == "NodePort" else 0
            if is_balanced and spec.allocate_load_balancer_node_ports is False:
                n_ports = sum(port.node_port != 0 for port in spec.ports)
            loads = {"services.loadbalancers": _times(is_balanced), "services.nodeports": _times(n_ports)}
            return {"count/services": _ONE, "services": _ONE, **loads}
        case ResourceClaim():
            return _device_usage(item, {one.metadata.name: one.spec.extended_resource_name for one in classes})
    amounts = {"persistentvolumeclaims": _ONE}
    if "storage" in item.spec.resources.requests:
        amounts["requests.storage"] = parse(item.spec.resources.requests["storage"])
    name = item.metadata.annotations.get(ANNOTATION_CLASS) or item.spec.storage_class_name
    by_class = {f"{name}{_OF_CLASS}{what}": amount for what, amount in amounts.items()} if name else {}
    return {"count/persistentvolumeclaims": _ONE, **amounts, **by_class}


def _device_usage(claim: ResourceClaim, extended: Mapping[str, str | None]) -> Usage:
    """Return the usage of a claim for devices: the most of each class among alternatives, and the bound for all."""
    numbers: Counter[str] = Counter()
    for request in claim.spec.devices.requests:
        most: Counter[str] = Counter()
        for wanted in request.first_available or filter(None, (request.exactly,)):
            wants_all = wanted.allocation_mode == MODE_ALL
            most |= {wanted.device_class_name: ALLOCATION_RESULTS_MAX_SIZE if wants_all else wanted.count or 1}
        numbers += most
    usage = {"count/resourceclaims.resource.k8s.io": _ONE}
    for name, number in numbers.items():
        usage[f"{name}{_DEVICES_OF_CLASS}"] = _times(number)
        # Of a claim that the scheduler made for a pod, the pod already counts as much.
        if (resource := extended.get(name)) and claim.metadata.annotations.get(_FOR_EXTENDED_RESOURCE) != "true":
            names = (f"{RESOURCE_DEVICE_CLASS_PREFIX}{name}", resource)
            usage |= {f"{QUOTA_PREFIX}{one}": _times(number) for one in names}
    return usage


def _times(number: int) -> Quantity:
    return Quantity(number * _ONE.nanos)


def _compute_usage(requests: Usage, limits: Usage) -> Usage:
    usage = {"pods": _ONE}
    for name, amount in requests.items():
        if name in COMPUTE or name.startswith(core.HUGE_PAGES):
            usage[name] = usage[QUOTA_PREFIX + name] = amount
        elif _is_extended(name):
            usage[QUOTA_PREFIX + name] = amount
    for name in COMPUTE:
        if name in limits:
            usage[f"limits.{name}"] = limits[name]
    return usage


def _is_extended(name: str) -> bool:
    return name.startswith(RESOURCE_DEVICE_CLASS_PREFIX) or not is_native(name)


def _is_tracked(name: str) -> bool:
    """Tell whether a quota over this resource counts pods (upstream MatchingResources)."""
    extended = name.startswith(QUOTA_PREFIX) and _is_extended(name.removeprefix(QUOTA_PREFIX))
    return name in _POD_RESOURCES or name.startswith((core.HUGE_PAGES, QUOTA_PREFIX + core.HUGE_PAGES)) or extended


def _require_stated(quota: core.ResourceQuota, tracked: Iterable[str], pod: core.Pod) -> None:
    """Refuse containers without requests or limits that a quota counts (upstream Constraints)."""
    if pod.spec.resources is not None and (pod.spec.resources.requests or pod.spec.resources.limits):
        return
    missing: dict[str, set[str]] = {}
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        stated = _compute_usage(core.parsed(container.resources.requests), core.parsed(container.resources.limits))
        for name in _MUST_STATE.intersection(tracked) - stated.keys():
            missing.setdefault(name, set()).add(container.name)
    if missing:
        parts = [f"{name} for: {','.join(sorted(containers))}" for name, containers in sorted(missing.items())]
        text = f"failed quota: {quota.metadata.name}: must specify {'; '.join(parts)}"
        raise Rejection(text, RefusedPods(by=f"ResourceQuota {quota.metadata.key}"))


def _matches(quota: core.ResourceQuota, item: Measured | None) -> bool:
    selectors = [
        core.ScopedResourceSelectorRequirement(scope_name=scope, operator="Exists") for scope in quota.spec.scopes
    ]
    if quota.spec.scope_selector is not None:
        selectors += quota.spec.scope_selector.match_expressions
    return all(_in_scope(selector, item) for selector in selectors)


def _in_scope(selector: core.ScopedResourceSelectorRequirement, item: Measured | None) -> bool:
    """Tell whether a scope matches; scopes of pods do not match claims, nor the reverse, and none other objects."""
    scope = selector.scope_name
    if isinstance(item, core.Pod) and scope in _SCOPES:
        return _SCOPES[scope](item)
    if isinstance(item, core.Pod) and scope == "PriorityClass":
        name = item.spec.priority_class_name
    elif isinstance(item, core.PersistentVolumeClaim) and scope == "VolumeAttributesClass":
        name = item.spec.volume_attributes_class_name or ""
    else:
        return False
    is_listed = bool(name) and name in selector.values
    matches = {"Exists": bool(name), "DoesNotExist": not name, "In": is_listed, "NotIn": not is_listed}
    return matches.get(selector.operator, False)


def _is_terminating(pod: core.Pod) -> bool:
    deadline = pod.spec.active_deadline_seconds
    return deadline is not None and deadline >= 0


def qos_class(spec: core.PodSpec) -> str:
    """Return how sure a pod is of its CPU and memory (upstream qos.ComputePodQOS)."""
    own = spec.resources
    parts = [one.resources for one in (*spec.containers, *spec.init_containers)] if own is None else [own]
    requests, limits = (
        [[max(parse(amounts.get(name, 0)).nanos, 0) for name in _POD_LEVEL] for amounts in side]
        for side in ([part.requests for part in parts], [part.limits for part in parts])
    )
    if not any(map(any, requests + limits)):
        return "BestEffort"
    is_alike = list(map(sum, zip(*requests, strict=True))) == list(map(sum, zip(*limits, strict=True)))
    return "Guaranteed" if is_alike and all(map(all, limits)) else "Burstable"


def _crosses_namespaces(pod: core.Pod) -> bool:
    if (affinity := pod.spec.affinity) is None:
        return False
    terms: list[PodAffinityTerm] = []
    for side in filter(None, (affinity.pod_affinity, affinity.pod_anti_affinity)):
        terms += side.required_during_scheduling_ignored_during_execution
        terms += [term.pod_affinity_term for term in side.preferred_during_scheduling_ignored_during_execution]
    return any(term.namespaces or term.namespace_selector is not None for term in terms)


_SCOPES: dict[str, Callable[[core.Pod], bool]] = {
    "Terminating": _is_terminating,
    "NotTerminating": lambda pod: not _is_terminating(pod),
    "BestEffort": lambda pod: qos_class(pod.spec) == "BestEffort",
    "NotBestEffort": lambda pod: qos_class(pod.spec) != "BestEffort",
    "CrossNamespacePodAffinity": _crosses_namespaces,
}


def _measure(quota: core.ResourceQuota, hard: Usage, snapshot: Snapshot, classes: Iterable[DeviceClass]) -> Usage:
    namespace = quota.metadata.namespace
    used = dict.fromkeys(hard, _ZERO)
    # A quota with scopes does not count objects of other kinds than pods and claims for volumes.
    is_scoped = bool(quota.spec.scopes) or quota.spec.scope_selector is not None
    for kind in KINDS if not is_scoped else ():
        names = _object_usage(kind.group, kind.resource).keys()
        if not issubclass(kind.type, Measured) and names & used.keys():
            objects: Sequence[Any] = snapshot.objects(kind.attribute)
            number = sum(obj.metadata.namespace == namespace for obj in objects)
            used |= dict.fromkeys(names & used.keys(), _times(number))
    items: list[Measured] = [*snapshot.pods, *snapshot.persistent_volume_claims]
    items += snapshot.services
    items += snapshot.resource_claims
    for item in items:
        if item.metadata.namespace == namespace and _matches(quota, item):
            usage = usage_of(item, classes)
            for name in usage.keys() & used.keys():
                used[name] = used[name].plus(usage[name])
    return used


def _show(amounts: Usage, names: Iterable[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in names if name in amounts)
