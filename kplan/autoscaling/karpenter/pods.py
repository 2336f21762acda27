"""What Karpenter asks of pods: which are pending, can be moved or hold their node; their ports, costs and budgets.

Taints are compared as numbers, too, where a toleration says so.

Upstream: utils/pod/scheduling.go, utils/disruption/disruption.go, utils/pdb/pdb.go, scheduling/taints.go,
scheduling/hostportusage.go; k8s.io/api core/v1 toleration.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from kplan.api import affinity as api
from kplan.api.affinity import NO_SCHEDULE, Taint, Toleration
from kplan.api.core import Pod, requests_of
from kplan.api.labels import Selector, valid_selector
from kplan.api.provisioning import NEVER, NodeClaim
from kplan.api.time import SECOND, parse_duration, to_micros
from kplan.api.workloads import PodDisruptionBudget
from kplan.autoscaling.karpenter.amounts import ONE, Amounts
from kplan.autoscaling.karpenter.names import DISRUPTED
from kplan.autoscaling.karpenter.options import NEWEST, Release
from kplan.autoscaling.karpenter.volumes import Storage, Volumes
from kplan.rules.resources import PODS, has_no_status_resources, stored_totals

_ANY = "0.0.0.0"  # noqa: S104 - compared with, never bound to


class HostPort(NamedTuple):
    """A port of a node that a container uses."""

    address: IPv4Address | IPv6Address | None  #: None if it is no address
    port: int
    protocol: str

    def matches(self, other: HostPort) -> bool:
        """Tell whether two containers cannot have both on one node."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.address == other.address or any(
            address is not None and address.is_unspecified for address in (self.address, other.address)
        )


class PortConflict(NamedTuple):
    """Two host ports that exclude each other."""

    wanted: HostPort
    existing: HostPort


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    return tuple(
        HostPort(_address(port.host_ip or _ANY), port.host_port, port.protocol)
        for container in pod.spec.containers
        for port in container.ports
        if port.host_port
    )


