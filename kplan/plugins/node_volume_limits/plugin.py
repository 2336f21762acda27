"""Filter: attached volumes of each driver, with the pod's own, against what the node's CSINode allows.

Upstream: plugins/nodevolumelimits/csi.go. The gate VolumeLimitScaling is off by default, so a driver that is
not installed on a node sets no limit there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from kplan.documents.details import Detail, TooManyVolumes
from kplan.engine.arrays import BitArray, BoolArray, Int64Array
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.framework.interface import SKIP_SHAPE, CycleState, Handle, PreFilterResult, Scope
from kplan.plugins.node_volume_limits.attached import AttachedDelta, AttachedVolumes
from kplan.plugins.node_volume_limits.limits import LimitCatalogue, limits_of
from kplan.plugins.node_volume_limits.resolving import PodVolumes, concerns_limits
from kplan.rules.pod_info import PodInfo

REASON_MAX_VOLUME_COUNT_EXCEEDED = "node(s) exceed max volume count"

_WORD_BITS = 64


class _PreFilterState:
    """The volumes of the incoming pod, by number and by driver."""

    def __init__(self, resolved: PodVolumes, attached: AttachedVolumes) -> None:
        self.resolved = resolved
        self.numbers = [attached.number(volume) for volume in resolved.volumes]
        self.by_driver: dict[str, list[int]] = defaultdict(list)
        for number in self.numbers:
            self.by_driver[attached.volumes[number].driver].append(number)


class _Counts(NamedTuple):
    """One driver's volumes on the nodes of a view, int64 arrays of shape (n_view,), and whether they are too many."""

    limit: Int64Array
    used: Int64Array
    new: Int64Array
    is_over: BoolArray


