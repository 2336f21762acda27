"""PostFilter: the pods that a pod without a feasible node would preempt, the node, and why."""

from kplan.preemption.default_preemption import DefaultPreemption, preemptors
from kplan.preemption.result import PreemptionResult

__all__ = ["DefaultPreemption", "PreemptionResult", "preemptors"]
