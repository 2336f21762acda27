"""Keeps pods spread over the domains of a topology key. Upstream: plugins/podtopologyspread."""

from kplan.plugins.pod_topology_spread.filtering import REASON_LABEL_MISSING, REASON_SKEW
from kplan.plugins.pod_topology_spread.plugin import PodTopologySpread

__all__ = ["REASON_LABEL_MISSING", "REASON_SKEW", "PodTopologySpread"]
