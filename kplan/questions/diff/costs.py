"""One of two answers, and what the change costs: requests and room before and after, nodes side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from kplan.documents.base import Report
from kplan.documents.cluster_map import ClusterMap, NodeLoad
from kplan.documents.diff import Cost
from kplan.documents.placement import Origin
from kplan.documents.plan import Largest, PlanReport
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import PODS, quantity_text
from kplan.workloads.contents import Manifests


class ComparedAnswer(msgspec.Struct, frozen=True):
    """One of the two answers."""

    what: str  #: its name in messages and in the report
    report: Report
    nodes: frozenset[str] | None = None  #: names of all nodes of its cluster; None for a saved report
    #: resource -> percent that is requested at the end; None if only the report itself may hold it
    usage: Mapping[str, float] | None = None
    #: KIND/NAMESPACE/NAME of the workloads of its manifests -> their places
    origins: Mapping[str, Origin] = {}
    #: resource -> what the pods of its manifests request; None where it has none
    requests: Mapping[str, int] | None = None
    room: Mapping[str, Largest] = {}  #: resource -> what is free at the end; empty if only the report may hold it
    cluster: ClusterMap | None = None  #: every node before and after; None if only the report itself may hold it


def requests_of(manifests: Manifests | None) -> dict[str, int] | None:
    """Return what the pods of manifests request together, in the scheduler's units; None without manifests."""
    if manifests is None:
        return None
    number: Counter[int] = Counter()
    for pod in manifests.pods:
        number[id(pod.workload)] += 1 + pod.more
    total: Counter[str] = Counter()
    for workload in manifests.workloads:
        n_pods = number[id(workload)]
        total[PODS] += n_pods
        for name, amount in PodInfo(workload.created).resources.requests.items() if n_pods else ():
            total[name] += amount * n_pods
    return dict(total)


def costs_of(before: ComparedAnswer, after: ComparedAnswer) -> Iterator[Cost]:
    """Yield for each resource what the manifests request and what is free, where the two answers differ in it."""
    then, now = _room(before), _room(after)
    are_both = before.requests is not None and after.requests is not None
    for resource in (name for name in now if name in then):
        requests = [quantity_text(resource, (side.requests or {}).get(resource, 0)) for side in (before, after)]
        cost = Cost(
            resource=resource,
            requests_before=requests[0] if are_both else None,
            requests_after=requests[1] if are_both else None,
            free_before=then[resource].total_free,
            free_after=now[resource].total_free,
            largest_before=then[resource].free,
            largest_after=now[resource].free,
        )
        if (
            cost.requests_before != cost.requests_after
            or cost.free_before != cost.free_after
            or cost.largest_before != cost.largest_after
        ):
            yield cost


def _room(answer: ComparedAnswer) -> Mapping[str, Largest]:
    if answer.room or not isinstance(answer.report, PlanReport):
        return answer.room
    return {fit.resource: fit.after for fit in answer.report.largest_fit}


def map_of_both(before: ComparedAnswer, after: ComparedAnswer) -> ClusterMap | None:
    """Return the nodes of the second answer at the end of the first and of the second; None where one has no map."""
    first, second = _map(before), _map(after)
    if first is None or second is None or first.resources != second.resources:
        return None
    known = {node.name: node for node in first.nodes}
    return replace(second, nodes=tuple(_both(known.get(node.name), node) for node in second.nodes))


def _map(answer: ComparedAnswer) -> ClusterMap | None:
    cluster = answer.cluster if answer.cluster is not None else getattr(answer.report, "cluster", None)
    return cluster if isinstance(cluster, ClusterMap) else None


def _both(first: NodeLoad | None, second: NodeLoad) -> NodeLoad:
    """Return a node at the end of two answers: what comes is there at the end of the second alone."""
    if first is None:
        return replace(second, before=tuple(0 for _ in second.after))
    return replace(
        second,
        before=first.after,
        arriving=_without(second.arriving, first.arriving) + _without(first.leaving, second.leaving),
        leaving=_without(first.arriving, second.arriving) + _without(second.leaving, first.leaving),
    )


def _without(pods: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    known = frozenset(others)
    return tuple(pod for pod in pods if pod not in known)
