"""Plugins asked about small clusters."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from kplan.api.core import Node, Pod
from kplan.api.decode import convert
from kplan.api.kinds import KINDS_BY_ATTRIBUTE
from kplan.config.releases import reference, with_gates
from kplan.engine.cluster import Cluster
from kplan.engine.node_table import NodeTable
from kplan.engine.view import NodeView, PodDelta
from kplan.framework.interface import CycleState, Handle, Nominator
from kplan.framework.listers import Listers
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.model import Snapshot


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

    def pods_on(self, each):
        """List the pods of a node."""
        return self.running.get(each["metadata"]["name"], [])

    def changed(self, changes):
        """Look at nodes with changes; pods that come are listed before those that leave."""
        triples = [(i, self.coming(each), 1) for i, change in enumerate(changes) for each in change.coming]
        for i, change in enumerate(changes):
            triples += [(i, self.cluster.pods_on[change.row][index], -1) for index in change.leaving]
        rows = [change.row for change in changes]
        return self.view(None if rows == list(range(len(self.nodes))) else rows, triples)

    def after(self, change):
        """List the pods of a node after its change: all, those that left, those that came."""
        here = self.pods_on(self.nodes[change.row])
        staying = [each for i, each in enumerate(here) if i not in change.leaving]
        return staying + change.coming, [here[index] for index in change.leaving], change.coming

    def ask(self, plugin, incoming):
        """Ask a plugin, or a new one of a class, about a pod and all nodes; see `filtered`."""
        made = plugin(None, self.handle) if isinstance(plugin, type) else plugin
        return filtered(made, self.cycle(incoming), self.view())

    def ask_changed(self, plugin, incoming, changed):
        """Ask a plugin, or a new one of a class, about a pod and the nodes that changed."""
        made = plugin(None, self.handle) if isinstance(plugin, type) else plugin
        return filtered(made, self.cycle(incoming), self.changed(changed))


@dataclass
class Change:
    """What is different on one node: pods that leave, by their places among its pods, and pods that come."""

    row: int
    leaving: list
    coming: list


@st.composite
def changes(draw, world, new_pods):
    """Draw changes of some nodes of a world, in any order, or of all in theirs."""
    rows = list(range(len(world.nodes)))
    if draw(st.booleans()):
        rows = draw(st.lists(st.sampled_from(rows), unique=True, min_size=1))
    places = [range(len(world.pods_on(world.nodes[row]))) for row in rows]
    return [
        Change(row, draw(st.lists(st.sampled_from(here), unique=True)) if here else [], draw(new_pods))
        for row, here in zip(rows, places, strict=True)
    ]


def moved(data, world, new):
    """Bind and evict pods one after the other; yields after each."""
    for each in new:
        row = data.draw(st.integers(0, len(world.nodes) - 1))
        here = world.pods_on(world.nodes[row])
        if here and data.draw(st.booleans()):
            world.evict(row, data.draw(st.integers(0, len(here) - 1)))
        else:
            world.bind({**each, "metadata": {**each["metadata"], "uid": f"new-{len(world.cluster.pods)}"}}, row)
        yield


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


def facts(detail):
    """Return the JSON form of a detail without what tells its kind, and without a reason that it does not name."""
    found = detail.to_dict()
    del found["kind"]
    if not found["reason"]:
        del found["reason"]
    return found
