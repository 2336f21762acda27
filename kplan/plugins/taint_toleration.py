"""TaintToleration: rejects nodes with untolerated taints, and prefers nodes with few PreferNoSchedule taints.

Upstream: plugins/tainttoleration/taint_toleration.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from kplan.api.affinity import COMPARISON_GATE, PREFER_NO_SCHEDULE, Toleration, arranged, untolerated
from kplan.api.core import Node
from kplan.engine.arrays import Int64Array, default_normalize_score
from kplan.engine.details import Detail, UntoleratedTaint
from kplan.engine.matching import (
    count_untolerated_soft_taints,
    first_untolerated_hard_taints,
    is_hard,
    untolerated_hard_taints,
)
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.framework.interface import CycleState, Event, Handle, NodeChanged, Scope
from kplan.framework.results import PluginError
from kplan.rules.pod_info import PodInfo, read_by_taint_plugins


class _PreScoreState(msgspec.Struct, frozen=True):
    """Tolerations that apply to PreferNoSchedule taints."""

    tolerations: tuple[Toleration, ...]


class TaintToleration:
    """Filters by NoSchedule and NoExecute taints, and scores by PreferNoSchedule taints."""

    name: ClassVar[str] = "TaintToleration"
    scope: ClassVar[Scope] = Scope.NODE_OBJECT
    reads = staticmethod(read_by_taint_plugins)

    def __init__(self, args: None, handle: Handle) -> None:
        self._reason = handle.release.texts.untolerated_taint
        self._compares = handle.release.is_on(COMPARISON_GATE)

    def queueing_hint(self, pod: PodInfo, event: Event) -> bool:
        """Wait for a node to lose the taints that keep the pod off."""
        return isinstance(event, NodeChanged) and self._repels(event.former, pod) and not self._repels(event.node, pod)

    def _repels(self, node: Node, pod: PodInfo) -> bool:
        hard = [taint for taint in node.spec.taints if is_hard(taint)]
        return bool(untolerated(pod.pod.spec.tolerations, hard, compares=self._compares))

    def filter(self, cycle: CycleState, nodes: NodeView) -> Verdicts:
        tolerations = cycle.pod.pod.spec.tolerations
        table = cycle.cluster.nodes

        def details(position: int) -> Iterator[Detail]:
            own = arranged(tolerations, compares=self._compares)
            for taint in table.nodes[nodes.row(position)].spec.taints:
                if is_hard(taint) and not own.tolerate(taint):
                    yield UntoleratedTaint(taint=taint.text)

        code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        if "{" not in self._reason:
            rejected = nodes.take(untolerated_hard_taints(table, tolerations, compares=self._compares))
            return Verdicts.where(rejected, Reason(self._reason, code, details))
        first, taints = first_untolerated_hard_taints(table, tolerations, compares=self._compares)
        texts = [self._reason.format(key=key, value=value) for key, value in taints]
        return Verdicts.by_index(nodes.take(first), [Reason(text, code, details) for text in texts])

    def pre_score(self, cycle: CycleState, nodes: NodeView) -> None:
        tolerations = cycle.pod.pod.spec.tolerations
        soft = tuple(toleration for toleration in tolerations if toleration.effect in ("", PREFER_NO_SCHEDULE))
        cycle.write(_PreScoreState(soft))

    def score(self, cycle: CycleState, nodes: NodeView) -> Int64Array:
        state = cycle.find(_PreScoreState)
        if state is None:
            raise PluginError.in_score(self.name, f'failed to read "PreScore{self.name}" from cycleState: not found')
        counts = count_untolerated_soft_taints(cycle.cluster.nodes, state.tolerations, compares=self._compares)
        # A copy where the view is all nodes: the runtime caches the scores and writes to them.
        return counts.copy() if nodes.rows is None else counts[nodes.rows]

    def normalize_score(self, cycle: CycleState, scores: Int64Array) -> Int64Array:
        """Scale counts in reverse: 100 without untolerated taints, 0 with the most."""
        return default_normalize_score(scores, reverse=True)

    def score_details(self, cycle: CycleState, row: int) -> list[str]:
        own = arranged(cycle.pod.pod.spec.tolerations, compares=self._compares)
        return [
            f"taint {taint.text} is not tolerated"
            for taint in cycle.cluster.nodes.nodes[row].spec.taints
            if taint.effect == PREFER_NO_SCHEDULE and not own.tolerate(taint)
        ]
