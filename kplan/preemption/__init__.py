"""PostFilter: the pods that a pod without a feasible node would preempt, the node, and why."""
