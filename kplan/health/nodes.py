"""What a node is at this moment: when that is, which kubelets answered, whether it starts, is well, or leaves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from msgspec import UNSET, UnsetType

from kplan.api.core import Node
from kplan.api.labels import NETWORK_UNAVAILABLE, NOT_READY, OUT_OF_SERVICE
from kplan.api.meta import condition_of
from kplan.api.pod import ENDED
from kplan.api.quantity import InvalidQuantity, parse, readable
from kplan.api.time import seconds
from kplan.facts import Count, Document
from kplan.snapshot.model import Snapshot
from kplan.snapshot.own_file import LONGEST_MESSAGE

RENEWAL_SECONDS = 10.4  #: from a renewal to the next one, at most
_SLACK = 4.6  #: a renewal may take time, and so may a list of leases


def renewals(snapshot: Snapshot) -> dict[str, float]:
    """Return when each node's lease was renewed last, of those that have one."""
    times = {
        lease.metadata.name: seconds(lease.spec.renew_time)
        for lease in snapshot.leases
        if lease.metadata.name in snapshot.node_by_name
    }
    return {name: at for name, at in times.items() if at is not None}


def present(renewed: Mapping[str, float], latest: float) -> float | None:
    """Return when the leases were read, most likely; None without any.

    That is after the latest renewal and the time `latest`, and before the next renewal of any kubelet that answers.
    """
    answering = [at for at in renewed.values() if at >= max(renewed.values()) - RENEWAL_SECONDS]
    if not answering:
        return None
    earliest = max(*answering, latest)
    return (earliest + max(min(answering) + RENEWAL_SECONDS, earliest)) / 2


def silent_nodes(snapshot: Snapshot, renewed: Mapping[str, float], now: float) -> dict[str, float]:
    """Return the nodes whose kubelets do not answer, with the time when they were heard last."""
    reference = max(renewed.values(), default=now)
    silent: dict[str, float] = {}
    for node in snapshot.nodes:
        name = node.metadata.name
        heard = renewed.get(name)
        is_unknown = any((one.type, one.status) == ("Ready", "Unknown") for one in node.status.conditions)
        if is_unknown or (heard is not None and heard < reference - RENEWAL_SECONDS - _SLACK):
            silent[name] = now if heard is None else heard
    return silent


def moment(snapshot: Snapshot) -> float | None:
    """Return when a snapshot was taken, or the last moment of which it tells, in seconds since 1970."""
    return seconds(snapshot.taken_at) or snapshot.latest_known


NodeState = Literal[
    "being-deleted",
    "unreachable",
    "starting",
    "not-ready",
    "out-of-service",
    "cordoned",
    "disk-pressure",
    "memory-pressure",
    "pid-pressure",
    "network-unavailable",
    "full",
]
"""What a node can be besides well, the graver first.

`out-of-service` is tainted so, and not ready: its pods are removed. `full` has as many pods as it may have.
"""

STARTING_SECONDS = 15 * 60.0  #: for so long a node may take to be set up: the cluster-autoscaler's MaxNodeStartupTime

_STARTUP_TAINT = (
    r"((startup-taint|ignore-taint)\.cluster-autoscaler\.kubernetes\.io|readiness\.k8s\.io)/.+"
    r"|[^/]+/([^/]+-)?(not-?ready|unready|uninitialized|unregistered|initializing)"
)
_OF_CONDITIONS: Mapping[str, NodeState] = {
    "DiskPressure": "disk-pressure",
    "MemoryPressure": "memory-pressure",
    "PIDPressure": "pid-pressure",
    "NetworkUnavailable": "network-unavailable",
}
_OF_CONDITION_TAINTS = (NOT_READY, NETWORK_UNAVAILABLE)
"""Taints that follow conditions; on a node that starts they go as soon as it is ready."""


class UnusableResource(Document, frozen=True, kw_only=True):
    """A resource of which a node has more than can be used: its device plugin reports no, or fewer, healthy devices."""

    resource: str
    capacity: str
    allocatable: str = "0"

    @property
    def text(self) -> str:
        """What can be used of what there is: ``8 nvidia.com/gpu but only 6 are allocatable``."""
        only = "" if self.allocatable == "0" else "only "
        are = "is" if self.allocatable == "1" else "are"
        return f"{readable(self.capacity)} {self.resource} but {only}{self.allocatable} {are} allocatable"