def conflict(pod: str, wanted: tuple[HostPort, ...], used: Mapping[str, tuple[HostPort, ...]]) -> PortConflict | None:
    """Return the first conflict of a pod's ports with those of other pods on the node."""
    for port in wanted:
        for owner, ports in used.items():
            for existing in ports:
                if owner != pod and port.matches(existing):
                    return PortConflict(port, existing)
    return None


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def untolerated(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> tuple[Taint, ...]:
    return api.untolerated(tuple(tolerations), tuple(taints), compares=True)


def tolerates_all(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> bool:
    return not untolerated(tolerations, taints)


_DISRUPTED_TAINT = (Taint(key=DISRUPTED, effect=NO_SCHEDULE),)
_FLOAT = re.compile(r"[+-]?(\d++(?:\.\d*+)?|\.\d++)([eE][+-]?\d++)?", re.ASCII)


class PodFacts:
    """Amounts and volumes of pods."""

    def __init__(self, storage: Storage, release: Release = NEWEST) -> None:
        self.storage = storage
        self._release = release
        self._requests: dict[int, tuple[Pod, Amounts]] = {}

    def requests(self, pod: Pod) -> Amounts:
        """Return the exact requests of a pod, itself as one pod included."""
        known = self._requests.get(id(pod))
        if known is None:
            is_resized = self._release.counts_resizes and not has_no_status_resources(pod)
            requests = stored_totals(pod)[0] if is_resized else requests_of(pod.spec)
            amounts = {name: quantity.nanos for name, quantity in requests.items()}
            amounts[PODS] = ONE
            known = self._requests[id(pod)] = (pod, amounts)
        return known[1]

    def uses_claims(self, pod: Pod) -> bool:
        if self._release.claims_of_pods and pod.spec.resource_claims:
            return True
        return any(container.resources.claims for container in (*pod.spec.init_containers, *pod.spec.containers))

    def volumes(self, pod: Pod) -> Volumes:
        """Return the claims of a pod, by driver."""
        return self.storage.usage(pod) if pod.spec.volumes else {}


def is_pending(pod: Pod) -> bool:
    """Tell whether a pod waits to run."""
    return pod.status.phase == "Pending"


def is_terminal(pod: Pod) -> bool:
    return pod.status.phase in {"Failed", "Succeeded"}


def is_terminating(pod: Pod) -> bool:
    """Tell whether a pod is being deleted."""
    return pod.metadata.deletion_timestamp is not None


def is_active(pod: Pod) -> bool:
    """Tell whether a pod runs, or is to run, and stays."""
    return not is_terminal(pod) and not is_terminating(pod)


def is_of_daemon_set(pod: Pod) -> bool:
    return _is_owned(pod, "apps/v1", "DaemonSet")


def _is_of_node(pod: Pod) -> bool:
    return _is_owned(pod, "v1", "Node")


def _is_owned(pod: Pod, api_version: str, kind: str) -> bool:
    return any((owner.api_version, owner.kind) == (api_version, kind) for owner in pod.metadata.owner_references)


def is_provisionable(pod: Pod) -> bool:
    """Tell whether Karpenter makes room for a pod: the scheduler found none, and evicts none for it."""
    return (
        not pod.spec.node_name
        and not pod.status.nominated_node_name
        and any(
            condition.type == "PodScheduled" and condition.reason == "Unschedulable"
            for condition in pod.status.conditions
        )
        and not is_of_daemon_set(pod)
        and not _is_of_node(pod)
    )


def is_reschedulable(pod: Pod) -> bool:
    """Tell whether a pod needs a place elsewhere when its node goes."""
    comes_back = is_active(pod) or (_is_owned(pod, "apps/v1", "StatefulSet") and is_terminating(pod))
    return comes_back and not is_of_daemon_set(pod) and not _is_of_node(pod)


def is_evictable(pod: Pod, now: int) -> bool:
    """Tell whether budgets have a say about a pod."""
    return (
        is_active(pod)
        and not tolerates_all(pod.spec.tolerations, _DISRUPTED_TAINT)
        and not _is_of_node(pod)
        and not holds_its_node(pod, now)
    )


def is_disruptable(pod: Pod, now: int) -> bool:
    """Tell whether a pod lets its node go."""
    return not is_active(pod) or not holds_its_node(pod, now)


def holds_its_node(pod: Pod, now: int) -> bool:
    """Tell whether a pod is annotated not to be disrupted, for ever or still for a while."""
    wanted = pod.metadata.annotations.do_not_disrupt
    if wanted is None:
        return False
    if wanted == "true":
        return True
    duration = parse_duration(wanted)
    if duration is None or duration <= 0:
        return False
    started = pod.status.start_time
    return started is None or (now - to_micros(started)) * 1000 < duration


def eviction_cost(pod: Pod) -> float:
    """Return what it costs to evict a pod: by its annotation and priority, from -10 to 10."""
    cost = 1.0
    text = pod.metadata.annotations.deletion_cost
    if text and _FLOAT.fullmatch(text):
        cost += float(text) / 2.0**27
    if pod.spec.priority is not None:
        cost += pod.spec.priority / 2.0**25
    return min(max(cost, -10.0), 10.0)


def rescheduling_cost(pods: Iterable[Pod]) -> float:
    cost = 0.0
    for pod in pods:
        cost += eviction_cost(pod)
    return cost


NODE_COST = 1.0
"""What it costs to drain a node, whatever its pods."""


def move_cost(pods: Iterable[Pod]) -> float:
    """Return what it costs to drain a node and evict pods; a pod that gladly goes makes it no cheaper."""
    cost = NODE_COST
    for pod in pods:
        cost += max(0.0, eviction_cost(pod))
    return cost


def lifetime_remaining(claim: NodeClaim, now: int) -> float:
    """Return the part of its lifetime that a node has before it, from 0 to 1; 1 where it lives for ever."""
    lifetime = None if claim.spec.expire_after in (None, NEVER) else parse_duration(claim.spec.expire_after or "")
    if not lifetime:
        return 1.0 if lifetime is None else 0.0
    total = lifetime / SECOND
    age = (now - to_micros(claim.metadata.creation_timestamp or "1970-01-01T00:00:00Z")) / 10**6
    return min(max((total - age) / total, 0.0), 1.0)


def disruption_cost(pods: Iterable[Pod], claim: NodeClaim, now: int) -> float:
    return rescheduling_cost(pods) * lifetime_remaining(claim, now)


class Budgets:
    """The budgets of a cluster, at a moment (microseconds since 1970)."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget], now: int) -> None:
        self._now = now
        self._of_namespace: dict[str, list[tuple[PodDisruptionBudget, Selector]]] = {}
        for budget in sorted(budgets, key=lambda budget: budget.metadata.key):
            own = self._of_namespace.setdefault(budget.metadata.namespace, [])
            own.append((budget, valid_selector(budget.spec.selector)))

    def blocking(self, pod: Pod, *, for_ever: bool = False) -> tuple[str, ...]:
        """Return the budgets, NAMESPACE/NAME, that keep a pod from being evicted: now, or with `for_ever` at any time.

        Several budgets of one pod always do.
        """
        if not is_evictable(pod, self._now):
            return ()
        known = self._of_namespace.get(pod.metadata.namespace, ())
        own = [budget for budget, selector in known if selector.matches(pod.metadata.labels)]
        if len(own) > 1:
            return tuple(budget.metadata.key for budget in own)
        for budget in own:
            spec = budget.spec
            if spec.unhealthy_pod_eviction_policy == "AlwaysAllow" and _is_unready(pod):
                return ()
            allows_none = spec.max_unavailable in (0, "0%") or spec.min_available == "100%"
            if allows_none if for_ever else budget.status.disruptions_allowed == 0:
                return (budget.metadata.key,)
        return ()

    def lets_move(self, pod: Pod) -> bool:
        """Tell whether a pod can be moved to another node at present (upstream IsCurrentlyReschedulable)."""
        return is_reschedulable(pod) and is_disruptable(pod, self._now) and not self.blocking(pod, for_ever=True)


def _is_unready(pod: Pod) -> bool:
    return any(condition.type == "Ready" and condition.status == "False" for condition in pod.status.conditions)
