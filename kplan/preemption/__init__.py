"""PostFilter: whom a pod that fits nowhere would evict, on which node, and why those."""

from kplan.preemption.default_preemption import DefaultPreemption
from kplan.preemption.result import PreemptionResult

__all__ = ["DefaultPreemption", "PreemptionResult"]
