"""Kubernetes 1.35, by its differences from 1.36."""

from __future__ import annotations

from kplan.config.releases import v1_36
from kplan.config.releases.model import Gate

_ON = Gate(is_on=True, stage="Beta")
_ALPHA = Gate(is_on=False, stage="Alpha")

RELEASE = v1_36.RELEASE.but(
    minor="1.35",
    source="v1.35.6",
    gates={
        "CSIMigrationPortworx": Gate(is_on=True, stage="GA", is_locked=True),
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
