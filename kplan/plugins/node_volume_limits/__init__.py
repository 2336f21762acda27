"""NodeVolumeLimits: no more attached volumes of a CSI driver than a node can hold."""

from kplan.plugins.node_volume_limits.plugin import REASON_MAX_VOLUME_COUNT_EXCEEDED, NodeVolumeLimits

__all__ = ["REASON_MAX_VOLUME_COUNT_EXCEEDED", "NodeVolumeLimits"]
