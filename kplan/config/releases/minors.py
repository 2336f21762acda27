"""The minors of Kubernetes that kplan knows.

1.36 stands here in full; the others say how they differ from it, or from a minor between.

Upstream: pkg/features/kube_features.go, pkg/scheduler/framework/plugins/registry.go NewInTreeRegistry,
pkg/scheduler/apis/config/v1/default_plugins.go getDefaultPlugins.
"""

from __future__ import annotations

from kplan.config.releases.model import EVEN, HEAP, Gate, Patch, Release, Rules, Texts

_ON = Gate(is_on=True, stage="Beta")
_LOCKED = Gate(is_on=True, stage="GA", is_locked=True)
_ALPHA = Gate(is_on=False, stage="Alpha")
_OFF = Gate(is_on=False, stage="Beta")
_DEVICES = ("DynamicResourceAllocation",)

V1_36 = Release(
    minor="1.36",
    source="v1.36.2",
    gates={
        "DRAAdminAccess": _LOCKED,
        "DRAConsumableCapacity": _ON,
        "DRADeviceBindingConditions": _ON,
        "DRADeviceTaintRules": _OFF,
        "DRADeviceTaints": _ON,
        "DRAExtendedResource": _ON,
        "DRAListTypeAttributes": _ALPHA,
        "DRANodeAllocatableResources": _ALPHA,
        "DRAPartitionableDevices": _ON,
        "DRAPrioritizedList": Gate(is_on=True, stage="GA"),
        "DRAResourceClaimDeviceStatus": _ON,
        "DRASchedulerFilterTimeout": _ON,
        "DRAWorkloadResourceClaims": _ALPHA,
        "DynamicResourceAllocation": _LOCKED,
        "GangScheduling": _ALPHA,
        "GenericWorkload": _ALPHA,
        "InPlacePodLevelResourcesVerticalScaling": _ON,
        "InPlacePodVerticalScaling": _LOCKED,
        "MatchLabelKeysInPodTopologySpread": _ON,
        "MaxUnavailableStatefulSet": _OFF,
        "MutablePodResourcesForSuspendedJobs": _ON,
        "MutableSchedulingDirectivesForSuspendedJobs": _ON,
        "NodeDeclaredFeatures": _ON,
        "NodeInclusionPolicyInPodTopologySpread": _LOCKED,
        "NominatedNodeNameForExpectation": _ON,
        "OpportunisticBatching": _ON,
        "PodLevelResources": _ON,
        "SchedulerAsyncAPICalls": _OFF,
        "SchedulerAsyncPreemption": _ON,
        "SchedulerPopFromBackoffQ": _ON,
        "SchedulerQueueingHints": _LOCKED,
        "SidecarContainers": _LOCKED,
        "StorageCapacityScoring": _ALPHA,
        "TaintTolerationComparisonOperators": _ALPHA,
        "TopologyAwareWorkloadScheduling": _ALPHA,
        "VolumeAttributesClass": _LOCKED,
        "VolumeLimitScaling": _ALPHA,
        "WorkloadAwarePreemption": _ALPHA,
    },
    needs={
        "DRAAdminAccess": _DEVICES,
        "DRAConsumableCapacity": _DEVICES,
        "DRADeviceBindingConditions": (*_DEVICES, "DRAResourceClaimDeviceStatus"),
        "DRADeviceTaintRules": ("DRADeviceTaints",),
        "DRADeviceTaints": _DEVICES,
        "DRAExtendedResource": _DEVICES,
        "DRAListTypeAttributes": _DEVICES,
        "DRANodeAllocatableResources": _DEVICES,
        "DRAPartitionableDevices": _DEVICES,
        "DRAPrioritizedList": _DEVICES,
        "DRASchedulerFilterTimeout": _DEVICES,
        "DRAWorkloadResourceClaims": (*_DEVICES, "GenericWorkload"),
        "GangScheduling": ("GenericWorkload",),
        "InPlacePodLevelResourcesVerticalScaling": (
            "InPlacePodVerticalScaling",
            "PodLevelResources",
            "NodeDeclaredFeatures",
        ),
        "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
        "WorkloadAwarePreemption": ("GangScheduling",),
    },
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
    removed_plugins={
        "AzureDiskLimits": "NodeVolumeLimits",
        "CinderLimits": "NodeVolumeLimits",
        "EBSLimits": "NodeVolumeLimits",
        "GCEPDLimits": "NodeVolumeLimits",
    },
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
    gates={
        "CSIMigrationPortworx": _LOCKED,
        "DRAAdminAccess": _ON,
        "DRAConsumableCapacity": _ALPHA,
        "DRADeviceBindingConditions": _ALPHA,
        "DRADeviceTaintRules": _ALPHA,
        "DRADeviceTaints": _ALPHA,
        "DRAExtendedResource": _ALPHA,
        "DRAListTypeAttributes": None,
        "DRANodeAllocatableResources": None,
        "DRAPartitionableDevices": _ALPHA,
        "DRAPrioritizedList": _ON,
        "DRAWorkloadResourceClaims": None,
        "InPlacePodLevelResourcesVerticalScaling": _ALPHA,
        "MutablePodResourcesForSuspendedJobs": _ALPHA,
        "MutableSchedulingDirectivesForSuspendedJobs": _ALPHA,
        "NodeDeclaredFeatures": _ALPHA,
        "TopologyAwareWorkloadScheduling": None,
        "VolumeAttributesClass": Gate(is_on=True, stage="GA"),
        "WorkloadAwarePreemption": None,
    },
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
    gates={
        "DRADeviceTaintRules": None,
        "DynamicResourceAllocation": Gate(is_on=True, stage="GA"),
        "GangScheduling": None,
        "GenericWorkload": None,
        "InPlacePodLevelResourcesVerticalScaling": None,
        "InPlacePodVerticalScaling": _ON,
        "MaxUnavailableStatefulSet": _ALPHA,
        "MutablePodResourcesForSuspendedJobs": None,
        "MutableSchedulingDirectivesForSuspendedJobs": None,
        "NodeDeclaredFeatures": None,
        "NominatedNodeNameForExpectation": _ALPHA,
        "OpportunisticBatching": None,
        "TaintTolerationComparisonOperators": None,
        "VolumeLimitScaling": None,
    },
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
    gates={
        "DRAAdminAccess": _ALPHA,
        "DRAConsumableCapacity": None,
        "DRADeviceBindingConditions": None,
        "DRAExtendedResource": None,
        "DRAPrioritizedList": _ALPHA,
        "DRASchedulerFilterTimeout": None,
        "DynamicResourceAllocation": _OFF,
        "NominatedNodeNameForExpectation": None,
        "PodLevelResources": _ALPHA,
        "SchedulerAsyncAPICalls": None,
        "SchedulerQueueingHints": _ON,
        "VolumeAttributesClass": _OFF,
    },
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
    gates={
        "DRADeviceTaintRules": Gate(is_on=True, stage="GA"),
        "DRAExtendedResource": _LOCKED,
        "DRAPrioritizedList": _LOCKED,
        "GangScheduling": None,
        "GenericWorkload": _OFF,
        "InterPodAffinityHostnameFastPath": _ALPHA,
        "MaxUnavailableStatefulSet": _ON,
        "NodeDeclaredFeatures": _LOCKED,
        "SchedulerPreQueueingHints": _ALPHA,
        "StatefulSetRecreateStrategy": _ALPHA,
        "StorageCapacityScoring": _ON,
        "VolumeLimitScaling": _ON,
        "WorkloadAwarePreemption": None,
    },
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
