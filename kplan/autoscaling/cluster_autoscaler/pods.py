"""What the cluster-autoscaler makes of pods: their state and owners, which are alike, and which may be moved.

Upstream: cluster-autoscaler utils/pod/pod.go, utils/kubernetes/listers.go, utils/drain/drain.go, utils/utils.go;
simulator/drainability/rules/, simulator/drain.go, core/scaledown/pdb/basic.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from kplan.api.core import Node, Pod
from kplan.api.kinds import POD_MAKERS
from kplan.api.labels import valid_selector
from kplan.api.meta import controller_of
from kplan.api.pod import ENDED
from kplan.api.time import EPOCH, to_micros
from kplan.api.workloads import PodDisruptionBudget
from kplan.autoscaling.cluster_autoscaler.options import Options
from kplan.autoscaling.seam import reason_to_stay
from kplan.documents.nodes import KeptNode
from kplan.rules.pod_info import scheduled_condition
from kplan.snapshot.model import Snapshot

MAX_SHAPES = 10  #: so many different pods of a controller are remembered

_TPU = "cloud-tpus.google.com/"
_LONG_TERMINATING = 30_000_000
_GRACE_PERIOD = 30
_encoder = msgspec.json.Encoder(order="deterministic")


def placed_and_unschedulable(
    pods: Iterable[Pod], nodes: Iterable[Node], options: Options
) -> tuple[list[tuple[Pod, str]], list[Pod]]:
    """Return the pods that take room on nodes, with the names of these, and those that the scheduler found none for.

    Of the first, pods that run come before those for which room is made; of the second, those that the scheduler has
    not looked at come last. Pods that nobody acts on are left out.
    """
    scheduled, nominated, unschedulable, unprocessed = (list[Pod]() for _ in range(4))
    allowed = options.allowed_scheduler_names
    for pod in pods:
        if pod.status.phase in ENDED or (allowed and pod.spec.scheduler_name not in allowed):
            continue
        if pod.spec.node_name:
            scheduled.append(pod)
        elif pod.metadata.deletion_timestamp is not None:
            continue
        elif pod.status.nominated_node_name:
            nominated.append(pod)
        else:
            condition = scheduled_condition(pod)
            state = None if condition is None else (condition.status, condition.reason)
            if state == ("False", "Unschedulable"):
                unschedulable.append(pod)
            elif pod.spec.scheduler_name in options.bypassed_scheduler_names and state in (None, ("False", "")):
                unprocessed.append(pod)
    names = {node.metadata.name for node in nodes}
    placed = [
        (pod, name)
        for pod in (*scheduled, *nominated)
        if (name := pod.spec.node_name or pod.status.nominated_node_name) in names and not is_expendable(pod, options)
    ]
    return placed, [*unschedulable, *unprocessed]


def is_expendable(pod: Pod, options: Options) -> bool:
    """Return whether a pod is so unimportant that no node is added or kept for it."""
    return pod.spec.priority is not None and pod.spec.priority < options.expendable_pods_priority_cutoff


def is_daemon(pod: Pod) -> bool:
    owner = controller_of(pod.metadata)
    return (owner is not None and owner.kind == "DaemonSet") or pod.metadata.annotations.daemon_set_pod == "true"


def is_mirror(pod: Pod) -> bool:
    return pod.metadata.annotations.mirror is not None


def is_long_terminating(pod: Pod, now: int) -> bool:
    """Return whether a pod should have ended some time ago."""
    deleted = pod.metadata.deletion_timestamp
    if deleted is None:
        return False
    grace = pod.spec.termination_grace_period_seconds
    seconds = _GRACE_PERIOD if grace is None else grace
    return to_micros(deleted) + seconds * 1_000_000 + _LONG_TERMINATING < now


def created(pod: Pod) -> int:
    """Return when a pod was created, in microseconds; long ago if that is unknown."""
    return to_micros(pod.metadata.creation_timestamp or EPOCH)


def bound(pod: Pod, node: str) -> Pod:
    return pod if pod.spec.node_name == node else replace(pod, spec=replace(pod.spec, node_name=node))


def without_tpus(pod: Pod) -> Pod:
    """Return the pod without requests for TPUs, which the autoscaler does not look at."""
    if not any(name.startswith(_TPU) for container in pod.spec.containers for name in container.resources.requests):
        return pod
    containers = []
    for container in pod.spec.containers:
        others = {name: amount for name, amount in container.resources.requests.items() if not name.startswith(_TPU)}
        containers.append(replace(container, resources=replace(container.resources, requests=others)))
    return replace(pod, spec=replace(pod.spec, containers=tuple(containers)))


def likeness(pod: Pod) -> tuple[str, bytes] | None:
    """Return a key that pods of one controller share if they have equal labels and specs; None without controller."""
    owner = controller_of(pod.metadata)
    return None if owner is None else (owner.uid, _encoder.encode((pod.metadata.labels, pod.spec)))


def equivalence_groups(pods: Iterable[Pod]) -> list[list[Pod]]:
    """Return groups of pods that fit the same nodes, in the order of their first pods.

    Upstream: core/scaleup/equivalence/groups.go.
    """
    groups: list[list[Pod]] = []
    known: dict[str, dict[bytes, list[Pod]]] = {}
    for pod in pods:
        key = None if is_daemon(pod) else likeness(pod)
        if key is None:
            groups.append([pod])
            continue
        shapes = known.setdefault(key[0], {})
        if key[1] in shapes:
            shapes[key[1]].append(pod)
            continue
        groups.append([pod])
        if len(shapes) < MAX_SHAPES:
            shapes[key[1]] = groups[-1]
    return groups


class SimilarPods:
    """Remembers pods that fit nowhere, so that pods like them are not tried; scheduling/similar_pods.go."""

    def __init__(self) -> None:
        self._shapes: dict[str, set[bytes]] = {}

    def fits_nowhere(self, pod: Pod) -> bool:
        key = likeness(pod)
        return key is not None and key[1] in self._shapes.get(key[0], ())

    def note(self, pod: Pod) -> None:
        key = None if is_daemon(pod) else likeness(pod)
        if key is None:
            return
        shapes = self._shapes.setdefault(key[0], set())
        if len(shapes) < MAX_SHAPES:
            shapes.add(key[1])


_REPLICATED = frozenset({"ReplicationController", "Job", "ReplicaSet", "StatefulSet"})


class RemainingBudgets:
    """How many disruptions each budget still allows."""

    def __init__(self, budgets: Sequence[PodDisruptionBudget] = ()) -> None:
        self._budgets = [(one.metadata.namespace, valid_selector(one.spec.selector)) for one in budgets]
        self.allowed = [one.status.disruptions_allowed for one in budgets]

    def covering(self, pods: Iterable[Pod]) -> Counter[int]:
        """Return the budgets that count some pods, as indices of `allowed`, and how many of these each counts."""
        own = [(pod.metadata.namespace, pod.metadata.labels) for pod in pods]
        return Counter(
            index
            for index, (namespace, selector) in enumerate(self._budgets)
            for place, labels in own
            if place == namespace and selector.matches(labels)
        )

    def allow_together(self, pods: Iterable[Pod]) -> bool:
        return all(self.allowed[budget] >= count for budget, count in self.covering(pods).items())

    def take(self, pods: Iterable[Pod]) -> None:
        for budget, count in self.covering(pods).items():
            self.allowed[budget] -= count


Owners = Mapping[tuple[str, str, str], Any]  #: kind, namespace and name of the controllers that exist


def owners_of(snapshot: Snapshot) -> Owners:
    kinds = ((kind.name, snapshot.objects(kind.attribute)) for kind in POD_MAKERS.values())
    owners: Iterable[tuple[str, Any]] = ((kind, obj) for kind, objects in kinds for obj in objects)
    return {(kind, obj.metadata.namespace, obj.metadata.name): obj for kind, obj in owners}


class PodsToMove(msgspec.Struct):
    """The pods of a node that is to go, without daemons; with `blocked`, only those before the pod that keeps it."""

    pods: list[Pod] = []
    waiting: list[Pod] = []  #: they are left to complete
    blocked: KeptNode | None = None


class Drainability:
    """The rules, in order; the first that decides about a pod counts. Without `owners` all controllers exist."""

    def __init__(self, options: Options, owners: Owners | None, budgets: RemainingBudgets, now: int) -> None:
        self._options, self._owners, self.budgets, self.now = options, owners, budgets, now

    def pods_to_move(self, pods: Iterable[Pod]) -> PodsToMove:
        """Sort the pods of a node; GetPodsToMove."""
        result = PodsToMove()
        for pod in pods:
            if is_mirror(pod) or is_long_terminating(pod, self.now):
                continue
            result.blocked = self._blocked(pod)
            if result.blocked is not None:
                break
            waits = pod.metadata.annotations.safe_to_evict == "on-completion" and not _has_ended(pod)
            if not is_daemon(pod):
                (result.waiting if waits else result.pods).append(pod)
        return result

    def _blocked(self, pod: Pod) -> KeptNode | None:
        options, owner, key = self._options, controller_of(pod.metadata), pod.metadata.key
        if (blocked := self._replica_count(pod)) is not None:
            return blocked
        is_evictable = pod.metadata.annotations.safe_to_evict in ("true", "on-completion")
        if is_daemon(pod) or is_evictable or _has_ended(pod):
            return None
        if owner is None or (options.skip_nodes_with_custom_controller_pods and owner.kind not in _REPLICATED):
            return reason_to_stay("NotReplicated", f"{key} is not replicated", key)
        is_of_system = options.skip_nodes_with_system_pods and pod.metadata.namespace == "kube-system"
        if is_of_system and not self.budgets.covering([pod]):
            timeout = options.blocking_system_pod_distruption_timeout
            if pod.metadata.creation_timestamp is not None and created(pod) + timeout < self.now:
                return None  # it moves after a while, whatever the rules below say
            text = f"non-daemonset, non-mirrored, non-pdb-assigned kube-system pod present: {pod.metadata.name}"
            return reason_to_stay("UnmovableKubeSystemPod", text, key)
        return self._storage_and_budget(pod)

    def _replica_count(self, pod: Pod) -> KeptNode | None:
        owner = controller_of(pod.metadata)
        if not self._options.skip_nodes_with_custom_controller_pods or self._owners is None:
            return None
        if owner is None or owner.api_version.count("/") > 1:
            return None
        group, _, _ = owner.api_version.rpartition("/")
        key, words = pod.metadata.key, _OWNER_WORDS.get(owner.kind)
        # Of other owners of a pod that is annotated as one of a daemon set nothing is asked.
        is_unasked = is_daemon(pod) and owner.kind not in ("DaemonSet", "ReplicationController")
        if words is None or is_unasked or (owner.kind in ("DaemonSet", "StatefulSet") and group != "apps"):
            return None
        obj = self._owners.get((owner.kind, pod.metadata.namespace, owner.name))
        if obj is None:
            return reason_to_stay("ControllerNotFound", words.format(key), key)
        replicas = obj.spec.replicas if owner.kind in ("ReplicationController", "ReplicaSet") else None
        least = self._options.min_replica_count
        if replicas is None or replicas >= least:
            return None
        text = f"replication controller for {key} has too few replicas spec: {replicas} min: {least}"
        return reason_to_stay("MinReplicasReached", text, key)

    def _storage_and_budget(self, pod: Pod) -> KeptNode | None:
        key, name = pod.metadata.key, pod.metadata.name
        if pod.metadata.annotations.safe_to_evict == "false":
            return reason_to_stay(
                "NotSafeToEvictAnnotation", f"pod annotated as not safe to evict present: {name}", key
            )
        safe = pod.metadata.annotations.safe_local_volumes.split(",")
        for volume in pod.spec.volumes if self._options.skip_nodes_with_local_storage else ():
            is_scratch = volume.empty_dir is not None and volume.empty_dir.medium != "Memory"
            if (volume.host_path is not None or is_scratch) and volume.name not in safe:
                return reason_to_stay("LocalStorageRequested", f"pod with local storage present: {name}", key)
        if any(self.budgets.allowed[budget] < 1 for budget in self.budgets.covering([pod])):
            return reason_to_stay("NotEnoughPdb", f"not enough pod disruption budget to move {key}", key)
        return None


def _has_ended(pod: Pod) -> bool:
    phase = pod.status.phase
    return phase == "Failed" or (phase == "Succeeded" and pod.spec.restart_policy in ("Never", "OnFailure"))


_OWNER_WORDS = {
    "ReplicationController": "replication controller for {} is not available",
    "ReplicaSet": "replication controller for {} is not available",
    "Job": "job for {} is not available",
    "StatefulSet": "statefulset for {} is not available",
    "DaemonSet": "daemonset for {} is not present",
}
