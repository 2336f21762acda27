"""The replicas of a workload of which at least one has no node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kplan.api.core import Pod
from kplan.documents.placement import Origin
from kplan.engine.cluster import NOWHERE
from kplan.framework.session import Session
from kplan.rules.volume_claims import claim_name


class Replicas(msgspec.Struct, frozen=True):
    """The pods that a question creates for a workload, at the time when one of them finds no node."""

    workload: str  #: such as Deployment default/web
    kind: str
    placed: tuple[int, ...]  #: rows of the replicas that have a node
    pending: int  #: number of the others: the pod itself, and those after it, which end as it does

    @property
    def total(self) -> int:
        """Number of wanted replicas."""
        return len(self.placed) + self.pending


ALONE = Replicas("", "Pod", (), 1)
"""A pod that is no replica of a workload."""


def replicas_of(
    session: Session, row: int, origins: Mapping[int, Origin], rows: Iterable[int], more: Mapping[int, int]
) -> Replicas:
    """Return the replicas of the workload that a pod belongs to.

    Parameters
    ----------
    rows : the pods that come from the same manifest
    more : row -> number of further replicas after that pod that are not created
    """
    origin, info = origins.get(row), session.cluster.pods.infos[row]
    if origin is None or origin.kind == "Pod" or _has_own_claims(info.pod):
        return ALONE
    namespace = info.namespace
    mine = [other for other in rows if session.cluster.pods.infos[other].namespace == namespace]
    placed = tuple(other for other in mine if session.cluster.node_of[other] != NOWHERE)
    pending = len(mine) - len(placed) + sum(more.get(other, 0) for other in mine)
    return Replicas(f"{origin.kind} {namespace}/{origin.name}", origin.kind, placed, pending)


def pending_replicas(session: Session, row: int, number: int) -> Replicas:
    """Return a number of pending pods that equal one, of a workload whose number of replicas is not known."""
    return ALONE if _has_own_claims(session.cluster.pods.infos[row].pod) else Replicas("", "", (), number)


def _has_own_claims(pod: Pod) -> bool:
    """Return whether each replica may mount or claim something of its own, so that one is no example for the others."""
    return bool(pod.spec.resource_claims) or any(claim_name(pod, volume) is not None for volume in pod.spec.volumes)
