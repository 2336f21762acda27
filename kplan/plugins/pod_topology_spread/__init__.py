"""Keeps pods spread over the domains of a topology key. Upstream: plugins/podtopologyspread."""

from kplan.plugins.pod_topology_spread.plugin import REASON_LABEL_MISSING, REASON_SKEW, PodTopologySpread

__all__ = ["REASON_LABEL_MISSING", "REASON_SKEW", "PodTopologySpread"]
