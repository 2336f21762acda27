"""Karpenter: which nodes it makes for pending pods, and which it removes, step by step as its code does.

A decision flows down these modules. `requirements` holds what is asked of nodes as sets of interned values; `catalogue`
reads instance types (`ec2` writes them), `instance_types` holds them, also as bit masks; `cluster` and
`pod_requirements` prepare pools, nodes and pods; `prepared` (with `scheduler`) and `disruption` (with `candidates` and
`commands`) decide, and `autoscaler` writes it down.

Where Karpenter walks a Go map, so that chance decides, the first by name is taken.

What releases do otherwise is in `options`.

Upstream: sigs.k8s.io/karpenter 1.14.1 and 1.13.0 (kubernetes-sigs/karpenter); docstrings name its files from ``pkg/``
on.
"""
