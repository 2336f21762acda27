"""Plugins asked about small clusters."""

import numpy as np

from kplan.api.core import Pod
from kplan.api.decode import convert
from kplan.engine.view import NodeView, PodDelta
from kplan.framework.interface import CycleState
from kplan.rules.pod_info import PodInfo

from .details import facts


class Asked:
    """What all these clusters can do, whatever is in their `cluster`."""

    def coming(self, other):
        """Make a pod known that runs nowhere yet, and return its row."""
        return self.cluster.add_pod(PodInfo(convert(other, Pod)))

    def cycle(self, incoming):
        """Start a pod's cycle."""
        row = self.coming(incoming)
        return CycleState(self.cluster.pods.infos[row], row, self.cluster)

    def view(self, rows=None, changes=()):
        """Look at some nodes; `changes` are (position, pod row, sign)."""
        delta = PodDelta.of(list(changes)) if changes else None
        return NodeView(self.cluster, None if rows is None else np.asarray(rows, np.intp), delta)


def filtered(plugin, cycle, view):
    """Ask PreFilter and Filter: for each position None, or (code, reasons); a rejected pod gives its reasons alone."""
    result = plugin.pre_filter(cycle) if hasattr(plugin, "pre_filter") else None
    if result is not None and result.skip:
        return [None] * len(view)
    if result is not None and result.status is not None:
        return list(result.status.reasons)
    return verdicts(plugin, cycle, view)


def verdicts(plugin, cycle, view):
    """Ask Filter alone."""
    said = plugin.filter(cycle, view)
    return [
        (said.code_at(i).text, [reason.text for reason in said.reasons_at(i)]) if said.bits[i] else None
        for i in range(len(view))
    ]


def details(plugin, cycle, view, position=0):
    """Ask for the details of every reason at a position."""
    if hasattr(plugin, "pre_filter"):
        plugin.pre_filter(cycle)
    said = plugin.filter(cycle, view)
    return [facts(detail) for reason in said.reasons_at(position) for detail in reason.details(position)]
