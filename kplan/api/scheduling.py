"""Priority classes (scheduling.k8s.io/v1)."""

from __future__ import annotations

from typing import ClassVar

from kplan.api.base import ApiObject, Int32
from kplan.api.meta import PlainMeta


class PriorityClass(ApiObject, frozen=True):
    """A name for a priority, and whether pods of it may preempt."""

    api_version: ClassVar[str] = "scheduling.k8s.io/v1"
    kind: ClassVar[str] = "PriorityClass"

    metadata: PlainMeta = PlainMeta()
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None
