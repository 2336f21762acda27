"""Recommended requests, which templates and pods take at once.

Where the pods of a node do not fit there any more, those whose requests have grown leave, by name, until the others
fit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.api import decode
from kplan.api.core import Container, Pod, PodSpec
from kplan.api.kinds import MADE, POD_MAKERS
from kplan.api.names import controller_name, object_name
from kplan.api.pod import ENDED
from kplan.api.quantity import grouped, milli_value, value
from kplan.cluster.incoming import with_objects
from kplan.errors import InputError, Problem, UsageError
from kplan.facts import RequestSum
from kplan.reading.documents import read_documents
from kplan.reading.files import REPORTS
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import CPU, MEMORY, quantity_text
from kplan.snapshot.model import Snapshot
from kplan.workloads.autoscalers import CONTROLLED, Requests, recommended_requests

VPA = "vpa"
_MOST = 2**53


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
            amounts = {name: text for name, text in _amounts(scan.recommended) if name in CONTROLLED}
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
    own = recommended_requests(snapshot.vertical_pod_autoscalers)
    wanted = {one.workload: one.requests for one in own} if recommended.requests is None else recommended.requests
    # What made a workload that people write, such as an operator's resource, is no owner here: recommendations name the
    # workload itself, or the Deployment of a ReplicaSet.
    controllers = snapshot.controllers
    owners = {workload: owner for workload, owner in controllers.items() if workload.partition("/")[0] in MADE}
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
        for name in CONTROLLED
        if before[name] != then[name]
    }
    return Resized(after, sorted(names), _without_room(after, grown), sums)


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
            if all(used[resource] <= offered[resource] for resource in CONTROLLED):
                break
            used.subtract(PodInfo(pod).requests)
            evicted.append(pod)
    return evicted
