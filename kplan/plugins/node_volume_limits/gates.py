"""What CSI drivers ask for that the reference scheduler does not honour, because a feature is off by default.

Upstream: pkg/features/kube_features.go.
"""

from __future__ import annotations

from kplan.framework.features import UnmodelledFeature
from kplan.snapshot.model import Snapshot


def off_gate_features(snapshot: Snapshot) -> list[UnmodelledFeature]:
    """List the drivers that want pods kept off nodes on which they are not installed."""
    text = "pods are not kept off nodes on which the driver is not installed"
    return [
        UnmodelledFeature(f"CSIDriver/{driver.metadata.name}", "VolumeLimitScaling", text)
        for driver in snapshot.csi_drivers
        if driver.spec.prevent_pod_scheduling_if_missing
    ]
