"""VolumeBinding: a pod goes where its bound volumes can be reached and the others can be found or made."""

from kplan.plugins.volume_binding.finding import (
    REASON_BIND_CONFLICT,
    REASON_NODE_CONFLICT,
    REASON_NOT_ENOUGH_SPACE,
    REASON_PV_NOT_EXIST,
)
from kplan.plugins.volume_binding.plugin import VolumeBinding

__all__ = [
    "REASON_BIND_CONFLICT",
    "REASON_NODE_CONFLICT",
    "REASON_NOT_ENOUGH_SPACE",
    "REASON_PV_NOT_EXIST",
    "VolumeBinding",
]
