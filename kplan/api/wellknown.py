"""Well-known labels and annotations of Kubernetes that several packages read.

Upstream: k8s.io/api core/v1 well_known_labels.go.
"""

from __future__ import annotations

from typing import Final

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
CONTROL_PLANE: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
"""Labels, and keys of taints, of the nodes that run the control plane."""

BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
"""The key of the taint that the node lifecycle controller puts on cordoned nodes."""
ANNOTATION_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
"""The storage class of claims and volumes before there was a field for it; it still takes precedence."""
POOL_LABELS: Final = (
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "node-pool",
    "nodepool",
    "pool",
    "node.kubernetes.io/instance-type",
)
"""Labels for the name of a node pool; the first one that some node has counts."""
GATED_CONDITION: Final = "Scheduling is blocked due to non-empty scheduling gates"
"""What the API server writes into the condition PodScheduled of a pod with gates (registry/core/pod strategy.go)."""
