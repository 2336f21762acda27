"""The labels, resources and words that Karpenter knows.

Upstream: apis/v1/labels.go, apis/v1/taints.go, cloudprovider/types.go.
"""

from __future__ import annotations

from kplan.api.labels import REGION, ZONE

NODEPOOL = "karpenter.sh/nodepool"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
REGISTERED = "karpenter.sh/registered"
INITIALIZED = "karpenter.sh/initialized"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ARCH = "kubernetes.io/arch"
OS = "kubernetes.io/os"
WINDOWS_BUILD = "node.kubernetes.io/windows-build"
RESERVATION_IDS = frozenset({"karpenter.kwok.sh/reservation-id", "karpenter.k8s.aws/capacity-reservation-id"})
"""The labels that name a reservation, by provider."""

SPOT = "spot"
ON_DEMAND = "on-demand"
RESERVED = "reserved"

WELL_KNOWN = frozenset({NODEPOOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD})

NODES = "nodes"
"""The resource of which every node has one, for the limits of pools."""

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
DISRUPTED = "karpenter.sh/disrupted"
UNREGISTERED = "karpenter.sh/unregistered"

DRA_DRIVERS = "karpenter.sh/requested-dra-drivers"
MIN_VALUES_RELAXED = "karpenter.sh/nodeclaim-min-values-relaxed"
PRICE_OVERLAID = "karpenter.sh/price-overlay-applied"
CAPACITY_OVERLAID = "karpenter.sh/capacity-overlay-applied"
