"""Which nodes Karpenter removes or replaces, by what reason, and why others stay.

Five methods are asked in turn (`methods`); the first that finds something acts. All of them simulate a scheduling pass
without the nodes in question.

Upstream: pkg/controllers/disruption.
"""
