"""NodeVolumeLimits: no more attached volumes of a CSI driver than a node can hold."""
