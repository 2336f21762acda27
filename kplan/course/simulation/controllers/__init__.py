"""Kubernetes' workload controllers as pure functions from the wanted and the observed state to actions.

Each module has the name of upstream's controller and follows its source; none knows the others, the scheduler, or
the loop that carries out the actions.
"""
