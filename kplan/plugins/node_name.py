"""NodeName: rejects every node but the one that the pod names.

Upstream: plugins/nodename/node_name.go.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from kplan.engine.details import Detail, OtherNodeName
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.engine.view import NodeView
from kplan.framework.interface import CycleState, Handle, Scope, no_event_helps
from kplan.rules.pod_info import PodInfo

REASON_NOT_REQUESTED = "node(s) didn't match the requested node name"


class NodeName:
    """Compares ``spec.nodeName``; an empty one allows every node."""

    name: ClassVar[str] = "NodeName"
    scope: ClassVar[Scope] = Scope.NODE_OBJECT
    queueing_hint = staticmethod(no_event_helps)  # it waits for the node of that name

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def reads(self, pod: PodInfo) -> Hashable:
        return pod.pod.spec.node_name

    def filter(self, cycle: CycleState, nodes: NodeView) -> Verdicts:
        requested = cycle.pod.pod.spec.node_name
        table = cycle.cluster.nodes
        rejected = np.full(len(nodes), bool(requested))
        row = table.row_of.get(requested)
        if row is not None:
            rejected[row if nodes.rows is None else nodes.rows == row] = False

        def details(position: int) -> list[Detail]:
            return [OtherNodeName(requested=requested, node=table.names[nodes.row(position)])]

        return Verdicts.where(rejected, Reason(REASON_NOT_REQUESTED, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, details))
