"""Kubernetes 1.37, by what its release notes and its table of feature gates say differs from 1.36.

Nothing here was compared with 1.37's own code. What is known to differ besides, and is not followed, stands in
docs/releases.md.
"""

from __future__ import annotations

from kplan.config.releases import v1_36
from kplan.config.releases.model import Gate

_ON = Gate(is_on=True, stage="Beta")
_OFF = Gate(is_on=False, stage="Beta")
_ALPHA = Gate(is_on=False, stage="Alpha")
_LOCKED = Gate(is_on=True, stage="GA", is_locked=True)

RELEASE = v1_36.RELEASE.but(
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
