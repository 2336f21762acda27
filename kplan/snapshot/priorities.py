"""Priority classes: the priority and preemption policy of a pod.

Upstream: plugin/pkg/admission/priority and pkg/apis/scheduling helpers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from kplan.api.core import Pod
from kplan.api.scheduling import PriorityClass

#: Classes that every cluster has.
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"


class ResolvedPriority(NamedTuple):
    """The fields that admission sets in a pod."""

    class_name: str
    priority: int
    preemption_policy: str

    def applied_to(self, pod: Pod) -> Pod:
        """Return the pod with this priority, and with this preemption policy if it has none."""
        spec = replace(
            pod.spec,
            priority=self.priority,
            priority_class_name=self.class_name,
            preemption_policy=pod.spec.preemption_policy or self.preemption_policy,
        )
        return replace(pod, spec=spec)


def resolve_priority(class_name: str, classes: Iterable[PriorityClass]) -> ResolvedPriority | None:
    """Return the priority of a class; without a name, of the default class, or 0. None for an unknown class."""
    classes = tuple(classes)
    if not class_name:
        default = default_priority_class(classes)
        return _of(default) if default else ResolvedPriority("", 0, _PREEMPT_LOWER_PRIORITY)
    priority_class = next((entry for entry in classes if entry.metadata.name == class_name), None)
    if priority_class is not None:
        return _of(priority_class)
    if class_name in SYSTEM_PRIORITIES:
        return ResolvedPriority(class_name, SYSTEM_PRIORITIES[class_name], _PREEMPT_LOWER_PRIORITY)
    return None


def default_priority_class(classes: Iterable[PriorityClass]) -> PriorityClass | None:
    """Return the global default, the lowest where there are several."""
    return min((entry for entry in classes if entry.global_default), key=lambda entry: entry.value, default=None)


def _of(entry: PriorityClass) -> ResolvedPriority:
    return ResolvedPriority(entry.metadata.name, entry.value, entry.preemption_policy or _PREEMPT_LOWER_PRIORITY)
