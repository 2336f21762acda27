"""What a controller sees of a pod, and the actions that it may return."""

from __future__ import annotations

import math

import msgspec

from kplan.api.meta import IntOrString
from kplan.rules.pod_info import PodInfo

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
    #: its volumes are not those of its stateful set, which took it over and cannot change them
    is_misfit: bool = False
    is_new: bool = False  #: it was created in this simulation
    order: int = 0  #: position in the order in which the controller got to know its pods
    is_terminating: bool = False  #: it was told to go, and is not gone yet; it is not ready then
    is_deleted: bool = False  #: it is told to go by a deletion, which gives it no condition DisruptionTarget
    is_fresh: bool = False  #: it is ready, but not yet for as long as ``minReadySeconds`` of its workload

    @staticmethod
    def created_as(info: PodInfo, row: int, now: float, wanted: Create | None = None, order: int = 0) -> ObservedPod:
        """Return a pod that is created in this simulation, and has no node yet."""
        own = row, info.namespace, info.name, info.uid
        place = ("", None, "") if wanted is None else (wanted.revision, wanted.index, wanted.node)
        return ObservedPod(*own, "", "Pending", now, None, *place, is_new=True, order=order)

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
    digits = amount.removesuffix("%")
    if digits == amount or not digits.lstrip("-").isdecimal() or len(digits) > len(str(2**31)):
        return 0
    share = int(digits) * total
    return -(-share // _ALL) if round_up else share // _ALL


def logarithmic_rank(since: float, now: float) -> int:
    """Return the order of magnitude of an age, in powers of two of nanoseconds; -1 for none.

    Upstream: logarithmicRankDiff (LogarithmicScaleDown). Pods of about the same age count as equally old.
    """
    age = (now - since) * 1e9
    return int(math.log2(age)) if age >= 1 else -1
