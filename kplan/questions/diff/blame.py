"""Which part of a change causes that a workload waits: each is taken away, and the question is asked again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from kplan.api.core import Node, Pod
from kplan.api.wellknown import ZONE
from kplan.cluster.base import PodLike
from kplan.documents.diff import Blame, DiffReport, WorkloadDifference, WorkloadSide
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import quantity_text, resource_order
from kplan.subjects.incoming import IncomingPod
from kplan.workloads.contents import Manifests, ManifestWorkload

MOST_PARTS = 12
"""So many parts of a change are taken away, the first ones: each is the whole question once more."""


def waiting_rows(document: DiffReport) -> list[WorkloadDifference]:
    """Return the workloads of which more pods are pending than before."""
    return [row for row in document.workloads if row.now_pending > 0]


def with_causes(
    document: DiffReport, parts: Mapping[str, Pod], ask: Callable[[str], DiffReport], nodes: Mapping[str, Node]
) -> DiffReport:
    """Return the differences with the parts of the change without which a workload would not wait.

    Parameters
    ----------
    parts : KIND/NAMESPACE/NAME of a workload that the change is about -> one of its pods
    ask : compares with an answer to the question without one of the parts
    nodes : by name
    """
    waiting = {row.workload: row for row in waiting_rows(document)}
    others = [part for part in parts if set(waiting) - {part}]
    if not waiting:
        return document
    blamed: dict[str, list[Blame]] = {}
    rows = {row.workload: row for row in document.workloads}
    for part in others[:MOST_PARTS]:
        without = {row.workload: row for row in ask(part).workloads}
        for workload, row in waiting.items():
            again = without.get(workload)
            if workload == part or (again is not None and again.now_pending >= row.now_pending):
                continue
            own_nodes = _own_nodes(again, row)
            blamed.setdefault(workload, []).append(_blame(part, parts[part], rows.get(part), own_nodes, nodes))
    return replace(
        document,
        workloads=tuple(replace(row, because=tuple(blamed.get(row.workload, ()))) for row in document.workloads),
    )


def _own_nodes(again: WorkloadDifference | None, row: WorkloadDifference) -> Sequence[str]:
    """Return the nodes of a workload without a part of the change, those first that it does not have with it."""
    side = row.before if again is None else again.after
    present = {} if row.after is None else row.after.nodes
    own_nodes = () if side is None else tuple(side.nodes)
    return [node for node in own_nodes if node not in present] or own_nodes


def _blame(
    part: str, pod: Pod, row: WorkloadDifference | None, own_nodes: Iterable[str], nodes: Mapping[str, Node]
) -> Blame:
    """Return what a part of a change takes on some nodes, or in their zones where it takes nothing there."""
    new = _new_pods(row)
    there = [name for name in own_nodes if new.get(name)]
    zone = ""
    if not there:
        zones = {_zone(nodes[name]) for name in own_nodes if name in nodes} - {""}
        there = [name for name in new if name in nodes and _zone(nodes[name]) in zones]
    if there:
        zones = {_zone(nodes[name]) for name in there if name in nodes}
        zone = zones.pop() if len(zones) == 1 else ""
    number = sum(new[name] for name in there)
    requests = PodInfo(pod).requests
    took = {name: quantity_text(name, number * requests[name]) for name in resource_order(requests) if requests[name]}
    return Blame(workload=part, pods=number, nodes=tuple(there), zone=zone, took=took if number else {})


def _new_pods(row: WorkloadDifference | None) -> dict[str, int]:
    """Return node -> how many pods more of a workload are there."""
    if row is None or row.after is None:
        return {}
    before = row.before or WorkloadSide(pods=0, placed=0, nodes={})
    more = {name: number - before.nodes.get(name, 0) for name, number in row.after.nodes.items()}
    return {name: number for name, number in more.items() if number > 0}


def _zone(node: Node) -> str:
    return node.metadata.labels.get(ZONE, "")


def without_workload(manifests: Manifests, key: str, earlier: Manifests | None) -> Manifests:
    """Return manifests without a workload, or with it as it was in earlier ones.

    Parameters
    ----------
    key : KIND/NAMESPACE/NAME
    """

    def is_it(workload: ManifestWorkload) -> bool:
        return workload.key == key

    gone = {id(workload.item) for workload in manifests.workloads if is_it(workload)}
    was = () if earlier is None else tuple(filter(is_it, earlier.workloads))
    return replace(
        manifests,
        workloads=(*(workload for workload in manifests.workloads if not is_it(workload)), *was),
        items=(*(item for item in manifests.items if id(item) not in gone), *(workload.item for workload in was)),
    )


def pods_without(pods: Sequence[PodLike], key: str) -> list[PodLike]:
    """Return the pods of a question without those of a workload of its manifests, KIND/NAMESPACE/NAME."""
    return [
        pod for pod in pods if not isinstance(pod, IncomingPod) or pod.origin.key_in(pod.pod.metadata.namespace) != key
    ]
