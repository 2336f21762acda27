"""Horizontal pod autoscalers (autoscaling/v2 and v1): the target and its bounds."""

from __future__ import annotations

from typing import ClassVar

from kplan.api.base import ApiObject, Int32, KubeStruct
from kplan.api.meta import PlainMeta


class CrossVersionObjectReference(KubeStruct, frozen=True):
    """The object that is scaled; it is in the autoscaler's namespace."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class HorizontalPodAutoscalerSpec(KubeStruct, frozen=True):
    """What is scaled, and between which bounds; an absent minimum is 1."""

    scale_target_ref: CrossVersionObjectReference = CrossVersionObjectReference()
    min_replicas: Int32 | None = None
    max_replicas: Int32 = 0


class HorizontalPodAutoscaler(ApiObject, frozen=True):
    """An autoscaler of replicas."""

    api_version: ClassVar[str] = "autoscaling/v2"
    kind: ClassVar[str] = "HorizontalPodAutoscaler"

    metadata: PlainMeta = PlainMeta()
    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()
