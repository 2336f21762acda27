"""The replicas of a workload, of which one finds no node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kplan.api.core import Pod
from kplan.documents.placement import Origin
from kplan.engine.cluster import NOWHERE
from kplan.framework.session import Session
from kplan.rules.volume_claims import claim_name


class Replicas(msgspec.Struct, frozen=True):
    """The pods of a workload that a question brings into the cluster, as things are when one of them finds no node."""

    workload: str  #: such as Deployment default/web
    kind: str
    placed: tuple[int, ...]
    pending: int  #: the pod itself, and those that follow it and end as it does

    @property
    def total(self) -> int:
        """How many there are to be."""
        return len(self.placed) + self.pending


ALONE = Replicas("", "Pod", (), 1)
"""A pod of its own."""


def replicas_of(
    session: Session, row: int, origins: Mapping[int, Origin], rows: Iterable[int], more: Mapping[int, int]
) -> Replicas:
    """Return the pods of the workload that a pod belongs to.

    `rows` are those that come from the same manifest; `more` says of some how many replicas follow that are not made.
    """
    origin, info = origins.get(row), session.cluster.pods.infos[row]
    if origin is None or origin.kind == "Pod" or _has_its_own(info.pod):
        return ALONE
    namespace = info.namespace
    mine = [each for each in rows if session.cluster.pods.infos[each].namespace == namespace]
    placed = tuple(each for each in mine if session.cluster.node_of[each] != NOWHERE)
    pending = len(mine) - len(placed) + sum(more.get(each, 0) for each in mine)
    return Replicas(f"{origin.kind} {namespace}/{origin.name}", origin.kind, placed, pending)


def waiting(session: Session, row: int, number: int) -> Replicas:
    """Return so many pods that wait and are like one, of which nobody says how many there are to be."""
    has_its_own = _has_its_own(session.cluster.pods.infos[row].pod)
    return ALONE if has_its_own else Replicas("", "", (), number)


def _has_its_own(pod: Pod) -> bool:
    """Tell whether replicas mount or claim each its own, so that one says nothing of the others."""
    return bool(pod.spec.resource_claims) or any(claim_name(pod, volume) is not None for volume in pod.spec.volumes)
