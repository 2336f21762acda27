"""Features of CSI drivers that the reference scheduler ignores, because their gates are off by default.

Upstream: pkg/features/kube_features.go.
"""

from __future__ import annotations

from kplan.framework.features import UnmodelledFeature
from kplan.snapshot.model import Snapshot


def off_gate_features(snapshot: Snapshot) -> list[UnmodelledFeature]:
    """Return the drivers that would keep pods off nodes on which they are not installed."""
    text = "pods may be placed on nodes on which the driver is not installed"
    return [
        UnmodelledFeature(f"CSIDriver/{driver.metadata.name}", "VolumeLimitScaling", text)
        for driver in snapshot.csi_drivers
        if driver.spec.prevent_pod_scheduling_if_missing
    ]
