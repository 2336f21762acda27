"""What Karpenter asks of single pods: which are pending, can be moved, evicted, or hold their node.

Taints are compared as numbers, too, where a toleration says so.

Upstream: utils/pod/scheduling.go, utils/disruption/disruption.go, scheduling/taints.go; k8s.io/api core/v1
toleration.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kplan.api import tolerations as api
from kplan.api.core import Pod
from kplan.api.durations import parse_duration
from kplan.api.pod_totals import requests_of
from kplan.api.time import to_micros
from kplan.api.tolerations import NO_SCHEDULE, Taint, Toleration
from kplan.autoscaling.karpenter.amounts import ONE, Amounts
from kplan.autoscaling.karpenter.names import DISRUPTED
from kplan.autoscaling.karpenter.ports import HostPort, host_ports
from kplan.autoscaling.karpenter.volumes import Storage, Volumes
from kplan.rules.resources import PODS


def untolerated(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """Return the taints that no toleration tolerates, whatever their effect."""
    return api.untolerated(tuple(tolerations), tuple(taints), compares=True)


def tolerates_all(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> bool:
    """Tell whether every taint is tolerated."""
    return not untolerated(tolerations, taints)


_DISRUPTED_TAINT = (Taint(key=DISRUPTED, effect=NO_SCHEDULE),)
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class PodFacts:
    """Amounts, ports and volumes of pods, looked up once each."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._requests: dict[int, tuple[Pod, Amounts]] = {}

    def requests(self, pod: Pod) -> Amounts:
        """Return the exact requests of a pod, itself as one pod included."""
        known = self._requests.get(id(pod))
        if known is None:
            amounts = {name: quantity.nanos for name, quantity in requests_of(pod.spec).items()}
            amounts[PODS] = ONE
            known = self._requests[id(pod)] = (pod, amounts)
        return known[1]

    def ports(self, pod: Pod) -> tuple[HostPort, ...]:
        """Return the host ports of a pod."""
        return host_ports(pod)

    def volumes(self, pod: Pod) -> Volumes:
        """Return the claims of a pod, by driver."""
        return self._storage.usage(pod) if pod.spec.volumes else {}


def is_terminal(pod: Pod) -> bool:
    """Tell whether a pod has ended."""
    return pod.status.phase in {"Failed", "Succeeded"}


def is_terminating(pod: Pod) -> bool:
    """Tell whether a pod is being deleted."""
    return pod.metadata.deletion_timestamp is not None


def is_active(pod: Pod) -> bool:
    """Tell whether a pod runs, or is to run, and stays."""
    return not is_terminal(pod) and not is_terminating(pod)


def is_of_daemon_set(pod: Pod) -> bool:
    """Tell whether a daemon set owns a pod."""
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


def has_resource_claims(pod: Pod) -> bool:
    """Tell whether a container uses a resource claim."""
    return any(container.resources.claims for container in (*pod.spec.init_containers, *pod.spec.containers))


def eviction_cost(pod: Pod) -> float:
    """Return what it costs to evict a pod: by its annotation and priority, from -10 to 10."""
    cost = 1.0
    text = pod.metadata.annotations.deletion_cost
    if text and _FLOAT.fullmatch(text):
        cost += float(text) / 2.0**27
    if pod.spec.priority is not None:
        cost += pod.spec.priority / 2.0**25
    return min(max(cost, -10.0), 10.0)
