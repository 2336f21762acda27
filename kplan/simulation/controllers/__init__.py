"""Kubernetes' workload controllers as pure functions: what is wanted and what is there in, actions out.

Each module is named as upstream's controller and follows its source; none knows of the others, of the scheduler, or of
the loop that carries out what they say.
"""
