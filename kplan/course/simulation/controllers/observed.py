"""What a controller sees of a pod, the actions that it may return, and the order in which it looks at pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

import msgspec

from kplan.api.labels import parse_int64
from kplan.api.meta import IntOrString
from kplan.rules.pod_info import PodInfo

IsOn = Callable[[str], bool]  #: tells whether a feature gate is on

T = TypeVar("T")

_ALL = 100


class ObservedPod(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A pod as its controller sees it; a bound pod is a new value."""

    row: int  #: its row in the pod table
    namespace: str
    name: str
    uid: str
    node: str  #: the node that it runs on; empty for none
    phase: str
    created: float  #: when it was created, seconds since 1970
    ready_since: float | None  #: since when it is ready; None while it is not
    revision: str = ""  #: revision of its template: the value of pod-template-hash or controller-revision-hash
    index: int | None = None  #: its ordinal in a stateful set, or completion index in a job; None where it has none
    target: str = ""  #: the node that a daemon pod is meant for; empty for others
    deletion_cost: int = 0  #: pods that cost less go first
    restarts: tuple[int, int] = (0, 0)  #: highest restart counts of its containers and of its sidecars
    is_misfit: bool = False  #: its volumes are not those of its stateful set, which took it over and cannot change them
    is_new: bool = False  #: it was created in this simulation
    order: int = 0  #: position in the order in which the controller got to know its pods
    is_terminating: bool = False  #: it was told to go, and is not gone yet; it is not ready then
    is_deleted: bool = False  #: it is told to go by a deletion, which gives it no condition DisruptionTarget
    owner: str = ""  #: key of the workload that owns it; empty for a pod of its own
    is_fresh: bool = False  #: it is ready, but not yet for as long as ``minReadySeconds`` of its workload

    @staticmethod
    def created_as(info: PodInfo, row: int, now: float, wanted: Create, order: int, *, owner: str = "") -> ObservedPod:
        """Return a pod that is created in this simulation, and has no node yet."""
        return ObservedPod(
            row=row,
            namespace=info.namespace,
            name=info.name,
            uid=info.uid,
            node="",
            phase="Pending",
            created=now,
            ready_since=None,
            owner=owner,
            revision=wanted.revision,
            index=wanted.index,
            target=wanted.node,
            is_new=True,
            order=order,
        )

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_ready(self) -> bool:
        return self.ready_since is not None

    @property
    def is_available(self) -> bool:
        """Whether it has been ready for ``minReadySeconds``; at once where the simulation has no clock."""
        return self.ready_since is not None and not self.is_fresh


class Create(msgspec.Struct, frozen=True, gc=False):
    """Create a pod."""

    because: str  #: why, in a few words
    revision: str = ""  #: revision of its template; empty where there is only one
    index: int | None = None  #: its ordinal in a stateful set, or completion index in a job
    node: str = ""  #: the node that a daemon pod is meant for


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Delete a pod."""

    pod: ObservedPod
    because: str


Action = Create | Delete


def scaled(amount: IntOrString, total: int, *, round_up: bool) -> int:
    """Return an absolute number as it is, and a percentage as that share of a total.

    A text that is no percentage counts as 0; an API server refuses it. Upstream: intstr GetScaledValueFromIntOrPercent.
    """
    if isinstance(amount, int):
        return amount
    share = (parse_int64(amount[:-1]) if amount.endswith("%") else None) or 0
    share *= total
    return -(-share // _ALL) if round_up else share // _ALL


PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}  #: the phases of pods in the order in which they are deleted
_GROUP = 8  #: how many entries of a Go map stand together; a map of no more is walked through in their order


def in_map_order(items: Sequence[T], draws: Random | None) -> list[T]:
    """Return items in an order in which Go walks through a map of them; in their own where nothing is drawn.

    A map of up to eight entries yields them in the order of insertion from a random place of eight on, which more often
    than any other is the first. Upstream: internal/runtime/maps Iter (Go 1.24).
    """
    if draws is None or len(items) <= 1:
        return list(items)
    if len(items) <= _GROUP:
        first = draws.randrange(_GROUP)
        return [*items[first:], *items[:first]] if first < len(items) else list(items)
    left = list(items)
    return [left.pop(draws.randrange(len(left))) for _ in items]


def count(replicas: int | None) -> int:
    return 1 if replicas is None else replicas
