"""NodeUnschedulable: rejects cordoned nodes.

Upstream: plugins/nodeunschedulable/node_unschedulable.go.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from kplan.api.affinity import COMPARISON_GATE, untolerated
from kplan.engine.details import UntoleratedTaint
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.framework.interface import CycleState, Event, Handle, NodeUncordoned, Scope
from kplan.rules.nodes import UNSCHEDULABLE_TAINT
from kplan.rules.pod_info import PodInfo, read_by_taint_plugins

REASON_UNSCHEDULABLE = "node(s) were unschedulable"

_CORDONED = UntoleratedTaint(taint=f"{UNSCHEDULABLE_TAINT.key}:{UNSCHEDULABLE_TAINT.effect}", unschedulable=True)


class NodeUnschedulable:
    """Reads ``spec.unschedulable``, which ``kubectl cordon`` sets."""

    name: ClassVar[str] = "NodeUnschedulable"
    scope: ClassVar[Scope] = Scope.NODE_OBJECT
    reads = staticmethod(read_by_taint_plugins)

    def __init__(self, args: None, handle: Handle) -> None:
        self._compares = handle.release.is_on(COMPARISON_GATE)

    def queueing_hint(self, pod: PodInfo, event: Event) -> bool:
        return isinstance(event, NodeUncordoned)

    def filter(self, cycle: CycleState, nodes: NodeView) -> Verdicts:
        """Reject cordoned nodes, unless the pod tolerates their taint."""
        reason = Reason(REASON_UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, lambda _: [_CORDONED])
        tolerations = cycle.pod.pod.spec.tolerations
        if not untolerated(tolerations, (UNSCHEDULABLE_TAINT,), compares=self._compares):
            return Verdicts(np.zeros(len(nodes), np.uint32), (reason,))
        return Verdicts.where(nodes.take(cycle.cluster.nodes.unschedulable), reason)