class NodeHealth(Document, frozen=True, kw_only=True):
    """What a node is at present."""

    node: str
    states: tuple[NodeState, ...] = ()  #: the graver first; empty for a node that is well
    #: RFC 3339: since when it is unreachable or not ready, or when it was created, if it starts; null if unknown
    since: str | None = None
    message: str | UnsetType = UNSET  #: why it is not ready, as its kubelet says; absent where none says so
    startup_taints: tuple[str, ...] = ()  #: keys of taints that go by themselves once the node is set up
    is_overdue: bool = False  #: it starts, and should long have been ready
    finalizers: tuple[str, ...] = ()  #: whose work its deletion waits for
    unusable: tuple[UnusableResource, ...] = ()
    pods: Count = 0  #: how many pods run on it or are bound to it

    @property
    def is_coming(self) -> bool:
        """Whether it starts, so that its room is there as soon as it is set up."""
        return "starting" in self.states and not self.is_overdue and "being-deleted" not in self.states

    @property
    def is_silent(self) -> bool:
        """Whether no kubelet answers, so that no pod ends there."""
        return "unreachable" in self.states


def nodes_health(snapshot: Snapshot) -> dict[str, NodeHealth]:
    """Return what each node is at present."""
    now = moment(snapshot)
    silent = silent_nodes(snapshot, renewals(snapshot), now or 0.0)
    pods = Counter(pod.spec.node_name for pod in snapshot.pods if pod.status.phase not in ENDED)
    startup_taints = {
        (taint.key, taint.effect) for pool in snapshot.node_pools for taint in pool.spec.template.spec.startup_taints
    }
    return {
        node.metadata.name: _health(node, now, silent, pods[node.metadata.name], startup_taints)
        for node in snapshot.nodes
    }


def _health(
    node: Node, now: float | None, silent: Collection[str], n_pods: int, of_pools: Collection[tuple[str, str]]
) -> NodeHealth:
    name, created = node.metadata.name, seconds(node.metadata.creation_timestamp)
    ready = condition_of(node.status.conditions, "Ready")
    is_ready = ready is None or ready.status == "True"
    age = None if now is None or created is None else now - created
    is_young = age is not None and age < STARTING_SECONDS
    taints = tuple(
        dict.fromkeys(
            taint.key
            for taint in node.spec.taints
            if (taint.key, taint.effect) in of_pools
            or (is_young if taint.key in _OF_CONDITION_TAINTS else is_startup_taint(taint.key))
        )
    )
    starts = bool(taints) or (not is_ready and is_young)
    # A kubelet that has just come up has no lease yet, or none that it has renewed.
    is_silent = name in silent and not (starts and is_young)
    changed = None if ready is None or is_ready else ready.last_transition_time
    return NodeHealth(
        node=name,
        states=tuple(_states(node, n_pods, is_ready=is_ready, is_silent=is_silent, starts=starts)),
        since=node.metadata.creation_timestamp if starts and not is_silent else changed,
        message=UNSET if ready is None or is_ready or is_silent else ready.message[:LONGEST_MESSAGE].rstrip() or UNSET,
        startup_taints=taints,
        is_overdue=starts and not is_young and age is not None,
        finalizers=node.metadata.finalizers if node.metadata.deletion_timestamp else (),
        unusable=tuple(unusable_resources(node)),
        pods=n_pods,
    )


def _states(node: Node, n_pods: int, *, is_ready: bool, is_silent: bool, starts: bool) -> list[NodeState]:
    states: list[NodeState] = []
    if node.metadata.deletion_timestamp is not None:
        states.append("being-deleted")
    if is_silent:
        states.append("unreachable")
    elif starts:
        states.append("starting")
    elif not is_ready:
        states.append("not-ready")
    if (is_silent or not is_ready) and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints):
        states.append("out-of-service")
    if node.spec.unschedulable:
        states.append("cordoned")
    states += [
        _OF_CONDITIONS[one.type]
        for one in node.status.conditions
        if one.type in _OF_CONDITIONS and one.status == "True" and not is_silent
    ]
    if (most := _count(node.status.allocatable.get("pods"))) is not None and n_pods >= most:
        states.append("full")
    return states


def is_startup_taint(key: str) -> bool:
    """Tell whether a taint goes by itself once its node is set up, as far as its key says so."""
    return re.fullmatch(_STARTUP_TAINT, key) is not None


def unusable_resources(node: Node) -> Iterator[UnusableResource]:
    """Yield the devices of a node that are not healthy, so that it has more of them than it can give."""
    for resource, capacity in node.status.capacity.items():
        allocatable = _count(node.status.allocatable.get(resource, "0")) if "/" in resource else None
        if allocatable is not None and (_count(capacity) or 0) > allocatable:
            yield UnusableResource(resource=resource, capacity=str(capacity), allocatable=str(allocatable))


def _count(quantity: str | float | None) -> int | None:
    try:
        return None if quantity is None else parse(quantity).value()
    except InvalidQuantity:
        return None
