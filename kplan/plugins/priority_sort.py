"""PrioritySort: orders the queue by priority.

Upstream: plugins/queuesort/priority_sort.go.
"""

from __future__ import annotations

from typing import ClassVar

from kplan.api.time import to_micros
from kplan.framework.interface import Handle, Scope
from kplan.rules.pod_info import PodInfo

_NOT_YET = 2**62  #: queue time of a pod that is in no API server yet: after all that are


class PrioritySort:
    """Puts pods of higher priority first, and among equals the one that entered the queue earlier.

    A scheduler that has just started queues pods in the order of their creation, so the creation time stands for the
    time in the queue.
    """

    name: ClassVar[str] = "PrioritySort"
    scope: ClassVar[Scope] = Scope.NODE_OBJECT

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def sort_key(self, pod: PodInfo) -> tuple[int, int]:
        created = pod.pod.metadata.creation_timestamp
        return -pod.priority, _NOT_YET if created is None else to_micros(created)
