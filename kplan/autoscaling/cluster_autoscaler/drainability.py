"""Whether the cluster-autoscaler may move the pods of a node, rule by rule, and the disruption budgets that it counts.

Upstream: cluster-autoscaler simulator/drainability/rules/, simulator/drain.go, core/scaledown/pdb/basic.go.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kplan.api.core import Pod
from kplan.api.kinds import POD_MAKERS
from kplan.api.labels import Selector, valid_selector
from kplan.api.meta import controller_of
from kplan.api.policy import PodDisruptionBudget
from kplan.autoscaling.cluster_autoscaler.options import Options
from kplan.autoscaling.cluster_autoscaler.pods import (
    created,
    is_daemon,
    is_long_terminating,
    is_mirror,
)
from kplan.snapshot.model import Snapshot

_SYSTEM = "kube-system"
_REPLICATED = frozenset({"ReplicationController", "Job", "ReplicaSet", "StatefulSet"})
_MEMORY = "Memory"


class Outcome(enum.Enum):
    """What a rule says about a pod."""

    DRAIN = enum.auto()
    SKIP = enum.auto()
    WAIT = enum.auto()


class Blocked(msgspec.Struct, frozen=True):
    """A pod may not be moved: the autoscaler's word for it, and its sentence."""

    reason: str
    message: str


Verdict = Outcome | Blocked | None
"""None: the rule does not decide."""


class _Budget(msgspec.Struct):
    namespace: str
    selector: Selector
    allowed: int


