"""NodeVolumeLimits: limits how many volumes of a CSI driver are attached to a node."""
