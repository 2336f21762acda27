"""Node pools that are changed on paper, as Karpenter's controllers leave them.

Upstream: sigs.k8s.io/karpenter pkg/controllers/nodepool: hash, readiness, validation; pkg/apis/v1/nodepool.go Hash.
"""

from __future__ import annotations

from collections.abc import Hashable

from msgspec.structs import replace

from kplan.api.core import NodeCondition
from kplan.api.karpenter import HASH, HASH_VERSION, NodePool

_VERSION = "v3"
_CHANGED = "changed-on-paper"
_READY = tuple(
    NodeCondition(type=name, status="True", reason=name) for name in ("NodeClassReady", "Ready", "ValidationSucceeded")
)


def applied_pool(pool: NodePool, older: NodePool | None) -> NodePool:
    """Return a pool of a manifest with what controllers add: its nodes drift where the hash of its template changes.

    A new pool is taken for ready, as if its node class exists.
    """
    if older is None:
        annotations = {HASH_VERSION: _VERSION, HASH: _CHANGED} | pool.metadata.annotations
    else:
        known = {key: text for key, text in older.metadata.annotations.items() if key in {HASH, HASH_VERSION}}
        if known and _hashed(pool) != _hashed(older):
            known[HASH] = _CHANGED
        annotations = pool.metadata.annotations | known
    if not pool.status.conditions and older is None:
        pool = replace(pool, status=replace(pool.status, conditions=_READY))
    return replace(pool, metadata=replace(pool.metadata, annotations=annotations))


def _hashed(pool: NodePool) -> Hashable:
    """Return the fields of the template that the hash covers: not the requirements, which are compared themselves."""
    template, spec = pool.spec.template, pool.spec.template.spec
    return (
        frozenset(template.metadata.labels.items()),
        frozenset(template.metadata.annotations.items()),
        frozenset(spec.taints),
        frozenset(spec.startup_taints),
        spec.node_class_ref,
        spec.termination_grace_period,
        spec.expire_after,
    )
