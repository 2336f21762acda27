"""The plugin: compares attached volumes of each driver, with the pod's own, with the limits of the node's CSINode.

Upstream: plugins/nodevolumelimits/csi.go. With the gate VolumeLimitScaling a CSIDriver may also keep pods off nodes on
which it is not installed; without it such a driver sets no limit there.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from kplan.engine.arrays import BitArray, BoolArray, Int64Array
from kplan.engine.details import Detail, MissingDriver, TooManyVolumes
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.framework.interface import SKIP_SHAPE, CycleState, Handle, PreFilterResult, Scope
from kplan.plugins.node_volume_limits.limits import (
    AttachedDelta,
    AttachedVolumes,
    LimitCatalogue,
    PodVolumes,
    concerns_limits,
)
from kplan.rules.pod_info import read_by_volume_plugins

REASON_MAX_VOLUME_COUNT_EXCEEDED = "node(s) exceed max volume count"
REASON_NOT_INSTALLED = "{} CSI driver is not installed on the node"
SCALING_GATE = "VolumeLimitScaling"
"""The feature gate with which CSIDriver objects may keep pods off nodes that lack the driver."""

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
    """Volumes of a driver on the nodes of a view, int64 arrays of shape (n_view,), and whether they are too many."""

    limit: Int64Array
    used: Int64Array
    new: Int64Array
    is_over: BoolArray


class NodeVolumeLimits:
    """Rejects nodes that would have more attached volumes of a driver than their limit."""

    name: ClassVar[str] = "NodeVolumeLimits"
    scope: ClassVar[Scope] = Scope.CLUSTER
    reads = staticmethod(read_by_volume_plugins)

    def __init__(self, args: None, handle: Handle) -> None:
        self.listers = handle.listers
        self.cluster = handle.cluster
        self._checks_drivers = handle.release.is_on(SCALING_GATE)

    @cached_property
    def catalogue(self) -> LimitCatalogue:
        """Limits of the nodes; read when the first pod with volumes comes."""
        return self.listers.catalogue(LimitCatalogue, self.cluster.nodes)

    @cached_property
    def attached(self) -> AttachedVolumes:
        """Attached volumes of all nodes; counted when the first pod with volumes comes."""
        return AttachedVolumes(self.cluster, self.listers, self.catalogue.resolver)

    def pre_filter(self, cycle: CycleState) -> PreFilterResult | None:
        """Skip pods without claims and without inline volumes of migrated types."""
        if not concerns_limits(cycle.pod.pod):
            return SKIP_SHAPE
        resolved = self.catalogue.resolver.resolve(cycle.pod.pod, is_new=True)
        cycle.write(_PreFilterState(resolved, self.attached))
        return None

    def filter(self, cycle: CycleState, nodes: NodeView) -> Verdicts:
        """Reject nodes over a limit; fail on nodes with limits and a pod whose volumes cannot be resolved."""
        if cycle.find(_PreFilterState) is None and self.pre_filter(cycle) is not None:
            return Verdicts.accepting(len(nodes))  # PreFilter is disabled in the profile
        state = cycle.read(_PreFilterState)
        if state.resolved.problem:
            return self._problem_verdicts(state.resolved, nodes)
        verdicts = self._limit_verdicts(state, nodes)
        return self._with_missing_drivers(state, verdicts, nodes) if self._checks_drivers else verdicts

    def _with_missing_drivers(self, state: _PreFilterState, limits: Verdicts, nodes: NodeView) -> Verdicts:
        """Return the verdicts in which a driver that is not installed comes before limits.

        Of several drivers that a node lacks it is the first by volume; upstream names any of them.
        """
        missing: list[tuple[str, BoolArray]] = []
        for driver in state.by_driver:
            rows = self.catalogue.missing(driver, is_own=driver in state.resolved.own_drivers)
            if rows is not None and rows.any():
                missing.append((driver, nodes.take(rows)))
        if not missing:
            return limits
        return Verdicts.first_of(*((rows, _not_installed(driver)) for driver, rows in missing)).then(limits)

    def _limit_verdicts(self, state: _PreFilterState, nodes: NodeView) -> Verdicts:
        if not state.numbers or not self.catalogue.limits:
            return Verdicts.where(np.zeros(len(nodes), np.bool_), _PASS)
        self.attached.update()
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
        pod_problems = self._pod_problems(nodes)
        return _with_errors(exceeded, reason, pod_problems) if pod_problems else Verdicts.where(exceeded, reason)

    def _counts(self, driver: str, numbers: list[int], nodes: NodeView, delta: AttachedDelta) -> _Counts:
        """Count a driver's volumes on each node.

        A volume that a pod on the node uses already is not new. A volume with nothing but a VolumeAttachment there is:
        upstream counts it twice.
        """
        new = np.full(len(self.cluster), len(numbers), np.int64)
        for number in numbers:
            new[self.attached.holder_rows(number)] -= 1
        new = nodes.take(new)
        if nodes.delta is not None:
            new = new - np.add.reduce([delta.by_volume[number] for number in numbers])
        limit = nodes.take(self.catalogue.limits[driver])
        used = nodes.take(self.attached.used(driver)) + delta.by_driver[driver]
        return _Counts(limit, used, new, (new > 0) & (used + new > limit))

    def _problem_verdicts(self, resolved: PodVolumes, nodes: NodeView) -> Verdicts:
        """Return verdicts for a pod whose own volumes cannot be resolved; inline volumes count only with a CSINode."""
        code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if resolved.is_missing_claim else Code.ERROR
        with_csi = nodes.take(self.catalogue.has_csi_node)
        if resolved.problem == resolved.claim_problem:
            return Verdicts.where(np.ones(len(nodes), np.bool_), Reason(resolved.problem, code))
        inline = (with_csi, Reason(resolved.problem, Code.ERROR))
        if not resolved.claim_problem:
            return Verdicts.first_of(inline)
        return Verdicts.first_of(inline, (~with_csi, Reason(resolved.claim_problem, code)))

    def _pod_problems(self, nodes: NodeView) -> dict[int, str]:
        if not self.attached.unresolved and not self.attached.changes_unresolved(nodes):
            return {}
        has_unresolved = np.zeros(len(self.cluster), np.bool_)
        has_unresolved[list(self.attached.unresolved)] = True
        positions = set(np.flatnonzero(nodes.take(has_unresolved)).tolist())
        if nodes.delta is not None:
            positions.update(nodes.delta.positions.tolist())
        is_limited = nodes.take(self.catalogue.is_limited)
        problems = {
            position: next(filter(None, map(self.attached.pod_problem, nodes.pods_at(position))), "")
            for position in sorted(positions)
            if is_limited[position]
        }
        return {position: problem for position, problem in problems.items() if problem}

    def _details(self, state: _PreFilterState, counts: dict[str, _Counts], position: int, row: int) -> list[Detail]:
        return [
            TooManyVolumes(
                driver=driver,
                limit=str(count.limit[position]),
                used=str(count.used[position]),
                attached_without_pod=str(self.attached.attached_only(driver, row)),
                new=str(count.new[position]),
                short=str(count.used[position] + count.new[position] - count.limit[position]),
                volumes=tuple(self.attached.volumes[number].label for number in state.by_driver[driver]),
            )
            for driver, count in counts.items()
            if count.is_over[position]
        ]


_PASS = Reason(REASON_MAX_VOLUME_COUNT_EXCEEDED, Code.UNSCHEDULABLE)


def _not_installed(driver: str) -> Reason:
    return Reason(REASON_NOT_INSTALLED.format(driver), Code.UNSCHEDULABLE, lambda _: [MissingDriver(driver=driver)])


def _with_errors(exceeded: BoolArray, reason: Reason, pod_problems: dict[int, str]) -> Verdicts:
    """Return verdicts in which errors replace the reason; each distinct text has a bit, in integers of enough bits."""
    texts = list(dict.fromkeys(pod_problems.values()))
    bits: BitArray = exceeded.astype(np.uint64 if len(texts) < _WORD_BITS else object)
    for position, text in pod_problems.items():
        bits[position] = 1 << (1 + texts.index(text))
    return Verdicts(bits, (reason, *(Reason(text, Code.ERROR) for text in texts)))
