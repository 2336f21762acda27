"""Kubernetes 1.33, by its differences from 1.34."""

from __future__ import annotations

from kplan.config.releases import v1_34
from kplan.config.releases.model import Gate, Patch

_ALPHA = Gate(is_on=False, stage="Alpha")
_OFF = Gate(is_on=False, stage="Beta")

RELEASE = v1_34.RELEASE.but(
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
        "SchedulerQueueingHints": Gate(is_on=True, stage="Beta"),
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