class Budgets:
    """How many disruptions each budget still allows."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget] = ()) -> None:
        self._budgets = [
            _Budget(budget.metadata.namespace, valid_selector(budget.spec.selector), budget.status.disruptions_allowed)
            for budget in budgets
        ]

    def allowances(self, pod: Pod) -> list[int]:
        """Return how many disruptions each budget of a pod allows."""
        return [budget.allowed for budget in self._budgets if _covers(budget, pod)]

    def allow_together(self, pods: Sequence[Pod]) -> bool:
        """Return whether some pods may be disrupted at the same time."""
        return all(budget.allowed >= sum(_covers(budget, pod) for pod in pods) for budget in self._budgets)

    def take(self, pods: Iterable[Pod]) -> None:
        """Count the disruption of some pods."""
        for pod in pods:
            for budget in self._budgets:
                if _covers(budget, pod):
                    budget.allowed -= 1


def _covers(budget: _Budget, pod: Pod) -> bool:
    return budget.namespace == pod.metadata.namespace and budget.selector.matches(pod.metadata.labels)


Owners = Mapping[tuple[str, str, str], Any]
"""Kind, namespace and name of the controllers that exist."""


def owners_of(snapshot: Snapshot) -> Owners:
    """Return the controllers of a cluster."""
    kinds = ((kind.name, snapshot.objects(kind.attribute)) for kind in POD_MAKERS.values())
    owners: Iterable[tuple[str, Any]] = ((kind, obj) for kind, objects in kinds for obj in objects)
    return {(kind, obj.metadata.namespace, obj.metadata.name): obj for kind, obj in owners}


class PodsToMove(msgspec.Struct):
    """The pods of a node that is to go; with `blocked`, only those before the pod that keeps it."""

    pods: list[Pod] = []
    daemons: list[Pod] = []
    waiting: list[Pod] = []  #: they are left to complete
    blocked_by: Pod | None = None
    blocked: Blocked | None = None


class Drainability:
    """The rules, in order; the first that decides about a pod counts.

    Parameters
    ----------
    owners : None if it does not matter whether controllers exist
    """

    def __init__(self, options: Options, owners: Owners | None, budgets: Budgets, now: int) -> None:
        self._options, self._owners, self._budgets, self._now = options, owners, budgets, now

    def pods_to_move(self, pods: Iterable[Pod]) -> PodsToMove:
        """Sort the pods of a node; GetPodsToMove."""
        result = PodsToMove()
        for pod in pods:
            verdict = self._verdict(pod)
            if isinstance(verdict, Blocked):
                result.blocked_by, result.blocked = pod, verdict
                return result
            if verdict is Outcome.WAIT:
                result.waiting.append(pod)
            elif verdict is not Outcome.SKIP:
                (result.daemons if is_daemon(pod) else result.pods).append(pod)
        return result

    def _verdict(self, pod: Pod) -> Verdict:
        """Return what the first rule says that decides."""
        evict = pod.metadata.annotations.safe_to_evict
        if is_mirror(pod) or is_long_terminating(pod, self._now):
            return Outcome.SKIP
        if (blocked := self._replica_count(pod)) is not None:
            return blocked
        if is_daemon(pod) or evict == "true" or _has_ended(pod):
            return Outcome.DRAIN
        if evict == "on-completion":
            return Outcome.WAIT
        rules = (self._replicated, self._system, self._not_safe_to_evict, self._local_storage, self._budget)
        return next((verdict for rule in rules if (verdict := rule(pod)) is not None), None)

    def _replica_count(self, pod: Pod) -> Verdict:
        """Block pods whose controller does not exist, or has few replicas."""
        owner = controller_of(pod.metadata)
        if not self._options.skip_nodes_with_custom_controller_pods or self._owners is None:
            return None
        if owner is None or owner.api_version.count("/") > 1:
            return None
        group, _, _ = owner.api_version.rpartition("/")
        key, words = pod.metadata.key, _OWNER_WORDS.get(owner.kind)
        if words is None or (owner.kind in ("DaemonSet", "StatefulSet") and group != "apps"):
            return None
        obj = self._owners.get((owner.kind, pod.metadata.namespace, owner.name))
        if obj is None:
            return Blocked("ControllerNotFound", words.format(key))
        if owner.kind in ("ReplicationController", "ReplicaSet"):
            replicas = obj.spec.replicas
            least = self._options.min_replica_count
            if replicas is not None and replicas < least:
                text = f"replication controller for {key} has too few replicas spec: {replicas} min: {least}"
                return Blocked("MinReplicasReached", text)
        return None

    def _replicated(self, pod: Pod) -> Verdict:
        owner = controller_of(pod.metadata)
        by_kind = self._options.skip_nodes_with_custom_controller_pods
        if owner is not None and (owner.kind in _REPLICATED or not by_kind):
            return None
        return Blocked("NotReplicated", f"{pod.metadata.key} is not replicated")

    def _system(self, pod: Pod) -> Verdict:
        is_of_system = self._options.skip_nodes_with_system_pods and pod.metadata.namespace == _SYSTEM
        if not is_of_system or self._budgets.allowances(pod):
            return None
        timeout = self._options.blocking_system_pod_distruption_timeout
        if pod.metadata.creation_timestamp is not None and created(pod) + timeout < self._now:
            return Outcome.DRAIN
        name = pod.metadata.name
        text = f"non-daemonset, non-mirrored, non-pdb-assigned kube-system pod present: {name}"
        return Blocked("UnmovableKubeSystemPod", text)

    def _not_safe_to_evict(self, pod: Pod) -> Verdict:
        if pod.metadata.annotations.safe_to_evict != "false":
            return None
        return Blocked("NotSafeToEvictAnnotation", f"pod annotated as not safe to evict present: {pod.metadata.name}")

    def _local_storage(self, pod: Pod) -> Verdict:
        safe = pod.metadata.annotations.safe_local_volumes.split(",")
        for volume in pod.spec.volumes if self._options.skip_nodes_with_local_storage else ():
            is_scratch = volume.empty_dir is not None and volume.empty_dir.medium != _MEMORY
            if (volume.host_path is not None or is_scratch) and volume.name not in safe:
                return Blocked("LocalStorageRequested", f"pod with local storage present: {pod.metadata.name}")
        return None

    def _budget(self, pod: Pod) -> Verdict:
        if any(allowed < 1 for allowed in self._budgets.allowances(pod)):
            return Blocked("NotEnoughPdb", f"not enough pod disruption budget to move {pod.metadata.key}")
        return None


def _has_ended(pod: Pod) -> bool:
    phase, policy = pod.status.phase, pod.spec.restart_policy
    return phase == "Failed" or (phase == "Succeeded" and policy in ("Never", "OnFailure"))


_OWNER_WORDS = {
    "ReplicationController": "replication controller for {} is not available",
    "ReplicaSet": "replication controller for {} is not available",
    "Job": "job for {} is not available",
    "StatefulSet": "statefulset for {} is not available",
    "DaemonSet": "daemonset for {} is not present",
}
