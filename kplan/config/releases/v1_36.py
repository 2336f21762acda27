"""Kubernetes 1.36, told in full; the other minors are told by what they change.

Upstream: pkg/features/kube_features.go, pkg/scheduler/framework/plugins/registry.go NewInTreeRegistry,
pkg/scheduler/apis/config/v1/default_plugins.go getDefaultPlugins.
"""

from __future__ import annotations

from kplan.config.releases.model import HEAP, Gate, Release, Rules, Texts

_ON = Gate(is_on=True, stage="Beta")
_LOCKED = Gate(is_on=True, stage="GA", is_locked=True)
_ALPHA = Gate(is_on=False, stage="Alpha")
_OFF = Gate(is_on=False, stage="Beta")
_DEVICES = ("DynamicResourceAllocation",)

RELEASE = Release(
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
    ),
    rules=Rules(
        scores_change_of_balance=True,
        rejects_too_large_for_good=True,
        scores_image_volumes=True,
        migrates_portworx_by_annotation=False,
        counts_ports_of_sidecars=True,
        checks_ratio_by_type=True,
        ties=HEAP,
    ),
)
