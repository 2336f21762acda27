"""Kubernetes 1.34, by its differences from 1.35."""

from __future__ import annotations

from kplan.config.releases import v1_35
from kplan.config.releases.model import EVEN, Gate, Patch

RELEASE = v1_35.RELEASE.but(
    minor="1.34",
    source="v1.34.9",
    gates={
        "DRADeviceTaintRules": None,
        "DynamicResourceAllocation": Gate(is_on=True, stage="GA"),
        "GangScheduling": None,
        "GenericWorkload": None,
        "InPlacePodLevelResourcesVerticalScaling": None,
        "InPlacePodVerticalScaling": Gate(is_on=True, stage="Beta"),
        "MaxUnavailableStatefulSet": Gate(is_on=False, stage="Alpha"),
        "MutablePodResourcesForSuspendedJobs": None,
        "MutableSchedulingDirectivesForSuspendedJobs": None,
        "NodeDeclaredFeatures": None,
        "NominatedNodeNameForExpectation": Gate(is_on=False, stage="Alpha"),
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
