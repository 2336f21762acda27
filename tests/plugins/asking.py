"""Plugins asked about small clusters."""

import numpy as np

from kplan.api.core import Node, Pod
from kplan.api.decode import convert
from kplan.api.kinds import KINDS_BY_ATTRIBUTE
from kplan.config.releases import reference, with_gates
from kplan.engine.cluster import Cluster
from kplan.engine.node_table import NodeTable
from kplan.engine.view import NodeView, PodDelta
from kplan.framework.interface import CycleState, Handle
from kplan.framework.listers import Listers
from kplan.framework.nominator import Nominator
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.model import Snapshot

from .details import facts


class Asked:
    """A small cluster of JSON objects: pods by the node on which they run, others by the snapshot's attribute."""

    def __init__(self, nodes, running=None, *, gates=(), taken_at=None, **objects):
        self.nodes = sorted(nodes, key=lambda each: each["metadata"]["name"])
        self.running = running or {}
        infos = [
            PodInfo(convert({**each, "spec": {**each["spec"], "nodeName": name}}, Pod))
            for name, pods in self.running.items()
            for each in pods
        ]
        self.cluster = Cluster.build(NodeTable([convert(each, Node) for each in self.nodes]), infos)
        kinds = {
            name: tuple(convert(each, KINDS_BY_ATTRIBUTE[name].type) for each in things)
            for name, things in objects.items()
        }
        self.listers = Listers(Snapshot(taken_at=taken_at, **kinds))
        release = with_gates(reference(), dict.fromkeys(gates, True))
        self.handle = Handle(self.cluster, self.listers, Nominator(), release=release)

    def __repr__(self):
        return f"{type(self).__name__}({self.nodes}, {self.running})"

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

    def ask(self, plugin, incoming):
        """Ask a plugin, or a new one of a class, about a pod and all nodes; see `filtered`."""
        made = plugin(None, self.handle) if isinstance(plugin, type) else plugin
        return filtered(made, self.cycle(incoming), self.view())


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
