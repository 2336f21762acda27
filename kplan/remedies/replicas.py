"""The replicas of a workload of which at least one has no node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kplan.api.core import Pod
from kplan.api.labels import Selector
from kplan.api.meta import controller_of
from kplan.api.names import WorkloadRef, controller_name, object_name
from kplan.documents.placement import Origin
from kplan.engine.cluster import NOWHERE
from kplan.engine.matching import PodMatch
from kplan.framework.session import Session
from kplan.rules.pod_info import PodInfo
from kplan.rules.volumes import claim_name
from kplan.workloads.autoscalers import live_replicas
from kplan.workloads.expansion import wanted_replicas


class Replicas(msgspec.Struct, frozen=True):
    """The pods that a question creates for a workload, at the time when one of them finds no node."""

    workload: WorkloadRef | None  #: None where it is not known, and of a pod that is no replica of one
    placed: tuple[int, ...]  #: rows of the replicas that have a node
    pending: int  #: number of the others: the pod itself, and those after it, which end as it does
    are_all: bool = True  #: the workload wants no others besides

    @property
    def total(self) -> int:
        return len(self.placed) + self.pending


_OWNERS = ("ReplicaSet", "StatefulSet", "ReplicationController", "Job")

_SHARING = ("Deployment", "ReplicaSet", "ReplicationController")  #: kinds whose replicas mount the same claims
ALONE = Replicas(None, (), 1)  #: a pod that is no replica of a workload


def replicas_of(
    session: Session, row: int, origins: Mapping[int, Origin], rows: Iterable[int], more: Mapping[int, int]
) -> Replicas:
    """Return the replicas of the workload that a pod belongs to.

    `rows`: the pods that come from the same manifest. `more`: row -> number of further replicas after that pod that are
    not created.
    """
    origin, info = origins.get(row), session.cluster.pods.infos[row]
    if origin is None:
        return owned_replicas(session, row)
    if origin.kind == "Pod" or _has_own_claims(info.pod, origin.kind):
        return ALONE
    namespace = info.namespace
    mine = [other for other in rows if session.cluster.pods.infos[other].namespace == namespace]
    placed = tuple(other for other in mine if session.cluster.node_of[other] != NOWHERE)
    pending = len(mine) - len(placed) + sum(more.get(other, 0) for other in mine)
    return Replicas(WorkloadRef(origin.kind, namespace, origin.name), placed, pending)


def owned_replicas(session: Session, row: int) -> Replicas:
    """Return the replicas of the controller that owns a pod of the cluster, as far as they equal the pod."""
    cluster, info = session.cluster, session.cluster.pods.infos[row]
    owner = controller_of(info.pod.metadata)
    if owner is None or owner.kind not in _OWNERS or _has_own_claims(info.pod, owner.kind):
        return ALONE
    rows = cluster.pods.rows_matching(PodMatch(((frozenset((info.namespace,)), Selector()),), skip_terminating=True))
    mine = [other for other in rows.tolist() if cluster.pods.infos[other].controller == info.controller]
    placed = tuple(other for other in mine if cluster.node_of[other] != NOWHERE)
    pending = sum(
        cluster.node_of[other] == NOWHERE and cluster.pods.infos[other].shape == info.shape
        for other in mine
        if not cluster.pods.infos[other].pod.spec.node_name
    )
    workload = WorkloadRef.parse(workload_of(session, info))
    wanted = _wanted(session, workload)
    if workload.kind == "StatefulSet":  # those after the first that waits are not there yet
        pending = max(pending, wanted - len(placed))
    return Replicas(workload, placed, max(pending, 1), wanted == len(placed) + pending)


def _wanted(session: Session, workload: WorkloadRef) -> int:
    """Return how many replicas a workload wants; 0 where it is not known, or is no such workload."""
    listers = session.listers
    if workload.kind == "Deployment":
        return live_replicas(listers.snapshot, *workload.parts) or 0
    # The listers, unlike their snapshot, have stateful sets as a change has applied them, and new ones of the others.
    own: Mapping[str, Mapping[tuple[str, str], Any]] = {
        "ReplicaSet": listers.replica_sets,
        "StatefulSet": listers.stateful_sets,
        "ReplicationController": listers.replication_controllers,
    }
    obj = own.get(workload.kind, {}).get((workload.namespace, workload.name))
    return 0 if obj is None else wanted_replicas(obj, None)


def workload_of(session: Session, info: PodInfo) -> str:
    """Return what a pod belongs to, as KIND/NAMESPACE/NAME; a pod without a controller belongs to itself."""
    owner = controller_of(info.pod.metadata)
    if owner is None:
        return object_name("Pod", info.namespace, info.name)
    # The listers also have those that a rollout has made.
    sets = session.listers.replica_sets if owner.kind == "ReplicaSet" else {}
    replica_set = sets.get((info.namespace, owner.name))
    above = "" if replica_set is None else controller_name(replica_set.metadata)
    return above if above.startswith("Deployment/") else object_name(owner.kind, info.namespace, owner.name)


def pending_replicas(session: Session, row: int, number: int) -> Replicas:
    """Return a number of pending pods that equal one, of a workload whose number of replicas is not known."""
    return ALONE if _has_own_claims(session.cluster.pods.infos[row].pod, "") else Replicas(None, (), number)


def _has_own_claims(pod: Pod, kind: str) -> bool:
    """Return whether a replica may mount something of its own, and is no example; `kind`: of the workload, if known."""
    shares = kind in _SHARING
    return bool(pod.spec.resource_claims) or any(
        (volume.ephemeral if shares else claim_name(pod, volume)) is not None for volume in pod.spec.volumes
    )