class NodeVolumeLimits:
    """Rejects nodes that would hold more volumes of a driver than they can."""

    name: ClassVar[str] = "NodeVolumeLimits"
    scope: ClassVar[Scope] = Scope.CLUSTER

    def __init__(self, args: None, handle: Handle) -> None:
        self.listers = handle.listers
        self.cluster = handle.cluster

    @cached_property
    def catalogue(self) -> LimitCatalogue:
        """What CSINodes allow; looked up when the first pod with volumes comes."""
        return limits_of(self.cluster.nodes, self.listers)

    @cached_property
    def attached(self) -> AttachedVolumes:
        """Attached volumes of all nodes; counted when the first pod with volumes comes."""
        return AttachedVolumes(self.cluster, self.listers, self.catalogue.resolver)

    def reads(self, pod: PodInfo) -> Hashable:
        """Return nothing for pods without volumes, and all that others say."""
        return pod.shape if pod.pod.spec.volumes else None

    def pre_filter(self, cycle: CycleState) -> PreFilterResult | None:
        """Leave out pods without claims and without inline volumes of types that CSI took over."""
        if not concerns_limits(cycle.pod.pod):
            return SKIP_SHAPE
        resolved = self.catalogue.resolver.resolve(cycle.pod.pod, is_new=True)
        cycle.write(_PreFilterState(resolved, self.attached))
        return None

    def filter(self, cycle: CycleState, nodes: NodeView) -> Verdicts:
        """Reject nodes over a limit; nodes with a pod whose volumes cannot be told err, if they have limits at all."""
        state = cycle.read(_PreFilterState)
        if state.resolved.problem:
            return self._problem_verdicts(state.resolved, nodes)
        if not state.numbers or not self.catalogue.limits:
            return Verdicts.where(np.zeros(len(nodes), np.bool_), _PASS)
        self.attached.follow()
        delta = self.attached.delta(nodes, state.numbers)
        counts = {
            driver: self._counts(driver, numbers, nodes, delta)
            for driver, numbers in state.by_driver.items()
            if driver in self.catalogue.limits
        }
        exceeded = np.zeros(len(nodes), np.bool_)
        for count in counts.values():
            exceeded |= count.is_over

        def details(position: int) -> list[Detail]:
            return self._details(state, counts, position, nodes.row(position))

        reason = Reason(REASON_MAX_VOLUME_COUNT_EXCEEDED, Code.UNSCHEDULABLE, details)
        troubles = self._troubles(nodes)
        return _with_errors(exceeded, reason, troubles) if troubles else Verdicts.where(exceeded, reason)

    def _counts(self, driver: str, numbers: list[int], nodes: NodeView, delta: AttachedDelta) -> _Counts:
        """Count one driver's volumes on each node.

        A volume that is on the node with some pod already is not new. One that is there by its attachment alone is:
        upstream counts it twice.
        """
        new = np.full(len(self.cluster), len(numbers), np.int64)
        for number in numbers:
            new[self.attached.holder_rows(number)] -= 1
        new = nodes.take(new)
        if nodes.delta is not None:
            new = new - np.add.reduce([delta.held[number] for number in numbers])
        limit = nodes.take(self.catalogue.limits[driver])
        used = nodes.take(self.attached.used(driver)) + delta.used[driver]
        return _Counts(limit, used, new, (new > 0) & (used + new > limit))

    def _problem_verdicts(self, resolved: PodVolumes, nodes: NodeView) -> Verdicts:
        """Say why the incoming pod's own volumes cannot be told; inline volumes count where there is a CSINode only."""
        code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if resolved.is_missing_claim else Code.ERROR
        with_csi = nodes.take(self.catalogue.has_csi_node)
        if resolved.problem == resolved.claim_problem:
            return Verdicts.where(np.ones(len(nodes), np.bool_), Reason(resolved.problem, code))
        inline = (with_csi, Reason(resolved.problem, Code.ERROR))
        if not resolved.claim_problem:
            return Verdicts.first_of(inline)
        return Verdicts.first_of(inline, (~with_csi, Reason(resolved.claim_problem, code)))

    def _troubles(self, nodes: NodeView) -> dict[int, str]:
        """Return position -> why, for limited nodes with a pod whose volumes cannot be told."""
        if not self.attached.troubled and not self.attached.changes_trouble(nodes):
            return {}
        suspects = np.zeros(len(self.cluster), np.bool_)
        suspects[list(self.attached.troubled)] = True
        positions = set(np.flatnonzero(nodes.take(suspects)).tolist())
        if nodes.delta is not None:
            positions.update(nodes.delta.positions.tolist())
        limited = nodes.take(self.catalogue.is_limited)
        problems = {
            position: next(filter(None, map(self.attached.pod_problem, nodes.pods_at(position))), "")
            for position in sorted(positions)
            if limited[position]
        }
        return {position: problem for position, problem in problems.items() if problem}

    def _details(self, state: _PreFilterState, counts: dict[str, _Counts], position: int, row: int) -> list[Detail]:
        return [
            TooManyVolumes(
                driver=driver,
                limit=str(each.limit[position]),
                used=str(each.used[position]),
                attached_without_pod=str(self.attached.attached_only(driver, row)),
                new=str(each.new[position]),
                short=str(each.used[position] + each.new[position] - each.limit[position]),
                volumes=tuple(self.attached.volumes[number].label for number in state.by_driver[driver]),
            )
            for driver, each in counts.items()
            if each.is_over[position]
        ]


_PASS = Reason(REASON_MAX_VOLUME_COUNT_EXCEEDED, Code.UNSCHEDULABLE)


def _with_errors(exceeded: BoolArray, reason: Reason, troubles: dict[int, str]) -> Verdicts:
    """Let errors take the place of the reason; a bit for each distinct text, in words that are long enough."""
    texts = list(dict.fromkeys(troubles.values()))
    bits: BitArray = exceeded.astype(np.uint64 if len(texts) < _WORD_BITS else object)
    for position, text in troubles.items():
        bits[position] = 1 << (1 + texts.index(text))
    return Verdicts(bits, (reason, *(Reason(text, Code.ERROR) for text in texts)))
