"""Keeps pods near or away from other pods. Upstream: plugins/interpodaffinity."""

from kplan.plugins.inter_pod_affinity.filtering import (
    REASON_AFFINITY,
    REASON_ANTI_AFFINITY,
    REASON_EXISTING_ANTI_AFFINITY,
)
from kplan.plugins.inter_pod_affinity.plugin import InterPodAffinity

__all__ = ["REASON_AFFINITY", "REASON_ANTI_AFFINITY", "REASON_EXISTING_ANTI_AFFINITY", "InterPodAffinity"]
