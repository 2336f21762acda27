"""The minors of Kubernetes that kplan knows.

1.36 stands here in full; the others say how they differ from it, or from a minor between.

Upstream: pkg/features/kube_features.go, pkg/scheduler/framework/plugins/registry.go NewInTreeRegistry,
pkg/scheduler/apis/config/v1/default_plugins.go getDefaultPlugins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from kplan.config.releases.model import EVEN, HEAP, Gate, Patch, Release, Rules, Texts

_ON = Gate(is_on=True, stage="Beta")
_LOCKED = Gate(is_on=True, stage="GA", is_locked=True)
_ALPHA = Gate(is_on=False, stage="Alpha")
_OFF = Gate(is_on=False, stage="Beta")
_GA = Gate(is_on=True, stage="GA")
_DEVICES = ("DynamicResourceAllocation",)

V = TypeVar("V")


def _by_name(names: Mapping[V, str]) -> dict[str, V]:
    """Return the values of names, from the names that have each value, in one text."""
    return dict(sorted((name, value) for value, text in names.items() for name in text.split()))


V1_36 = Release(
    minor="1.36",
    source="v1.36.2",
    gates=_by_name(
        {
            _LOCKED: """
                DRAAdminAccess DynamicResourceAllocation InPlacePodVerticalScaling
                NodeInclusionPolicyInPodTopologySpread SchedulerQueueingHints SidecarContainers VolumeAttributesClass
            """,
            _GA: "DRAPrioritizedList",
            _ON: """
                DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource
                DRAPartitionableDevices DRAResourceClaimDeviceStatus DRASchedulerFilterTimeout
                InPlacePodLevelResourcesVerticalScaling MatchLabelKeysInPodTopologySpread
                MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures
                NominatedNodeNameForExpectation OpportunisticBatching PodLevelResources SchedulerAsyncPreemption
                SchedulerPopFromBackoffQ
            """,
            _OFF: "DRADeviceTaintRules MaxUnavailableStatefulSet SchedulerAsyncAPICalls",
            _ALPHA: """
                DRAListTypeAttributes DRANodeAllocatableResources DRAWorkloadResourceClaims GangScheduling
                GenericWorkload StorageCapacityScoring TaintTolerationComparisonOperators
                TopologyAwareWorkloadScheduling VolumeLimitScaling WorkloadAwarePreemption
            """,
        }
    ),
    needs=_by_name(
        {
            _DEVICES: """
                DRAAdminAccess DRAConsumableCapacity DRADeviceTaints DRAExtendedResource DRAListTypeAttributes
                DRANodeAllocatableResources DRAPartitionableDevices DRAPrioritizedList DRASchedulerFilterTimeout
            """,
            (*_DEVICES, "DRAResourceClaimDeviceStatus"): "DRADeviceBindingConditions",
            ("DRADeviceTaints",): "DRADeviceTaintRules",
            (*_DEVICES, "GenericWorkload"): "DRAWorkloadResourceClaims",
            ("GenericWorkload",): "GangScheduling TopologyAwareWorkloadScheduling",
            ("GangScheduling",): "WorkloadAwarePreemption",
            ("InPlacePodVerticalScaling", "PodLevelResources", "NodeDeclaredFeatures"): (
                "InPlacePodLevelResourcesVerticalScaling"
            ),
        }
    ),
    implements={
        "DefaultBinder": frozenset({"bind"}),
        "DefaultPreemption": frozenset({"pre_enqueue", "post_filter"}),
        "DynamicResources": frozenset(
            {"pre_enqueue", "pre_filter", "filter", "post_filter", "score", "reserve", "pre_bind"}
        ),
        "GangScheduling": frozenset({"pre_enqueue", "permit"}),
        "ImageLocality": frozenset({"score"}),
        "InterPodAffinity": frozenset({"pre_filter", "filter", "pre_score", "score"}),
        "NodeAffinity": frozenset({"pre_filter", "filter", "pre_score", "score"}),
        "NodeDeclaredFeatures": frozenset({"pre_filter", "filter"}),
        "NodeName": frozenset({"filter"}),
        "NodePorts": frozenset({"pre_filter", "filter"}),
        "NodeResourcesBalancedAllocation": frozenset({"pre_score", "score"}),
        "NodeResourcesFit": frozenset({"pre_filter", "filter", "pre_score", "score", "placement_score"}),
        "NodeUnschedulable": frozenset({"filter"}),
        "NodeVolumeLimits": frozenset({"pre_filter", "filter"}),
        "PodGroupPodsCount": frozenset({"placement_score"}),
        "PodTopologySpread": frozenset({"pre_filter", "filter", "pre_score", "score"}),
        "PrioritySort": frozenset({"queue_sort"}),
        "SchedulingGates": frozenset({"pre_enqueue"}),
        "TaintToleration": frozenset({"filter", "pre_score", "score"}),
        "TopologyPlacementGenerator": frozenset({"placement_generate"}),
        "VolumeBinding": frozenset({"pre_filter", "filter", "pre_score", "score", "reserve", "pre_bind"}),
        "VolumeRestrictions": frozenset({"pre_filter", "filter"}),
        "VolumeZone": frozenset({"pre_filter", "filter"}),
    },
    profile=(
        ("SchedulingGates", 0),
        ("PrioritySort", 0),
        ("NodeUnschedulable", 0),
        ("NodeName", 0),
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodePorts", 0),
        ("NodeResourcesFit", 1),
        ("VolumeRestrictions", 0),
        ("NodeVolumeLimits", 0),
        ("VolumeBinding", 0),
        ("VolumeZone", 0),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        # Before DefaultPreemption: giving back an idle ResourceClaim is better than evicting a pod.
        ("DynamicResources", 2),
        ("DefaultPreemption", 0),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
        ("DefaultBinder", 0),
        ("NodeDeclaredFeatures", 0),
        ("GangScheduling", 0),
        ("TopologyPlacementGenerator", 0),
        ("PodGroupPodsCount", 1),
    ),
    plugin_gates={
        "DynamicResources": "DynamicResourceAllocation",
        "GangScheduling": "GangScheduling",
        "NodeDeclaredFeatures": "NodeDeclaredFeatures",
        "PodGroupPodsCount": "TopologyAwareWorkloadScheduling",
        "TopologyPlacementGenerator": "TopologyAwareWorkloadScheduling",
    },
    removed_plugins=_by_name({"NodeVolumeLimits": "AzureDiskLimits CinderLimits EBSLimits GCEPDLimits"}),
    texts=Texts(
        untolerated_taint="node(s) had untolerated taint(s)",
        read_write_once_pod=(
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
            "another pod"
        ),
        queue_sort_differs="must be the same for all profiles",
        utilization_order="values must be sorted in increasing order",
        preemption_found="",
    ),
    rules=Rules(
        scores_change_of_balance=True,
        rejects_too_large_for_good=True,
        scores_image_volumes=True,
        migrates_portworx_by_annotation=False,
        counts_ports_of_sidecars=True,
        checks_ratio_by_type=True,
        nominates_gated_pods=False,
        ties=HEAP,
    ),
)

V1_35 = V1_36.but(
    minor="1.35",
    source="v1.35.6",
    gates=_by_name(
        {
            _LOCKED: "CSIMigrationPortworx",
            _GA: "VolumeAttributesClass",
            _ON: "DRAAdminAccess DRAPrioritizedList",
            _ALPHA: """
                DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaintRules DRADeviceTaints DRAExtendedResource
                DRAPartitionableDevices InPlacePodLevelResourcesVerticalScaling MutablePodResourcesForSuspendedJobs
                MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures
            """,
            None: """
                DRAListTypeAttributes DRANodeAllocatableResources DRAWorkloadResourceClaims
                TopologyAwareWorkloadScheduling WorkloadAwarePreemption
            """,
        }
    ),
    implements={
        "GangScheduling": frozenset({"pre_enqueue", "reserve", "permit"}),
        "NodeResourcesFit": frozenset({"pre_filter", "filter", "pre_score", "score"}),
        "PodGroupPodsCount": None,
        "TopologyPlacementGenerator": None,
    },
    absent_fields=frozenset({("Plugins", "placementGenerate"), ("Plugins", "placementScore")}),
    rules={
        "scores_change_of_balance": False,
        "scores_image_volumes": False,
        "migrates_portworx_by_annotation": True,
        "checks_ratio_by_type": False,
    },
)

V1_34 = V1_35.but(
    minor="1.34",
    source="v1.34.9",
    gates=_by_name(
        {
            _GA: "DynamicResourceAllocation",
            _ON: "InPlacePodVerticalScaling",
            _ALPHA: "MaxUnavailableStatefulSet NominatedNodeNameForExpectation",
            None: """
                DRADeviceTaintRules GangScheduling GenericWorkload InPlacePodLevelResourcesVerticalScaling
                MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures
                OpportunisticBatching TaintTolerationComparisonOperators VolumeLimitScaling
            """,
        }
    ),
    needs={},
    implements={
        "DynamicResources": frozenset({"pre_enqueue", "pre_filter", "filter", "post_filter", "reserve", "pre_bind"}),
        "GangScheduling": None,
        "NodeDeclaredFeatures": None,
    },
    weights={"DynamicResources": 0},
    absent_fields=frozenset({("DynamicResourcesArgs", "bindingTimeout")}),
    rules={"ties": EVEN},
    # The reason lost the taint's name in 1.35, and in 1.34 from 1.34.2 on.
    patches=(Patch(before=2, texts={"untolerated_taint": "node(s) had untolerated taint {{{key}: {value}}}"}),),
)

V1_33 = V1_34.but(
    minor="1.33",
    source="v1.33.13",
    gates=_by_name(
        {
            _ON: "SchedulerQueueingHints",
            _OFF: "DynamicResourceAllocation VolumeAttributesClass",
            _ALPHA: "DRAAdminAccess DRAPrioritizedList PodLevelResources",
            None: """
                DRAConsumableCapacity DRADeviceBindingConditions DRAExtendedResource DRASchedulerFilterTimeout
                NominatedNodeNameForExpectation SchedulerAsyncAPICalls
            """,
        }
    ),
    absent_fields=frozenset({("DynamicResourcesArgs", "*")}),
    texts={
        "untolerated_taint": "node(s) had untolerated taint {{{key}: {value}}}",
        "read_write_once_pod": (
            "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
        ),
        "queue_sort_differs": "queueSort must be the same for all profiles",
        "utilization_order": "utilization values must be sorted in increasing order",
    },
    rules={"rejects_too_large_for_good": False},
    # Host ports of restartable init containers count from 1.33.6 on.
    patches=(Patch(before=6, rules={"counts_ports_of_sidecars": False}),),
)

# By what its release notes and its table of feature gates say: nothing here was compared with 1.37's own code. What is
# known to differ besides, and is not followed, stands in docs/releases.md.
V1_37 = V1_36.but(
    minor="1.37",
    source="v1.37.0-rc.0",
    is_compared=False,
    gates=_by_name(
        {
            _LOCKED: "DRAExtendedResource DRAPrioritizedList NodeDeclaredFeatures",
            _GA: "DRADeviceTaintRules",
            _ON: "MaxUnavailableStatefulSet StorageCapacityScoring VolumeLimitScaling",
            _OFF: "GenericWorkload",
            _ALPHA: "InterPodAffinityHostnameFastPath SchedulerPreQueueingHints StatefulSetRecreateStrategy",
            None: "GangScheduling WorkloadAwarePreemption",
        }
    ),
    merged_gates={"GangScheduling": "GenericWorkload", "WorkloadAwarePreemption": "GenericWorkload"},
    texts={
        "preemption_found": "preemption: found a potential placement for pod on node {node}, preempting {n} victims"
    },
    rules={"nominates_gated_pods": True},
)

RELEASES = (
    V1_33,
    V1_34,
    V1_35,
    V1_36,
    V1_37,
)
"""The oldest first."""
