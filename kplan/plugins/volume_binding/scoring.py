"""Scores nodes by how much of their storage a pod's unbound claims take, with the gate StorageCapacityScoring.

Upstream: plugins/volumebinding/scorer.go, volume_binding.go Score.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from kplan.api.core import PersistentVolumeClaim
from kplan.api.quantity import value
from kplan.engine.arrays import BoolArray, Int64Array, round_half_away
from kplan.framework.listers import Listers
from kplan.plugins.volume_binding.assumed import NO_VOLUME
from kplan.plugins.volume_binding.finding import Finding, StaticMatch
from kplan.plugins.volume_binding.provisioning import NO_SPACE, Provisioning
from kplan.rules.volume_claims import STORAGE, claim_class

_FULL = 100
_MAX_EXACT = np.iinfo(np.int64).max // _FULL


class _ClassSums:
    """What a pod requests of each storage class on every node, and what there is."""

    def __init__(self, n_nodes: int) -> None:
        self._n_nodes = n_nodes
        #: requested bytes, capacity in bytes and whether the class counts; arrays of shape (n_nodes,)
        self.by_class: defaultdict[str, tuple[Int64Array, Int64Array, BoolArray]] = defaultdict(
            lambda: (np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.bool_))
        )

    def score(self, by_utilization: Int64Array) -> Int64Array:
        """Return the rounded mean of the classes' scores on each node, 0 where no class counts."""
        total, n_classes = np.zeros(self._n_nodes, np.int64), np.zeros(self._n_nodes, np.int64)
        for requested, capacity, counts in self.by_class.values():
            total += np.where(counts, by_utilization[_utilization(requested, capacity)], 0)
            n_classes += counts
        return round_half_away(total / np.maximum(n_classes, 1))


def storage_scores(
    finding: Finding, listers: Listers, provisioning: Provisioning, by_utilization: Int64Array
) -> Int64Array:
    """Score every node by the storage that the pod's unbound claims take there, int64 of shape (n_nodes,).

    Where an existing volume would be bound, only such volumes count; else the claims that would be provisioned from
    storage whose capacity is reported. Volumes of a class add up, but the reported capacity of a class is one.

    Parameters
    ----------
    by_utilization : int64 array of shape (101,), score by percentage
    """
    n_nodes = len(finding.bits)
    binds = np.zeros(n_nodes, np.bool_)
    for match in finding.matches:
        binds |= match.indices != NO_VOLUME
    static, dynamic = _ClassSums(n_nodes), _ClassSums(n_nodes)
    for match in finding.matches:
        _add_bound(static, match)
    everywhere = np.ones(n_nodes, np.bool_)
    for claim in finding.selected:
        _add_provisioned(dynamic, claim, everywhere, listers, provisioning)
    for match in finding.matches:
        _add_provisioned(dynamic, match.claim, match.indices == NO_VOLUME, listers, provisioning)
    return np.where(binds, static.score(by_utilization), dynamic.score(by_utilization))


def _add_bound(sums: _ClassSums, match: StaticMatch) -> None:
    is_bound = match.indices != NO_VOLUME
    if not is_bound.any():
        return
    requested, capacity, counts = sums.by_class[claim_class(match.claim)]
    amounts = np.asarray([value(volume.spec.capacity.get(STORAGE, 0)) for volume in match.volumes.volumes], np.int64)
    capacity[is_bound] += amounts[match.indices[is_bound]]
    requested[is_bound] += value(match.claim.spec.resources.requests.get(STORAGE, 0))
    counts |= is_bound


def _add_provisioned(
    sums: _ClassSums,
    claim: PersistentVolumeClaim,
    is_missing: BoolArray,
    listers: Listers,
    provisioning: Provisioning,
) -> None:
    """Add a claim where it would be provisioned from storage with a reported capacity."""
    storage_class = listers.storage_classes.get(claim_class(claim))
    reported = None if storage_class is None else provisioning.reported(storage_class, claim)
    if storage_class is None or reported is None:
        return
    is_provisioned = is_missing & (reported != NO_SPACE)
    requested, capacity, counts = sums.by_class[storage_class.metadata.name]
    capacity[is_provisioned] = reported[is_provisioned]
    requested[is_provisioned] += value(claim.spec.resources.requests[STORAGE])
    counts |= is_provisioned


def _utilization(requested: Int64Array, capacity: Int64Array) -> Int64Array:
    """Return the percentage that is requested, 100 where it is more than there is."""
    fits = (capacity > 0) & (requested <= capacity)
    divisor = np.where(fits, capacity, 1)
    if int(requested.max(initial=0)) <= _MAX_EXACT:
        percent = np.where(fits, requested, 1) * _FULL // divisor
    else:  # int64 would wrap around, as it does upstream, whose score then means nothing
        percent = (requested.astype(np.object_) * _FULL // divisor.astype(np.object_)).clip(0, _FULL).astype(np.int64)
    return np.where(fits, percent, _FULL)
