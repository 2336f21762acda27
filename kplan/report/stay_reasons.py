"""Why the cluster-autoscaler keeps a node, in words, and what would free the node."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"


class StayReason(msgspec.Struct, frozen=True):
    """What a reason means."""

    words: str
    remedy: str = ""  #: empty where there is nothing to do


_REASONS: Mapping[str, StayReason] = {
    "NotReplicated": StayReason(
        "a pod has no controller that would make it again",
        f'run the pod from a workload, or annotate it with {_EVICT}: "true"',
    ),
    "NotEnoughPdb": StayReason(
        "a disruption budget does not allow the eviction of a pod",
        "add replicas, or let the budget allow one disruption",
    ),
    "LocalStorageRequested": StayReason(
        "a pod has a volume on the node's disk",
        f"name the volume in the pod's annotation {_VOLUMES}, or set --skip-nodes-with-local-storage=false",
    ),
    "UnmovableKubeSystemPod": StayReason(
        "a pod of kube-system has no disruption budget",
        "give the pod a PodDisruptionBudget, or set --skip-nodes-with-system-pods=false",
    ),
    "NotSafeToEvictAnnotation": StayReason(
        'a pod is annotated with safe-to-evict: "false"', f"remove the annotation {_EVICT} from the pod"
    ),
    "ControllerNotFound": StayReason(
        "the controller of a pod no longer exists", "delete the pod, as nothing would make it again"
    ),
    "MinReplicasReached": StayReason(
        "the controller of a pod has too few replicas", "add replicas, or lower --min-replica-count"
    ),
    "BlockedByOnCompletionPod": StayReason("a pod is to be waited for until it ends"),
    "ScaleDownDisabledAnnotation": StayReason(
        "the node is annotated so that it is not removed", f"kubectl annotate node NODE {_DISABLED}-"
    ),
    "NotUnderutilized": StayReason(
        "the node is used too much", "raise --scale-down-utilization-threshold, if its pods should move closer together"
    ),
    "NoPlaceToMovePods": StayReason(
        "its pods fit on no other node", "kplan drain NODE shows which pods, and what would help"
    ),
    "NodeGroupMinSizeReached": StayReason("its group has its minimum size", "lower the minimum size of the group"),
    "MinimalResourceLimitExceeded": StayReason(
        "the cluster would fall below a limit", "lower --min-nodes-total, --cores-total or --memory-total"
    ),
    "NotAutoscaled": StayReason("it belongs to no node group"),
    "NotUnneededLongEnough": StayReason(
        "it has not been unneeded for long enough", "wait, or lower --scale-down-unneeded-time"
    ),
    "NotUnreadyLongEnough": StayReason(
        "it has not been unready for long enough", "wait, or lower --scale-down-unready-time"
    ),
    "ScaleDownUnreadyDisabled": StayReason("unready nodes are not removed", "set --scale-down-unready-enabled"),
    "AtomicScaleDownFailed": StayReason(
        "its group is removed as a whole or not at all, and another node stays", "free the other nodes of the group"
    ),
    "CurrentlyBeingDeleted": StayReason("it is being deleted already"),
    "ScaleDownInCooldown": StayReason(
        "nodes were added, removed or failed to go shortly before", "wait, or lower --scale-down-delay-after-add"
    ),
    "RecentlyUnremovable": StayReason("it was found shortly before that it has to stay", "wait five minutes"),
    "NotUnneededOtherReason": StayReason("it was not looked at"),
    "UnexpectedError": StayReason("its utilisation cannot be told"),
}


def stay_reason(reason: str) -> StayReason:
    """Return what a reason means; the reason itself where it is not one of the cluster-autoscaler's."""
    return _REASONS.get(reason) or StayReason(reason)
